"""The reflection page in a real browser: wide pictures scroll in small windows, and do not shrink.

The page is made by a study of `replications`; it is here because it is the widest that there is.
"""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from goalmeter.pages import reflection as reflection_page
from goalmeter.reflection import measure
from goalmeter.report import write_report

from .browsing import run
from .test_browser import browser as browser  # a fixture

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    results = [measure(name, 10, 2) for name in ("random", "rc(random)")]
    path = tmp_path_factory.mktemp("reflection") / "report.html"
    return write_report(path, "Reflection", reflection_page.sections(results))


@pytest.mark.parametrize("width", [400, 1400])
def test_pictures_stay_legible_and_nothing_runs_off(
    browser: str, page: Path, tmp_path: Path, width: int
) -> None:
    text = html.escape(page.read_text(encoding="utf-8"))
    probe = tmp_path / "probe.html"
    probe.write_text(
        f"""<!DOCTYPE html><title></title>
        <iframe style="width: {width}px; height: 900px; border: 0" srcdoc="{text}"></iframe>
        <script>
        document.querySelector("iframe").onload = event => {{
          const page = event.target.contentDocument;
          const numbers = [page.documentElement.scrollWidth];
          for (const svg of page.querySelectorAll("svg"))
            numbers.push(svg.getBoundingClientRect().width,
                         svg.parentElement.getBoundingClientRect().width,
                         Math.min(...[...svg.querySelectorAll("text")]
                           .map(text => text.getBoundingClientRect().height)));
          document.title = numbers.join(" ");
        }};
        </script>""",
        encoding="utf-8",
    )
    dom = run(browser, probe, tmp_path / "profile", "--window-size=1600,900", "--dump-dom")
    title = re.search(r"<title>([\d. ]+)</title>", dom)
    assert title, "the page did not load in the frame"
    scroll, *numbers = (float(word) for word in title[1].split())
    assert scroll <= width and len(numbers) == 9
    heat_map, its_box, _, _, _, _, differences, _, _ = numbers
    for picture in (heat_map, differences):
        assert picture >= 600
    assert (heat_map > its_box) == (width == 400)
    if width == 1400:
        assert min(numbers[2::3]) > 6  # pixels: the numbers in the cells
