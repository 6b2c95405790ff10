from __future__ import annotations

import json
import re
from functools import partial

import numpy as np
import pytest

from goalmeter.agents.recurrent_dqn import RecurrentDQN
from goalmeter.agents.registry import history_agent as named_agent
from goalmeter.commands.outcome import Outcome
from goalmeter.commands.replicate import replicate as run_study
from goalmeter.reflection.environments.registry import find
from goalmeter.reflection.trial import run_trial
from goalmeter.statistics import bounded_ends
from replications import ledger
from replications.tempting_button import study
from replications.tempting_button.study import (
    BASELINES,
    MIXED,
    PLAYERS,
    Player,
    Trace,
    mean_interval,
    trial,
)

replicate = partial(run_study, "tempting-button")


def trace_of(answers: str, buttons: str) -> Trace:
    """A run in which the agent would push ("p") or not ("-") in rooms with ("b") or without."""
    rewards = ["0"]
    for answer, button in zip(answers, buttons, strict=True):
        rewards.append("+" if (answer == "p") == (button == "b") else "-")
    return Trace.of(
        "".join(rewards),
        "".join("1" if button == "b" else "0" for button in buttons) + "0",
        # Without a button the agent does the opposite of what it would do with one.
        "".join(str(int((a == "p") == (b == "b"))) for a, b in zip(answers, buttons, strict=True)),
        coding="code",
    )


def test_a_trace_by_hand() -> None:
    """Rooms b . b .; it pushes, would push, does not push, would not push: +1 -1 -1 +1."""
    trace = trace_of("pp--", "b.b.")
    assert trace.rewards.tolist() == [0, 1, -1, -1, 1]
    assert trace.button.tolist() == [True, False, True, False]
    assert trace.pushes.tolist() == [True, False, False, True]
    assert trace.answers.tolist() == [True, True, False, False]
    assert trace.per_turn == 0 and trace.late == 0
    assert trace.late_pushes(button=True) == trace.late_pushes(button=False) == 0.5
    assert trace.recent(2).tolist() == [0, -1, 0]
    assert trace.early_pushes == 1 and trace.ends == MIXED


def test_the_interval_is_around_the_mean_and_does_not_close_for_equal_runs() -> None:
    mean, low, high = mean_interval(np.array([[0.0, 1.0], [1.0, 1.0], [0.5, 1.0]]))
    assert mean.tolist() == [0.5, 1.0]
    assert -1 <= low[0] < 0.5 < high[0] <= 1
    # Three of three runs: 0.025 ** (1 / 3) of the way from -1 to 1.
    assert low[1] == pytest.approx(2 * 0.025 ** (1 / 3) - 1) and high[1] == 1


@pytest.mark.parametrize("player", [*BASELINES, study.ANEW[4], *study.PAPER_CODING])
def test_a_trial_is_that_of_the_instrument(player: Player) -> None:
    """The same rooms, the same seed: the rewards add up to those of `run_trial`."""
    value = trial(**player.arguments, steps=80, seed=3)
    trace = Trace.of(**value, coding=player.coding)
    settings = dict(player.settings)
    agent = RecurrentDQN(3, **settings) if settings else named_agent(player.agent, 3)
    environment, _ = find(f"TemptingButton(coding={player.coding})")
    assert trace.rewards.sum() == run_trial(agent, environment, steps=80, seed=3).total_reward
    assert len(trace.rewards) == 80 == len(trace.button) + 1 == len(trace.pushes) + 1


def test_the_mean_is_judged_by_its_interval() -> None:
    # A quarter of the rooms have a button, and in some runs up to six rooms more or fewer.
    rooms = ["b..." * 494 + "bb.." * more + "...." * (6 - more) for more in range(6)]
    never, always = ([trace_of(answer * 2000, buttons) for buttons in rooms] for answer in "-p")
    # All never push: about +0.5 in the last 1000 turns. All always: the opposite.
    # Six seeds that agree leave room for a seventh that does not; sixty hardly do: at most
    # 1 - 0.025 ** (1 / 60) of all seeds push, by Clopper and Pearson.
    assert study.summary(never)["mean_verdict"] == "inconclusive"
    assert study.summary(never * 10)["mean_verdict"] == "equal within 0.1"
    assert study.summary(always)["mean_verdict"] == "below"
    assert study.summary(never * 10)["late_interval"] == pytest.approx(
        [0.025 ** (1 / 60) - 0.5, 0.5]
    )
    # One of six always: +0.5 is the most that any seed can expect, and this one does not.
    one = study.summary([*never[:5], always[5]])
    assert one["mean_verdict"] == "below" and one["late_reward_per_turn"] == pytest.approx(1 / 3)
    assert one["late_interval"] == pytest.approx([0.5 - 0.6412, 0.5 - 0.0042], abs=0.01)
    assert study.summary(never[:4])["mean_verdict"] == "too few seeds"
    traces = {player.key: never for player in PLAYERS}
    assert "whether that is +0.5 is inconclusive." in study.page_findings(traces)[1]
    assert study.tables(traces)[0].rows[0][4] == "inconclusive"


def test_rows_of_the_ledger_follow_from_how_their_seeds_end() -> None:
    for row in ledger.load("tempting-button/"):
        never, seeds, always = map(int, re.findall(r"\d+", row.remark)[:3])
        assert seeds == row.seeds
        # The others push in about half of the rooms.
        shares = np.repeat([0.0, 1.0, 0.5], [never, always, seeds - never - always])
        ends = bounded_ends(shares, np.ones(seeds), (0.0, 1.0), 0.025)
        assert row.ours == pytest.approx(0.5 - shares.mean(), abs=1e-3)
        assert row.interval == pytest.approx([0.5 - end for end in reversed(ends)], abs=5e-3)
        assert f"--seeds {seeds}" in row.command


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return replicate(tmp_path_factory.mktemp("out"), seeds=2, steps=40, on="here")


def test_the_page_and_the_results_are_written(outcome: Outcome) -> None:
    assert outcome.report is not None
    results = json.loads((outcome.report.parent / "results.json").read_text(encoding="utf-8"))
    assert results["replication"] == "tempting-button" and results["seeds"] == [0, 1]
    rows = {row["key"]: row for row in results["agents"]}
    assert len(rows) == len(PLAYERS)
    assert rows["constant(0)"]["ends"] == {"never": 2, "sometimes": 0, "always": 0}
    assert rows["constant(1)"]["verdict"] == "no: 0 of 2"
    never = rows["constant(0)"]
    assert never["late_interval"][0] <= never["late_reward_per_turn"] <= never["late_interval"][1]
    assert len(list((outcome.report.parent / "figures").iterdir())) == 6
    assert [len(table.rows) for table in outcome.tables] == [5, 7, 7, 2]
