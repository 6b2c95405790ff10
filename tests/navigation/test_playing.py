"""Runs of walks: the same in any process, kept, continued, refused, and what they will cost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from goalmeter._errors import InvalidFileError, InvalidParameterError
from goalmeter.agents.grid_agents import navigator
from goalmeter.navigation import Episode, walks
from goalmeter.navigation.plan import CHARACTERS_A_TOKEN, forecast, plan_of
from goalmeter.navigation.prompts import Asking, template
from goalmeter.navigation.rollouts import load, play_all
from goalmeter.runs import read_run
from goalmeter.runs.forecast import Span

SMALL: dict[str, Any] = {"sizes": [7], "complexities": [1.0], "grids": 3, "trajectories": 2}


def test_walks_are_those_of_the_suite_in_any_process(tmp_path: Path) -> None:
    plan = plan_of("random", "maze", **SMALL, seed=4)
    expected = tuple(walks(navigator("random"), plan.tasks, seed=4))
    told: list[str] = []
    at = play_all(plan, out=tmp_path / "run", progress=told.append)
    assert at.trajectories == expected and told[-1] == "random: 6 of 6 walks"
    assert play_all(plan, on="processes:2").trajectories == expected
    measured = load(tmp_path / "run")
    assert measured.trajectories == expected and measured.plan.what == plan.what
    assert read_run(tmp_path / "run").what["kind"] == "navigation"


def test_a_run_grows_and_refuses_to_become_another(tmp_path: Path) -> None:
    play_all(plan_of("greedy", "maze", **SMALL), out=tmp_path)
    more = plan_of("greedy", "maze", **(SMALL | {"sizes": [7, 9], "grids": 4}))
    play_all(more, out=tmp_path)
    assert load(tmp_path).trajectories == play_all(more).trajectories
    with pytest.raises(InvalidParameterError, match=r"cap_factor is 3\.0 there, and 2\.0 here"):
        play_all(plan_of("greedy", "maze", **SMALL, cap_factor=2), out=tmp_path)
    with pytest.raises(InvalidParameterError, match='agent is "greedy" there, and "random" here'):
        play_all(plan_of("random", "maze", **SMALL), out=tmp_path)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    play_all(plan_of("greedy", "maze", **SMALL), out=tmp_path)
    trials, about = tmp_path / "trials.jsonl", tmp_path / "run.json"
    lines, label = trials.read_text(), json.loads(about.read_text())
    trials.write_text(lines.replace('"outcome": "arrived"', '"outcome": 3'))
    with pytest.raises(InvalidFileError, match=r"the walk 'maze, size 7.*remove its line"):
        load(tmp_path)
    for old, new in (
        ('"size": 7', '"size": 9'),
        ('"suite": "maze"', '"suite": "isometries"'),
        ('"condition": {}', '"condition": {"key": true}'),
        ('"trajectory": 0', '"trajectory": 1'),
    ):
        # The first walk would be counted where it does not belong.
        assert old in lines
        trials.write_text(lines.replace(old, new, 1))
        for read in (load, lambda run: play_all(plan_of("greedy", "maze", **SMALL), out=run)):
            with pytest.raises(InvalidFileError, match="belong to another walk; remove its"):
                read(tmp_path)
    trials.write_text(lines)
    for change, message in (
        ({"kind": "reflection"}, "is a run of 'reflection', expected 'navigation'"),
        ({"sizes": [100001]}, "size is 100001, expected an odd number from 5 to 51"),
        ({"sizes": None}, "sizes is None, expected a list"),
        ({"seed": "0"}, "run.json does not describe a valid run .*seed is '0'"),
        ({"cap_factor": float("nan")}, "cap_factor is nan, expected a number from 1 to 100"),
        ({"distances": [[3]]}, "run.json does not describe a valid run"),
        ({"grids": [0, 2]}, r"\(ValueError: grids is \[0, 2\], expected indices"),
    ):
        about.write_text(json.dumps(label | {"what": label["what"] | change}))
        with pytest.raises(InvalidFileError, match=message):
            load(tmp_path)


BOTH = ["key", "neutral"]


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


MODEL = "vllm/somebody/model"
MAZES: dict[str, Any] = SMALL | {"grids": 2, "trajectories": 3}


def test_calls_and_tokens_are_those_of_the_suite(tmp_path: Path) -> None:
    plan = plan_of(MODEL, "maze", asking=Asking(max_tokens=50, attempts=2), **MAZES)
    told = forecast(plan, out=tmp_path / "none", answer_tokens=7, connections=5, call_seconds=2.0)
    steps = [(3 * task.distance, 3 * task.cap) for task in plan.tasks.tasks]
    least, most = (sum(bound) for bound in zip(*steps, strict=True))
    assert told.trials == told.left == 6 and told.calls == Span(least, most)
    lengths = [
        len(template("plain/1").prompt(task.world, Episode(task).state)) / CHARACTERS_A_TOKEN
        for task in plan.tasks.tasks
    ]
    by_path = sum(count * tokens for (count, _), tokens in zip(steps, lengths, strict=True))
    assert told.prompt_tokens is not None
    assert told.prompt_tokens.least == pytest.approx(by_path)
    assert told.output_tokens == Span(7 * least, 7 * most)
    assert told.output_cap == most * 2 * 50
    assert told.hours == Span(least * 2 / 5 / 3600, most * 2 / 5 / 3600)
    assert told.usd is None and not (tmp_path / "none").exists()
