"""`measure` in this process and in others, with and without a run folder: the same numbers."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from goalmeter._errors import IncompleteRunError, InvalidFileError, InvalidParameterError
from goalmeter.commands.runs import how_to_continue
from goalmeter.reflection.measure import load, measure
from goalmeter.reflection.result import Reflection, compare

USER = """
import os, random, sys, time

def steady(history, n_actions, n_observations):
    return sum(action for action in history.actions) % 2

def drawing(history, n_actions, n_observations):
    return random.randrange(n_actions)

def difficult(history, n_actions, n_observations):
    print("to standard output")
    if n_observations == 8:
        return 9
    if n_observations == 6:
        raise RuntimeError("no idea")
    if n_actions == 10:
        time.sleep(60)
    if n_observations == 3:
        os._exit(3)
    return 0
"""


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sys, "path", sys.path.copy())
    (tmp_path / "user.py").write_text(USER)
    return str(tmp_path / "user.py")


def same(first: Reflection, second: Reflection) -> bool:
    return (
        first.trials == second.trials
        and first.by_seed.tolist() == second.by_seed.tolist()
        and json.dumps(first.to_json()) == json.dumps(second.to_json())
    )


def test_the_numbers_do_not_depend_on_workers_or_stores(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"steps": 40, "seeds": 2, "environments": ["DejaVu", "AfterImages"]}
    in_this_process = measure("rc(naive)", **asked)
    there, here = tmp_path / "there", tmp_path / "here"
    assert same(in_this_process, measure("rc(naive)", **asked, out=here))
    assert same(in_this_process, measure("rc(naive)", **asked, out=there, on="processes:2"))
    for folder in (here, there):
        assert same(in_this_process, load(folder))
        assert same(in_this_process, measure("rc(naive)", **asked, out=folder))


@pytest.mark.slow
def test_bad_agents_are_outcomes_and_stop_nothing_else(
    user: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    names = ["AfterImages", "SelfRecognition", "opposite(IncentivizeZero)", "CensoredObservation"]
    result = measure(
        f"{user}:difficult",
        20,
        1,
        environments=[*names, "IgnoreRewards"],
        timeout=4,
        on="processes:2",
        out=tmp_path / "run",
    )
    assert [trial.outcome for trial in result.trials] == [
        *["illegal action"] * 2,
        *["exception"] * 2,
        "timeout",
        *["crash"] * 2,
        *["ok"] * 2,
    ]
    assert result.trials[2].detail == "RuntimeError: no idea (user.py, line 15)"
    timeout, crash = result.trials[4:6]
    assert (timeout.detail, timeout.played) == ("no answer within 4 s", None)
    assert crash.detail == "the process ended with exit status 3"
    assert timeout.total_reward == crash.total_reward == 0
    assert result.measure == 0
    assert result.outcomes == {
        "ok": 2,
        "crash": 2,
        "exception": 2,
        "illegal action": 2,
        "timeout": 1,
    }
    assert same(result, load(tmp_path / "run"))
    assert capfd.readouterr().out == ""


def test_a_run_grows_by_seeds_and_is_read_only_when_whole(tmp_path: Path) -> None:
    run = tmp_path / "run"
    message: list[str] = []
    names = ["IgnoreRewards", "opposite(DejaVu)"]
    measure("naive", 30, 2, environments=names, out=run)
    lines = (run / "trials.jsonl").read_text().splitlines(keepends=True)
    more = measure("naive", 30, 4, environments=names, out=run, progress=message.append)
    assert message[0] == "naive: 6 of 12 trials were there already"
    assert message[-1] == "naive: 12 of 12 trials"
    assert (run / "trials.jsonl").read_text().startswith("".join(lines))
    assert same(more, measure("naive", 30, 4, environments=names)) and same(more, load(run))
    assert same(
        measure("naive", 30, [3, 1], environments=names, out=run),
        measure("naive", 30, [3, 1], environments=names),
    )
    (run / "trials.jsonl").write_text("".join(lines))
    with pytest.raises(IncompleteRunError, match="lacks 6 of 12 trials; measure") as refused:
        load(run)
    assert how_to_continue(refused.value) == (
        f"{run} lacks 6 of 12 trials; make them with: goalmeter reflect naive --environment "
        f"IgnoreRewards --environment 'opposite(DejaVu)' --steps 30 --seeds 4 --out {run}"
    )
    measure("naive", 30, [9], environments=names, out=run)
    with pytest.raises(IncompleteRunError) as again:
        load(run)
    assert "measure('naive', 30, [0, 1, 2, 3, 9], out=" in how_to_continue(again.value)


def test_another_measurement_is_refused_and_says_what_differs(user: str, tmp_path: Path) -> None:
    run, names = tmp_path / "run", ["IgnoreRewards"]
    measure(f"{user}:steady", 9, 1, environments=names, out=run)
    Path(user).write_text(USER.replace("% 2", "% 3"))
    with pytest.raises(InvalidParameterError, match=r"content of .*user.py \(sha256\) is "):
        measure(f"{user}:steady", 9, 1, environments=names, out=run)
    with pytest.raises(InvalidParameterError, match="steps is 9 there, and 10 here; opposite_read"):
        measure(
            f"{user}:steady",
            10,
            1,
            environments=names,
            out=run,
            opposite_reading="unnegated",
        )


@pytest.mark.slow
def test_files_that_cannot_be_loaded_end_the_measurement(user: str) -> None:
    for text, message in (
        ("import time\ntime.sleep(60)\n", "cannot be made: timeout, no answer within 1 s; a file"),
        ("import os\nos._exit(4)\n", "cannot be made: crash, the process ended with exit status 4"),
        ("1 / 0\n", "user.py raises an error, in line 1: ZeroDivisionError"),
        ("agent = 3\n", "agent is 3, expected a function"),
    ):
        Path(user).write_text(text)
        with pytest.raises(InvalidFileError, match=message):
            measure(f"{user}:agent", 9, 1, timeout=1.0)


def test_readings_are_kept_said_and_not_mixed(tmp_path: Path) -> None:
    readings = {"opposite_reading": "unnegated", "step_counting": "actions"}
    plain = measure("naive", 20, 2)
    read_otherwise = measure("naive", 20, 2, out=tmp_path / "run", **readings)
    assert plain.readings == {} and read_otherwise.readings == readings
    assert read_otherwise.to_json()["readings"] == readings
    message = "not as published: opposite_reading unnegated, step_counting actions"
    assert message in str(read_otherwise) and "not as published" not in str(plain)
    assert load(tmp_path / "run").readings == readings
    assert load(tmp_path / "run").by_seed.tolist() == read_otherwise.by_seed.tolist()
    with pytest.raises(InvalidParameterError, match="steps and readings for a paired comparison"):
        compare(plain, read_otherwise)
    message = (
        'opposite_reading is "unnegated" there, and "literal" here; step_counting is "actions"'
    )
    with pytest.raises(InvalidParameterError, match=message):
        measure("naive", 20, 2, out=tmp_path / "run")
