"""The GNU disassembler and assembler for AArch64 (binutils): a second oracle for assembly text."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

OBJDUMP, AS, OBJCOPY = (f"aarch64-linux-gnu-{tool}" for tool in ("objdump", "as", "objcopy"))
ARCHITECTURE = (
    "armv8.8-a+crypto+sha3+sm4+fp16+fp16fml+rng+bf16+i8mm+profile+ssbs+flagm+predres+memtag+sb+sve+sme"
)
Words = npt.NDArray[np.uint32]

LIST = re.compile(r"\{v(\d+)(\.\w+)-v(\d+)\.\w+\}")
NUMBER = re.compile(r"(?<![\w.])#?-?(?:0x[0-9a-f]+|\d+\.\d+(?:e[+-]\d+)?|\d+)\b(?!\.)")
RELATIVE = re.compile(r"(?:b|bl|b\.\w+|cbn?z|tbn?z|adr|ldr|ldrsw|prfm) (?:[^\[]*, )?(#(?:0x[0-9a-f]+|\d))")


def require() -> None:
    """Skip the test if binutils for AArch64 are missing."""
    absent = [tool for tool in (OBJDUMP, AS, OBJCOPY) if shutil.which(tool) is None]
    if absent:
        pytest.skip(f"{' and '.join(absent)} not found (Debian: binutils-aarch64-linux-gnu)")


def disassemble(words: Words) -> list[str]:
    """Objdump's text of each word; the first is at address 0. Words that it does not know are `.inst`."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(words.astype("<u4").tobytes())
        file.flush()
        command = [OBJDUMP, "-D", "-z", "-b", "binary", "-m", "aarch64", file.name]
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    # address, word, mnemonic, operands and comment
    columns = (line.split("\t") for line in lines)
    texts = [" ".join(rest) for place, _, *rest in (c for c in columns if len(c) > 2)]
    assert len(texts) == len(words)
    return texts


def assemble(texts: Sequence[str]) -> list[int | None]:
    """The word of each text at address 0, None where the assembler refuses the text."""
    lines = [_at_zero(text) for text in texts]
    found: list[int | None] = [None] * len(lines)
    with tempfile.TemporaryDirectory() as folder:
        source, unlinked, raw = (Path(folder) / name for name in ("words.s", "words.o", "words.bin"))
        taken = list(range(len(lines)))
        while True:
            source.write_text("".join(f"{lines[i]}\n" for i in taken))
            command = [AS, f"-march={ARCHITECTURE}", str(source), "-o", str(unlinked)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if not done.returncode:
                break
            refused = {int(n) - 1 for n in re.findall(r"words\.s:(\d+): Error", done.stderr)}
            assert refused, done.stderr
            taken = [i for at, i in enumerate(taken) if at not in refused]
        subprocess.run([OBJCOPY, "-O", "binary", "-j", ".text", str(unlinked), str(raw)], check=True)
        words = np.frombuffer(raw.read_bytes(), "<u4").tolist()
    for i, word in zip(taken, words, strict=True):
        found[i] = word
    return found


def _at_zero(text: str) -> str:
    """The text with its target relative to where it is, which KVRM's text for address 0 has absolute."""
    match = RELATIVE.fullmatch(text)
    if match is None:
        return text
    target = int(match[1][1:], 0)
    return f"{text[: match.start(1)]}. + ({target - (target >> 63 << 64)})"


def normal(text: str) -> str:
    """A text of KVRM or objdump in a form that both have: without comments, numbers as 64-bit decimals."""
    text = text.partition("//")[0].strip().lower()
    text = LIST.sub(_each_register, text)
    text = re.sub(r"(?<=[ .])cs\b", "hs", text)
    text = re.sub(r"(?<=[ .])cc\b", "lo", text)
    text = NUMBER.sub(_decimal, text)
    if re.match(r"(mov|orr) w", text):
        text = re.sub(r"\d{10,}$", lambda m: str(int(m[0]) & (1 << 32) - 1), text)
    return re.sub(r"\s+", " ", text)


def _each_register(match: re.Match[str]) -> str:
    first, kind, last = int(match[1]), match[2], int(match[3])
    count = (last - first) % 32 + 1
    return "{" + ", ".join(f"v{(first + i) % 32}{kind}" for i in range(count)) + "}"


def _decimal(match: re.Match[str]) -> str:
    text = match[0].lstrip("#")
    if "." in text:
        return repr(float(text))
    value = int(text) if re.fullmatch(r"-?0\d+", text) else int(text, 0)
    return str(value & (1 << 64) - 1)
