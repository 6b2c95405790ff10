"""`goalmeter replicate calibration`: what it writes, what it refuses, and its page."""

from __future__ import annotations

import json
import sys
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from goalmeter import GoalmeterError, MissingExtraError
from goalmeter.commands.replicate import replicate as run_study
from goalmeter.commands.walks import IDEAL, TRAINED, require_models
from goalmeter.organisms.kinds import ORGANISMS
from replications.calibration import study as command
from replications.calibration.instruments import QUESTIONS, Scale
from replications.calibration.population import scores
from replications.calibration.population.evidence import PopulationScale
from replications.calibration.population.scores import calibrate_population
from replications.calibration.study import AGENTS

replicate = partial(run_study, "calibration")


NAMES = "ideal-mouse,ideal-mole,key-seeker,random"
FEW = PopulationScale(agents=15, grids=1, sizes=(7,), complexities=(0.0, 0.5), walks=1)


@pytest.fixture(scope="module")
def small() -> Any:
    # The populations of a scale are made once, whatever the seed: no test compares them.
    calibrations = cache(lambda scale: calibrate_population(scale))
    with pytest.MonkeyPatch.context() as patch:
        scale = Scale(walks=2, sizes=(7,), complexities=(0.5, 1.0), key_worlds=1)
        patch.setattr(command, "SCALE", scale)
        patch.setattr(command, "POPULATION", FEW)
        patch.setattr(command, "calibrate_population", lambda scale, **_: calibrations(scale))
        patch.setattr(scores, "RESAMPLES", 20)
        yield


@pytest.mark.slow
def test_the_command_writes_what_it_measured(small: None, tmp_path: Path) -> None:
    told: list[str] = []
    outcome = replicate(tmp_path, seeds=1, agents=NAMES, progress=told.append)
    results = json.loads((tmp_path / "results.json").read_text())
    assert [agent["name"] for agent in results["agents"]] == NAMES.split(",")
    assert [agent["map"] for agent in results["agents"]] == [None, "mole", None, None]
    assert {verdict["question"] for verdict in results["verdicts"]} == set(QUESTIONS)
    areas = {(v["question"], v["instrument"]): v["area"]["value"] for v in results["verdicts"]}
    assert areas["directed", "meg_goal"] == areas["target", "goal_less_key"] == 1
    assert len(results["population"]["populations"][1]["agents"]) == FEW.agents
    by_caption = {table.caption: table for table in outcome.tables}
    assert len(by_caption) == len(outcome.tables) == 11 + 5
    for caption in ("To tell the goal-directed from the aimless", "What is known"):
        assert len(by_caption[caption].rows) == 4
    assert "<!-- table: What is known -->" in (tmp_path / "tables.md").read_text()
    report = (tmp_path / "report.html").read_text()
    assert "Calibration of the instruments" in report and "key-seeker" in report
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {
        "calibration-areas.svg",
        *(f"learnt-ideal-{n}-{s}.svg" for n in ("mouse", "mole") for s in ("maze", "key-no-door")),
    }
    assert told[-1] == "utilities in key-door: 4 of 4 fits"
    with pytest.raises(GoalmeterError, match="seed is 0 there, and 3 here"):
        replicate(tmp_path, seeds=1, seed=3, agents=NAMES)


def test_without_other_agents_the_populations_are_all_there_is(small: None, tmp_path: Path) -> None:
    outcome = replicate(tmp_path, seeds=1, agents="none")
    results = json.loads((tmp_path / "results.json").read_text())
    assert "verdicts" not in results and results["findings"] == outcome.text.splitlines()
    assert results["population"]["scale"]["grids"] == 1
    assert not (tmp_path / "walks").exists() and len(outcome.tables) == 11


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"seeds": 0}, "seeds is 0, expected at least 1"),
        ({"agents": "optimal,greedy"}, "such as optimal,random, or one that wants"),
        ({"agents": "moth,random"}, "organisms are named goalmeter/NAME"),
    ],
    ids=["grids", "classes", "name"],
)
def test_what_cannot_be_calibrated_is_refused_before_anything_is_written(
    tmp_path: Path, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(GoalmeterError, match=words):
        replicate(tmp_path / "run", **options)
    assert not list((tmp_path / "run").iterdir())


def test_by_default_trained_organisms_walk_and_the_error_says_how_to_do_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert {f"{kind}{name}" for kind in (IDEAL, TRAINED) for name in ORGANISMS} < set(AGENTS)
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtraError, match=r"'\.\[lm\]'\), or do without") as raised:
        replicate(tmp_path / "run")
    assert not list((tmp_path / "run").iterdir())
    left = str(raised.value).split("--agents ")[1].strip("'")
    assert left.split(",") == [name for name in AGENTS if not name.startswith(TRAINED)]
    require_models(left.split(","))
