"""Runs of walks: the same in any process, kept, continued, refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from goalmeter._errors import InvalidFileError, InvalidParameterError
from goalmeter.agents.grid_agents import navigator
from goalmeter.navigation import SUITES, walks
from goalmeter.navigation.plan import plan_from, plan_of
from goalmeter.navigation.rollouts import load, play_all
from goalmeter.runs.reading import read_run

SRC = Path(__file__).resolve().parents[2] / "src"
SMALL: dict[str, Any] = {"sizes": [7], "complexities": [1.0], "grids": 3, "trajectories": 2}


@pytest.mark.parametrize("name", SUITES)
@pytest.mark.parametrize("paper", [False, True])
def test_what_a_run_is_says_which_walks_it_has(name: str, paper: bool) -> None:
    plan = plan_of("greedy", name, paper=paper, grids=3, seed=2)
    label = json.loads(json.dumps(plan.what))
    again = plan_from(label, "run")
    assert again.tasks == plan.tasks and again.what == label
    assert list(again.keys()) == list(plan.keys())
    assert len(plan.keys()) == len(plan.tasks)  # no two walks have one key


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


@pytest.mark.slow
def test_a_killed_run_loses_nothing_that_was_finished(tmp_path: Path) -> None:
    options = ["--sizes", "7,9", "--complexities", "1", "--grids", "60", "--trajectories", "4"]
    arguments = ["navigate", "random", *options, "--out", str(tmp_path / "run"), "--json"]
    path = tmp_path / "run" / "trials.jsonl"
    process = subprocess.Popen(
        [sys.executable, "-m", "goalmeter", *arguments],
        env=os.environ | {"PYTHONPATH": str(SRC)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while not (path.exists() and path.stat().st_size) and process.poll() is None:
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    finished = path.read_bytes().count(b"\n")
    assert 0 < finished <= 480  # all of them, should this process have slept meanwhile
    plan = plan_of("random", "maze", sizes=[7, 9], complexities=[1.0], grids=60, trajectories=4)
    told: list[str] = []
    measured = play_all(plan, out=tmp_path / "run", progress=told.append)
    assert told[0] == f"random: {finished} of 480 walks were there already"
    assert measured.trajectories == play_all(plan).trajectories


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
            with pytest.raises(InvalidFileError, match="are those of another walk; remove its"):
                read(tmp_path)
    trials.write_text(lines)
    for change, message in (
        ({"kind": "reflection"}, "is a run of 'reflection', expected 'navigation'"),
        ({"sizes": [100001]}, "size is 100001, expected at most 51"),
        ({"sizes": None}, "sizes is None, expected a list"),
        ({"seed": "0"}, "run.json does not say what the run is .*seed is '0'"),
        ({"cap_factor": float("nan")}, "cap_factor is nan, expected a number from 1 to 100"),
        ({"distances": [[3]]}, "run.json does not say what the run is"),
        ({"grids": [0, 2]}, r"does not say what the run is \(ValueError: \[0, 2\] are not counted"),
    ):
        about.write_text(json.dumps(label | {"what": label["what"] | change}))
        with pytest.raises(InvalidFileError, match=message):
            load(tmp_path)
