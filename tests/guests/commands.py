"""The table of guest command lines: each must print and return what it does under QEMU.

A row is a name and a command line. None of them forks, and none prints the time, a process number or an inode.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass


@dataclass(frozen=True)
class Command:
    """One command line; `argv[0]` names a program of the fetched packages."""

    name: str
    argv: tuple[str, ...]
    stdin: str | None = None
    """The input: a file of the working directory, or nothing."""
    unordered: bool = False
    """The order of the output lines is the host directory's or environment's own."""


BUSYBOX = {
    "echo": "echo -e 'a\\tb\\x41\\c' ignored",
    "true": "true",
    "false": "false",
    "no-applet": "nothing-like-this",
    "cat-numbered": "cat -n text.txt",
    "cat-missing": "cat text.txt missing.txt noeol.txt",
    "tac": "tac text.txt",
    "rev": "rev text.txt",
    "nl": "nl -b a text.txt",
    "fold": "fold -s -w 20 text.txt",
    "wc": "wc text.txt noise.bin empty",
    "head-bytes": "head -c 1000 text.txt",
    "head-lines": "head -n 7 text.txt other.txt",
    "tail-lines": "tail -n 5 text.txt",
    "tail-from": "tail -n +250 text.txt",
    "sort": "sort text.txt",
    "sort-numeric-reverse": "sort -rn numbers.txt",
    "sort-key": "sort -t , -k 2,2n -k 1,1r table.csv",
    "sort-unique": "sort -u -k 2,2 text.txt",
    "uniq-count": "uniq -c sorted1.txt",
    "tr-classes": "tr a-z A-Z",
    "tr-squeeze": "tr -sc '[:alnum:]' '\\n'",
    "tr-delete": "tr -d aeiou",
    "cut-fields": "cut -d , -f 1,3 table.csv",
    "cut-characters": "cut -c 3-9,15- text.txt",
    "paste": "paste -d '|,' sorted1.txt sorted2.txt numbers.txt",
    "diff-unified": "diff -u -L a -L b text.txt other.txt",
    "diff-trees": "diff -rq tree tree/src",
    "cmp-same": "cmp text.txt text.txt",
    "cmp-different": "cmp -l text.txt other.txt",
    "sed-substitute": "sed -E 's/(The) ([a-z]+)/\\2 \\1/; s/[0-9]+/#/g' text.txt",
    "sed-script": "sed -f digits.sed text.txt",
    "sed-ranges": "sed -n -e '/loop/,/frame/{=;p}' -e '$l' text.txt",
    "sed-hold": "sed -n '1!G;h;$p' sorted1.txt",
    "grep-count": "grep -c cache text.txt other.txt",
    "grep-regex": "grep -nE '(page|leaf) .*[0-9]{3} t' text.txt other.txt",
    "grep-fixed": "grep -vF a text.txt",
    "grep-only": "grep -o '[0-9]*' text.txt",
    "grep-recursive": "grep -rl main tree/src/main.c tree/readme.md",
    "grep-none": "grep absent text.txt",
    "awk-sums": "awk -F, 'NR>1{n[$1]+=$2;p[$1]+=$3} END{for(k in n) printf \"%s %d %.3f\\n\",k,n[k],p[k]}' table.csv",
    "awk-fields": "awk '{print NR, NF, $NF, length($0)}' text.txt",
    "awk-float": "awk 'BEGIN{for(i=1;i<40;i++) printf \"%g %e %.10f %d\\n\",1/i,i*i*1e17/3,i%7/9,-i/2}'",
    "awk-strings": 'awk \'{gsub(/a[a-z]*/,"<&>"); print toupper(substr($0,3,30)), index($0,"t"), match($0,/[0-9]+/)}\' text.txt',
    "awk-arrays": "awk '{c[$2]++} END{n=0; for(k in c) n+=c[k]*length(k); print n, length(c), c[\"page\"]}' text.txt",
    "awk-recursion": "awk 'function f(n){return n<2?n:f(n-1)+f(n-2)} BEGIN{print f(15)}'",
    "awk-files": 'awk \'{print NR": "$0 > "out"} END{close("out"); while((getline l < "out")>0) print l}\' sorted1.txt',
    "od-octal": "od noise.bin",
    "od-mixed": "od -A x -t x1 -N 300 text.txt",
    "od-floats": "od -A d -t f8 -N 200 noise.bin",
    "hexdump": "hexdump -C noise.bin",
    "hexdump-format": 'hexdump -v -e \'8/1 "%02x " "\\n"\' -n 200 noise.bin',
    "xxd": "xxd -l 500 noise.bin",
    "xxd-plain": "xxd -p text.txt",
    "strings": "strings -n 4 noise.bin text.gz",
    "expr-arithmetic": "expr 7 '*' '(' 6 + 5 ')' % 50",
    "expr-match": "expr abc123 : '[a-z]*\\([0-9]*\\)'",
    "printf": "printf '%5d|%-8s|%x|%08.3f|%e|%c|%b\\n' 42 left 255 3.14159 12345.678 z 'a\\tb' -7 x 16 2.5 1 q end",
    "seq": "seq -w 5 7 200",
    "seq-float": "seq 1 0.25 4",
    "factor": "factor 1 97 360 999999 1000003 6469693230",
    "base64": "base64 noise.bin",
    "base64-decode": "base64 -d empty",
    "uuencode": "uuencode noise.bin name",
    "crc32": "crc32 text.txt noise.bin",
    "md5sum": "md5sum text.txt noise.bin empty",
    "sha1sum": "sha1sum text.txt noise.bin empty",
    "sha256sum": "sha256sum text.txt noise.bin empty",
    "sha512sum": "sha512sum text.txt noise.bin empty",
    "sha3sum": "sha3sum -a 256 text.txt noise.bin",
    "gzip": "gzip -c text.txt",
    "gzip-noise": "gzip -1 -c noise.bin",
    "gunzip": "gunzip -c text.gz",
    "gunzip-bad": "gunzip -c bad.gz",
    "bzip2": "bzip2 -c numbers.txt",
    "bunzip2": "bunzip2 -c text.bz2",
    "unxz": "unxz -c text.xz",
    "unlzma": "unlzma -c text.lzma",
    "lzop": "lzop -c text.txt",
    "tar-create": "tar c -f - text.txt numbers.txt tree/src/main.c",
    "tar-list": "tar t -v -f files.tar",
    "tar-extract": "tar x -O -f files.tar a/one.txt",
    "cpio-list": "cpio -t",
    "find": "find tree",
    "find-tests": "find tree -type f -name '*.[ch]' -size -2 -o -type l",
    "find-depth": "find tree -mindepth 2 -maxdepth 3 -not -name '*.h' -o -perm -111 -type f",
    "ls": "ls -1F tree tree/src",
    "ls-long": "ls -ln tree/src/main.c tree/run.sh tree/link text.txt",
    "ls-missing": "ls tree/absent text.txt",
    "stat": "stat -c '%n %s %a %F %Y %h' text.txt tree/run.sh tree/link empty",
    "du": "du -b tree/data/big.bin text.txt",
    "readlink": "readlink tree/link",
    "basename": "basename /a/b/name.txt .txt",
    "dirname": "dirname /a/b/name.txt",
    "test": "test text.txt -nt empty -o -x tree/run.sh -a 3 -lt 20",
    "dd": "dd if=noise.bin bs=100 skip=3 count=7",
    "tee": "tee copy.txt copy2.txt",
    "cp-rm": "cp -r tree copied",
    "mv-onto-missing": "mv absent somewhere",
    "expand": "expand -t 4 text.txt",
    "unexpand": "unexpand -a -t 4 text.txt",
    "dos2unix": "dos2unix",
    "unix2dos": "unix2dos",
    "dc": "dc",
    "bc": "bc -l",
    "cal": "cal 2 2024",
    "cal-year": "cal -j 1999",
    "date": "date -u -d @1234567890 '+%F %T %a %j %U'",
    "date-default": "date -u -d '2024-02-29 12:30:00'",
    "env": "env -u HOME A=1",
    "uname": "uname -sm",
    "ipcalc": "ipcalc -bnmp 10.1.130.7/21",
    "getopt": "getopt -o ab:c -l long,arg: -- -a --arg x -b 3 rest",
    "cat-directory": "cat tree",
    "cat-host-file": "cat /etc/hostname-that-is-not-there ../../../../nowhere",
    "which": "which -a nothing",
    "dev-zero": "head -c 20 /dev/zero",
}
"""Name to the arguments after `busybox`."""

STDIN = {
    "tr-classes": "text.txt",
    "tr-squeeze": "text.txt",
    "tr-delete": "other.txt",
    "cpio-list": "files.cpio",
    "tee": "text.txt",
    "dos2unix": "dos.txt",
    "unix2dos": "text.txt",
    "dc": "sums.dc",
    "bc": "sums.bc",
    "sh-read-input": "table.csv",
    "bash-mapfile": "text.txt",
    "klibc-cat-input": "noise.bin",
    "klibc-gzip-input": "text.gz",
    "klibc-sh-read": "table.csv",
}
"""Rows that read standard input: name to the file."""

UNORDERED = {"klibc-ls", "find", "find-tests", "find-depth", "diff-trees", "env"}

SH = {
    "sh-arithmetic": "i=0 s=0; while [ $i -lt 300 ]; do i=$((i+1)); s=$((s*31+i & 0xffffff)); done; echo $s $((7/-2)) $((-7%3)) $((1<<40))",
    "sh-functions": 'f() { local n=$1; [ $n -le 1 ] && { r=1; return; }; f $((n-1)); r=$((r*n)); }; f 15; echo $r; f 1 && echo "$r"',
    "sh-case": 'for w in alpha 42 "a b" x.c ""; do case $w in [0-9]*) echo num;; *.c) echo c;; *" "*) echo sp;; "") echo none;; *) echo "other $w";; esac; done',
    "sh-strings": "v=/usr/lib/name.tar.gz; echo ${v##*/} ${v%%.*} ${v#*/} ${v%.gz} ${#v} ${u:-default} ${v/lib/LIB} ${v:5:3}",
    "sh-here-document": 'n=5; while read -r a b; do echo "[$a|$b]"; done <<END\nx $n\ny z w\nEND',
    "sh-read-input": "IFS=,; t=0; while read -r name count price; do case $count in count) ;; *) t=$((t+count));; esac; done; echo $t",
    "sh-positional": 'set -- a "b c" d; echo $# "$2"; shift; for x; do printf "<%s>" "$x"; done; echo; getopts xy: o -y val; echo $o $OPTARG',
    "sh-files": 'echo one > new; echo two >> new; while read -r l; do echo "got $l"; done < new; [ -s new ] && echo full; : > new; [ -s new ] || echo empty',
    "sh-glob": "echo *.txt tree/*/*.c; set -f; echo *.txt",
    "sh-exit-code": "trap 'echo bye' EXIT; echo before; exit 37",
    "sh-syntax-error": "if then fi; echo never",
    "sh-cd": "cd tree/src && echo *.c && cd ../data && echo * && [ -f big.bin ]",
    "sh-printf": 'printf "%s-%03d-%x\\n" a 7 255 b 8 4096; printf "\\101\\n"',
}
"""Name to a script for busybox's shell."""

