"""A report of a run that was probed, and how it looks in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from report.browsing import asked
from report.test_browser import browser as browser  # a fixture

from goalmeter._errors import InvalidFileError
from goalmeter.commands.runs import report_runs
from goalmeter.navigation import measure
from goalmeter.navigation.rollouts import load
from goalmeter.representation.replay import run_digest

from . import made
from .shown_parts import page_of


@pytest.fixture(scope="module")
def walks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("walked") / "walks"
    small: dict[str, Any] = {"sizes": [7], "complexities": [0.5], "grids": 2, "trajectories": 1}
    measure("wall-follower", **small, beside=[], out=folder)
    return folder


def test_a_report_shows_what_a_run_holds_and_nothing_else(walks: Path, tmp_path: Path) -> None:
    plain = report_runs([walks], tmp_path / "plain.html")
    text = (tmp_path / "plain.html").read_text("utf-8")
    assert "representation" not in plain.json["runs"][0] and "What is read of cells" not in text
    about = {"run": run_digest(load(walks).trajectories)}
    made.result(about=about).save(walks)
    told: list[str] = []
    try:
        probed = report_runs([walks], tmp_path / "probed.html", progress=told.append)
        text = (tmp_path / "probed.html").read_text("utf-8")
    finally:
        (walks / "probe" / "result.json").unlink()
    entry = probed.json["runs"][0]
    assert entry["agent"] == "wall-follower" and entry["representation"]["used"] == "used"
    # Behind the walks, on a page that keeps its title.
    assert text.index("does it plan?") < text.index("What is read of cells")
    assert "<h1>How agents behave in grid worlds</h1>" in text
    assert len(probed.tables) == len(plain.tables) + 2
    assert "drawing what was read of goalmeter/mouse" in told


def test_a_result_that_was_edited_is_one_clear_error(walks: Path, tmp_path: Path) -> None:
    about = {"run": run_digest(load(walks).trajectories)}
    made.result(about=about, believed={"meg_true": 1}).save(walks)
    try:
        with pytest.raises(InvalidFileError, match=r"walks cannot be shown .* probe the run again"):
            report_runs([walks], tmp_path / "page.html")
    finally:
        (walks / "probe" / "result.json").unlink()


@pytest.mark.browser
def test_on_a_telephone_nothing_runs_off_the_side_and_no_text_is_small(
    browser: str, tmp_path: Path
) -> None:
    page, _ = page_of(tmp_path, made.result())
    script = """
      const small = [];
      for (const text of page.querySelectorAll("svg text")) {
        const svg = text.closest("svg");
        const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
        const size = parseFloat(view.getComputedStyle(text).fontSize) * scale;
        if (size < 8.99) small.push([text.textContent, size]);
      }
      const maps = [...page.querySelectorAll("figure")]
        .filter(figure => figure.textContent.includes("as it is"))
        .map(figure => figure.querySelector(".scroll"))
        .map(box => box.scrollWidth - box.clientWidth);
      const strokes = new Set();
      for (const line of page.querySelectorAll("svg path"))
        strokes.add(view.getComputedStyle(line).stroke);
      return [view.innerWidth, page.documentElement.scrollWidth, small, maps, [...strokes]];
    """
    inner, wide, small, maps, strokes = asked(
        browser, page, tmp_path / "b", script, width=400, scheme="dark"
    )
    assert inner == 400 and wide <= inner
    assert small == []
    # A map of a state is seen whole.
    assert len(maps) == 4 and max(maps) == 0
    # The green of used cells is another one in the dark.
    assert "rgb(0, 158, 115)" not in strokes
