from __future__ import annotations

import math
import re

from report.drawn import texts

from goalmeter.report.canvas import BLUE, RULE
from goalmeter.report.charts import RangeBar, range_bars

BARS = [RangeBar("goal", 3.0, 2.0, 4.0, 8.0), RangeBar("a$1$<b>", 1.0, 1.0, 1.0, 4.0)]


def drawn(bars: list[RangeBar]) -> tuple[list[tuple[float, float]], ...]:
    """Left and right ends of the bars up to the maximum, and of the intervals."""
    svg = range_bars("r", bars, x_label="nats")
    patches = re.findall(r'<path d="([^"]+)" clip-path[^>]*style="fill: (#\w+)', svg)
    by_colour: dict[str, list[tuple[float, float]]] = {RULE: [], BLUE: []}
    for path, colour in patches:
        xs = [float(x) for x in re.findall(r"[ML] ([\d.]+) ", path)]
        by_colour[colour].append((min(xs), max(xs)))
    return by_colour[RULE], by_colour[BLUE]


def test_a_bar_ends_at_the_maximum_and_the_interval_lies_in_it() -> None:
    (whole, half), (interval, point) = drawn(BARS)
    nat = (whole[1] - whole[0]) / 8
    assert abs(half[1] - half[0] - 4 * nat) < 1e-3
    assert abs(interval[0] - whole[0] - 2 * nat) < 1e-3
    assert abs(interval[1] - whole[0] - 4 * nat) < 1e-3
    # An interval without any width is still there.
    assert abs(point[1] - point[0]) < 1e-3 and abs(point[0] - whole[0] - nat) < 1e-3


def test_an_end_at_infinity_is_drawn_to_the_end_of_the_picture() -> None:
    (whole,), (interval,) = drawn([RangeBar("goal", 3.0, 2.0, math.inf, 8.0)])
    assert abs(interval[1] - whole[1]) < 1e-3
    assert range_bars("r", [RangeBar("goal", 0.0, 0.0, 0.0, 0.0)], x_label="nats")


def test_names_are_text_and_each_thing_is_in_the_legend_once() -> None:
    svg = range_bars("r", BARS, x_label="MEG, nats")
    shown = texts(svg)
    assert {"goal", "a$1$<b>", "MEG, nats"} <= set(shown) and "<b>" not in svg
    assert [shown.count(word) for word in ("interval", "estimate", "to the maximum")] == [1, 1, 1]
    assert svg == range_bars("r", BARS, x_label="MEG, nats")
