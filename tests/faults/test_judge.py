"""The judge can find fault: a store that loses or doubles a line, and what else may go wrong."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from faults.faults import FAULTS
from faults.judge import DOUBLED, LOST, UNEQUAL, Held, afterwards, at_the_end, held
from faults.kinds import KINDS, RAY
from faults.running import Ended
from faults.schedule import tries
from goalmeter.runs import RunStore, Study, carry_out

# Any function of goalmeter's that is quick and takes plain values.
STUDY = Study[str](
    "clock",
    "goalmeter.runs.progress:in_words",
    {f"time {n}": {"seconds": float(n)} for n in range(9)},
    what={"kind": "test"},
)


def made(folder: Path) -> Held:
    carry_out(STUDY, out=folder / "run")
    return held(folder, ["run"], [])


def wrong(counter: Counter[str]) -> dict[str, int]:
    return {name: count for name, count in counter.items() if count}


def test_two_runs_of_the_same_are_equal_in_whatever_order(tmp_path: Path) -> None:
    first, second = made(tmp_path / "a"), made(tmp_path / "b")
    assert first.number_of_trials == 9 and first.about["run"]
    assert wrong(at_the_end(first, second)) == {}
    backwards = replace(first, trials={"run": first.trials["run"][::-1]})
    assert wrong(at_the_end(backwards, second)) == {}


def test_a_store_that_loses_a_line_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = made(tmp_path / "whole")
    add = RunStore.add

    def forgets(self: RunStore, key: str, value: object) -> None:
        if key != "time 4":
            add(self, key, value)

    monkeypatch.setattr(RunStore, "add", forgets)
    assert wrong(at_the_end(made(tmp_path / "broken"), expected)) == {LOST: 1}


def test_a_store_that_doubles_a_line_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = made(tmp_path / "whole")
    add = RunStore.add

    def doubles(self: RunStore, key: str, value: object) -> None:
        add(self, key, value)
        if key == "time 4":
            del self.lines[key]
            add(self, key, value)

    monkeypatch.setattr(RunStore, "add", doubles)
    assert wrong(at_the_end(made(tmp_path / "broken"), expected)) == {DOUBLED: 1}


def _other_value(now: Held) -> Held:
    lines = list(now.trials["run"])
    lines[2] = lines[2].replace(b"s", b"min")
    return replace(now, trials={"run": lines})


def _other_key(now: Held) -> Held:
    lines = [*now.trials["run"], b'{"key": "time 99", "value": "99 s"}']
    return replace(now, trials={"run": lines})


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (_other_value, {UNEQUAL: 1}),
        (_other_key, {UNEQUAL: 1}),
        (lambda now: replace(now, about={"run": b"{}"}), {UNEQUAL: 1}),
        (lambda now: replace(now, about={}), {LOST: 1}),
        (lambda now: replace(now, files={"page.html": b"<p>other"}), {UNEQUAL: 1}),
        (lambda now: replace(now, files={}), {LOST: 1}),
        (lambda now: replace(now, trials={}), {LOST: 9}),
    ],
)
def test_what_differs_is_counted(
    change: Callable[[Held], Held], expected: dict[str, int], tmp_path: Path
) -> None:
    whole = replace(made(tmp_path), files={"page.html": b"<p>"})
    assert wrong(at_the_end(change(whole), whole)) == expected


def test_a_try_that_failed_is_no_difference_and_any_other_line_is(tmp_path: Path) -> None:
    expected = made(tmp_path)
    try_line = b'{"key": "time 3, failed 1", "value": "3 s"}'
    other = b'{"key": "time 99", "value": "99 s"}'
    with_try = replace(expected, trials={"run": [*expected.trials["run"], try_line]})
    assert wrong(at_the_end(with_try, expected)) == {}
    with_both = replace(expected, trials={"run": [*with_try.trials["run"], other]})
    assert wrong(at_the_end(with_both, expected)) == {UNEQUAL: 1}


def test_what_was_kept_or_told_stays(tmp_path: Path) -> None:
    whole = made(tmp_path)
    torn = replace(whole, trials={"run": whole.trials["run"][:5]})
    assert wrong(afterwards(torn, whole, "clock: 9 of 9 trials")) == {}
    assert wrong(afterwards(whole, torn, "")) == {LOST: 4}
    assert wrong(afterwards(Held(trials={"run": []}), torn, "clock: 7 of 9 trials")) == {LOST: 2}


@pytest.mark.parametrize(
    ("status", "err", "is_fine"),
    [
        (0, "", True),
        (-signal.SIGKILL, "a: 3 of 9 trials\n", True),
        (2, "a: 3 of 9 trials\ngoalmeter: run cannot be written: no space\n", True),
        (
            2,
            "goalmeter: no space\n--- Logging error ---\nTraceback (most recent call last)\n",
            True,
        ),
        (2, "", False),
        (2, "goalmeter: one\ngoalmeter: two\n", False),
        (1, "goalmeter: a fault of goalmeter's own\n", False),
        (3, "goalmeter: a part is missing\n", False),
        (-signal.SIGSEGV, "", False),
        (2, "Traceback (most recent call last)\ngoalmeter: odd\n", False),
    ],
)
def test_a_command_ends_with_a_result_a_kill_or_one_sentence(
    status: int, err: str, is_fine: bool
) -> None:
    assert (Ended(status, "", err).complaints() == []) is is_fine


def test_the_first_tries_have_every_fault_in_every_kind_of_run() -> None:
    drawn = [next_ for _, next_ in zip(range(400), tries(5, KINDS), strict=False)]
    cells = {(each.kind.name, fault.name) for each in drawn for fault in each.faults}
    names = {fault.name for fault in FAULTS if not (fault.of_workers or fault.of_nodes)}
    assert cells >= {(kind.name, name) for kind in KINDS for name in names}
    assert {kind for kind, name in cells if name == "Ray node killed"} == {
        kind.name for kind in KINDS if RAY in kind.places
    }
    again = [next_ for _, next_ in zip(range(400), tries(5, KINDS), strict=False)]
    assert [(e.kind.name, e.places, e.random.random()) for e in drawn] == [
        (e.kind.name, e.places, e.random.random()) for e in again
    ]
    assert os.sep not in "".join(kind.name for kind in KINDS)  # they name folders
