"""Goal-directedness in tables, fitted in the original world and scored in changed ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import goalmeter as gm
from goalmeter.meg.interventions import LAPSE, changed_world

TO_CHEESE, TO_NOTHING = [0, 1, 0], [0, 0, 1]
STAY = [[0, 1, 0], [0, 1, 0]], [[0, 0, 1], [0, 0, 1]]
MOUSE = gm.TabularMDP([[TO_CHEESE, TO_NOTHING], *STAY], [0, 1, -1], horizon=2)
HABIT = [[0.8, 0.2], [0.5, 0.5], [0.5, 0.5]]


def verdicts(mdp: gm.TabularMDP, policy: Any, **options: Any) -> dict[str, str]:
    rows = gm.meg.under_changes(mdp, policy, **options).rows
    return {row.change.split(" ")[0]: row.verdict for row in rows}


def test_the_mouse_of_the_paper_by_hand() -> None:
    # The model goes to the cheese with probability 0.8; after the cheese is moved, with 0.2.
    result = gm.meg.under_changes(MOUSE, HABIT, {"moved": 2})
    good, bad = ((1 - LAPSE) * 2 * p + LAPSE for p in (0.8, 0.2))
    before = (0.8 * np.log(good) + 0.2 * np.log(bad)) / np.log(2)
    after = (0.8 * np.log(bad) + 0.2 * np.log(good)) / np.log(2)
    (row,) = result.rows
    assert result.rationality == pytest.approx(np.log(2))
    assert (result.before.value, row.share.value) == pytest.approx((before, after))
    assert row.difference.value == pytest.approx(after - before)
    assert row.controls["original hypothesis"].value == pytest.approx(after - before)
    assert row.nats_per_decision.value == pytest.approx(after * np.log(2))
    assert row.verdict == "does not follow" and row.share.interval is None


def test_an_agent_that_plans_again_follows_and_a_habit_does_not() -> None:
    world = gm.cliff_world()
    habit = gm.optimal_policy(world)
    assert verdicts(world, gm.optimal_policy, changes=["moved", "devalued", "blocked"]) == {
        "moved": "follows",
        "devalued": "follows",
        "blocked": "follows",
    }
    assert set(verdicts(world, habit, changes=["moved", "devalued", "blocked"]).values()) == {
        "does not follow"
    }
    assert set(verdicts(world, gm.uniform_policy).values()) == {"does not follow"}


def test_without_a_change_the_difference_is_0() -> None:
    world = gm.cliff_world(goal_length=2, horizon=12)
    policy = gm.epsilon_greedy(gm.optimal_policy(world), 0.3)
    for changes in ({"none": world}, {"slip": 0.0}):
        (row,) = gm.meg.under_changes(world, policy, changes).rows
        assert row.difference.value == pytest.approx(0, abs=1e-12)
        assert row.verdict == "inconclusive"  # no hypothesis is ruled out


def test_the_changed_worlds() -> None:
    world = gm.cliff_world(goal_length=2)
    moved, devalued = (changed_world(world, name, 30) for name in ("moved", "devalued"))
    best = np.flatnonzero(world.reward == 10)
    assert moved.reward[30] == 10 and (moved.reward[best] == -1).all()
    assert (devalued.reward[best] == -1).all() and devalued.reward.max() == -1
    dense = world.transition.to_dense()
    slipping = changed_world(world, "slip", 0.25).transition.to_dense()
    assert slipping == pytest.approx(0.75 * dense + 0.25 * dense.mean(axis=1, keepdims=True))
    blocked = changed_world(world, "blocked", 11).transition.to_dense()
    others = np.delete(np.arange(world.n_states), 11)
    assert blocked[others][..., 11].max() == 0 and dense[others][..., 11].max() > 0


def test_a_world_without_another_way_leaves_the_block_out() -> None:
    corridor = gm.gridworld.tabular_world(
        gm.gridworld.GridWorld.from_text(["######", "#A__G#", "######"]), horizon=9
    ).mdp
    result = gm.meg.under_changes(corridor, gm.optimal_policy, ["blocked"])
    assert result.rows == () and "left out" in result.notes[0]
    assert result.to_json()["notes"] == list(result.notes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"moved": 99}, "expected a state, 0 to 2"),
        ({"blocked": 0}, "initial state"),
        ({"slip": 2}, "expected 0 to 1"),
        (["teleported"], "there is no change 'teleported'"),
    ],
)
def test_invalid_changes_are_refused(changes: Any, message: str) -> None:
    with pytest.raises(gm.InvalidParameterError, match=message):
        gm.meg.under_changes(MOUSE, HABIT, changes)
