"""Charts are SVG that says what was measured, bars as long as the numbers are great."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from kvrm.cli.charts import WIDTH, Chart

SVG = "{http://www.w3.org/2000/svg}"


def drawn(chart: Chart) -> tuple[list[ElementTree.Element], list[str]]:
    """The bars and all that is written."""
    root = ElementTree.fromstring(chart.svg())
    bars = [r for r in root.iter(f"{SVG}rect") if r.get("x") and r.get("height") != "10"]
    for text in root.iter(f"{SVG}text"):
        assert 0 < float(text.get("x", 0)) < WIDTH and 0 < float(text.get("y", 0)) <= float(
            root.get("height", 0)
        )
    return bars, [text.text or "" for text in root.iter(f"{SVG}text")]


def lengths(chart: Chart) -> list[float]:
    return [float(bar.get("width", 0)) for bar in drawn(chart)[0]]


def test_bars_are_as_long_as_numbers_are_great() -> None:
    chart = Chart("c", "A & B", ("one", "two"), {"<x>": ((10,), (30,)), "y": ((20,), ())}, "%")
    ten, thirty, twenty = lengths(chart)
    assert thirty == pytest.approx(3 * ten, abs=0.3) and twenty == pytest.approx(2 * ten, abs=0.3)
    assert drawn(chart)[1] == ["A & B", "one", "two", "<x>", "10 %", "30 %", "y", "20 %"]
    assert len({bar.get("fill") for bar in drawn(chart)[0]}) == 2


def test_negative_numbers_go_the_other_way() -> None:
    less, more = drawn(Chart("c", "t", ("s",), {"a": ((-1,),), "b": ((3,),)}))[0]
    assert float(less.get("x", 0)) + float(less.get("width", 0)) == pytest.approx(
        float(more.get("x", 0)), abs=0.2
    )
    assert float(more.get("width", 0)) == pytest.approx(3 * float(less.get("width", 0)), abs=0.3)


def test_a_logarithmic_scale_begins_at_a_power_of_ten() -> None:
    chart = Chart(
        "c", "t", ("s",), {"a": ((30,),), "b": ((300,),), "c": ((30_000,),)}, "us", logarithmic=True
    )
    first, second, last = lengths(chart)
    assert second - first == pytest.approx((last - second) / 2, abs=0.3)
    assert drawn(chart)[1][0] == "t, logarithmic scale" and "30,000 us" in drawn(chart)[1]


def test_what_several_measured_is_a_line() -> None:
    chart = Chart("c", "t", ("s",), {"a": ((0.5, 0.25, 1),), "b": ((1,),)})
    assert "0.5 (0.25 to 1)" in drawn(chart)[1]
    (line,) = ElementTree.fromstring(chart.svg()).iter(f"{SVG}path")
    low, high = (float(part) for part in line.get("d", "M0 0H0")[1:].replace("H", " ").split()[::2])
    bar, longest = drawn(chart)[0]
    left = float(bar.get("x", 0))
    assert low - left == pytest.approx(float(longest.get("width", 0)) / 4, abs=0.3)
    assert high - left == pytest.approx(float(longest.get("width", 0)), abs=0.3)


def test_nothing_measured_is_no_error() -> None:
    assert drawn(Chart("c", "t", ("s",), {}))[0] == []
    assert lengths(Chart("c", "t", ("s",), {"a": ((0,),)}, logarithmic=True)) == [1]
