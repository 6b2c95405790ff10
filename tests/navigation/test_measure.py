"""`navigation.measure`: one result for a notebook and for the command, and how it is shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import goalmeter as gm
from goalmeter._errors import IncompleteRunError, InvalidParameterError
from goalmeter.agents.grid_agents import navigator
from goalmeter.commands.navigate import navigate
from goalmeter.commands.outcome import json_text
from goalmeter.navigation.prompts import Asking

SMALL: dict[str, Any] = {"sizes": [7], "complexities": [0.0, 1.0], "grids": 2, "trajectories": 2}
CELL = ("size", "complexity", "grids", "trajectories")
MEASURES = ("success", "accuracy", "accuracy_detour", "entropy", "jsd", "invalid")


@pytest.mark.parametrize(
    ("agent", "suite", "options"),
    [
        ("boltzmann( 2.0 )", "maze", SMALL),
        pytest.param("optimal", "two-path", {"grids": 2, "seed": 3}, marks=pytest.mark.slow),
    ],
)
def test_notebook_and_command_have_the_same_json(
    agent: str, suite: str, options: dict[str, Any]
) -> None:
    result = gm.navigation.measure(agent, suite, **options)
    outcome = navigate(agent, suite=suite, meg=True, **options)
    assert json_text(result.to_json(directed=True)) == json_text(outcome.json)
    measured = json.loads(json_text(result.to_json()))
    assert "meg" not in measured and (measured["agent"], measured["suite"]) == (
        navigator(agent).name,
        suite,
    )
    for cell in measured["cells"]:
        assert all(name in cell for name in (*CELL, *MEASURES))
        assert all(f"{name}_interval" in cell and f"{name}_n" in cell for name in MEASURES)


def test_what_a_run_keeps_is_the_same_object(tmp_path: Path) -> None:
    result = gm.navigation.measure("random", **SMALL, out=tmp_path / "run")
    again = gm.navigation.load(tmp_path / "run")
    assert again.to_json() == result.to_json() and again.walk_records() == result.walk_records()
    assert again.plan.what == result.plan.what and str(again) == str(result)
    assert result.to_json()["run"] == str((tmp_path / "run").resolve())
    trials = tmp_path / "run" / "trials.jsonl"
    trials.write_text("".join(trials.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(IncompleteRunError, match="lacks 1 of 8 walks; measure the same again with"):
        gm.navigation.load(tmp_path / "run")
    gm.navigation.measure("random", **SMALL, out=tmp_path / "run")
    assert gm.navigation.load(tmp_path / "run").to_json() == result.to_json()


def test_what_is_refused() -> None:
    with pytest.raises(InvalidParameterError, match="no agent 'gredy'; did you mean"):
        gm.navigation.measure("gredy")
    with pytest.raises(InvalidParameterError, match="no suite 'mazes', expected one of"):
        gm.navigation.measure("greedy", "mazes")
    with pytest.raises(InvalidParameterError, match="language models only, and greedy is not one"):
        gm.navigation.measure("greedy", asking=Asking())
    with pytest.raises(InvalidParameterError, match="no agent 'nobody'"):
        gm.navigation.measure("greedy", **SMALL, beside=["nobody"])
