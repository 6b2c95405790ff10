from __future__ import annotations

import json
import math
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from goalmeter import GoalmeterError, MissingExtraError
from goalmeter.experiments import ledger
from goalmeter.experiments.outcome import Outcome
from goalmeter.experiments.reflection_table_1 import compute, page, update_ledger
from goalmeter.experiments.reflection_table_1.compute import Row
from goalmeter.experiments.reflection_table_1.effects import effects
from goalmeter.experiments.reflection_table_1.replicate import replicate
from goalmeter.reflection import Reflection, Trial, measure
from goalmeter.reflection.agents import QLearner, RealityCheck
from goalmeter.reflection.result import reflection_of

PUBLISHED = ledger.load(compute.LEDGER_PREFIX)
ROWS = {row.id.removeprefix(compute.LEDGER_PREFIX): row for row in PUBLISHED}
RUN = {"agents": "constant,rc(constant),rc(random)", "steps": 500, "seeds": 2}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("out")


@pytest.fixture(scope="module")
def outcome(folder: Path) -> Outcome:
    return replicate(folder, **RUN)  # type: ignore[arg-type]


def made(agent: str, asked: list[tuple[float, float]], other: list[float]) -> Reflection:
    """Rewards over 500 steps of each seed in the environment that asks for a rate, and another."""
    trials = [
        Trial(name, opposite, seed, 500, reward)
        for seed, (asking, rest) in enumerate(zip(asked, other, strict=True))
        for name, rewards in ((compute.ASKS_SETTING, asking), ("DejaVu", (rest, 0.0)))
        for opposite, reward in zip((False, True), rewards, strict=True)
    ]
    return reflection_of(agent, 500, trials, runs=4, confidence=0.95)


def test_every_number_of_table_1_is_in_the_ledger() -> None:
    # As printed in the paper, 500 and 1000 steps.
    printed = {
        "random": ("-0.019852 ± 0.0007", "-0.021478 ± 0.0003"),
        "rc(random)": ("-0.020800 ± 0.0007", "-0.019508 ± 0.0005"),
        "constant": ("-0.000304 ± 0.0001", "-0.000024 ± 0.0000"),
        "rc(constant)": ("+0.000024 ± 0.0001", "-0.000120 ± 0.0001"),
        "naive": ("+0.221532 ± 0.0020", "+0.218754 ± 0.0017"),
        "rc(naive)": ("+0.551488 ± 0.0025", "+0.558626 ± 0.0030"),
        "a2c": ("-0.027680 ± 0.0018", "-0.021534 ± 0.0009"),
        "rc(a2c)": ("+0.024784 ± 0.0022", "+0.030948 ± 0.0006"),
        "dqn": ("+0.142624 ± 0.0046", "+0.151150 ± 0.0033"),
        "rc(dqn)": ("+0.371136 ± 0.0085", "+0.463296 ± 0.0059"),
        "ppo": ("-0.001384 ± 0.0016", "-0.025418 ± 0.0015"),
        "rc(ppo)": ("-0.000098 ± 0.0016", "-0.003126 ± 0.0013"),
    }
    for agent, numbers in printed.items():
        for steps, number in zip(compute.STEPS, numbers, strict=True):
            assert ROWS[f"{steps}/{agent}"].published == number
    assert {compute.setting(row.id)[1] for row in PUBLISHED} == set(compute.PUBLISHED_NAMES)


def test_the_printed_spread_is_the_standard_error_over_root_ten_cut_off() -> None:
    for row in PUBLISHED:
        tenth = row.published_error / math.sqrt(10)
        assert math.floor(tenth * 10_000) == round(row.published_spread * 10_000), row.id


def test_the_ppo_rows_are_compared_with_the_data_and_not_with_the_misprint() -> None:
    corrected = {key for key, row in ROWS.items() if row.corrected is not None}
    assert corrected == {
        f"500/{agent}" for agent in ("ppo", "rc(ppo)", "ppo-as-published", "rc(ppo-as-published)")
    }
    # The number of RC(PPO) stands in the row of PPO.
    assert ROWS["500/ppo"].published_value == ROWS["500/rc(ppo)"].theirs == -0.001384
    assert ROWS["500/ppo"].theirs == -0.0217


