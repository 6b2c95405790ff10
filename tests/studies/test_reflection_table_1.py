from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from goalmeter.commands.outcome import Outcome
from goalmeter.commands.replicate import StudyOptions
from goalmeter.commands.replicate import replicate as run_study
from goalmeter.reflection import Reflection, Trial
from goalmeter.reflection.result import reflection_of
from replications import ledger
from replications.reflection_table import study

replicate = partial(run_study, "reflection-table-1")


def unrun(row: ledger.Number) -> ledger.Number:
    """A neural row as if it had not been run: the tests do not rest on whether it was."""
    if row.id.rpartition("/")[2] not in study.NEURAL:
        return row
    return replace(row, ours=math.nan, error=0.0, seeds=0, tolerance=math.nan, found="")


PUBLISHED = [unrun(row) for row in ledger.load(study.LEDGER_PREFIX)]
ROWS = {row.id.removeprefix(study.LEDGER_PREFIX): row for row in PUBLISHED}
RUN = {"agents": "constant,rc(constant),rc(random)", "steps": 500, "seeds": 5}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("out")


@pytest.fixture(scope="module")
def outcome(folder: Path) -> Outcome:
    return replicate(folder, **RUN)  # type: ignore[arg-type]


def made(agent: str, asked: list[tuple[float, float]], elsewhere: list[float]) -> Reflection:
    """Rewards over 500 steps of each seed in the environment that asks for a rate, and another."""
    trials = [
        Trial(name, opposite, seed, 500, reward)
        for seed, (asking, dejavu) in enumerate(zip(asked, elsewhere, strict=True))
        for name, rewards in ((study.ASKS_SETTING, asking), ("DejaVu", (dejavu, 0.0)))
        for opposite, reward in zip((False, True), rewards, strict=True)
    ]
    return reflection_of(agent, 500, trials, runs=4, confidence=0.95)


@pytest.mark.slow
def test_results_and_figures_are_beside_the_page(outcome: Outcome, folder: Path) -> None:
    results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    by_key = {(row["agent"], row["steps"]): row for row in results["rows"]}
    assert by_key["rc(constant)", 500]["ours"] == 0 and by_key["rc(constant)", 500]["run_now"]
    assert not by_key["rc(constant)", 1000]["run_now"]
    for row in results["rows"]:
        if row["verdict"] == "not run":
            empty = {key for key, value in row.items() if value is None}
            assert empty == {"ours", "stderr", "z", "measure", "ended_early"}
            assert row["verdict_on_print"] == "not run"
        assert row["margin"] == 0.02
    naive = next(e for e in results["reality_check"] if e["agent"] == "naive" and e["steps"] == 500)
    assert naive["published"]["verdict"] == naive["ours"]["verdict"] == "raises"
    assert naive["published"]["difference"] == pytest.approx(0.551488 - 0.221532)
    assert (folder / "figures" / "table-1.svg").exists()
    assert ">nan<" not in (folder / "report.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_what_was_run_is_not_run_again(
    outcome: Outcome, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("trials.jsonl")}
    assert len(before) == 3
    calls: list[str] = []
    # By its name, since the package has a function of the name of the module.
    module = import_module("goalmeter.reflection.measure")
    monkeypatch.setattr(module, "run_trial", lambda *args, **kwargs: calls.append("played"))
    rows = study.table(folder, StudyOptions(agents="rc(random)", steps=500, seeds=5))
    (row,) = [row for row in rows if row.result is not None]
    assert calls == [] and row.result is not None
    assert row.result.measure == outcome.json["rows"][1]["measure"]
    assert {path: path.read_bytes() for path in folder.rglob("trials.jsonl")} == before


def test_the_authors_reality_check_hands_no_learning_rate_on() -> None:
    # One seed is paid 400 and 100 for its learning rate, the other 0 and 100; 4 runs of 500 steps.
    checked = made("rc(dqn)", [(400, 100), (0, 100)], [200, 300])
    assert study.forwarded(checked) == pytest.approx([500 / 2000, 100 / 2000])
    assert study.as_published(checked) == pytest.approx([200 / 2000, 300 / 2000])
    alone = replace(checked, agent="dqn")
    assert study.as_published(alone) == pytest.approx(alone.by_seed)
    number = study.with_ours(ROWS["500/rc(dqn)"], checked)
    assert number.ours == pytest.approx(0.125) and number.seeds == 2
    assert number.error == pytest.approx(np.std([0.1, 0.15], ddof=1) / math.sqrt(2))
    assert math.isnan(number.z) and number.verdict == "too few seeds"
    enough = replace(number, seeds=5)
    assert enough.z == pytest.approx((0.125 - 0.371136) / math.hypot(0.025, 0.026987), rel=1e-4)
