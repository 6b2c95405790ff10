"""The runs of Table 1 that a folder holds, put into the ledger."""

from __future__ import annotations

import math
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from goalmeter.experiments import ledger
from goalmeter.experiments.reflection_table_1 import measurements, study
from goalmeter.reflection import Trial
from goalmeter.reflection.environments import BATTERY
from goalmeter.reflection.measure import DEFAULTS, plan_of
from goalmeter.reflection.measure import key as plan_key
from goalmeter.runs import RunStore


def stored(
    out: Path,
    agent: str,
    seeds: int,
    *,
    torn: int | None = None,
    spread: float = 1.0,
    **changes: Any,
) -> Path:
    """A run of Table 1 with made-up rewards; of seed `torn` one trial is missing.

    The environment that asks for a learning rate pays 100 and its opposite 50; every other 10 and
    `spread` times the seed.
    """
    plan = plan_of(agent, 500, seeds, BATTERY, *DEFAULTS)
    folder = measurements.run_folder(out, agent, 500)
    with RunStore(folder, plan.as_json() | changes, grows=("seeds",)) as store:
        for case in plan.cases:
            name = case.environment.name
            reward = (100 - 50 * case.opposite) if name == measurements.ASKS_SETTING else 10
            if case.seed == torn and (name, case.opposite) == ("Repeater", True):
                continue
            total = reward + spread * case.seed * (name != measurements.ASKS_SETTING)
            trial = Trial(name, case.opposite, case.seed, 500, total)
            store.add(case.key, trial.to_json())
    return folder


def test_neural_rows_are_filled_with_tolerance_and_words(tmp_path: Path) -> None:
    stored(tmp_path, "rc(dqn)", 6)
    stored(tmp_path, "dqn", 4)
    rows = {row.id: row for row in study.measured(tmp_path)}
    checked = rows["reflection-table-1/500/rc(dqn)"]
    # (10 + seed) * 48 of 50 * 500, the learning rate left out; with it (100 + 50) more.
    assert checked.ours == pytest.approx((10 + 2.5) * 48 / 25_000) and checked.seeds == 6
    assert checked.error == pytest.approx(np.std(range(6), ddof=1) / math.sqrt(6) * 48 / 25_000)
    assert checked.tolerance == pytest.approx(2 * checked.error, abs=2e-6)
    assert checked.verdict == "below"
    assert checked.found.startswith("Ours is 0.347 below, ")
    assert checked.found.endswith(f"With these two ours would be {checked.ours + 0.006:+.4f}.")
    alone = rows["reflection-table-1/500/dqn"]
    assert alone.found == (
        "4 seeds are too few for a verdict. IncentivizeLearningRate and its opposite make +0.0060 "
        "of ours."
    )
    # The remark is by hand, and stays; what the runs said is written anew each time.
    text = (Path(ledger.__file__).parent / "ledger.toml").read_text(encoding="utf-8")
    by_hand = text.replace(f'remark = "{alone.remark}"', 'remark = "By \\"hand\\"."')
    once = study.updated(by_hand, list(rows.values()))
    again = study.updated(once, [replace(alone, found="Else."), checked])
    assert once == study.updated(once, list(rows.values()))
    written = {row["id"]: ledger.Number(**row) for row in tomllib.loads(again)["number"]}
    assert len(written) == len(ledger.load())
    entry = written[alone.id]
    assert (entry.remark, entry.found, entry.seeds) == ('By "hand".', "Else.", 4)
    assert written[checked.id].found == checked.found
    assert written[checked.id].ours == pytest.approx(checked.ours, abs=1e-6)


def test_equal_seeds_have_a_tolerance_all_the_same(tmp_path: Path) -> None:
    stored(tmp_path, "ppo", 5, spread=0.0)
    (row,) = study.measured(tmp_path)
    assert row.error == pytest.approx(0, abs=1e-12) and row.tolerance == 1e-6


def test_an_interrupted_run_counts_with_its_finished_seeds_if_that_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [replace(row, ours=math.nan, seeds=0) for row in ledger.load(measurements.LEDGER_PREFIX)]
    monkeypatch.setattr(ledger, "load", lambda prefix="": rows)
    folder = stored(tmp_path, "a2c", 10, torn=7)
    assert study.measured(tmp_path) == []
    told = capsys.readouterr().err
    assert f"{folder}: 9 of 10 seeds are finished, expected all; --partial takes those" in told
    (row,) = study.measured(tmp_path, partial=True)
    kept = [seed for seed in range(10) if seed != 7]
    assert row.seeds == 9
    assert row.ours == pytest.approx((48 * (10 + np.mean(kept)) + 150) / 25_000)
    copy = tmp_path / "ledger.toml"
    text = (Path(ledger.__file__).parent / "ledger.toml").read_text(encoding="utf-8")
    copy.write_text(text, encoding="utf-8")
    study.main(["--partial", str(tmp_path), str(copy)])
    assert "reflection-table-1/500/a2c: +0.0" in capsys.readouterr().out
    assert "seeds = 9\n" in copy.read_text(encoding="utf-8")


def test_what_is_finished_in_part_takes_nothing_away(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored(tmp_path, "naive", 4, torn=2)  # the ledger has 10
    stored(tmp_path, "rc(a2c)", 2, torn=1)
    assert study.measured(tmp_path, partial=True) == []
    told = capsys.readouterr().err
    assert "reflection-table-1/500/naive has 10 seeds already, and the run 3 finished" in told
    assert "1 of 2 seeds are finished, expected at least 2" in told


def test_another_run_than_table_1s_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = stored(tmp_path, "ppo", 2, step_counting="actions", steps=1000)
    assert study.measured(tmp_path, partial=True) == []
    told = capsys.readouterr().err
    assert f"{folder} is not the run of ppo, 500 steps, that Table 1 asks for" in told
    assert "steps, step_counting differs" in told


def test_a_run_with_trials_that_ended_early_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = stored(tmp_path, "ppo", 2, torn=1)
    plan = plan_of("ppo", 500, 2, BATTERY, *DEFAULTS)
    with RunStore(folder, plan.as_json(), grows=("seeds",)) as store:
        late = Trial("Repeater", True, 1, 500, 0, "timeout", "took over 1 s")
        store.add(plan_key("opposite(Repeater)", 1), late.to_json())
    assert study.measured(tmp_path) == []
    assert "1 of 100 trials ended early (1 timeout)" in capsys.readouterr().err
