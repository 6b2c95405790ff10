"""`goalmeter reflect` and `report` in this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
SHORT = ["--environment", "IgnoreRewards", "--steps", "9", "--seeds", "2"]


def test_reflect_for_people_and_its_list(run: Run, agents: Path) -> None:
    done = run("reflect", "rc(naive)", *SHORT, "--against", "naive", "--out", "run")
    assert done.status == 0, done.err
    for words in ("IgnoreRewards", "95% interval", "baseline: random", "minus naive, paired"):
        assert words in done.out
    assert "4 of 4 trials" in done.err
    done = run("reflect", "--list")
    assert done.status == 0 and done.err == ""
    for words in ("BackwardConsciousness", "FlipEveryOther", "opposite(NAME)", "rc(NAME)", "ppo"):
        assert words in done.out
    assert len(json.loads(run("reflect", "--list", "--json").out)["environments"]) == 30
    done = run("report", "run", "run.against", "--out", "page.html")
    assert done.status == 0, done.err
    assert done.out.splitlines()[-1] == str((agents / "page.html").resolve())


def test_trials_that_all_fail_have_a_status_and_cannot_steer(run: Run, agents: Path) -> None:
    done = run("reflect", "mine.py:bad", *SHORT, "--workers", "1")
    assert done.status == 3, done.err
    assert done.out.startswith("mine.py:bad: 4 of 4 trials ended early (4 exception); no trial")
    assert "\x1b" not in done.out + done.err
    assert "\\x1b[31m[red]" in done.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reflect"], "AGENT is missing: name one, such as rc(naive)"),
        (["reflect", "naif"], "there is no agent 'naif'; did you mean 'naive'?"),
        (["reflect", "mine.py:short"], "mine.py:short: short(history) has the wrong parameters"),
        (
            ["reflect", "naive", "--environment", "opposite(opposite(DejaVu))"],
            "the opposite of an opposite is DejaVu itself; use that name",
        ),
        (["reflect", "naive", "--environment", "x"], "unknown environment 'x'"),
        (["reflect", "naive", "--out", "."], ". holds 'mine.py' and no run.json"),
        (["report", "."], ". is not a run: it has no run.json"),
        (["replicate", "meg-cliffworld", "--agents", "all"], "meg-cliffworld has no option --agen"),
    ],
)
def test_what_reflect_and_report_refuse(
    run: Run, agents: Path, arguments: list[str], message: str
) -> None:
    done = run(*arguments, "--json")
    assert done.status == 2 and done.out == "" and "Traceback" not in done.err
    (error,) = [line for line in done.err.splitlines() if line.startswith("goalmeter: ")]
    assert message in error


def test_an_interrupted_measurement_says_what_is_kept(
    run: Run, agents: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from goalmeter.commands import reflect

    def stop(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(reflect, "measure", stop)
    done = run("reflect", "naive")
    assert done.status == 130
    assert "nothing is kept; with --out RUN the finished results would have been" in done.err
    assert "run keeps what is finished" in run("reflect", "naive", "--out", "run").err
