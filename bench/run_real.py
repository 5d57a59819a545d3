"""Real programs end to end under KVRM and qemu-aarch64: compression, hashing, text, scripting.

`--root` is a directory laid out like a Debian root with busybox-static, bash-static and klibc's programs, as
`tests/guests/fetch.py` makes it and prints. Inputs are made here, the same on each run. Each command line is
one process; both peers must print the same. Peers alternate; figures are medians, but for kvrm-cold and
kvrm-new (README.md), which run once.
"""

from __future__ import annotations

import argparse
import bz2
import contextlib
import gzip
import lzma
import random
import runpy
import shlex
import shutil
import tempfile
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from measure import (
    CLOCKS,
    REPOSITORY,
    Clock,
    Samples,
    cache,
    kvrm_run,
    mean,
    note,
    race,
    ratio,
    retired,
    shown,
    succeeded,
    table,
    teach_interpreter,
    write_results,
)

TEXT_BYTES = 2 << 20
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/", "LC_ALL": "C", "TZ": "UTC"}
PEERS = ("kvrm", "qemu", "kvrm-new", "kvrm-cold")
GAINS: dict[str, tuple[Clock, str]] = {
    "qemu/kvrm": ("wall", "kvrm"),
    "by cpu": ("cpu", "kvrm"),
    "qemu/kvrm-new": ("wall", "kvrm-new"),
    "qemu/kvrm-cold": ("wall", "kvrm-cold"),
}
"""Ratios of QEMU's seconds by KVRM's: name to clock and state of KVRM's cache."""

FILES = {
    "gzip": ("compression", "busybox gzip -c", "text.txt", 8),
    "gunzip": ("compression", "busybox gunzip -c", "text.gz", 25),
    "bzip2": ("compression", "busybox bzip2 -c", "text.txt", 3),
    "bunzip2": ("compression", "busybox bunzip2 -c", "text.bz2", 7),
    "unxz": ("compression", "busybox unxz -c", "text.xz", 14),
    "lzop": ("compression", "busybox lzop -c", "text.txt", 40),
    "klibc-gunzip": ("compression", "gzip -d -c", "text.gz", 35),
    "md5sum": ("hashing", "busybox md5sum", "text.txt", 100),
    "sha1sum": ("hashing", "busybox sha1sum", "text.txt", 18),
    "sha256sum": ("hashing", "busybox sha256sum", "text.txt", 45),
    "sha512sum": ("hashing", "busybox sha512sum", "text.txt", 80),
    "sha3sum": ("hashing", "busybox sha3sum -a 256", "text.txt", 40),
    "crc32": ("hashing", "busybox crc32", "text.txt", 130),
    "sort": ("text", "busybox sort -k 2,2 -k 1,1n", "text.txt", 2),
    "sort-numeric": ("text", "busybox sort -n", "text.txt", 5),
    "sed": ("text", r"busybox sed -E 's/([a-z]+) ([a-z]+)/\2 \1/g; /[0-9]{6}/!d'", "text.txt", 1),
    "grep": ("text", "busybox grep -hcE '(the|nd) .*[0-9]{3}5'", "text.txt", 6),
    "grep-only": ("text", "busybox grep -ho '[a-z]*hn[a-z]*'", "text.txt", 12),
    "wc": ("text", "busybox wc", "text.txt", 30),
    "hexdump": ("text", "busybox hexdump -C", "short.txt", 10),
    "awk-words": (
        "text",
        "busybox awk '{for(i=1;i<=NF;i++) c[$i]++} END{print NR, length(c)}'",
        "text.txt",
        2,
    ),
    "awk-floats": (
        "text",
        "busybox awk '{s+=$1; h[$1%97]+=$NF/3} END{printf \"%.0f %.6f\\n\",s,h[13]}'",
        "text.txt",
        6,
    ),
    "bc": ("scripting", "busybox bc -l", "pi.bc", 1),
}
"""Name to group, command, and the file that it gets, how many times."""

