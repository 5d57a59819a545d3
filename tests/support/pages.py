"""The pages of the documentation, README among them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from places import REPOSITORY

DOCS = REPOSITORY / "docs"
PAGES = [*sorted(REPOSITORY.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
"""A fenced block: its language and its text."""


def blocks(page: Path) -> list[tuple[str, str]]:
    """Language and text of each block of a page, and an empty one at the end."""
    return [*BLOCK.findall(page.read_text()), ("", "")]


def with_blocks(language: str) -> Any:
    """A test for each of the pages that have blocks in a language."""
    found = [page for page in PAGES if any(language == other for other, _ in blocks(page))]
    assert found
    return pytest.mark.parametrize("page", found, ids=lambda page: str(page.relative_to(REPOSITORY)))
