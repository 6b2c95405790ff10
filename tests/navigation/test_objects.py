"""Neutral objects in runs: records, what a run is, how it grows, how it is continued."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from goalmeter.commands.runs import resuming_command
from goalmeter.navigation.plan import plan_of
from goalmeter.navigation.rollouts import load, play_all
from goalmeter.runs.reading import read_run

BOTH = ["key", "neutral"]


def test_a_run_of_before_there_was_a_choice_is_one_with_keys(tmp_path: Path) -> None:
    plan = plan_of("random", "key-no-door", grids=3)
    walks = play_all(plan, out=tmp_path).trajectories
    about = json.loads((tmp_path / "run.json").read_text())
    del about["what"]["objects"]
    (tmp_path / "run.json").write_text(json.dumps(about))
    assert load(tmp_path).trajectories == walks
    assert "--objects" not in resuming_command(about["what"], "run")


@pytest.mark.parametrize("name", ["key-no-door", "two-path"])
def test_a_run_grows_by_neutral_objects(name: str, tmp_path: Path) -> None:
    keys = play_all(plan_of("random", name, grids=3), out=tmp_path).trajectories
    kept = (tmp_path / "trials.jsonl").read_text()
    both = plan_of("random", name, grids=3, objects=BOTH)
    walks = play_all(both, out=tmp_path).trajectories
    # What was there stays as it is, and what is added is what it would be alone.
    assert (tmp_path / "trials.jsonl").read_text().startswith(kept)
    assert [walk for walk in walks if walk.world.neutral is None] == list(keys)
    assert load(tmp_path).trajectories == walks == play_all(both).trajectories
    # Asking for less again forgets nothing.
    assert play_all(plan_of("random", name, grids=3), out=tmp_path).trajectories == keys
    assert read_run(tmp_path).what["objects"] == BOTH
