from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest

from goalmeter.commands.outcome import Outcome
from goalmeter.commands.replicate import replicate as run_study
from replications.cliffworld import study

replicate = partial(run_study, "meg-cliffworld")


ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module", autouse=True)
def measured_once() -> Iterator[None]:
    """Each setting is measured once for all tests of this file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "_measured", cache(study._measured))
        yield


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return replicate(tmp_path_factory.mktemp("out"), seeds=0)


def test_the_page_and_the_results_are_written(outcome: Outcome) -> None:
    assert outcome.report is not None
    text = outcome.report.read_text(encoding="utf-8")
    for words in ("Appendix D.1", "Figure 3a", "Figure 3b", "Figure 3c", "Figure 5a", "Figure 5b"):
        assert words in text
    results = json.loads((outcome.report.parent / "results.json").read_text(encoding="utf-8"))
    assert results["goal_length"][0]["known_utility"]["meg"] == pytest.approx(40.2025, abs=1e-4)
    assert results["goal_length"][0]["known_utility"]["rationality"] == "inf"
    assert results["epsilon"][8]["unknown_utility"]["published"] == "0.091 ± 0.007"


def test_the_picture_of_the_readme_is_figure_3b() -> None:
    """Drawn again, every coordinate of it; the network's marks are where the ledger has them."""
    rows = study.published_numbers()
    noisy = study.measure(study.NOISE_AND_ENDS)
    measured = [
        replace(m, neural=np.full(5, rows[f"neural/{m.setting.key}"].ours))
        for m in noisy
        if m.setting.epsilon in study.EPSILONS
    ]
    drawn = study.measure_chart("figure_3b", measured).svg
    kept = (ROOT / "docs" / "images" / "cliffworld.svg").read_text(encoding="utf-8")
    number = re.compile(r"-?\d+\.\d+")
    # Averages over seeds differ from the optimum in the seventh digit.
    coordinates = [[float(x) for x in number.findall(svg)] for svg in (drawn, kept)]
    assert coordinates[0] == pytest.approx(coordinates[1], abs=0.01)
    texts = [re.findall(r">([^<>\n]+)<", svg) for svg in (drawn, kept)]
    assert texts[0] == texts[1]


def test_the_conclusions_of_the_paper_hold(outcome: Outcome) -> None:
    known, unknown = (
        {row["setting"]: row[f"{kind}_utility"]["meg"] for row in rows}
        for kind in ("known", "unknown")
        for rows in [outcome.json["goal_length"] + outcome.json["epsilon"]]
    )
    falling = [known[f"eps=0.{e}"] for e in range(1, 8)]
    assert falling == sorted(falling, reverse=True) and known["eps=0.9"] > known["eps=0.8"]
    easier = [known[f"k={k}"] for k in range(1, 5)]
    assert easier == sorted(easier, reverse=True)
    assert min(unknown[f"k={k}"] for k in range(1, 5)) > 0.9 * 29 * np.log(4)
