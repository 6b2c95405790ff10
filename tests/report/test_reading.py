"""The page as it is read: by night, on a telephone, folded, and from one place to another."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from goalmeter.report import Cell, Column, Figure, Finding, Link, Section, Table, write_report
from goalmeter.report.canvas import DARK, INK, PAPER, contrast
from goalmeter.report.charts import (
    Curve,
    DotPanel,
    Dots,
    Panel,
    curve_chart,
    dot_chart,
    heat_map,
    step_bars,
)
from goalmeter.report.maps import Marks, Move, grid_map, walk_map

from .browsing import asked
from .test_browser import browser as browser  # a fixture

pytestmark = pytest.mark.browser
PHONE = 400
# Every text that is shown in the page or a picture: its size as it is seen, its colour.
TEXTS = """
  const out = [];
  const walker = page.createTreeWalker(page.body, view.NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, parent = node.parentElement;
    if (!node.data.trim() || parent.closest("title, style, desc") || parent.closest(".skip"))
      continue;
    let size = parseFloat(view.getComputedStyle(parent).fontSize);
    const svg = parent.closest("svg");
    if (svg) size *= svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
    const style = view.getComputedStyle(parent);
    out.push([node.data.trim(), size, svg ? style.fill : style.color, svg ? "svg" : "html"]);
  }
  return out;
