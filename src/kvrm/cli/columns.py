"""Tables on the terminal: columns without lines between them."""

from __future__ import annotations

from typing import Any

from rich.table import Table


def columns(*titles: str, left: int = 1, **more: Any) -> Table:
    """A table whose first `left` columns are text, and the others numbers; `more` as `rich` takes it."""
    table = Table(box=None, pad_edge=False, **more)
    for number, title in enumerate(titles):
        table.add_column(title, justify="left" if number < left else "right")
    return table