BASH = {
    "bash-arrays": 'a=(); for i in {1..200}; do a+=("x$((i*i%97))"); done; echo ${#a[@]} ${a[77]^^} "${a[@]:10:5}" "${a[*]: -3}"',
    "bash-associative": "declare -A m; for w in one two three two one two; do ((m[$w]++)); done; echo ${m[one]} ${m[two]} ${m[three]} ${#m[@]}; declare -p m",
    "bash-regex": '[[ "version 12.34-rc5" =~ ([0-9]+)\\.([0-9]+)(-rc([0-9]+))? ]] && echo "${BASH_REMATCH[@]}"; [[ abc == a?c && ! abc =~ ^b ]] && echo glob',
    "bash-printf": "printf '%5.2f|%-6s|%06d|%#x|%q|%(%F)T\\n' 3.14159 ab 42 255 'a b$' 0; printf -v v %s%s x y; echo $v",
    "bash-recursion": "fib() { if (($1<2)); then r=$1; else fib $(($1-1)); local a=$r; fib $(($1-2)); r=$((a+r)); fi; }; fib 11; echo $r",
    "bash-strings": 's="The quick brown fox"; echo ${s//o/0} ${s:4:5} ${s^^} ${s,,} ${#s} ${s% *} ${s/#The/A} ${s@Q}',
    "bash-arithmetic": "for ((i=0,s=0;i<500;i++)); do ((s=(s*1103515245+i)&0x7fffffff, s^=i<<3)); done; echo $s $((16#ff)) $((2**40)) $((-7/2)) $((~5))",
    "bash-mapfile": 'mapfile -t lines; echo ${#lines[@]}; echo "${lines[7]}"; printf "%s\\n" "${lines[@]: -3}"',
    "bash-here-string": "read -r a b c <<< 'x y z w'; echo $c; while IFS=: read -r k v; do echo $v=$k; done <<END\na:1\nb:2\nEND",
    "bash-files": 'echo first > f; printf "%s\\n" a b c >> f; exec 3< f; read -u 3 x; read -u 3 y; echo $x $y; exec 3<&-; echo "$(<f)" > g; [[ -e g ]] && echo yes',
    "bash-select-sort": "a=(5 3 9 1 7 2 8); n=${#a[@]}; for ((i=0;i<n;i++)); do for ((j=i+1;j<n;j++)); do if ((a[i]>a[j])); then t=${a[i]}; a[i]=${a[j]}; a[j]=$t; fi; done; done; echo ${a[*]}",
    "bash-extglob": "shopt -s extglob nullglob\nfor f in !(*.txt|*.bin); do echo $f; done; echo @(text|other).txt none*",
    "bash-random": "RANDOM=42; echo $RANDOM $RANDOM $RANDOM",
    "bash-trap": "trap 'echo done $?' EXIT; trap 'echo error' ERR; false; set -e; (( 0 )); echo never",
    "bash-unbound": "set -u; echo ${x:-ok}; echo $y; echo never",
    "bash-syntax-error": "for x in; do",
    "bash-getopts": 'set -- -a -b val -c rest; while getopts "ab:c" o; do echo "$o ${OPTARG:-}"; done; shift $((OPTIND-1)); echo $1',
    "bash-brace": "echo {a..e}{1..3} {01..10..3} pre{x,y}post",
}
"""Name to a script for bash."""