SCRIPTS = {
    "awk-recursion": (
        "busybox awk",
        "function f(n){return n<2?n:f(n-1)+f(n-2)} BEGIN{for(i=0;i<ITERATIONS;i++) s+=f(16); print s}",
        120,
    ),
    "ash-loop": (
        "busybox sh -c",
        "i=0; s=0; while [ $i -lt ITERATIONS ]; do i=$((i+1)); s=$((s*31+i & 0xffffff)); done; echo $s",
        70_000,
    ),
    "ash-functions": (
        "busybox sh -c",
        "f() { local n=$1; [ $n -le 1 ] && { r=1; return; }; f $((n-1)); r=$((r*n % 1000003)); };"
        " i=0; while [ $i -lt ITERATIONS ]; do f 30; i=$((i+1)); done; echo $r",
        2_000,
    ),
    "ash-read": (
        "busybox sh -c",
        "n=0 t=0; while read -r a b c; do n=$((n+1)) t=$((t+${#b})); case $b in k*) k=$((k+1));; esac;"
        " [ $n -lt ITERATIONS ] || break; done < text.txt; echo $n $t $k",
        12_000,
    ),
    "bash-sieve": (
        "bash-static -c",
        "s=(); for ((i=2;i<=ITERATIONS;i++)); do if [[ -z ${s[i]} ]]; then ((c++));"
        " for ((j=i*i;j<=ITERATIONS;j+=i)); do s[j]=1; done; fi; done; echo $c",
        30_000,
    ),
    "bash-recursion": (
        "bash-static -c",
        "fib() { if (($1<2)); then r=$1; else fib $(($1-1)); local a=$r; fib $(($1-2)); r=$((a+r)); fi; };"
        " for ((i=0;i<ITERATIONS;i++)); do fib 12; done; echo $r",
        40,
    ),
    "bash-arithmetic": (
        "bash-static -c",
        "for ((i=0,s=0;i<ITERATIONS;i++)); do ((s=(s*1103515245+i)&0x7fffffff, s^=i<<3)); done; echo $s",
        80_000,
    ),
    "bash-strings": (
        "bash-static -c",
        'for ((i=0;i<500;i++)); do s+="word$i "; done; for ((i=0;i<ITERATIONS;i++)); do'
        " t=${s//o/0}; t=${t^^}; u=${t%% *}; done; echo ${#t} $u",
        100,
    ),
    "bash-words": (
        "bash-static -c",
        'declare -A m; mapfile -t l < short.txt; for x in "${l[@]:0:ITERATIONS}"; do set -- $x;'
        " for w; do m[$w]=$((m[$w]+1)); done; done; echo ${#l[@]} ${#m[@]} ${m[bn]}",
        6_000,
    ),
    "klibc-loop": (
        "sh -c",
        "i=0; s=0; while [ $i -lt ITERATIONS ]; do i=$((i+1)); s=$((s+i)); done; echo $s",
        70_000,
    ),
}
"""Name to shell or interpreter, and a script for it with its number of iterations."""


@dataclass(frozen=True)
class Workload:
    """One command line; `argv[0]` names a program of the root."""

    name: str
    group: str
    argv: tuple[str, ...]


@dataclass
class Row:
    """One workload under both peers and KVRM's other states of the cache."""

    name: str
    group: str
    retired: int
    times: dict[str, Samples]

    def speed_up(self, clock: Clock, state: str = "kvrm") -> float | None:
        """QEMU's seconds by KVRM's."""
        if "qemu" not in self.times or state not in self.times:
            return None
        return ratio(self.times["qemu"].median(clock), self.times[state].median(clock))


def workloads(size: float) -> list[Workload]:
    """All command lines, with `size` times the input or iterations."""
    found = [
        Workload(name, group, (*shlex.split(command), *[file] * max(round(times * size), 1)))
        for name, (group, command, file, times) in FILES.items()
    ]
    for name, (command, script, iterations) in SCRIPTS.items():
        text = script.replace("ITERATIONS", str(max(round(iterations * size), 1)))
        found.append(Workload(name, "scripting", (*shlex.split(command), text)))
    return found


def text(size: int) -> bytes:
    """Lines of a number, words that are frequent as in a language, and a fraction."""
    source = random.Random(1)
    words = ["".join(source.choices("etaoinshrdlucmfwypvbgk", k=source.randint(2, 9))) for _ in range(4000)]
    frequencies = list(accumulate(1 / (rank + 1) for rank in range(len(words))))
    lines, length = [], 0
    while length < size:
        chosen = source.choices(words, cum_weights=frequencies, k=source.randint(4, 14))
        lines.append(f"{source.randrange(1_000_000)} {' '.join(chosen)} {source.random():.6f}\n")
        length += len(lines[-1])
    return "".join(lines).encode()


