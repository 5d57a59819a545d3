"""The Python that README and the documentation show runs.

A `python` block runs, in order with those before it on its page; a `text` block after it is what it prints.
`py` blocks are fragments, which do not run. Command lines are tested with the command line
(`tests/cli/test_shown_commands.py`).
"""

from __future__ import annotations

import contextlib
import io
from itertools import pairwise
from pathlib import Path

import pytest

from pages import DOCS, PAGES, REPOSITORY, blocks, with_blocks


@with_blocks("python")
def test_python_runs(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    monkeypatch.delenv("KVRM_ENGINE", raising=False)
    names: dict[str, object] = {}
    for (language, code), (following, expected) in pairwise(blocks(page)):
        if language == "python":
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(compile(code, str(page), "exec"), names)
            assert following != "text" or output.getvalue() == expected


def test_every_block_says_what_it_is() -> None:
    known = {"python", "py", "console", "sh", "text"}
    for page in PAGES:
        assert {language for language, _ in blocks(page)[:-1]} <= known, page


def test_the_instruction_that_the_docs_walk_through_is_the_real_one() -> None:
    _, code = blocks(DOCS / "design/adding-an-instruction.md")[0]
    assert code in (REPOSITORY / "src/kvrm/isa/a64/dp_sources.py").read_text()