def test_scripted_rows_agree_as_often_as_they_should() -> None:
    scores = [row.z for row in PUBLISHED if compute.setting(row.id)[1] in compute.SCRIPTED]
    assert len(scores) == 12 and max(map(abs, scores)) < ledger.AGREES
    # Of 12 squares of standard normal numbers the sum is below 23.3 in 97.5% of cases.
    assert sum(z**2 for z in scores) < 23.3


def test_both_tables_hold_published_and_ours(outcome: Outcome) -> None:
    first, second, effects = outcome.tables
    rows = {row[0].text: [cell.text for cell in row[1:]] for row in first.cells}
    assert len(rows) == len(second.rows) == 14
    assert rows["ConstantAgent"] == [
        "−0.000304 ± 0.0001",
        "0.0004",
        "0.0000",
        "0.0000",
        "2",
        "+0.84",
        "agrees",
        "this run",
    ]
    assert rows["RandomAgent"][-1] == "ledger" and rows["RandomAgent"][4] == "10"
    assert rows["PPO"][0] == "−0.001384 ± 0.0016 †"
    assert "−0.021700 and −0.001384" in first.notes[0]
    assert effects.cells[1][0].text == "ConstantAgent"  # both run now: paired
    assert effects.cells[0][0].text == "RandomAgent *"  # one from the ledger: not paired
    assert effects.cells[1][-1].text == "changes nothing"


def test_results_and_figures_are_beside_the_page(outcome: Outcome, folder: Path) -> None:
    results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    by_key = {(row["agent"], row["steps"]): row for row in results["rows"]}
    assert by_key["rc(constant)", 500]["ours"] == 0 and by_key["rc(constant)", 500]["run_now"]
    assert not by_key["rc(constant)", 1000]["run_now"]
    naive = next(e for e in results["reality_check"] if e["agent"] == "naive" and e["steps"] == 500)
    assert naive["published"]["verdict"] == naive["ours"]["verdict"] == "raises"
    assert naive["published"]["difference"] == pytest.approx(0.551488 - 0.221532)
    assert (folder / "figures" / "table-1.svg").exists()
    assert outcome.report == (folder / "report.html").resolve()
    text = (folder / "report.html").read_text(encoding="utf-8")
    assert "--agents constant,rc(constant),rc(random) --seeds 2" in text and ">nan<" not in text


def test_what_was_run_is_not_run_again(
    outcome: Outcome, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("trials.jsonl")}
    assert len(before) == 3
    calls: list[str] = []
    monkeypatch.setattr(
        "goalmeter.reflection.playing.run_trial", lambda *args, **kwargs: calls.append("played")
    )
    rows = compute.table(["rc(random)"], folder, lengths=[500], seeds=2)
    (row,) = [row for row in rows if row.result is not None]
    assert calls == [] and row.result is not None
    assert row.result.measure == outcome.json["rows"][1]["measure"]
    assert {path: path.read_bytes() for path in folder.rglob("trials.jsonl")} == before


def test_the_authors_reality_check_hands_no_learning_rate_on() -> None:
    # One seed is paid 400 and 100 for its learning rate, the other 0 and 100; 4 runs of 500 steps.
    checked = made("rc(dqn)", [(400, 100), (0, 100)], [200, 300])
    assert compute.forwarded(checked) == pytest.approx([500 / 2000, 100 / 2000])
    assert compute.as_published(checked) == pytest.approx([200 / 2000, 300 / 2000])
    alone = replace(checked, agent="dqn")
    assert compute.as_published(alone) == pytest.approx(alone.by_seed)
    number = compute.with_ours(ROWS["500/rc(dqn)"], checked)
    assert number.ours == pytest.approx(0.125) and number.seeds == 2
    assert number.error == pytest.approx(np.std([0.1, 0.15], ddof=1) / math.sqrt(2))
    assert number.z == pytest.approx((0.125 - 0.371136) / math.hypot(0.025, 0.026987), rel=1e-4)


def test_leaving_it_out_is_the_same_as_not_handing_it_on() -> None:
    # The Q-learner has a learning rate too, and takes no time.
    handed_on = measure("rc(q-learner)", 50, [3])
    kept = measure(RealityCheck(QLearner(3), forward_options=False), 50, [3])
    assert abs(compute.forwarded(handed_on)).max() > 0.001
    assert compute.as_published(handed_on) == pytest.approx(kept.by_seed, abs=1e-12)