KLIBC = {
    "klibc-cat": "cat text.txt noeol.txt",
    "klibc-cat-input": "cat",
    "klibc-gzip-input": "gzip -d -c",
    "klibc-zcat": "zcat text.gz",
    "klibc-gunzip-bad": "gunzip -c bad.gz",
    "klibc-ls": "ls",
    "klibc-uname": "uname -sm",
    "klibc-true": "true",
    "klibc-false": "false",
    "klibc-readlink": "readlink tree/link",
    "klibc-mkdir": "mkdir tree/new tree/src",
    "klibc-ln": "ln -s target tree/newlink",
    "klibc-mv": "mv text.txt moved.txt",
    "klibc-dd": "dd if=noise.bin bs=512 count=3",
    "klibc-sh-loop": "sh -c 'i=0; while [ $i -lt 500 ]; do i=$((i+1)); done; echo $i'",
    "klibc-sh-case": "sh -c 'for w in a 1 b.c; do case $w in [0-9]) echo n;; *.c) echo c;; *) echo o;; esac; done'",
    "klibc-sh-read": "sh -c 'IFS=,; while read a b c; do echo $b-$a; done'",
    "klibc-sh-functions": "sh -c 'f() { echo $1; [ $1 -gt 0 ] && f $(($1-1)); }; f 5; exit 9'",
}
"""Name to a command line of the klibc programs."""


def _command(name: str, argv: list[str]) -> Command:
    return Command(name, tuple(argv), STDIN.get(name), name in UNORDERED)


COMMANDS = [
    *(_command(name, ["busybox", *shlex.split(line)]) for name, line in BUSYBOX.items()),
    *(_command(name, ["busybox", "sh", "-c", script]) for name, script in SH.items()),
    *(_command(name, ["bash-static", "-c", script]) for name, script in BASH.items()),
    *(_command(name, shlex.split(line)) for name, line in KLIBC.items()),
]