"""


def pictures() -> tuple[Figure, ...]:
    """One of each kind of picture that a report can hold."""
    walls = np.array([[c == "#" for c in row] for row in ("#####", "#___#", "#####")])
    dots = Dots(label="d", values=[0.5, 0.7], intervals=[(0.4, 0.6), (0.6, 0.8)])
    series = [Curve(label="one", x=[1, 2], y=[1, 20])]
    svgs = {
        "map": grid_map("g", [[0, 1], [2, 3]], label="l", palette="visits", marks=Marks({0: "S"})),
        "log": curve_chart("l", series, x_label="x", y_label="y", log=True),
        "line": curve_chart("n", series, x_label="x", y_label="y", levels=[(2.5, "most")]),
        "bars": step_bars("b", [("a", [0.1, 0.2], "C0")], limit=1.0, limit_label="most"),
        "curve": curve_chart("c", [Curve(label="a", x=[1, 2], y=[1, 2])], x_label="x", y_label="y"),
        "dots": dot_chart("d", ["an agent", "b"], [DotPanel(x_label="x", series=(dots,))] * 2),
        "heat": heat_map(
            "h",
            [Panel(title="p", values=np.linspace(-1, 1, 60).reshape(2, 30))],
            rows=["a", "b"],
            columns=[f"environment {i}" for i in range(30)],
            label="l",
            limit=1.0,
        ),
        "walk": walk_map("w", walls, {(1, 1): "S"}, [Move((1, 1), (1, 2), good=True)]),
    }
    return tuple(Figure(svg=svg, alt=name, caption=name) for name, svg in svgs.items())


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    wide = Table(
        caption="Who wants what",
        anchor="who",
        columns=(
            Column("agent", numeric=False),
            Column("wants", numeric=False, answer=True),
            *(Column(f"number {i}", group="many numbers") for i in range(9)),
        ),
        rows=(
            ("goalmeter/magpie", "wants the key", *["12.34 [11.2, 13.9]"] * 9),
            ("a/name-that-is-rather-long-for-a-telephone", "nothing", *["0"] * 8, Cell("1", 0.5)),
        ),
        meaning="It means something.",
    )
    narrow = Table(caption="Few columns", columns=("a", "b"), rows=(("1", "2"),), meaning="m")
    sections = [
        Section(title="Tables", text=("Some words.",), tables=(wide, narrow)),
        Section(title="Pictures", figures=pictures()),
    ]
    findings = [
        Finding(
            lead="magpie: wants the key.",
            text="So it was measured.",
            links=(
                Link("numbers", wide.row_anchor("goalmeter/magpie")),
                Link("pictures", "pictures"),
            ),
        ),
        "A sentence without a way to anything.",
    ]
    path = tmp_path_factory.mktemp("reading") / "report.html"
    return write_report(path, "A title", sections, findings=findings, glossary={"MEG": "a number"})


def rgb(colour: str) -> str:
    """A colour as a browser writes it, "rgb(31, 41, 51)", as "#rrggbb"."""
    parts = re.findall(r"[\d.]+", colour)
    return "#" + "".join(f"{round(float(part)):02x}" for part in parts[:3])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_read_in_either_scheme(
    browser: str, page: Path, tmp_path: Path, scheme: str
) -> None:
    ground = asked(
        browser,
        page,
        tmp_path,
        "return view.getComputedStyle(page.body).backgroundColor;",
        scheme=scheme,
    )
    paper = PAPER if scheme == "light" else DARK[PAPER]
    assert rgb(ground) == paper
    texts = asked(browser, page, tmp_path, TEXTS, scheme=scheme)
    assert {kind for *_, kind in texts} == {"svg", "html"}
    # Numbers in cells have a ground of their own, and a test of their own in test_schemes.
    on_paper = [(text, rgb(colour)) for text, _, colour, _ in texts if re.search("[a-z]{2}", text)]
    assert len(on_paper) > 60
    for text, colour in on_paper:
        assert contrast(colour, paper) >= 4.5, (text, colour)


def test_the_lines_of_pictures_follow_the_scheme(browser: str, page: Path, tmp_path: Path) -> None:
    script = """
      const strokes = new Set();
      for (const line of page.querySelectorAll("svg path, svg use"))
        strokes.add(view.getComputedStyle(line).stroke);
      return [...strokes];
    """
    light, dark = (
        {
            rgb(stroke)
            for stroke in asked(browser, page, tmp_path / scheme, script, scheme=scheme)
            if stroke.startswith("rgb(")
        }
        for scheme in ("light", "dark")
    )
    assert "#0072b2" in light and DARK["#0072b2"] in dark and "#0072b2" not in dark
    assert INK not in dark


@pytest.mark.parametrize("width", [PHONE, 1200])
def test_no_text_is_smaller_than_nine_pixels(
    browser: str, page: Path, tmp_path: Path, width: int
) -> None:
    texts = asked(browser, page, tmp_path, TEXTS, width=width)
    assert len(texts) > 150
    smallest = sorted((size, text) for text, size, *_ in texts)[:3]
    assert smallest[0][0] >= 8.99, smallest


def test_on_a_telephone_the_answer_is_seen_and_the_rest_is_announced(
    browser: str, page: Path, tmp_path: Path
) -> None:
    script = """
      const box = element => {
        const around = element.getBoundingClientRect();
        return [around.left, around.right];
      };
      const [wide, narrow] = [...page.querySelectorAll(".table .scroll")];
      const shown = element => parseFloat(view.getComputedStyle(element, "::before").height);
      const name = wide.querySelector("tbody th");
      const answers = [...wide.querySelectorAll("td.answer")].map(box);
      // The cue follows the scrolling, which the browser has measured when it has drawn a frame.
      for (let tries = 0; tries < 100 && !(shown(wide) > 0); tries++)
        await new Promise(done => setTimeout(done, 50));
      const before = [shown(wide), shown(narrow)];
      wide.scrollLeft = 200;
      await new Promise(done => setTimeout(done, 100));
      return {
        page: [view.innerWidth, page.documentElement.scrollWidth],
        wide: [wide.clientWidth, wide.scrollWidth],
        narrow: [narrow.clientWidth, narrow.scrollWidth],
        shadow: view.getComputedStyle(wide).backgroundImage,
        answers, before, name: box(name), caption: box(wide.querySelector("caption span")),
      };
    """
    seen: dict[str, Any] = asked(browser, page, tmp_path, script, width=PHONE)
    inner, scroll = seen["page"]
    assert inner == PHONE and scroll <= inner
    assert len(seen["answers"]) == 2
    for left, right in seen["answers"]:
        assert 0 <= left < right <= PHONE
    # What is wider than the box says so; what fits does not.
    assert seen["wide"][1] > seen["wide"][0] and seen["narrow"][1] == seen["narrow"][0]
    assert seen["before"][0] > 9 and seen["before"][1] == 0
    assert seen["shadow"].count("linear-gradient") == 4
    # Names and captions stay where they are while numbers scroll.
    assert 0 <= seen["name"][0] < 20 and 0 <= seen["caption"][0] < 20


def test_sections_fold_and_links_lead_into_folded_ones(
    browser: str, page: Path, tmp_path: Path
) -> None:
    script = """
      const folds = [...page.querySelectorAll("main details")];
      const open = folds.map(fold => fold.open);
      const height = page.documentElement.scrollHeight;
      for (const fold of folds) fold.querySelector("summary").click();
      const folded = folds.map(fold => fold.open);
      const headings = [...page.querySelectorAll("main h2")].map(h => h.checkVisibility());
      const small = page.documentElement.scrollHeight;
      const link = page.querySelector(".findings a");
      // As a click does; in the frame a click would go by the address of what is around it.
      view.location.hash = link.hash;
      await new Promise(done => setTimeout(done, 300));
      const row = page.getElementById(link.hash.slice(1));
      return { open, height, folded, headings, small, unfolded: folds.map(fold => fold.open),
               top: row.getBoundingClientRect().top, high: view.innerHeight };
    """
    seen = asked(browser, page, tmp_path, script)
    assert seen["open"] == [True] * 3 and seen["folded"] == [False] * 3
    assert seen["headings"] == [True] * 3 and seen["small"] < seen["height"] / 2
    # The row that the link leads to is in the first section, which the browser unfolds.
    assert seen["unfolded"] == [True, False, False]
    assert 0 <= seen["top"] < seen["high"]


def test_every_link_leads_to_a_place_on_the_page(browser: str, page: Path, tmp_path: Path) -> None:
    script = """
      return [...page.querySelectorAll("a")]
        .map(link => [link.getAttribute("href"), !!page.querySelector(link.hash)]);
    """
    links = asked(browser, page, tmp_path, script)
    assert ["#who-goalmeter-magpie", True] in links and len(links) == 6
    assert all(there for _, there in links), links
