"""The command lines that README and the documentation show run.

A `console` block has command lines after `$`, and what they print, `...` for anything. A `kvrm` line of a
`sh` block runs unless it names a placeholder such as PROGRAM, data for a network or a GPU; then its command
and options must exist.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from kvrm.cli.commands import app
from pages import PAGES, REPOSITORY, blocks, with_blocks
from patience import SECONDS

PLACEHOLDER = re.compile(r"\b(PROGRAM|DIR|FILE)\b|target cuda|kvrm (data|train|evaluate) ")


@pytest.fixture
def kvrm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command of this source is `kvrm`, with no switch set, in the repository."""
    command = tmp_path / "kvrm"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m kvrm "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for switch in ("KVRM_ENGINE", "KVRM_TARGET", "KVRM_TRACE", "KVRM_DUMP"):
        monkeypatch.delenv(switch, raising=False)
    monkeypatch.chdir(REPOSITORY)


@with_blocks("console")
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


SHELL = "".join(text for page in PAGES for language, text in blocks(page) if language == "sh")
SHOWN = dict.fromkeys(re.findall(r"^((?:[A-Z_]+=\S+ )*kvrm .*?)(?:  #.*)?$", SHELL, re.MULTILINE))


@pytest.mark.parametrize("line", [line for line in SHOWN if not PLACEHOLDER.search(line)])
def test_command_lines_run(line: str, kvrm: None) -> None:
    printed(line)


@pytest.mark.parametrize("line", [line for line in SHOWN if PLACEHOLDER.search(line)])
def test_commands_and_options_exist(line: str) -> None:
    words = shlex.split(line.partition("kvrm ")[2].partition(" <")[0])
    command = typer.main.get_command(app)
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]  # type: ignore[attr-defined]
    known = {name for parameter in command.params for name in parameter.opts}
    assert not hasattr(command, "commands")
    assert {word for word in words if word.startswith("--")} <= known
