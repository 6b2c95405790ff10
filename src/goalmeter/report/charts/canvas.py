"""Pictures as inline SVG: the same bytes for the same numbers, and one look for all.

Text in the pictures stays text (it takes the page's typeface and scales with it), lengths are
relative to the page's width, and every id carries the picture's name, so that many pictures
can share a page. Colours are those of Okabe and Ito, which stay apart for colour-blind readers;
no picture relies on colour alone, and a dark page can change them (see `colours`).
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from goalmeter._errors import require
from goalmeter._text import visible
from goalmeter.report.charts.colours import INK, MUTED, RULE

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

LEAST_TEXT = 9.0  # pixels: no text in a picture is shown smaller, a small window scrolls instead
SMALLEST = 7.0  # points: what is written that small is just above those pixels at full width

_STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans",  # shipped with matplotlib, and wide: what replaces it fits
    "font.size": 9,
    "axes.labelsize": 9,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": False,
    "grid.color": RULE,
    "grid.linewidth": 0.5,
    "hatch.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.6,
    "lines.markersize": 5.5,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
}


@contextmanager
def canvas(width: float, height: float) -> Iterator[Canvas]:
    """An empty picture of some size in inches, in the house style.

    It is drawn on without pyplot, so no global state and no display are involved.
    """
    matplotlib = require("matplotlib", extra="report", feature="Drawing a figure")
    figures = require("matplotlib.figure", extra="report", feature="Drawing a figure")
    with matplotlib.rc_context(_STYLE):
        yield figures.Figure(figsize=(width, height), layout="constrained")


def to_svg(figure: Canvas, name: str) -> str:
    """The picture as an <svg> element to be put into a page.

    Args:
        figure: drawn inside `canvas`.
        name: unique on the page; letters, digits and hyphens.
    """
    import matplotlib
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        # Names of ticks are made only when the picture is drawn: whoever sets them calls `visible`.
        text.set_text(visible(text.get_text(), lines=True))
        text.set_parse_math(False)  # a $ in a name is no formula
    out = io.StringIO()
    # Ids are made by hashing: with the salt they are the same in every process. A picture that was
    # laid out stays as it is, whatever a user has set.
    with matplotlib.rc_context(
        {
            "svg.hashsalt": name,
            "figure.autolayout": False,
            "figure.constrained_layout.use": False,
        }
    ):
        _lay_out(figure)
        figure.savefig(
            out, format="svg", transparent=True, metadata={"Date": None, "Creator": None}
        )
    svg = out.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    # The page decides the width, within limits; the viewBox keeps the proportions.
    size = f'style="{_widths(svg, figure.get_figwidth())}"'
    box = re.search(r'viewBox="[^"]*"', svg)
    assert box is not None, "matplotlib writes a viewBox"
    head = f'<svg xmlns:xlink="http://www.w3.org/1999/xlink" {box.group()} {size}'
    svg = head + ' xmlns="http://www.w3.org/2000/svg">' + svg.partition(">")[2]
    # matplotlib counts from 1 in each picture, and a page has many.
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', svg)
    svg = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", svg)
    return svg.strip()


def _lay_out(figure: Canvas) -> None:
    """Put everything into its place; else matplotlib draws the picture twice, once for that."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    FigureCanvasSVG(figure)  # becomes the one whose measures of text count
    figure.set_dpi(72)  # as SVG is written
    if (layout := figure.get_layout_engine()) is not None:
        layout.execute(figure)
        figure.set_layout_engine(None)


def _widths(svg: str, inches: float) -> str:
    """The least width at which all text can be read, and the greatest, as a style.

    Lengths in the picture are points: 72 an inch, of which a page gives 96 pixels at most.
    """
    sizes = [float(size) for size in re.findall(r"font-size: ([\d.]+)px", svg)]
    # At most as wide as it was drawn, or its text would be larger than the page's.
    most = math.ceil(inches * 96)
    least = math.ceil(inches * 72 * LEAST_TEXT / min(sizes)) if sizes else 0
    return f"min-width: {min(least, most)}px; max-width: {most}px"
