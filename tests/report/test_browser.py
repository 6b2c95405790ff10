"""The page in a real browser: on a telephone in the dark, and in a window in the light."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from goalmeter.report import write_text
from goalmeter.report.canvas import DARK, MUTED, PAPER, contrast

from .browsing import asked
from .browsing import browser as browser  # a fixture
from .test_page import FINDING, sections, text_of

pytestmark = pytest.mark.browser
SCRIPT = """
  const texts = [];
  const walker = page.createTreeWalker(page.body, view.NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, parent = node.parentElement;
    if (!node.data.trim() || parent.closest("title, style, desc, defs, .skip")) continue;
    const svg = parent.closest("svg"), style = view.getComputedStyle(parent);
    let size = parseFloat(style.fontSize);
    if (svg) size *= svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
    texts.push([node.data.trim(), size, svg ? style.fill : style.color]);
  }
  const strokes = new Set();
  for (const line of page.querySelectorAll("svg path, svg use"))
    strokes.add(view.getComputedStyle(line).stroke);
  const links = [...page.querySelectorAll("a")]
    .map(link => [link.getAttribute("href"), !!page.querySelector(link.hash)]);
  const [wide, narrow] = [...page.querySelectorAll(".table .scroll")];
  const box = element => {
    const around = element.getBoundingClientRect();
    return [around.left, around.right];
  };
  const answers = [...wide.querySelectorAll("td.answer")].map(box);
  wide.scrollLeft = 200;
  await new Promise(done => setTimeout(done, 100));
  const kept = [box(wide.querySelector("tbody th"))[0], box(wide.querySelector("caption span"))[0]];
  const folds = [...page.querySelectorAll("main details")];
  const open = folds.map(fold => fold.open);
  const height = page.documentElement.scrollHeight;
  for (const fold of folds) fold.querySelector("summary").click();
  const folded = page.documentElement.scrollHeight;
  // As a click does; in the frame a click would go by the address of what is around it.
  view.location.hash = page.querySelector(".findings a").hash;
  await new Promise(done => setTimeout(done, 300));
  const place = page.getElementById(view.location.hash.slice(1)).getBoundingClientRect();
  return {
    texts, strokes: [...strokes], links, answers, kept, open, height, folded,
    unfolded: folds.map(fold => fold.open), place: [place.top, view.innerHeight],
    title: page.title, paper: view.getComputedStyle(page.body).backgroundColor,
    page: [view.innerWidth, page.documentElement.scrollWidth],
    tables: [wide, narrow].map(each => [each.clientWidth, each.scrollWidth]),
  };
"""


def rgb(colour: str) -> str:
    """A colour as a browser writes it, "rgb(31, 41, 51)", as "#rrggbb"."""
    parts = re.findall(r"[\d.]+", colour)
    return "#" + "".join(f"{round(float(part)):02x}" for part in parts[:3])


@pytest.mark.parametrize(("width", "scheme"), [(400, "dark"), (1200, "light")])
def test_everything_can_be_read_and_nothing_runs(
    browser: str, tmp_path: Path, width: int, scheme: str
) -> None:
    page = write_text(tmp_path / "report.html", text_of(sections()))
    seen: dict[str, Any] = asked(browser, page, tmp_path / "b", SCRIPT, width=width, scheme=scheme)
    assert seen["title"].startswith("Title <script>")
    inner, scroll = seen["page"]
    assert inner == width and scroll <= inner
    # No text is smaller than nine pixels, and all of it stands out from the ground.
    paper = PAPER if scheme == "light" else DARK[PAPER]
    assert rgb(seen["paper"]) == paper and len(seen["texts"]) > 150
    assert min(size for _, size, _ in seen["texts"]) >= 8.99
    for text, _, colour in seen["texts"]:
        # Numbers in cells have a ground of their own.
        if re.search("[a-z]{2}", text):
            assert contrast(rgb(colour), paper) >= 4.5, (text, colour)
    strokes = {rgb(stroke) for stroke in seen["strokes"] if stroke.startswith("rgb(")}
    blue = "#0072b2" if scheme == "light" else DARK["#0072b2"]
    assert blue in strokes and (MUTED in strokes) == (scheme == "light")
    # The answers are in sight; names and captions stay where they are while numbers scroll.
    (shown, all_of_it), (few, all_few) = seen["tables"]
    assert shown < all_of_it and few == all_few
    for left, right in seen["answers"]:
        assert 0 <= left < right <= width
    if width == 400:
        assert all(0 <= left < 60 for left in seen["kept"])
    # Sections fold, and a link leads into a folded one.
    assert all(there for _, there in seen["links"])
    assert [f"#{FINDING.links[0].to}", True] in seen["links"]
    assert seen["open"] == [True] * 4 and seen["folded"] < seen["height"] / 2
    assert seen["unfolded"] == [True, False, False, False]
    assert 0 <= seen["place"][0] < seen["place"][1]
