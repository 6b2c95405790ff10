"""What a study will cost: measured on some of its trials, and nothing is kept or made."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from goalmeter._errors import GoalmeterError, InvalidParameterError
from goalmeter.runs import Batch, Study, carry_out
from goalmeter.runs.forecast import Span, forecast_of


def study(function: Any, count: int = 100, **more: Any) -> Study[Any]:
    trials = {f"trial {n:03}": {"n": n} for n in range(count)}
    return Study("sleeper", function, trials, what={"kind": "test"}, **more)


def test_time_and_disk_are_those_of_examples(tmp_path: Path) -> None:
    asked: list[int] = []

    def sleeps(n: int) -> str:
        asked.append(n)
        time.sleep(0.2 if len(asked) == 1 else 0.01)  # the first one pays for imports
        return "x" * 100

    told = forecast_of(study(sleeps), out=tmp_path / "run")
    assert asked == [0, 11, 22, 33, 44, 55, 66, 77, 88]
    assert (told.trials, told.kept, told.left, told.slots) == (100, 0, 100, 1)
    line = len('{"key": "trial 000", "value": ""}\n') + 100
    assert told.disk == Span(100 * line, 100 * line)
    assert told.hours is not None and told.hours.least == told.hours.most
    assert 0.01 <= told.hours.least * 3600 / 100 < 0.2
    assert not (tmp_path / "run").exists()


def test_what_is_kept_is_not_made_again(tmp_path: Path) -> None:
    carry_out(study(lambda n: n, 60), out=tmp_path)
    before = (tmp_path / "trials.jsonl").read_bytes()
    told = forecast_of(study(lambda n: n), out=tmp_path)
    assert (told.trials, told.kept, told.left) == (100, 60, 40)
    assert (tmp_path / "trials.jsonl").read_bytes() == before
    finished = forecast_of(study(lambda n: 1 // 0, 60), out=tmp_path)  # not one of them is made
    assert (finished.left, finished.disk) == (0, Span(0, 0))
    assert finished.assumed == ("nothing is left to make",)


def test_what_is_wrong_with_all_trials_is_told() -> None:
    def refuses() -> None:
        raise InvalidParameterError("there is no such agent")

    with pytest.raises(InvalidParameterError, match="there is no such agent"):
        forecast_of(study(lambda n: n, check=Batch(refuses, [{}])))
    with pytest.raises(ZeroDivisionError):
        forecast_of(study(lambda n: 1 // 0))
    with pytest.raises(GoalmeterError, match="in this process only"):
        carry_out(study(lambda n: n), on="processes:2")
