"""What README and the documentation show runs: Python blocks, and command lines with what they print.

A `python` block runs, in order with those before it on its page; a `text` block after it is what it prints. A
`console` block has command lines after `$`, and what they print, `...` for anything. A `kvrm` line of a `sh`
block runs unless it names a placeholder such as PROGRAM, data for a network or a GPU; then its command and
options must exist. `py` blocks are fragments, which do not run.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import typer

from kvrm.cli.commands import app
from pages import BLOCK, DOCS, PAGES, REPOSITORY

PLACEHOLDER = re.compile(r"\b(PROGRAM|DIR|FILE)\b|target cuda|kvrm (data|train|evaluate) ")
SECONDS = 120


def blocks(page: Path) -> list[tuple[str, str]]:
    """Language and text of each block of a page, and an empty one at the end."""
    return [*BLOCK.findall(page.read_text()), ("", "")]


def lines(page: Path) -> list[str]:
    """The `kvrm` lines of a page's `sh` blocks."""
    found = [
        line.partition("  #")[0].strip()
        for language, text in blocks(page)
        if language == "sh"
        for line in text.splitlines()
    ]
    return [line for line in found if re.match(r"([A-Z_]+=\S+ )*kvrm ", line)]


@pytest.fixture
def kvrm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command of this source is `kvrm`, with no switch set, in the repository."""
    command = tmp_path / "kvrm"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m kvrm.cli "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for switch in ("KVRM_ENGINE", "KVRM_TARGET", "KVRM_TRACE", "KVRM_DUMP"):
        monkeypatch.delenv(switch, raising=False)
    monkeypatch.chdir(REPOSITORY)


def of_pages(language: str) -> Any:
    """The pages that have blocks in a language."""
    found = [page for page in PAGES if any(language == other for other, _ in blocks(page))]
    assert found
    return pytest.mark.parametrize("page", found, ids=lambda page: str(page.relative_to(REPOSITORY)))


@of_pages("python")
def test_python_runs(page: Path, kvrm: None) -> None:
    names: dict[str, object] = {}
    for (language, code), (following, expected) in pairwise(blocks(page)):
        if language == "python":
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(compile(code, str(page), "exec"), names)
            assert following != "text" or output.getvalue() == expected


@of_pages("console")
def test_command_lines_print_what_pages_show(page: Path, kvrm: None) -> None:
    for language, text in blocks(page):
        if language == "console":
            for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
                assert re.fullmatch(re.escape(expected).replace(r"\.\.\.", "(?s:.*?)"), printed(command))


def printed(line: str) -> str:
    """What a command line prints on both streams; it exits with 0."""
    done = subprocess.run(
        ["bash", "-c", line],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stdout
    return re.sub(r"kvrm: compiling .*\n", "", done.stdout)


SHOWN = [(page, line) for page in PAGES for line in lines(page)]
RUN = [line for _, line in SHOWN if not PLACEHOLDER.search(line)]


@pytest.mark.parametrize("line", dict.fromkeys(RUN))
def test_command_lines_run(line: str, kvrm: None) -> None:
    printed(line)


@pytest.mark.parametrize("line", dict.fromkeys(line for _, line in SHOWN if line not in RUN))
def test_commands_and_options_exist(line: str) -> None:
    words = shlex.split(line.partition("kvrm ")[2].partition(" <")[0])
    command = typer.main.get_command(app)
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]  # type: ignore[attr-defined]
    known = {name for parameter in command.params for name in parameter.opts}
    assert not hasattr(command, "commands")
    assert {word for word in words if word.startswith("--")} <= known


def test_every_block_says_what_it_is() -> None:
    known = {"python", "py", "console", "sh", "text"}
    for page in PAGES:
        assert {language for language, _ in blocks(page)[:-1]} <= known, page


def test_the_instruction_that_the_docs_walk_through_is_the_real_one() -> None:
    _, code = blocks(DOCS / "design/adding-an-instruction.md")[0]
    assert code in (REPOSITORY / "src/kvrm/isa/a64/dp_register.py").read_text()
