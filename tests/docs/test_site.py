"""The site in a real browser: search, both schemes of colours, two widths, axe, no requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ..report.browsing import browser as browser  # a fixture
from .site import build_site, visit

# One worker builds the site and opens it.
pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("site")]
PAGES = (
    "index",
    "reference",
    "reference/goalmeter.organisms",
    "environments/reflection/CryingBaby",
)
SEARCH = "search.html?q=interval"
SCRIPT = """
  const wait = milliseconds => new Promise(done => setTimeout(done, milliseconds));
  const found = () => [...page.querySelectorAll("#search-results li a")].map(a => a.textContent);
  const summary = () => page.querySelector(".search-summary")?.textContent;
  const isDone = () => /found [0-9]+ pages/.test(summary());
  for (let n = 0; n < 100 && view.location.search && !isDone(); n++) await wait(100);
  const origin = view.location.origin;
  const requests = view.performance.getEntriesByType("resource").map(entry => entry.name);
  const load = src => new Promise(done => {
    const script = page.createElement("script");
    script.onload = done; script.src = src; page.head.append(script);
  });
  const light = colour => colour.match(/\\d+/g).slice(0, 3).reduce((a, b) => +a + +b, 0) / 765;
  const answer = {
    results: found(),
    outside: requests.filter(name => !name.startsWith(origin)),
    light: light(view.getComputedStyle(page.body).backgroundColor),
    width: [view.innerWidth, page.documentElement.scrollWidth],
  };
  if (AXE) {
    await load("/axe.js");
    const checked = await view.axe.run({exclude: ["table tr:nth-child(n+6)"]});
    answer.passed = checked.passes.length;
    answer.wrong = checked.violations.map(v => [v.id, v.nodes.map(n => n.html + n.failureSummary)]);
  }
  return answer;
"""


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_site(tmp_path_factory.mktemp("site"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everybody_can_read_and_search_the_site(browser: str, site: Path, scheme: str) -> None:
    guides = sorted(path.relative_to(site).as_posix() for path in site.glob("guides/*.html"))
    pages = [*(f"{page}.html" for page in PAGES), *guides[:1], SEARCH]
    visits = [(page, width) for page in pages for width in (400, 1280)]
    script = f"const AXE = true;{SCRIPT}"
    answers, logged = visit(browser, site, visits, script, scheme)
    assert logged == []
    for name, answer in answers.items():
        assert answer["wrong"] == [] and answer["passed"] > 15, name
        assert (answer["light"] > 0.5) == (scheme == "light"), name
        check_page(name, answer)
        assert len(answer["results"]) >= 3 or SEARCH not in name, name


def test_no_page_scrolls_sideways_or_asks_another_server(browser: str, site: Path) -> None:
    pages = sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html"))
    visits = [(page, 400) for page in pages if page != "probe.html"]
    assert len(visits) > 40
    answers, logged = visit(browser, site, visits, f"const AXE = false;{SCRIPT}", "light")
    assert logged == []
    for name, answer in answers.items():
        check_page(name, answer)


# What a new user asks -> a page that answers, among the first results.
QUESTIONS = {
    "SB3 policy": "Your Stable-Baselines3 policy",
    "my logs": "Your logs",
    "certified": "goalmeter",
    "open interval": "Errors",
    "upper bound": "Intervals, verdicts and margins",
    "vLLM": "Your language model",
    "causal model": "Your causal model",
    "gymnasium environment": "Your Gymnasium environment",
    "resume run": "Clusters",
    "policy shape": "Errors",
    "CryingBaby": "CryingBaby",
    "known_utility": "goalmeter.meg.known_utility",
}
FIRST_RESULTS = 8


def test_questions_are_answered_by_one_search(browser: str, site: Path) -> None:
    visits = [(f"search.html?q={'+'.join(words.split())}", 1280) for words in QUESTIONS]
    answers, _ = visit(browser, site, visits, f"const AXE = false;{SCRIPT}", "light")
    found = [answer["results"][:FIRST_RESULTS] for answer in answers.values()]
    pairs = zip(QUESTIONS.items(), found, strict=True)
    assert {words: titles for (words, page), titles in pairs if page not in titles} == {}


def check_page(name: str, answer: dict[str, Any]) -> None:
    """Check what holds of every page: no other server, nothing wider than the window."""
    inner, scrolled = answer["width"]
    assert scrolled <= inner and name.endswith(f"at {inner}"), name
    assert answer["outside"] == [], name


FAULTY = """<!DOCTYPE html><meta charset="utf-8"><title>A page</title>
<link rel="icon" href="data:,"><p style="width: 500px">Wide.</p><img src="http://127.0.0.1:9/figure.png">
<script>console.error("a fault")</script>"""


def test_faults_of_a_page_are_seen(browser: str, tmp_path: Path) -> None:
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "faulty.html").write_text(FAULTY, encoding="utf-8")
    visits = [("faulty.html", 400)]
    answers, logged = visit(browser, folder, visits, f"const AXE = true;{SCRIPT}", "light")
    (answer,) = answers.values()
    inner, scrolled = answer["width"]
    assert inner == 400 < scrolled
    assert answer["outside"] == ["http://127.0.0.1:9/figure.png"]
    assert "image-alt" in [name for name, _ in answer["wrong"]]
    assert any("a fault" in line for line in logged)
