"""Charts as inline SVG: deterministic output and colours of the light and dark scheme."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

import numpy as np

from goalmeter._errors import require, visible
from goalmeter._types import FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas


# A picture is drawn for a light page. On a page each of its colours becomes a CSS variable,
# `var(--c0072b2)`: the colour itself in the light, and in the dark the same hue with its lightness
# mirrored, so that what was near the paper is near the paper still.
#
# Source: Ottosson (2020), A perceptual color space for image processing, for lightness (Oklab).

INK, MUTED, RULE, PAPER = "#1f2933", "#52606d", "#cbd2d9", "#ffffff"
# Those of Okabe and Ito, which stay apart for colour-blind readers.
BLUE, VERMILION, GREEN = "#0072b2", "#d55e00", "#009e73"
# Curves in one chart differ in their strokes too, since colours may not be seen; in this order.
STROKES: tuple[tuple[str, str], ...] = ((BLUE, "-"), (VERMILION, "--"), (GREEN, "-."), (INK, ":"))
DARK = {
    # Of text, grounds and rules: those of the dark page.
    **{INK: "#e4e8ec", MUTED: "#a9b4bf", RULE: "#3d4853", PAPER: "#14181d"},
    # Lines on the paper: brighter, where a mirror would make them dull.
    **{BLUE: "#5ab0ea", VERMILION: "#f58b4e", GREEN: "#3ec79a"},
}
# Lightness of the dark page's paper and of its brightest colours.
_DARKEST, _BRIGHTEST = 0.21, 0.93
_BLACK = 0.25  # lightness that is as far from white as pictures go

# In a style or as an attribute of its own.
_COLOUR = re.compile(r'\b((?:fill|stroke|stop-color)(?:: ?|="))(#[0-9a-fA-F]{6})\b')

_TO_LMS = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
_TO_LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)
_FROM_LMS, _FROM_LAB = np.linalg.inv(_TO_LMS), np.linalg.inv(_TO_LAB)
_TO_LUMINANCE = np.array([0.2126, 0.7152, 0.0722])


def as_variables(svg: str) -> str:
    """A picture with each of its colours as a variable, which `styles` declare."""
    return _COLOUR.sub(lambda m: f"{m[1]}var(--c{m[2][1:].lower()})", svg)


def styles(pictures: Iterable[str]) -> tuple[str, str]:
    """What the colours of some pictures are on a light page and on a dark one: declarations."""
    # Sorted, so that a page has the same bytes each time.
    used = sorted({colour.lower() for svg in pictures for _, colour in _COLOUR.findall(svg)})
    light = " ".join(f"--c{colour[1:]}: {colour};" for colour in used)
    return light, " ".join(f"--c{colour[1:]}: {in_the_dark(colour)};" for colour in used)


@cache
def in_the_dark(colour: str) -> str:
    """The colour "#rrggbb" with mirrored lightness; that of the page for its own colours."""
    if colour in DARK:
        return DARK[colour]
    lightness, *chroma = _TO_LAB @ np.cbrt(_TO_LMS @ _linear(colour))
    step = (_BRIGHTEST - _DARKEST) / (1.0 - _BLACK)
    mirrored = _DARKEST + step * (1.0 - max(float(lightness), _BLACK))
    # Less colourful until a screen can show it, by numbers within 0 and 1.
    for keep in np.linspace(1.0, 0.0, 21):
        lab = np.array([mirrored, *(keep * part for part in chroma)])
        light = _FROM_LMS @ (_FROM_LAB @ lab) ** 3
        bright = 1.055 * np.maximum(light, 0.0) ** (1 / 2.4) - 0.055
        rgb = np.where(light <= 0.0031308, 12.92 * light, bright)
        if rgb.min() > -1e-3 and rgb.max() < 1 + 1e-3:
            break
    return "#" + "".join(f"{round(255 * part):02x}" for part in rgb.clip(0.0, 1.0).tolist())


def text_on(colour: str) -> str:
    """INK or PAPER, whichever is easier to read on a colour in its worse scheme."""
    dark = in_the_dark(colour)
    return max(
        (INK, PAPER),
        key=lambda text: min(contrast(text, colour), contrast(in_the_dark(text), dark)),
    )


def contrast(first: str, second: str) -> float:
    """The contrast of two colours, 1 to 21, as the Web Content Accessibility Guidelines have it."""
    # Contrast has no direction: text may be the lighter one.
    both = (float(_TO_LUMINANCE @ _linear(colour)) for colour in (first, second))
    low, high = sorted(both)
    return (high + 0.05) / (low + 0.05)


def _linear(colour: str) -> FloatArray:
    """Red, green and blue as amounts of light, 0 to 1."""
    rgb = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


# Text in the pictures stays text, lengths are relative to the page's width, and ids carry the
# picture's name, so that many pictures can share a page. No picture relies on colour alone.
LEAST_TEXT = 9.0  # pixels: no text in a picture is shown smaller, a small window scrolls instead
SMALLEST = 7.0  # points: what is written that small is just above those pixels at full width


@contextmanager
def canvas(width: float, height: float) -> Iterator[Canvas]:
    """Return an empty picture of a size in inches, in the house style; pyplot is not used."""
    matplotlib = require("matplotlib", extra="report", feature="Drawing a figure")
    figures = require("matplotlib.figure", extra="report", feature="Drawing a figure")
    house = files("goalmeter.report").joinpath("pictures.mplstyle")
    with matplotlib.rc_context(fname=str(house)):
        yield figures.Figure(figsize=(width, height), layout="constrained")


def to_svg(figure: Canvas, name: str) -> str:
    """Return the picture as an `<svg>` element of a page.

    `name` is unique on the page: letters, digits and hyphens.
    """
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        # Names of ticks are made only when the picture is drawn: whoever sets them calls `visible`.
        text.set_text(visible(text.get_text(), lines=True))
    # Ids are made by hashing: with the salt they are the same in every process.
    out, metadata = io.StringIO(), {"Date": None, "Creator": None}
    with matplotlib.rc_context({"svg.hashsalt": name}):
        FigureCanvasSVG(figure)  # becomes the one whose measures of text count
        figure.set_dpi(72)  # as SVG is written
        # Everything is put into its place; else matplotlib draws the picture twice, once for that.
        if (layout := figure.get_layout_engine()) is not None:
            layout.execute(figure)
            figure.set_layout_engine("none")
        figure.savefig(out, format="svg", transparent=True, metadata=metadata)
    svg = re.sub(r"<metadata>.*?</metadata>", "", out.getvalue(), flags=re.DOTALL)
    svg = svg[svg.index("<svg") :]
    box = re.search(r'viewBox="[^"]*"', svg)
    assert box is not None, "matplotlib writes a viewBox"
    # The page decides the width, within limits; the viewBox keeps the proportions. Lengths in the
    # picture are points: 72 an inch, of which a page gives 96 pixels at most. At most it is as wide
    # as it was drawn, or its text would be larger than the page's; at least, all of it can be read.
    sizes = [float(size) for size in re.findall(r"font-size: ([\d.]+)px", svg)]
    most = math.ceil(figure.get_figwidth() * 96)
    least = math.ceil(figure.get_figwidth() * 72 * LEAST_TEXT / min(sizes)) if sizes else 0
    size = f'style="min-width: {min(least, most)}px; max-width: {most}px"'
    head = f'<svg xmlns:xlink="http://www.w3.org/1999/xlink" {box.group()} {size}'
    svg = head + ' xmlns="http://www.w3.org/2000/svg">' + svg.partition(">")[2]
    # matplotlib counts from 1 in each picture, and a page has many.
    return re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", svg).strip()
