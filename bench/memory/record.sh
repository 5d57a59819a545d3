#!/bin/bash
# Builds the programs of docs/networks/memory.md and records their traces: record.sh GUESTS PROGRAMS TEXT DIR
#   GUESTS    a root with Debian's busybox-static, bash-static and libpython3.11-stdlib, and, unpacked over it, the arm64
#             packages libsqlite3-dev liblua5.4-dev zlib1g-dev libbz2-dev liblzma-dev libzstd-dev libpython3.11-dev libexpat1-dev
#   PROGRAMS  bench/programs built for arm64
#   TEXT      a text of about a megabyte
#   DIR       gets train/ and test/, and what they are made from
set -eu
HERE=$(cd "$(dirname "$0")" && pwd); G=$1; A=$2; W=$3; D=$4; CC=aarch64-linux-gnu-gcc; U=$G/usr
mkdir -p "$D"/{train,test,in,bin}; I=$D/in; L=$D/bin; B=$U/bin/busybox
python3 "$HERE/inputs.py" "$I"; mkdir -p "$G/inputs"; cp "$I/lines.txt" "$G/inputs/"
xz -kc "$W" >"$I/text.xz"; gzip -kc "$W" >"$I/text.gz"; bzip2 -kc "$W" >"$I/text.bz2"
$CC -O2 -static "$HERE/irregular.c" -o "$L/irregular"
library() { n=$1; shift; $CC -O2 -static -pthread -DUSE_$n -I$U/include -I$U/include/lua5.4 -I$U/include/aarch64-linux-gnu \
  -L$U/lib/aarch64-linux-gnu "$HERE/libraries.c" -o "$L/$n" "$@"; }
library sqlite3 -lsqlite3 -lm; library lua -llua5.4 -lm -ldl; library z -lz; library bz2 -lbz2; library lzma -llzma; library zstd -lzstd
echo 'int Py_BytesMain(int, char **); int main(int c, char **v) { return Py_BytesMain(c, v); }' | $CC -O2 -static -x c - -x none \
  $U/lib/aarch64-linux-gnu/libpython3.11.a -L$U/lib/aarch64-linux-gnu -lexpat -lz -lm -ldl -lutil -lpthread -o "$L/python3"

r() { name=$1 kind=$2 skip=$3 count=$4; shift 4   # million instructions
  kvrm data memory --root "$G" --out "$D/$kind/$name.npz" --skip $((skip * 500000)) --max-instructions $((skip * 500000 + count * 1000000)) "$@"; }
# NAME SPLIT HALF-MILLIONS-SKIPPED MILLIONS-KEPT PROGRAM ARGS
for m in graph sparse hash; do r irregular-$m train 4 40 "$L/irregular" $m </dev/null; done
r irregular-list train 120 40 "$L/irregular" list </dev/null
r chase train 2 30 $A/chase 3000000 </dev/null; r quick train 2 40 $A/quick 2 </dev/null; r quick-late train 120 20 $A/quick 2 </dev/null
r sieve train 0 40 $A/sieve 1 </dev/null; r memops train 0 40 $A/memops 20 </dev/null
r vec train 1 20 $A/vec 200 </dev/null; r coremix train 1 20 $A/coremix 500 </dev/null
r busybox-gzip train 2 40 $B gzip -c <"$W"; r busybox-sort train 2 40 $B sort <"$I/lines.txt"; r busybox-sha256sum train 0 40 $B sha256sum <"$W"
r busybox-awk train 2 40 $B awk '{n[$2]+=$1; m[$1%5000]=$2} END{for(k in n)s+=n[k]; print s}' <"$I/lines.txt"
r busybox-sed train 2 20 $B sed 's/\([a-z]*\)1/\1-/g' <"$I/lines.txt"; r busybox-tac train 2 20 $B tac <"$I/lines.txt"
r busybox-shuf train 40 20 $B shuf <"$I/lines.txt"; r busybox-md5sum train 0 20 $B md5sum <"$W"; r busybox-uniq train 2 20 $B uniq -c <"$I/lines.txt"
r busybox-xz train 2 20 $B unxz -c <"$I/text.xz"; r busybox-gunzip train 2 20 $B gunzip -c <"$I/text.gz"
r busybox-bunzip2 train 2 20 $B bunzip2 -c <"$I/text.bz2"; r busybox-diff train 2 20 $B diff /inputs/lines.txt - <"$I/lines2.txt"
r bash-array train 10 40 $U/bin/bash-static -c 'for ((i=0;i<60000;i++)); do a[i*7919%65536]=$i; b=${a[i*31%65536]}; done; echo ${#a[@]}' </dev/null
r bash-words train 100 20 $U/bin/bash-static -c 'declare -A n; while read a b c; do n[$b]=$((n[$b]+a)); done; echo ${#n[@]}' <"$I/lines.txt"
r lua train 1200 40 "$L/lua" <"$I/t.lua"; r lua-trees train 100 20 "$L/lua" <"$I/trees.lua"
r lua-words train 40 20 "$L/lua" <"$I/words.lua"; r lua-matrix train 40 20 "$L/lua" <"$I/matrix.lua"
r z train 2 40 "$L/z" <"$W"; r bz2 train 10 60 "$L/bz2" <"$W"
r tree test 4 40 "$L/irregular" tree </dev/null; r heap test 4 40 "$L/irregular" heap </dev/null
r sqlite3 test 1200 40 "$L/sqlite3" <"$I/q.sql"; r python3 test 700 40 "$L/python3" -S -E - <"$I/p.py"
r lzma test 800 40 "$L/lzma" <"$W"; r zstd test 2 60 "$L/zstd" <"$W"
r sha256 test 0 20 $A/sha256 3 </dev/null; r nbody test 0 20 $A/nbody 20000 </dev/null
