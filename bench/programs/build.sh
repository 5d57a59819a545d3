#!/bin/sh
# Builds the programs of this directory as static AArch64 executables:
#   OUT/glibc   with the C library
#   OUT/nolibc  without, and with no system calls but write and exit_group, for Unicorn (not json)
# Debian: apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross
set -eu
[ $# = 1 ] || { echo "usage: build.sh OUT" >&2; exit 2; }
mkdir -p "$1/glibc" "$1/nolibc"
out=$(cd "$1" && pwd)
cd "$(dirname "$0")"
compiler=${CC:-aarch64-linux-gnu-gcc}
flags="-O3 -std=gnu11 -Wall -Wextra -static"
alone="-DNOLIBC -ffreestanding -nostdlib -fno-stack-protector -fno-tree-loop-distribute-patterns"
for source in *.c; do
    # shellcheck disable=SC2086
    $compiler $flags -o "$out/glibc/${source%.c}" "$source"
    grep -q program.h "$source" || continue
    # shellcheck disable=SC2086
    $compiler $flags $alone -o "$out/nolibc/${source%.c}" "$source"
done
