"""Studies: made anywhere, in any order, killed and gone on with, they have the same results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from test_plugins import install

from goalmeter._errors import InvalidFileError, InvalidParameterError
from goalmeter._names import plugins
from goalmeter.runs import (
    Batch,
    BatchResult,
    Study,
    carry_out,
    check,
    read_run,
)
from goalmeter.runs.engine import batch_size
from goalmeter.runs.jobs import calls

SRC = Path(__file__).resolve().parents[2] / "src"
# Any function of goalmeter's that is quick and takes plain values.
NAMED = "goalmeter.runs.progress:in_words"


def seconds(count: int, **settings: Any) -> Study[str]:
    """A study of `count` times in words: a trial's key is its number."""
    trials = {f"time {n}": {"seconds": float(n)} for n in range(count)}
    return Study("clock", NAMED, trials, what={"kind": "test", "times": count}, **settings)


def local(function: Callable[..., Any], keys: str = "abc", **settings: Any) -> Study[Any]:
    """A study of a function that this process alone can call; each trial is told its key."""
    trials = {key: {"key": key} for key in keys}
    return Study("local", lambda key: function(key), trials, **settings)


# --- Where trials are made ------------------------------------------------------------------------


def test_results_are_in_the_order_of_the_study_wherever_they_are_made(tmp_path: Path) -> None:
    expected = {f"time {n}": f"{n} s" for n in range(40)}
    for on in ("here", "processes:1", "processes:2"):
        out = tmp_path / on
        assert list(carry_out(seconds(40), on=on, out=out).items()) == list(expected.items())
        assert read_run(out).values == expected
    about = {(tmp_path / on / "run.json").read_bytes() for on in ("here", "processes:2")}
    assert len(about) == 1
    lines = {
        tuple(sorted((tmp_path / on / "trials.jsonl").read_text().splitlines()))
        for on in ("here", "processes:1", "processes:2")
    }
    assert len(lines) == 1  # the same lines, and in any order


class Backwards:
    """A backend of another package: takes all that there is, and answers the last one first."""

    slots, worthwhile = 3, 1.0

    def __enter__(self) -> Backwards:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def run(self, batches: Iterator[Batch]) -> Iterator[tuple[int, BatchResult]]:
        for number, batch in reversed(list(enumerate(batches))):
            yield number, BatchResult([result for result, _ in calls(batch)], 1.0)


def test_a_backend_is_twenty_lines(tmp_path: Path) -> None:
    assert carry_out(seconds(7), on=Backwards(), out=tmp_path) == carry_out(seconds(7))
    assert next(iter(read_run(tmp_path).values)) == "time 6"  # kept as it came


def test_another_package_adds_a_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    module = (
        "from runs.test_study import Backwards\n"
        "def place(argument, *, trials, timeout):\n"
        "    assert (argument, trials, timeout) == ('a:b', 5, 9.0)\n"
        "    return Backwards()\n"
    )
    entries = "[goalmeter.backends]\ncluster = theirs:place\n"
    install(tmp_path, "theirs", entries, {"theirs": module})
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins.cache_clear()  # nothing is installed while goalmeter runs, but for this test
    request.addfinalizer(plugins.cache_clear)
    assert carry_out(seconds(5), on="cluster:a:b", timeout=9.0) == carry_out(seconds(5))
    with pytest.raises(InvalidParameterError, match=r"'clutser' .*did you mean 'cluster'"):
        carry_out(seconds(5), on="clutser")


@pytest.mark.parametrize(
    ("on", "timeout", "message"),
    [
        ("proceses:2", None, "'proceses' does not exist, .*did you mean 'processes'"),
        ("processes:0", None, "workers is 0, expected at least 1"),
        ("processes:two", None, "workers is 'two', expected a whole number"),
        ("here:2", None, "'here:2' is this process; expected 'here' alone"),
        ("here", 3.0, "timeout is 3.0 for trials in this process"),
        ("processes:1", -1.0, "timeout is -1.0, expected a number of seconds above 0"),
    ],
)
def test_places_that_are_refused(on: str, timeout: float | None, message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        carry_out(seconds(1), on=on, timeout=timeout)


# --- Batches --------------------------------------------------------------------------------------


def test_batches_hold_as_many_trials_as_are_worth_their_way() -> None:
    assert batch_size([], 1000, slots=2, worthwhile=0.2) == 1  # nothing is known yet
    costs = [5.0, 0.01, 0.01]  # the imports are most of the first
    assert batch_size(costs, 1000, slots=2, worthwhile=0.2) == 20  # 0.2 s of 0.01 s each
    assert batch_size(costs, 80, slots=2, worthwhile=0.2) == 10  # four more for each of two workers
    assert batch_size(costs, 3, slots=2, worthwhile=0.2) == 1
    assert batch_size([0.0], 10**6, slots=1, worthwhile=0.2) == 1000  # a clock that stands still
    assert batch_size(costs, 10, slots=1, worthwhile=0.0) == 1


# --- What is asked first --------------------------------------------------------------------------


def test_what_is_wrong_with_all_trials_is_found_before_the_first(tmp_path: Path) -> None:
    def refuses() -> None:
        raise InvalidParameterError("nobody has that name")

    called: list[str] = []
    study = local(called.append, check=Batch(refuses, [{}]), what={"kind": "test"})
    for ask in (carry_out, check):
        with pytest.raises(InvalidParameterError, match=r"^nobody has that name$"):
            ask(study, out=tmp_path / "run")
    assert called == []
    broken = seconds(
        3, check=Batch(NAMED, [{"seconds": None}]), check_advice="tell it what time it is"
    )
    with pytest.raises(InvalidFileError) as failed:
        carry_out(broken, on="processes:1")
    assert str(failed.value).startswith("clock cannot be made: exception, TypeError: ")
    assert str(failed.value).endswith("; tell it what time it is")
    check(seconds(3), out=tmp_path / "new")
    assert read_run(tmp_path / "new").values == {}


# --- The one way ----------------------------------------------------------------------------------
