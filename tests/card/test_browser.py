"""Cards in a real browser: the first screen fits, nothing is cut, axe finds nothing wrong."""

from __future__ import annotations

import re
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from goalmeter.card.compare import compare_cards
from goalmeter.card.page import render_card, render_comparison
from goalmeter.card.records import Card, read_card

from ..report.browsing import asked
from ..report.browsing import browser as browser  # a fixture
from .example_cards import ROWS, card, row
from .invented import LANGUAGE_MODEL, POLICY, details, maze

pytestmark = pytest.mark.browser
ROOT = Path(__file__).parents[2]
SCRIPT = """
  const boxes = [...page.querySelectorAll("#first-screen *")].map(e => e.getBoundingClientRect());
  const over = [];
  for (const line of page.querySelectorAll(".scale .line"))
    for (const mark of line.children) {
      const [a, b] = [mark.getBoundingClientRect(), line.getBoundingClientRect()];
      if (a.left < b.left - 7 || a.right > b.right + 7) over.push(mark.className);
    }
  const folded = [...page.querySelectorAll("details")].filter(fold => !fold.open).length;
  for (const fold of page.querySelectorAll("details")) fold.open = true;
  const found = await view.axe.run({exclude: ["details tr:nth-child(n+4)"]});
  return {
    bottom: Math.max(0, ...boxes.map(box => box.bottom)), over, folded,
    passed: found.passes.length,
    wrong: found.violations.map(v => [v.id, v.nodes.map(n => n.html + n.failureSummary)]),
    page: [view.innerWidth, page.documentElement.scrollWidth, page.documentElement.scrollHeight],
  };
"""


def axe() -> str:
    """The script of axe-core, which the page itself would not allow."""
    package = find_spec("axe_core_python")
    assert package and package.origin, "install axe-core-python, of the extra dev"
    return Path(package.origin).with_name("axe.min.js").read_text("utf-8")


def shown(browser: str, text: str, folder: Path, width: int, scheme: str) -> dict[str, Any]:
    """What the script says of a page, to which axe-core is added."""
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    page = folder / "page.html"
    page.write_text(text.replace("</body>", f"<script>{axe()}</script></body>"), "utf-8")
    seen: dict[str, Any] = asked(browser, page, folder / "b", SCRIPT, width=width, scheme=scheme)
    return seen


@pytest.mark.parametrize(
    ("card", "wide", "width", "scheme"),
    [
        (LANGUAGE_MODEL, False, 1280, "light"),
        (LANGUAGE_MODEL, False, 400, "dark"),
        (POLICY, True, 400, "light"),
    ],
)
def test_the_first_screen_fits_and_everybody_can_read_the_card(
    browser: str, tmp_path: Path, card: Card, wide: bool, width: int, scheme: str
) -> None:
    many = 5 if width == 1280 else 1
    text = render_card(card, figure=maze(wide=wide), details=details(rows=200 * many) * many)
    seen = shown(browser, text, tmp_path, width, scheme)
    assert seen["wrong"] == [] and seen["passed"] > 15
    assert seen["bottom"] <= 800 and seen["over"] == [] and seen["folded"] == 3 * many
    inner, scrolled, height = seen["page"]
    assert inner == width and scrolled <= inner
    assert width == 400 or height < 20_000


def test_a_card_prints_to_two_pages(browser: str, tmp_path: Path) -> None:
    """The first screen and the table; whatever else the page has is named, not printed."""
    text = render_card(LANGUAGE_MODEL, figure=maze(), details=details(rows=200) * 3)
    (tmp_path / "card.html").write_text(text, "utf-8")
    options = ("headless=new", "no-sandbox", "disable-gpu", f"user-data-dir={tmp_path / 'b'}")
    pdf = tmp_path / "card.pdf"
    command = [browser, *(f"--{option}" for option in options), f"--print-to-pdf={pdf}"]
    subprocess.run(
        [*command, (tmp_path / "card.html").as_uri()], check=True, capture_output=True, timeout=120
    )
    assert re.findall(rb"/Count (\d+)", pdf.read_bytes()) == [b"2"]


@pytest.mark.parametrize(("width", "scheme"), [(1280, "dark"), (400, "light")])
def test_everybody_can_read_a_comparison(
    browser: str, tmp_path: Path, width: int, scheme: str
) -> None:
    long = row("long", 0.5, lower=0.4, upper=0.6)
    cards = [card(f"organisation/a-model-with-a-name-{n}", [*ROWS, long]) for n in range(4)]
    made = compare_cards(cards, [tmp_path] * 4)
    links = dict.fromkeys(made.cards, "a card/card.html")
    text = render_comparison(made, links=links, provenance=["Made by a test."])
    seen = shown(browser, text, tmp_path, width, scheme)
    assert seen["wrong"] == [] and seen["passed"] > 15
    assert seen["over"] == [] and seen["folded"] == 1
    inner, scrolled, _ = seen["page"]
    assert inner == width and scrolled <= inner


def test_the_picture_of_the_readme_is_the_first_screen_of_a_card() -> None:
    """The picture was taken of this card; the README has its numbers."""
    card = read_card(ROOT / "docs" / "results" / "card-mole.json")
    readme = (ROOT / "README.md").read_text("utf-8")
    own, world = card.row("meg_own_map"), card.row("meg")
    assert own is not None and world is not None and own.value and world.value
    assert f"({world.value:.0%} of the maximum)" in readme and f"({own.value:.0%})" in readme
    assert card.headline.removeprefix("mole pursues ") in readme.replace("\n", " ")
    picture = (ROOT / "docs" / "images" / "card.png").read_bytes()
    assert picture[:8] == b"\x89PNG\r\n\x1a\n" and picture[16:20] == (1280).to_bytes(4, "big")
