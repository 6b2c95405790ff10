"""The page in a real browser: everything is there, no text runs, nothing runs off the side."""

from __future__ import annotations

import html
import os
import re
import shutil
from pathlib import Path

import pytest

from goalmeter.report import write_report

from .browsing import run
from .sample import HOSTILE, WRITE, sections

pytestmark = pytest.mark.browser
NAMES = ("chromium", "chromium-browser", "google-chrome")
# Small enough to be narrower than any table, and the width of a desktop window.
WIDTHS = (400, 768, 1400)


@pytest.fixture(scope="module")
def browser() -> str:
    for name in NAMES:
        if path := shutil.which(name):
            return path
    message = f"no browser: install Chromium, so that one of {', '.join(NAMES)} is on the PATH"
    if os.environ.get("GOALMETER_REQUIRE_BROWSER") == "1":
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    return write_report(path, f"Title {HOSTILE}", sections(), **WRITE)  # type: ignore[arg-type]


def test_every_section_is_there_and_no_text_runs(browser: str, page: Path, tmp_path: Path) -> None:
    dom = run(browser, page, tmp_path, "--dump-dom")
    headings = [html.unescape(h) for h in re.findall(r"<h2[^>]*>(.*?)</h2>", dom)]
    for title in ("In short", f"First {HOSTILE}", "Pictures", "What each number means"):
        assert title in headings
    assert dom.count("<svg") == 3 and dom.count("<tr") == 3
    assert "<script" not in dom
    title = re.search(r"<title>(.*?)</title>", dom, re.DOTALL)
    assert title and html.unescape(title[1]) == f"Title {HOSTILE}"


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_runs_off_the_side(browser: str, page: Path, tmp_path: Path, width: int) -> None:
    # In a frame, because a browser's window has a least width of its own.
    text = html.escape(page.read_text(encoding="utf-8"))
    probe = tmp_path / "probe.html"
    probe.write_text(
        f"""<!DOCTYPE html><title></title>
        <iframe style="width: {width}px; height: 900px; border: 0" srcdoc="{text}"></iframe>
        <script>
        const frame = document.querySelector("iframe");
        frame.onload = () => {{
          const page = frame.contentDocument;
          const picture = page.querySelector("svg").getBoundingClientRect();
          document.title = [frame.contentWindow.innerWidth, page.documentElement.scrollWidth,
                            picture.width].join(" ");
        }};
        </script>""",
        encoding="utf-8",
    )
    dom = run(browser, probe, tmp_path / "profile", "--window-size=1600,900", "--dump-dom")
    title = re.search(r"<title>([\d. ]+)</title>", dom)
    assert title, "the page did not load in the frame"
    inner, scroll, picture = (float(word) for word in title[1].split())
    assert inner == width
    assert scroll <= inner
    assert 200 < picture <= inner


@pytest.mark.parametrize("width", (400, 1280))
def test_a_screenshot_shows_ink(browser: str, page: Path, tmp_path: Path, width: int) -> None:
    shot = tmp_path / "shot.png"
    run(browser, page, tmp_path / "p", f"--window-size={width},900", f"--screenshot={shot}")
    import matplotlib.image

    pixels = matplotlib.image.imread(shot)[..., :3]
    assert pixels.shape[1] == width
    dark = (pixels.max(axis=-1) < 0.5).mean()
    assert 0.005 < dark < 0.5
