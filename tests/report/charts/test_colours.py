from __future__ import annotations

import re
from importlib.resources import files
from itertools import pairwise

import pytest

from goalmeter.report import Figure, Section
from goalmeter.report.canvas import (
    DARK,
    INK,
    PAPER,
    as_variables,
    contrast,
    in_the_dark,
    styles,
    text_on,
)
from goalmeter.report.maps import LEVELS, PALETTES, colour_map
from goalmeter.report.page import render


def levels(palette: str) -> list[str]:
    from matplotlib.colors import to_hex

    colours = colour_map(palette)
    return [to_hex(colours(level)) for level in range(LEVELS)]


def test_contrast_is_that_of_the_guidelines() -> None:
    # WCAG 2.1: (1 + 0.05) / (0 + 0.05) = 21; of #777777 on white 4.48, as their tools say.
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#ffffff", "#777777") == pytest.approx(4.48, abs=0.005)


@pytest.mark.parametrize("palette", [*PALETTES.values(), "Oranges"])
def test_numbers_in_cells_can_be_read_in_both_schemes(palette: str) -> None:
    for colour in levels(palette):
        text = text_on(colour)
        assert contrast(text, colour) >= 3.6, colour
        assert contrast(in_the_dark(text), in_the_dark(colour)) >= 3.6, colour


@pytest.mark.parametrize("palette", ["Blues", "Purples", "Greys", "Oranges"])
def test_what_was_darker_is_brighter_in_the_dark(palette: str) -> None:
    ground = DARK[PAPER]
    away = [contrast(in_the_dark(colour), ground) for colour in levels(palette)]
    assert all(low <= high + 0.01 for low, high in pairwise(away))
    assert away[0] < 1.25 and away[-1] > 6


def test_a_grey_stays_grey_and_a_hue_stays_its_own() -> None:
    assert len(set(re.findall("..", in_the_dark("#808080")[1:]))) == 1
    red, _, blue = (int(in_the_dark("#c6dbef")[at : at + 2], 16) for at in (1, 3, 5))
    assert blue > red + 20


def test_colours_become_variables_that_the_page_declares() -> None:
    svg = '<path style="fill: #0072B2; stroke: none" stroke="#1f2933"/><text>fill #1f2933</text>'
    assert as_variables(svg) == (
        '<path style="fill: var(--c0072b2); stroke: none" '
        'stroke="var(--c1f2933)"/><text>fill #1f2933</text>'
    )
    assert as_variables(as_variables(svg)) == as_variables(svg)
    assert styles([svg, svg]) == (
        "--c0072b2: #0072b2; --c1f2933: #1f2933;",
        f"--c0072b2: {DARK['#0072b2']}; --c1f2933: var(--ink);",
    )


def test_the_page_and_its_pictures_have_one_ink_and_one_paper() -> None:
    style = files("goalmeter.report").joinpath("style.css").read_text(encoding="utf-8")
    light, dark = (re.findall(rf"--{name}: (#\w+);", style) for name in ("ink", "paper"))
    assert [*light, *dark] == [INK, DARK[INK], PAPER, DARK[PAPER]]
    assert f"--muted: {DARK['#52606d']};" in style and f"--rule: {DARK['#cbd2d9']};" in style
    figure = Figure(svg='<svg fill="#1f2933"></svg>', alt="a", caption="c")
    page = render("t", [Section(title="s", figures=(figure,))])
    assert "--c1f2933: var(--ink);" in page and 'fill="var(--c1f2933)"' in page
