from __future__ import annotations

import re

import numpy as np
import pytest
from report.drawn import texts

from goalmeter.report.charts import Curve, curve_chart, step_bars
from goalmeter.report.maps import Marks, grid_map


def test_a_map_shows_every_number_and_mark() -> None:
    marks = Marks({0: "S", 3: "G"}, frozenset({1}), frozenset({2}))
    svg = grid_map("m", [[0, 0.25], [12.345, 0.001]], label="l", palette="visits", marks=marks)
    assert {"S", "G", "0", ".25", "(12.3)", "~0", "l"} <= set(texts(svg))


def test_whole_numbers_are_shown_whole_with_a_true_minus() -> None:
    svg = grid_map("m", [[-10, 10]], label="l", palette="signed")
    assert {"−10", "10"} <= set(texts(svg))


@pytest.mark.parametrize("palette", ["visits", "utility", "signed"])
@pytest.mark.parametrize("log", [False, True])
def test_a_map_of_zeros_can_be_drawn(palette: str, log: bool) -> None:
    assert grid_map("m", np.zeros((2, 3)), label="l", palette=palette, log=log).startswith("<svg")


def test_figures_are_the_same_bytes_each_time_and_bear_their_name_in_every_id() -> None:
    def draw(name: str) -> str:
        series = [Curve(label="a", x=[1, 2, 3], y=[1, 2, 1], error=[0.1] * 3)]
        return curve_chart(name, series, x_label="x", y_label="y", levels=[(2, "max")])

    assert draw("one") == draw("one")
    ids = set(re.findall(r'\bid="([^"]+)"', draw("one")))
    assert ids and all(i.startswith("one-") for i in ids)
    assert ids.isdisjoint(re.findall(r'\bid="([^"]+)"', draw("two")))
    used = re.findall(r'(?:href="#|url\(#)([^")]+)', draw("one"))
    assert used and set(used) <= ids


def test_a_chart_names_its_axes_and_series() -> None:
    series = [Curve(label="ours", x=[1, 2], y=[1, 10]), Curve(label="theirs", x=[1], y=[3])]
    chart = curve_chart("c", series, x_label="noise", y_label="nats", log=True, ticks=[1, 2])
    assert {"ours", "theirs", "noise", "nats"} <= set(texts(chart))
    bars = step_bars("b", [("known", [0.5, -0.1], "C0")], limit=1.4, limit_label="most")
    assert {"known", "most", "decision"} <= set(texts(bars))


def test_figures_scale_with_the_page() -> None:
    svg = grid_map("m", [[0, 1]], label="l", palette="utility")
    head = svg[: svg.index(">")]
    assert "viewBox" in head and "max-width" in head and " width=" not in head


def test_drawing_leaves_matplotlibs_settings_as_they_were() -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    grid_map("m", [[0, 1]], label="l", palette="utility")
    assert dict(matplotlib.rcParams) == before
