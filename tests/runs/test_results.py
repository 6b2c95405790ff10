"""Results of studies: kept, gone on with, made again where they failed, and read back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from runs.backends.places import played, user_file
from runs.test_study import SRC, local

from goalmeter._errors import GoalmeterError, InvalidFileError
from goalmeter.runs import (
    Results,
    Study,
    carry_out,
    keys_in,
    read_run,
    stored_results,
)

KILLED = """
import sys
from pathlib import Path
from runs.backends.places import played
from goalmeter.runs import carry_out
carry_out(played(Path(sys.argv[1]), "slow", 24, ["DejaVu"]), on="processes:2", out=sys.argv[2])
"""


def test_a_study_whose_process_is_killed_goes_on(tmp_path: Path) -> None:
    user, out = user_file(tmp_path), tmp_path / "run"
    tests = Path(__file__).resolve().parents[1]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (SRC, tests)))}
    command = [sys.executable, "-c", KILLED, str(user), str(out)]
    kept = out / "trials.jsonl"
    with subprocess.Popen(command, env=environment) as driver:
        while not (kept.exists() and kept.read_bytes().count(b"\n") > 3):
            assert driver.poll() is None
            time.sleep(0.005)
        driver.send_signal(signal.SIGKILL)
    lines, about = kept.read_bytes(), (out / "run.json").read_bytes()
    there = lines.count(b"\n")
    assert 3 < there < 24
    told: list[str] = []
    study = played(user, "slow", 24, ["DejaVu"])
    results = carry_out(study, on="processes:1", out=out, progress=told.append)
    assert told[0] == f"user: {there} of 24 trials were there already"
    assert told[-1] == "user: 24 of 24 trials"
    # Nothing that was kept has changed, and it all is what an uninterrupted study finds.
    assert kept.read_bytes().startswith(lines[: lines.rfind(b"\n") + 1])
    assert (out / "run.json").read_bytes() == about
    quick = carry_out(played(user, "good", 24, ["DejaVu"]), on="processes:1")
    assert list(results) == list(quick) and list(results.values()) == list(quick.values())
    assert stored_results(read_run(out), study) == results
    assert set(keys_in(out)) == set(results) and set(keys_in(tmp_path / "none")) == set()


# --- Tries that failed ----------------------------------------------------------------------------


def tries(answers: Iterator[str], keys: str = "ab") -> Study[str]:
    """Trials that take the next answer each; "gone" is a failure that is made again."""

    def takes(key: str) -> str:
        return next(answers)

    return local(takes, keys, is_failure="gone".__eq__, tries_again=True, what={"kind": "test"})


def test_tries_that_failed_are_kept_and_made_again(tmp_path: Path) -> None:
    go = partial(carry_out, out=tmp_path)
    assert go(tries(iter(["gone", "B"]))) == {"a": "gone", "b": "B"}
    assert go(tries(iter(["gone"]))) == {"a": "gone", "b": "B"}
    assert go(tries(iter(["A"]))) == {"a": "A", "b": "B"}
    assert read_run(tmp_path).values == {
        "a, failed 1": "gone",
        "b": "B",
        "a, failed 2": "gone",
        "a": "A",
    }
    assert go(tries(iter([]))) == {"a": "A", "b": "B"}


def test_results_from_elsewhere_are_kept_first_and_count_as_there(tmp_path: Path) -> None:
    study, told = local(str.upper, what={"kind": "test"}), list[str]()
    with Results(study, tmp_path) as results:
        results.keep("b", "from before")
        results.keep("b", "once more")  # what has ended stands
        assert results.by_key() == {"b": "from before"} == dict(read_run(tmp_path).values)
    taken = {"a": "taken over", "b": "too late"}
    with Results(study, tmp_path, tell=told.append, taken_over=taken) as results:
        assert results.left == ["c"]
        assert results.by_key() == {"a": "taken over", "b": "from before"}
    assert told == ["local: 2 of 3 trials were there already"]


# --- What is read back ----------------------------------------------------------------------------


def whole(key: str, value: Any) -> int:
    if not isinstance(value, int):
        raise GoalmeterError(f"{value!r} is no number")
    return value


def test_a_line_that_is_no_result_is_named_with_what_mends_it(tmp_path: Path) -> None:
    study = local(len, what={"kind": "test"}, from_json=whole)
    carry_out(study, out=tmp_path)
    path = tmp_path / "trials.jsonl"
    path.write_text(path.read_text().replace('"key": "b", "value": 1', '"key": "b", "value": "x"'))
    for read in (
        lambda: carry_out(study, out=tmp_path),
        lambda: stored_results(read_run(tmp_path), study),
    ):
        with pytest.raises(InvalidFileError) as refused:
            read()
        assert str(refused.value) == (
            f"{path}, line 2, the trial 'b': 'x' is no number; remove its line from trials.jsonl "
            f"and it is made again"
        )
    path.write_text(path.read_text().splitlines(keepends=True)[0])
    with pytest.raises(InvalidFileError, match=r"lacks 2 of 3 trials; measure the same again"):
        stored_results(read_run(tmp_path), study)
    assert carry_out(study, out=tmp_path) == {"a": 1, "b": 1, "c": 1}
