"""The documentation is true: its examples run, its links lead somewhere, and no switch is missing from it."""

from __future__ import annotations

import contextlib
import io
import re
import runpy
from itertools import pairwise
from pathlib import Path

import pytest

from kvrm.isa.a64 import definitions
from places import REPOSITORY

DOCS = REPOSITORY / "docs"
PAGES = [REPOSITORY / "README.md", *sorted(DOCS.rglob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    "page",
    [REPOSITORY / "README.md", DOCS / "use/machine.md", DOCS / "use/lanes.md"],
    ids=lambda page: page.name,
)
def test_examples_run(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python blocks run in order in one namespace; a `text` block behind one is what it prints."""
    monkeypatch.chdir(REPOSITORY)
    monkeypatch.delenv("KVRM_ENGINE", raising=False)
    blocks = [(language, code) for language, code in BLOCK.findall(page.read_text())] + [("", "")]
    names: dict[str, object] = {}
    ran = 0
    for (language, code), (following, expected) in pairwise(blocks):
        if language != "python":
            continue
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile(code, str(page), "exec"), names)
        ran += 1
        if following == "text":
            assert output.getvalue() == expected
    assert ran


def test_every_switch_is_documented() -> None:
    used = set()
    for path in (REPOSITORY / "src").rglob("*.py"):
        used |= set(re.findall(r"\bKVRM_[A-Z]+\b", path.read_text()))
    documented = set(
        re.findall(r"^\| `(KVRM_[A-Z]+)`", (DOCS / "use/debugging.md").read_text(), re.MULTILINE)
    )
    assert documented == used


def test_every_definition_is_in_one_class_of_the_manuals_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(DOCS)
    from encoding_index import GROUPS

    classes = [(c.title, cube) for group in GROUPS.values() for c in group for cube in c.cubes]
    used = set()
    for d in definitions:
        own = [(title, cube & part) for title, cube in classes for part in d.cubes() if cube.meets(part)]
        assert len({title for title, _ in own}) == 1, d.key
        assert sum(common.size for _, common in own) == sum(part.size for part in d.cubes()), d.key
        used.add(own[0][0])
    assert used == {c.title for group in GROUPS.values() for c in group if c.defined}


def test_generated_pages_are_current(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(DOCS)
    pages = runpy.run_path(str(DOCS / "generate.py"))["PAGES"]
    stale = [name for name, make in pages.items() if (DOCS / name).read_text() != make()]
    assert not stale, "run docs/generate.py"


def test_the_instruction_that_the_docs_walk_through_is_the_real_one() -> None:
    _, code = BLOCK.findall((DOCS / "design/adding-an-instruction.md").read_text())[0]
    assert code in (REPOSITORY / "src/kvrm/isa/a64/dp_register.py").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_named_source_files_exist(page: Path) -> None:
    for name in re.findall(r"`((?:src|tests|bench|examples|docs)/[\w./-]+)`", page.read_text()):
        assert (REPOSITORY / name).exists(), name


def test_ci_runs_the_readmes_test_command() -> None:
    blocks = BLOCK.findall((REPOSITORY / "README.md").read_text())
    command = next(code for _, code in blocks if "pytest" in code)
    assert command in (REPOSITORY / ".ci/run").read_text()


def test_command_line_options_are_documented() -> None:
    source = (REPOSITORY / "src/kvrm/cli/commands.py").read_text()
    run = source[source.index("def run(") : source.index("def demo(")]
    options = re.findall(r"^    (\w+): .* = ", run, re.MULTILINE)
    page = (DOCS / "use/command-line.md").read_text()
    missing = [name for name in options if name != "args" and f"--{name.replace('_', '-')}" not in page]
    assert "max_instructions" in options and not missing
