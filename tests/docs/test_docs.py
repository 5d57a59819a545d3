"""The documentation is complete and current: links, named files, switches, options, generated pages."""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import kvrm
from kvrm.cli.commands import app
from kvrm.isa.a64 import definitions
from pages import BLOCK, DOCS, PAGES, REPOSITORY

ALL_PAGES = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))


def test_every_switch_is_documented() -> None:
    used = set()
    for folder in ("src", "tests"):
        for path in (REPOSITORY / folder).rglob("*.py"):
            used |= set(re.findall(r"[\"'](KVRM_[A-Z_]+)", path.read_text()))
    page = (DOCS / "use/environment.md").read_text()
    assert set(re.findall(r"^\| `(KVRM_[A-Z_]+)`", page, re.MULTILINE)) == used


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


def test_generated_files_are_current(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(DOCS)
    pages = runpy.run_path(str(DOCS / "generate.py"))["PAGES"]
    assert {"../README.md", "measurements/cpu.md", "pictures/overview.svg"} <= set(pages)
    stale = [name for name, make in pages.items() if (DOCS / name).read_text() != make()]
    assert not stale, "run docs/generate.py"
    drawn = {f"{path.parent.name}/{path.name}" for path in DOCS.rglob("*.svg")}
    assert drawn == {name for name in pages if name.endswith(".svg")}


@ALL_PAGES
def test_links_lead_somewhere(page: Path) -> None:
    """Files exist, and so do headings, by the name that GitHub gives them."""
    for target, _, heading in re.findall(r"\]\(([^)#\s]*)(#([^)\s]*))?\)", page.read_text()):
        if not target.startswith("http"):
            path = page.parent / target if target else page
            assert path.exists(), target
            assert not heading or heading in headings(path), (target, heading)


def headings(page: Path) -> set[str]:
    """What links to the headings of a page are called."""
    text = BLOCK.sub("", page.read_text())
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@ALL_PAGES
def test_named_source_files_exist(page: Path) -> None:
    for name in re.findall(r"`((?:src|tests|bench|examples|docs)/[\w./-]+)`", page.read_text()):
        assert (REPOSITORY / name).exists(), name


def test_every_page_is_in_the_sites_navigation() -> None:
    listed = re.findall(r"(\S+\.md)$", (REPOSITORY / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


def test_ci_runs_the_readmes_test_command() -> None:
    blocks = BLOCK.findall((REPOSITORY / "README.md").read_text())
    command = next(code for _, code in blocks if "pytest" in code)
    assert command in (REPOSITORY / ".ci/run").read_text()


def commands(command: Any) -> Iterator[Any]:
    """The commands below a group."""
    for below in getattr(command, "commands", {}).values():
        yield below
        yield from commands(below)


def test_commands_and_options_are_documented() -> None:
    pages = "".join((DOCS / name).read_text() for name in ("use/command-line.md", "networks/index.md"))
    kvrm = typer.main.get_command(app)
    assert [name for name in kvrm.commands if f"`kvrm {name}" not in pages] == []  # type: ignore[attr-defined]
    options = {name for below in commands(kvrm) for parameter in below.params for name in parameter.opts}
    assert "--max-instructions" in options
    assert [name for name in options if name.startswith("--") and f"`{name}" not in pages] == []


def test_stop_reasons_are_documented() -> None:
    table = re.findall(r"^\| `([A-Z_]+)` \|", (DOCS / "use/machine.md").read_text(), re.MULTILINE)
    assert table == [stop.name for stop in kvrm.Stop]
