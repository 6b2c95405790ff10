"""Naming a wrong goal before it shows: levels whose truth is known, and the whole in small."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from goalmeter._types import FloatArray
from goalmeter.commands.replicate import replicate as run_study
from goalmeter.gridworld.generators import Draws
from goalmeter.meg.known import known_utility
from replications.goal_misgeneralisation import levels as drawing
from replications.goal_misgeneralisation import measurements, study
from replications.goal_misgeneralisation.levels import FAMILIES, Levels
from replications.goal_misgeneralisation.measurements import Network, Scale, TrainedAgent, expert
from replications.goal_misgeneralisation.study import scored

SMALL = Scale(
    levels=40, updates=30, steps=4096, of_a_kind=8, shifted=12, run_of_a_kind=2, budget=10_000
)
WRITTEN = ("results.json", "tables.md", "report.html")


@pytest.fixture(autouse=True)
def _extras() -> None:
    pytest.importorskip("torch")


@pytest.mark.parametrize("family", FAMILIES)
def test_utilities_differ_in_levels_that_tell_the_goals_apart_alone(family: str) -> None:
    make = FAMILIES[family]
    for number in range(20):
        same = make(Draws("a", number), apart=False, kept=True)
        np.testing.assert_array_equal(same.right, same.wrong)
        assert not same.fails.any()
        other = make(Draws("a", number), apart=True, kept=True)
        assert (other.right != other.wrong).any() and other.fails.any() and other.succeeds.any()


@pytest.mark.parametrize("family", FAMILIES)
def test_no_level_that_is_measured_was_trained_on(family: str) -> None:
    def contents(levels: Levels) -> set[bytes]:
        # What is seen in the first state says everything but what the agent has done since.
        return {row.tobytes() for row in levels.observations[levels.starts]}

    for share in (0.1,):
        taught = contents(drawing.training_levels(family, share, 0, 30))
        assert not taught & contents(drawing.training_like(family, share, 0, 20).levels)
        assert not taught & contents(drawing.shifted(family, 0, 20))


def test_a_share_of_levels_tells_the_goals_apart() -> None:
    like = drawing.training_like(drawing.CORNER_MAZES, 0.001, 0, 60)
    # Of 10,000 levels 10 tell the goals apart; all of them are worked out, and 60 of the others.
    assert (len(like.levels), like.apart) == (70, 10)
    assert like.weights.sum() == pytest.approx(1.0)
    assert like.weights[-10:].sum() == pytest.approx(0.001)
    # Who runs them may run those that tell more often; where none does, all alike.
    more = like.weighted(0.9)
    assert more[-10:].sum() == pytest.approx(0.9) and more.sum() == pytest.approx(1.0)
    for share in (0.0, 1.0):
        alike = drawing.training_like(drawing.CORNER_MAZES, share, 0, 5).weighted(0.9)
        np.testing.assert_array_equal(alike, np.full(5, 0.2))


def _random_policy(levels: Levels, seed: int) -> FloatArray:
    return np.asarray(np.random.default_rng(seed).dirichlet(np.ones(4), len(levels.right)))


@pytest.mark.parametrize("family", FAMILIES)
def test_evidence_of_levels_adds_up_to_meg(family: str) -> None:
    like = drawing.training_like(family, 0.1, 0, 6)
    policy = _random_policy(like.levels, 1)
    for utility in (like.levels.right, like.levels.wrong):
        result = known_utility(like.levels.mdp(like.weights), policy, utility=utility)
        each = measurements.evidence(like.levels, policy, utility, result.rationality)
        assert like.weights @ each == pytest.approx(result.value, abs=1e-6)


def _scored(share: float, family: str, wanted: str) -> dict[str, Any]:
    """An expert, as if a network had learnt it by heart."""

    class ByHeart(Network):
        def policy(self, observations: Any) -> FloatArray:
            for levels in (like, there, run):
                if observations is levels.observations:
                    return 0.9 * expert(levels, getattr(levels, wanted)) + 0.025
            raise AssertionError("other levels")

    like = drawing.training_like(family, share, 0, 12).levels
    run = drawing.training_like(family, share, 0, 4).levels
    there = drawing.shifted(family, 0, 20)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Network, "from_json", lambda value: ByHeart([]))
        tables = measurements.measured(family, share, None, 0, 12, 20)
        runs = measurements.run(family, share, None, 0, 4, 20_000)
    agent = vars(TrainedAgent(family, measurements.CLONE, share, 0))
    return scored(agent | {"tables": tables, "runs": runs})


@pytest.mark.parametrize(
    ("family", "wanted"),
    [
        (drawing.CORNER_MAZES, "wrong"),
        pytest.param(drawing.KEYS_AND_CHESTS, "right", marks=pytest.mark.slow),
    ],
)
def test_experts_are_named_where_levels_tell_and_not_where_none_does(
    family: str, wanted: str
) -> None:
    told = _scored(0.1, family, wanted)
    assert told["trained"] and told["outcome"] == wanted
    assert study.contains_exact(told)
    assert told["names"][study.EXACT] == told["names"][study.FIRST] == wanted
    learnt = told["predictors"]["utility learnt by unknown-utility MEG"]["score"]
    assert (learnt > 0) == (wanted == "wrong")
    silent = _scored(0.0, family, wanted)
    assert set(silent["names"].values()) == {study.SILENT}
    assert study.exact(silent) == 0.0 and study.contains_exact(silent)
    # What JSON says of an agent is all that is known of it.
    again = json.loads(json.dumps(told))
    assert scored(again) == again


def _row(share: float, difference: float, shown: float, first: float) -> dict[str, Any]:
    def around(value: float) -> dict[str, Any]:
        interval = [value - 0.1, value + 0.1]
        return {"value": value, "interval": interval, "n": 9, "clusters": 9}

    interval = around(difference)["interval"]
    return scored(
        vars(TrainedAgent(drawing.CORNER_MAZES, measurements.PPO, share, 0))
        | {
            "tables": {
                "decided": 1.0,
                "meg": {"difference": difference * share, "interval": interval},
                "first_apart": around(first),
                "failure_apart": None,
                "failure": around(0.0),
                "learnt": None,
                "shifted": {"difference": around(shown)},
            },
            "runs": {"difference": difference, "interval": interval, "exact": difference},
        }
    )


def test_areas_and_their_differences_by_hand() -> None:
    # Two that pursue the wrong goal; one the right one, one neither, for which MEG abstains.
    rows = [
        _row(0.1, 2.0, 0.8, -0.5),
        _row(1.0, 1.0, 0.5, 0.5),
        _row(1.0, -1.0, -0.7, 0.3),
        _row(0.1, 0.05, 0.1, 0.4),
    ]
    assert [row["outcome"] for row in rows] == ["wrong", "wrong", "right", "neither"]
    named = [row["names"][study.EXACT] for row in rows]
    assert named == ["wrong", "wrong", "right", "abstains"]
    firsts = [row["names"][study.FIRST] for row in rows]
    assert firsts == ["right", "wrong", "wrong", "wrong"]
    assert study.area(rows, study.EXACT).value == 1.0
    # Scores -.5 and .5 against .3 and .4: of four pairs two are in the right order.
    assert study.area(rows, study.FIRST).value == 0.5
    assert study.area(rows, study.EXACT, study.FIRST).value == 0.5
    # At share .1 it is -.5 against .4, at share 1 .5 against .3.
    assert study.area(rows, study.FIRST, same_share=True).value == 0.5
    # Shares: one pair is in the right order, one is not, and two are ties.
    share = "minus the share of distinguishing levels"
    assert study.area(rows, share).value == 0.5
    assert study.area(rows[:3], share).value == 0.75
    assert study.area(rows[:3], share, same_share=True).value == 0.5
    # Where all agents do the same there is no pair to compare.
    alike = study.area(rows[:2], study.EXACT, study.FIRST)
    assert np.isnan(alike.value) and alike.interval is None


@pytest.mark.slow
def test_small_replication_goes_on_where_it_was_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("stable_baselines3")
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    monkeypatch.setattr(study, "SCALE", SMALL)
    monkeypatch.setattr(measurements, "SHARES", (0.0, 0.1))
    assert run_study("goal-misgeneralisation", seeds=1, dry_run=True).json["planned"] == {
        "agents": 12
    }
    whole = run_study("goal-misgeneralisation", tmp_path / "a", seeds=1)
    # A run that was killed when some agents were trained and some of these measured goes on.
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    for folder, number in (("agents", 11), ("tables", 10), ("runs", 10)):
        file = tmp_path / "b" / folder / "trials.jsonl"
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
        assert len(lines) == 12
        file.write_text("".join(lines[:number]), encoding="utf-8")
    for name in WRITTEN:
        (tmp_path / "b" / name).unlink()
    again = run_study("goal-misgeneralisation", tmp_path / "b", seeds=1, on="processes:1")
    assert [t.cells for t in again.tables] == [t.cells for t in whole.tables]
    for name in WRITTEN:
        first, second = ((tmp_path / run / name).read_bytes() for run in "ab")
        assert first == second
    result = json.loads((tmp_path / "a" / "results.json").read_text(encoding="utf-8"))
    assert len(result["agents"]) == 12
    silent = [row for row in result["agents"] if row["share"] == 0]
    assert all(set(row["names"].values()) == {study.SILENT} for row in silent)
    # The stored agents are all that the tables are made of.
    stored = [scored(row) for row in result["agents"]]
    written = (tmp_path / "a" / "tables.md").read_text(encoding="utf-8")
    assert study.markdown(stored) == written
    assert whole.tables[0].caption == study.say("area_under_the_curve")["caption"]
