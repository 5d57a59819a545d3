"""Bar charts as SVG: what `kvrm evaluate --plots` draws, and the figures of the documentation."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

WIDTH, VALUES, LETTER = 760, 150, 7
"""Of the picture, of what is written after a bar, and about that of a letter; in pixels."""
BAR, GAP, LINE = 13, 9, 18
COLOURS = "#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#888888"
TEXT = 'font-family="sans-serif" font-size="12" fill="#333333"'

Bar = Sequence[float]
"""How long a bar is, and what else was measured: a thin line shows from where to where."""


@dataclass(frozen=True, slots=True)
class Chart:
    """Bars for each row, one of each series; an empty one was not measured.

    `unit` is written after each value. On a logarithmic scale a bar begins at a power of ten, not at zero.
    """

    name: str
    title: str
    series: Sequence[str]
    rows: Mapping[str, Sequence[Bar]]
    unit: str = ""
    logarithmic: bool = False

    def svg(self) -> str:
        top = LINE * (2 if len(self.series) == 1 else 3)
        parts, y = [*self._head(), *self._legend()], top
        place = self._scale()
        for label, bars in self.rows.items():
            shown = [(bar, COLOURS[k % len(COLOURS)]) for k, bar in enumerate(bars) if bar]
            middle = y + len(shown) * BAR / 2 + 3
            parts.append(_text(place.left - 8, middle, label, 'text-anchor="end"'))
            for bar, colour in shown:
                parts += self._bar(bar, y, colour, place)
                y += BAR
            y += GAP
        size = f'width="{WIDTH}" height="{y}" viewBox="0 0 {WIDTH} {y}"'
        background = '<rect width="100%" height="100%" fill="#ffffff"/>'
        lines = [f'<svg xmlns="http://www.w3.org/2000/svg" {size}>', background, *parts, "</svg>"]
        return "\n".join(lines) + "\n"

    def _head(self) -> Iterator[str]:
        yield f"<title>{escape(self.title)}</title>"
        scale = ", logarithmic scale" if self.logarithmic else ""
        yield _text(8, LINE, self.title + scale, 'font-weight="bold"')

    def _legend(self) -> Iterator[str]:
        if len(self.series) > 1:
            x = 8.0
            for number, name in enumerate(self.series):
                colour = COLOURS[number % len(COLOURS)]
                yield f'<rect x="{x:.0f}" y="{LINE + 9}" width="10" height="10" fill="{colour}"/>'
                yield _text(x + 14, 2 * LINE, name)
                x += 30 + LETTER * len(name)

    def _scale(self) -> _Scale:
        numbers = [number for bars in self.rows.values() for bar in bars for number in bar]
        left = 20 + LETTER * max(map(len, self.rows), default=0)
        if self.logarithmic:
            least = min((n for n in numbers if n > 0), default=1.0)
            return _Scale(left, math.floor(math.log10(least)), math.log10(max([*numbers, 10 * least])), True)
        return _Scale(left, min([0.0, *numbers]), max([0.0, *numbers]) or 1.0, False)

    def _bar(self, bar: Bar, y: int, colour: str, place: _Scale) -> Iterator[str]:
        ends = sorted((place.zero, place(bar[0])))
        width = max(ends[1] - ends[0], 1)
        yield f'<rect x="{ends[0]:.1f}" y="{y}" width="{width:.1f}" height="{BAR - 2}" fill="{colour}"/>'
        last, written = max(ends[1], place.zero), _number(bar[0])
        if len(bar) > 1:
            low, high = min(bar[1:]), max(bar[1:])
            line = f"M{place(low):.1f} {y + BAR / 2 - 1}H{place(high):.1f}"
            yield f'<path d="{line}" stroke="#333333" stroke-width="1.5"/>'
            last, written = max(last, place(high)), f"{written} ({_number(low)} to {_number(high)})"
        yield _text(last + 4, y + BAR - 3, f"{written} {self.unit}".rstrip())


@dataclass(frozen=True, slots=True)
class _Scale:
    """From numbers, or exponents of ten if it is logarithmic, to pixels, of which `left` is the first."""

    left: int
    first: float
    last: float
    logarithmic: bool

    def __call__(self, number: float) -> float:
        if self.logarithmic:
            number = math.log10(number) if number > 0 else self.first
        return self.left + (number - self.first) / (self.last - self.first) * (WIDTH - self.left - VALUES)

    @property
    def zero(self) -> float:
        """Where bars begin."""
        return float(self.left) if self.logarithmic else self(0)


def _text(x: float, y: float, text: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {TEXT} {more}>{escape(text)}</text>'


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def write(charts: Iterable[Chart], directory: Path) -> None:
    """Write each chart as NAME.svg, and say so."""
    directory.mkdir(parents=True, exist_ok=True)
    for chart in charts:
        path = directory / f"{chart.name}.svg"
        path.write_text(chart.svg())
        print(path)