def test_it_changes_nothing_for_scripted_agents() -> None:
    result = measure("rc(naive)", 50, 2)
    assert compute.as_published(result) == pytest.approx(result.by_seed, abs=1e-15)


def test_neural_rows_are_shown_both_ways() -> None:
    results = {
        "dqn": made("dqn", [(0, 0), (0, 0)], [100, 200]),
        "rc(dqn)": made("rc(dqn)", [(400, 100), (0, 100)], [200, 310]),
    }
    rows = [
        Row(agent, 500, ROWS[f"500/{agent}"], results.get(agent))
        for agent in compute.PUBLISHED_NAMES
    ] + [Row(agent, 1000, ROWS[f"1000/{agent}"], None) for agent in compute.PUBLISHED_NAMES]
    effect = next(e for e in effects(rows) if e.agent == "dqn" and e.steps == 500)
    # (200 - 100) and (310 - 200) of 2000, the learning rate left out.
    assert effect.paired and effect.ours.value == pytest.approx((0.05 + 0.055) / 2)
    first, _ = page.sections(rows)
    # (500 + 100) / 2 of 2000.
    assert "RC(DQN), 500 steps" in first.points[-1] and "+0.1500" in first.points[-1]
    assert any("neural agents" in line for line in page.findings(rows))


def test_default_seeds() -> None:
    assert [compute.default_seeds("naive", n) for n in compute.STEPS] == [10, 10]
    assert [compute.default_seeds("rc(ppo)", n) for n in compute.STEPS] == [10, 2]


def test_groups_and_lists_of_agents() -> None:
    assert len(compute.chosen("scripted")) == 6 and len(compute.chosen("all")) == 14
    assert compute.chosen("dqn, rc(dqn)") == ("dqn", "rc(dqn)")
    assert set(compute.chosen("neural")) & set(compute.chosen("scripted")) == set()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"agents": "q-learner"}, "agents is 'q-learner', expected scripted, neural, all, or some"),
        ({"seeds": 1}, "seeds is 1, expected at least 2, for a standard error"),
        ({"steps": 100}, "steps is 100, expected 500 or 1000, the lengths of Table 1"),
    ],
)
def test_what_cannot_be_run_is_refused(
    changes: dict[str, object], message: str, tmp_path: Path
) -> None:
    with pytest.raises(GoalmeterError, match=re.escape(message)):
        replicate(tmp_path, **changes)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_without_stable_baselines_it_is_said_before_anything_is_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    with pytest.raises(MissingExtraError, match=r"neural agents .*pip install 'goalmeter\[sb3\]'"):
        replicate(tmp_path, agents="all", progress=lambda line: pytest.fail(line))


def test_the_ledger_is_filled_from_the_runs(
    outcome: Outcome, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (Path(ledger.__file__).parent / "ledger.toml").read_text(encoding="utf-8")
    copy = tmp_path / "ledger.toml"
    copy.write_text(text, encoding="utf-8")
    update_ledger.main([str(folder), str(copy)])
    assert "reflection-table-1/500/rc(random): -0.0" in capsys.readouterr().out
    changed = [
        (old, new)
        for old, new in zip(
            text.splitlines(), copy.read_text(encoding="utf-8").splitlines(), strict=True
        )
        if old != new
    ]
    # Two seeds instead of ten in three rows, and other numbers in the one that is not 0.
    assert [new for _, new in changed if new.startswith("seeds")] == ["seeds = 2"] * 3
    assert len(changed) == 5 and {new.partition(" ")[0] for _, new in changed} == {
        "ours",
        "error",
        "seeds",
    }
    with pytest.raises(GoalmeterError, match="the ledger has no row 'nowhere'"):
        update_ledger.updated(text, [replace(PUBLISHED[0], id="nowhere")])


def test_an_unfinished_run_is_left_out_of_the_ledger(
    outcome: Outcome, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("run.json", "trials.jsonl"):
        lines = (folder / "runs" / "constant-500" / name).read_text(encoding="utf-8").splitlines()
        kept = lines[:-1] if name == "trials.jsonl" else lines
        target = tmp_path / "runs" / "constant-500" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("\n".join(kept) + "\n", encoding="utf-8")
    assert update_ledger.measured(tmp_path) == []
    assert "left out" in capsys.readouterr().err
