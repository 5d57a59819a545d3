#!/bin/sh
# Builds the guest programs into bin/. The results are in the repository, so only a change to a source needs this.
# Debian: apt-get install gcc-aarch64-linux-gnu
set -eu
cd "$(dirname "$0")"
compiler=${CC:-aarch64-linux-gnu-gcc}
flags="-O2 -g0 -std=gnu11 -Wall -Wextra -nostdlib -ffreestanding -fno-builtin -fno-stack-protector
    -fno-asynchronous-unwind-tables -fno-ident -fno-tree-loop-distribute-patterns -mno-outline-atomics
    -Wl,--build-id=none -Wl,-z,max-page-size=4096 -Wl,-z,noseparate-code"
for source in *.c *.s; do
    case $source in
        expression.c) kind="-static-pie -fpie" ;; # one position-independent program, as distributions build them
        *) kind="-static -no-pie" ;;
    esac
    # shellcheck disable=SC2086
    $compiler $flags $kind -o "bin/${source%.*}" "$source"
done
