"""The files that the guest command lines work on: always the same bytes, names, modes and times."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import tarfile
from io import BytesIO
from pathlib import Path

NOUNS = "lane page word register branch cache fault stack queue table frame loop".split()
VERBS = "reads writes skips holds maps copies traces folds counts keeps".split()
MOMENT = 1_000_000_000
"""The modification time of every file and directory, in seconds: long ago for every clock."""


def stream(seed: int) -> int:
    """One step of a 64-bit xorshift generator."""
    seed ^= seed << 13 & (1 << 64) - 1
    seed ^= seed >> 7
    return seed ^ seed << 17 & (1 << 64) - 1


def random_bytes(count: int, seed: int) -> bytes:
    """Pseudo-random bytes that depend on nothing but the arguments."""
    words = []
    for _ in range(0, count, 8):
        seed = stream(seed)
        words.append(seed.to_bytes(8, "little"))
    return b"".join(words)[:count]


def text(lines: int, seed: int) -> str:
    """Lines of a few words and a number, with repetitions, blank lines, tabs and a long line."""
    out = []
    for n in range(lines):
        seed = stream(seed)
        subject, verb, thing = NOUNS[seed % 12], VERBS[seed >> 8 & 7], NOUNS[(seed >> 16) % 12]
        if n % 37 == 36:
            out.append("")
        elif n % 50 == 49:
            out.append(" ".join(NOUNS * 4))
        else:
            out.append(f"The {subject} {verb}\ta {thing} {seed >> 24 & 1023} times.")
    return "\n".join(out) + "\n"


def _newc(files: dict[str, bytes]) -> bytes:
    """A cpio archive in the `newc` format (see cpio(5))."""
    out = b""
    for inode, (name, data) in enumerate({**files, "TRAILER!!!": b""}.items(), 1):
        fields = (inode, 0o100644, 0, 0, 1, MOMENT, len(data), 0, 0, 0, 0, len(name) + 1, 0)
        out += b"070701" + b"".join(b"%08x" % field for field in fields) + name.encode() + b"\0"
        out += bytes(-len(out) % 4) + data
        out += bytes(-len(out) % 4)
    return out


def _tar(files: dict[str, bytes]) -> bytes:
    out = BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), MOMENT
            archive.addfile(info, BytesIO(data))
    return out.getvalue()


def files() -> dict[str, bytes]:
    """Every file below the working directory: relative path to contents."""
    prose, other = text(300, 1).encode(), text(300, 1).replace("page", "leaf").encode()
    noise = random_bytes(6000, 7)
    numbers = [stream(n + 1) % 100_000 - 50_000 for n in range(400)]
    table = [f"{name},{n * 7 % 23},{n * 1.5:.2f}" for n, name in enumerate(NOUNS * 3)]
    members = {"a/one.txt": prose[:700], "a/two.bin": noise[:900], "three.txt": b"3\n"}
    return {
        "text.txt": prose,
        "other.txt": other,
        "noise.bin": noise,
        "empty": b"",
        "sums.dc": b"2 3 4 * + p 10 k 2 v p 16 o 255 p 2 100 ^ p 7 3 % p\n",
        "sums.bc": b"scale=30\n4*a(1)\ne(1)\n2^100\n"
        b"define f(n){ if(n<2) return n; return f(n-1)+f(n-2); }\nf(12)\n",
        "numbers.txt": "".join(f"{n}\n" for n in numbers).encode(),
        "table.csv": ("\n".join(["name,count,price", *table]) + "\n").encode(),
        "sorted1.txt": "".join(f"{n:04}\n" for n in range(0, 300, 2)).encode(),
        "sorted2.txt": "".join(f"{n:04}\n" for n in range(0, 300, 3)).encode(),
        "dos.txt": prose[:500].replace(b"\n", b"\r\n"),
        "noeol.txt": b"first\nlast without newline",
        "text.gz": gzip.compress(prose, 9, mtime=0),
        "text.bz2": bz2.compress(prose),
        "text.xz": lzma.compress(prose, check=lzma.CHECK_CRC32, preset=1),
        "text.lzma": lzma.compress(prose, format=lzma.FORMAT_ALONE, preset=1),
        "bad.gz": gzip.compress(prose, 9, mtime=0)[:200] + b"broken",
        "files.tar": _tar(members),
        "files.cpio": _newc(members),
        "digits.sed": b"s/[0-9][0-9]*/<&>/g\n/^$/d\n$!N\nP\nD\n",
        "tree/readme.md": b"# tree\n",
        "tree/src/main.c": b"int main(void) { return 0; }\n",
        "tree/src/util.c": b"/* nothing */\n",
        "tree/src/deep/er/leaf.h": b"#pragma once\n",
        "tree/data/big.bin": noise[:4097],
        "tree/data/empty": b"",
        "tree/run.sh": b"echo run\n",
    }


def create(directory: Path) -> None:
    """Write the files into an empty or missing `directory`."""
    for name, data in files().items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(0o755 if name.endswith(".sh") else 0o644)
    (directory / "tree/link").symlink_to("src/main.c")
    (directory / "tree/dangling").symlink_to("nowhere")
    for parent, directories, names in os.walk(directory, topdown=False):
        for name in (*directories, *names):
            os.utime(Path(parent, name), (MOMENT, MOMENT), follow_symlinks=False)
        Path(parent).chmod(0o755)


def contents(directory: Path) -> dict[str, bytes]:
    """What is below `directory` now, to compare with `files()`."""
    found = (path for path in directory.rglob("*") if path.is_file() and not path.is_symlink())
    return {str(path.relative_to(directory)): path.read_bytes() for path in found}