def make_inputs(size: float) -> None:
    """Write the input files into the current directory."""
    prose = text(int(TEXT_BYTES * min(size, 1)))
    Path("text.txt").write_bytes(prose)
    Path("short.txt").write_bytes(prose[: len(prose) // 16])
    Path("text.gz").write_bytes(gzip.compress(prose, 6, mtime=0))
    Path("text.bz2").write_bytes(bz2.compress(prose))
    Path("text.xz").write_bytes(lzma.compress(prose, check=lzma.CHECK_CRC32))
    Path("pi.bc").write_text(f"scale={int(480 * min(size, 1)) + 10}\n4*a(1)\ne(1)\n")


# -- measuring -----------------------------------------------------------------------------------------------
def measured(workload: Workload, path: str, options: argparse.Namespace, template: str) -> Row:
    """Both peers on one workload. Exits where they print different things."""
    settings = [f"{name}={value}" for name, value in ENVIRONMENT.items()]
    given = ["--root", str(options.root), *(f"--env={setting}" for setting in settings)]
    guest = [path, *workload.argv[1:]]
    peers = {"kvrm": kvrm_run(options.engine, *given, *guest)}
    if qemu := shutil.which("qemu-aarch64"):
        peers["qemu"] = ["env", "-i", *settings, qemu, "-L", str(options.root), *guest]
    reference = succeeded(kvrm_run(options.engine, "--stats", *given, *guest))
    times = race(peers, reference.stdout, options.rounds)
    if not options.warm_only:
        teach_interpreter(template, *given, path)
        for state, like in (("kvrm-new", Path(template)), ("kvrm-cold", None)):
            with cache(like) as directory:
                cost = succeeded(peers["kvrm"], KVRM_CACHE=directory)
            times[state] = Samples([cost.wall], [cost.cpu])
    return Row(workload.name, workload.group, retired(reference), times)


# -- reporting -----------------------------------------------------------------------------------------------
def report(rows: list[Row]) -> dict[str, Any]:
    """Print the tables; return what goes into the file."""
    lines = []
    for row in rows:
        times = [row.times.get(peer) for peer in PEERS]
        cells = [shown(t.median(clock)) if t else "-" for t in times for clock in CLOCKS]
        gains = [shown(row.speed_up(*gain)) for gain in GAINS.values()]
        lines.append([row.name, shown(row.retired / 1e6, 0), *cells, *gains])
    heads = [peer if clock == "wall" else "cpu" for peer in PEERS for clock in CLOCKS]
    table(
        "seconds, wall and CPU; ratios of wall seconds but for `by cpu`",
        ["program", "M instructions", *heads, *GAINS],
        lines,
    )
    groups = {
        group: [row for row in rows if row.group == group] for group in dict.fromkeys(r.group for r in rows)
    }
    groups["all"] = rows
    means = {
        group: {name: mean(row.speed_up(*gain) for row in members) for name, gain in GAINS.items()}
        for group, members in groups.items()
    }
    table(
        "geometric means of QEMU's seconds by KVRM's",
        ["group", "programs", *GAINS],
        [[group, str(len(groups[group])), *map(shown, values.values())] for group, values in means.items()],
    )
    if wall := means["all"]["qemu/kvrm"]:
        print(f"\ntarget: {wall:.2f} of at least 1.00 with a warm cache, {'met' if wall >= 1 else 'missed'}")
    return {"programs": rows, "geometric_means": means}


def main() -> None:
    fetch = runpy.run_path(str(REPOSITORY / "tests/guests/fetch.py"))
    names = [*FILES, *SCRIPTS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add = parser.add_argument
    add("--root", type=lambda text: Path(text).resolve(), metavar="DIR", help="fetched if not given")
    add("--only", nargs="*", choices=names, default=names, metavar="NAME")
    add("--rounds", type=int, default=5)
    add("--size", type=float, default=1, metavar="F", help="F times the input and the iterations")
    add("--engine", help="KVRM's default if not given")
    add("--warm-only", action="store_true", help="leave out kvrm-new and kvrm-cold")
    options = parser.parse_args()
    options.root = options.root or fetch["guests"]()
    chosen = [workload for workload in workloads(options.size) if workload.name in options.only]
    rows = []
    with cache() as template, tempfile.TemporaryDirectory() as directory, contextlib.chdir(directory):
        make_inputs(options.size)
        for workload in chosen:
            note(f"{workload.name} ...")
            path = str(fetch["program"](options.root, workload.argv[0]))
            rows.append(measured(workload, path, options, template))
    settings = {"engine": options.engine or "default", "size": options.size}
    print(write_results("real", settings | report(rows)))


if __name__ == "__main__":
    main()
