from __future__ import annotations

import re

from report.drawn import texts

from goalmeter.report.charts import DotPanel, Dots, dot_chart

NAN = float("nan")


def dots(label: str, *values: float, half: float = 0.1) -> Dots:
    return Dots(label=label, values=values, intervals=[(v - half, v + half) for v in values])


def places(svg: str) -> list[list[tuple[float, float]]]:
    """Where the markers of each series are: [series][line]."""
    groups = re.findall(r'<g clip-path="[^"]*">\s*((?:<use [^>]*/>\s*)+)</g>', svg)
    # Caps come first, two groups a series, and then the markers, one.
    markers = groups[2 * len(groups) // 3 :]
    return [
        [(float(x), float(y)) for x, y in re.findall(r' x="([\d.]+)" y="([\d.]+)"', group)]
        for group in markers
    ]


def test_long_names_of_lines_stay_apart() -> None:
    lines = ["an agent with a long name, with key", "an agent with a long name, without key"]
    shown = texts(dot_chart("d", lines, [DotPanel(x_label="x", series=(dots("one", 0, 1),))]))
    assert set(lines) <= set(shown)


def test_a_band_is_shaded() -> None:
    plain = DotPanel(x_label="x", series=(dots("one", 0, 1),))
    shaded = DotPanel(x_label="x", series=(dots("one", 0, 1),), band=(-0.5, 0.5))
    assert "opacity: 0.35" not in dot_chart("d", ["a", "b"], [plain])
    assert "opacity: 0.35" in dot_chart("d", ["a", "b"], [shaded])


def test_lines_series_and_panels_are_named() -> None:
    panels = [
        DotPanel(x_label="measure", title="left", series=(dots("one", 0, 1), dots("two", 1, 0))),
        DotPanel(x_label="difference", series=(dots("two", 1, -1),)),
    ]
    shown = texts(dot_chart("d", ["a$1$", "b"], panels))
    assert {"a$1$", "b", "left", "measure", "difference"} <= set(shown)
    # The legend has a series once, though two panels have it.
    assert shown.count("one") == shown.count("two") == 1


def test_values_go_right_and_lines_go_down() -> None:
    svg = dot_chart("d", ["a", "b", "c"], [DotPanel(x_label="x", series=(dots("s", 0, 2, 1),))])
    (((x0, y0), (x1, y1), (x2, y2)),) = places(svg)
    assert x0 < x2 < x1 and y0 < y1 < y2
    assert abs((x0 + x1) / 2 - x2) < 1e-3


def test_joined_series_share_their_line_and_others_do_not() -> None:
    def heights(joined: bool) -> tuple[float, float]:
        panel = DotPanel(x_label="x", series=(dots("s", 0, 1), dots("t", 1, 2)), joined=joined)
        first, second = places(dot_chart("d", ["a", "b"], [panel]))
        return first[0][1], second[0][1]

    first, second = heights(joined=True)
    assert first == second
    first, second = heights(joined=False)
    assert first < second


def test_what_is_missing_is_left_out() -> None:
    panel = DotPanel(x_label="x", series=(dots("s", 0, NAN, 1),))
    svg = dot_chart("d", ["a", "b", "c"], [panel])
    assert [len(series) for series in places(svg)] == [2]


def test_the_same_bytes_each_time() -> None:
    panel = DotPanel(x_label="x", series=(dots("s", 0, 1),), joined=True)
    assert dot_chart("d", ["a", "b"], [panel]) == dot_chart("d", ["a", "b"], [panel])
