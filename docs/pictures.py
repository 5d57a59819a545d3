"""The pictures of the pages: boxes on a grid and arrows between them, as SVG.

They are files because GitHub and the built site share no language for diagrams. Boxes have a light fill of
their own and lines are a middle grey, so that both show on dark and on light pages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape

WIDTH, HEIGHT, ACROSS, DOWN, MARGIN = 196, 54, 92, 14, 12
"""Of a box of one row, the room between columns and between rows, and around all; in pixels."""
LINE, HEAD = 15, 7
BOX, EDGE, INK, GREY = "#edf2f8", "#5f7d9c", "#1d2833", "#808b96"


@dataclass(frozen=True, slots=True)
class Box:
    """A box in a column, from a row on, some rows high; each line of its text is one line there."""

    column: int
    row: float
    title: str
    text: str = ""
    rows: int = 1

    @property
    def left(self) -> float:
        """Its left edge."""
        return MARGIN + self.column * (WIDTH + ACROSS)

    @property
    def right(self) -> float:
        """Its right edge."""
        return self.left + WIDTH

    @property
    def top(self) -> float:
        """Its upper edge."""
        return MARGIN + self.row * (HEIGHT + DOWN)

    @property
    def bottom(self) -> float:
        """Its lower edge."""
        return self.top + self.rows * (HEIGHT + DOWN) - DOWN

    def svg(self) -> Iterator[str]:
        """The box and its lines, in its middle."""
        size = f'x="{self.left:g}" y="{self.top:g}" width="{WIDTH}" height="{self.bottom - self.top:g}"'
        yield f'<rect {size} rx="6" fill="{BOX}" stroke="{EDGE}"/>'
        lines = [self.title, *self.text.splitlines()]
        y = (self.top + self.bottom) / 2 - LINE * (len(lines) - 1) / 2 + 4
        for number, line in enumerate(lines):
            more = 'font-weight="bold"' if number == 0 else ""
            yield _text(self.left + WIDTH / 2, y + number * LINE, line, INK, more)


@dataclass(frozen=True, slots=True)
class Arrow:
    """From a box to another one by their titles, to the right; or back to the left, below both."""

    source: str
    target: str
    label: str = ""

    def svg(self, boxes: dict[str, Box]) -> Iterator[str]:
        """The line, its head and its label."""
        a, b = boxes[self.source], boxes[self.target]
        lines = self.label.splitlines()
        if a.column < b.column:
            y = (max(a.top, b.top) + min(a.bottom, b.bottom)) / 2
            yield f'<path d="M{a.right:g} {y:g}H{b.left - HEAD:g}" {_STROKE}/>'
            yield _head(b.left, y, -HEAD, 0)
            for number, line in enumerate(lines):
                yield _text((a.right + b.left) / 2, y - 5 - LINE * (len(lines) - 1 - number), line, GREY)
            return
        start, end, y = a.left + WIDTH / 2, b.left + WIDTH / 2, max(a.bottom, b.bottom) + 2 * LINE
        yield f'<path d="M{start:g} {a.bottom:g}V{y:g}H{end:g}V{b.bottom + HEAD:g}" {_STROKE}/>'
        yield _head(end, b.bottom, 0, HEAD)
        yield _text((start + end) / 2, y - 5, " ".join(lines), GREY)


_STROKE = f'fill="none" stroke="{GREY}" stroke-width="1.5"'


def _head(x: float, y: float, dx: float, dy: float) -> str:
    half = HEAD / 2
    ends = (
        (x + dx - half * (dy != 0), y + dy - half * (dx != 0)),
        (x + dx + half * (dy != 0), y + dy + half * (dx != 0)),
    )
    points = " ".join(f"{px:g},{py:g}" for px, py in ((x, y), *ends))
    return f'<polygon points="{points}" fill="{GREY}"/>'


def _text(x: float, y: float, text: str, colour: str, more: str = "") -> str:
    font = f'font-family="sans-serif" font-size="12" text-anchor="middle" fill="{colour}"'
    return f'<text x="{x:g}" y="{y:g}" {font} {more}>{escape(text)}</text>'


@dataclass(frozen=True, slots=True)
class Picture:
    """What it shows, for those who cannot see it, and its parts."""

    title: str
    boxes: Sequence[Box]
    arrows: Sequence[Arrow]

    def svg(self) -> str:
        """The text of its file."""
        back = any(self._named[a.source].column >= self._named[a.target].column for a in self.arrows)
        width = max(box.right for box in self.boxes) + MARGIN
        height = max(box.bottom for box in self.boxes) + MARGIN + (2 * LINE if back else 0)
        parts = [line for part in self.boxes for line in part.svg()]
        parts += [line for arrow in self.arrows for line in arrow.svg(self._named)]
        size = f'width="{width:g}" height="{height:g}" viewBox="0 0 {width:g} {height:g}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>'
        return "\n".join([head, f"<title>{escape(self.title)}</title>", *parts, "</svg>"]) + "\n"

    @property
    def _named(self) -> dict[str, Box]:
        return {box.title: box for box in self.boxes}


PICTURES = {
    "overview": Picture(
        "One definition of each instruction gives decoder, reference engine, interpreter and translator; "
        "with the Linux layer and memory they make machines, which return results.",
        [
            Box(0, 0, "isa/a64", "each instruction once:\nname, bit diagram,\nassembly, operation", rows=4),
            Box(0, 4, "a program", "AArch64 Linux, unmodified"),
            Box(1, 0, "decoder, disassembler", "instruction table, docs"),
            Box(1, 1, "reference engine", "Python integers, steps in pdb"),
            Box(1, 2, "interpreter", "a native handler each"),
            Box(1, 3, "translator", "hot regions, a function each"),
            Box(1, 4, "linux", "loader, system calls, files"),
            Box(1, 5, "memory", "pages, copy-on-write"),
            Box(
                2,
                1,
                "kvrm.Machine",
                "one lane or 100,000,\non cores or on a GPU:\nrun, look, change,\nsnapshot, fork",
                rows=5,
            ),
            Box(
                3,
                2,
                "result",
                "of each lane:\nstop reason, output,\nregisters, memory,\ninstructions retired",
                rows=3,
            ),
        ],
        [
            Arrow("isa/a64", "decoder, disassembler"),
            Arrow("isa/a64", "reference engine", "Python ints"),
            Arrow("isa/a64", "interpreter", "LLVM"),
            Arrow("isa/a64", "translator", "LLVM, folded"),
            Arrow("a program", "linux"),
            *(
                Arrow(part, "kvrm.Machine")
                for part in ("reference engine", "interpreter", "translator", "linux", "memory")
            ),
            Arrow("kvrm.Machine", "result"),
        ],
    ),
    "tiers": Picture(
        "The interpreter runs a program at once. Another process plans regions from a trace of what "
        "runs; they are compiled, and entered at the slot of its first instruction.",
        [
            Box(0, 0, "interpreter", "a handler per instruction"),
            Box(1, 0, "trace", "what runs now,\ninstruction by instruction"),
            Box(2, 0, "plan", "regions that would have\nrun most of the trace"),
            Box(3, 0, "compile", "LLVM, or the cache on disk"),
        ],
        [
            Arrow("interpreter", "trace", "hot code"),
            Arrow("trace", "plan", "to another\nprocess"),
            Arrow("plan", "compile"),
            Arrow("compile", "interpreter", "the region is the handler of its first instruction"),
        ],
    ),
    "gpu-memory": Picture(
        "An address leads through the page table of a group of 32 lanes to a page that all lanes "
        "share, or to a slab with a copy for each lane, which the first write to the page makes.",
        [
            Box(0, 0, "guest address", "of a lane", rows=2),
            Box(1, 0, "page table", "of a group of 32 lanes;\npermissions of each lane", rows=2),
            Box(2, 0, "shared page", "program, zeros or a file"),
            Box(2, 1, "slab", "32 copies, interleaved\nby words of 8 bytes"),
        ],
        [
            Arrow("guest address", "page table", "every access"),
            Arrow("page table", "shared page", "until written"),
            Arrow("page table", "slab", "after"),
        ],
    ),
}
PAGES: dict[str, Callable[[], str]] = {
    f"pictures/{name}.svg": partial(Picture.svg, picture) for name, picture in PICTURES.items()
}
"""File name to the function that makes its text."""
