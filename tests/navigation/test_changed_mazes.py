"""Goal-directedness before and after the goal is moved and the shortest path is blocked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import goalmeter as gm
from goalmeter.gridworld.planner import planned
from goalmeter.gridworld.world import held_out
from goalmeter.meg.interventions import LAPSE
from goalmeter.navigation import interventions, interventions_of, measure, observed, suite
from goalmeter.navigation.interventions import MOST, TARGETS
from goalmeter.navigation.rationality import Decisions, summed_evidence
from goalmeter.statistics.clusters import estimate

SMALL: dict[str, Any] = {"sizes": [9], "complexities": [0.5], "grids": 6}


@pytest.fixture(scope="module")
def optimal() -> Any:
    return interventions("optimal", **SMALL | {"complexities": [0, 0.5], "grids": 12})


def test_a_decision_by_hand() -> None:
    # One step to the goal, and two decisions, of which the last does not matter. The right move
    # earns 1 and the other three 0, so the model takes it with probability e^b / (e^b + 3).
    world = gm.gridworld.GridWorld.from_text(["#####", "#_AG#", "#####"])
    mdp = gm.gridworld.tabular_world(world, horizon=2).mdp
    zero = np.zeros(1, dtype=np.int64)
    (nats,) = summed_evidence(mdp, Decisions(zero, zero, zero, zero + 1), 1, np.log([2.0, 9.0]))
    assert nats == pytest.approx(np.log([4 * 2 / 5, 4 * 9 / 12]))
    left = Decisions(zero, zero, zero, zero)
    (ruled_out,) = summed_evidence(mdp, left, 1, np.array([np.inf]), lapse=LAPSE)
    assert ruled_out == pytest.approx(np.log(LAPSE))


def test_the_optimal_agent_follows_the_goal_and_the_baselines_do_not(optimal: Any) -> None:
    assert [row.verdict for row in optimal.rows] == ["follows"] * 3
    planner, wall_follower, random = (optimal, *optimal.references)
    assert planner.rationality == np.inf
    for result in (wall_follower, random):
        assert [row.verdict for row in result.rows] == ["does not follow"] * 3
    # The old place no longer explains anything, and the old map explains less than the new one.
    moved, removed, blocked = planner.rows
    assert removed.share.interval[1] < 0 < moved.controls["old place"].interval[0]
    assert blocked.controls["old map"].interval[0] > 0


def test_without_a_change_the_difference_is_0() -> None:
    walked = measure("boltzmann(1)", "interventions", beside=[], **SMALL)
    unchanged = [w for w in walked.seen.trajectories if w.condition["change"] == "none"]
    same = [replace(w, condition={"change": name}) for w in unchanged for name in TARGETS]
    result = interventions_of(replace(walked, seen=observed(same)))
    assert [row.difference.value for row in result.rows] == pytest.approx([0, 0, 0], abs=1e-12)
    assert result.rows[0].share == result.before


def test_intervals_can_be_recomputed_from_the_numbers_of_the_mazes(optimal: Any) -> None:
    stored = optimal.to_json()
    after, before = (
        np.array([maze[change]["goal"] for maze in stored["mazes"]])
        for change in ("goal moved", "none")
    )
    strata = [maze["complexity"] for maze in stored["mazes"]]
    again = estimate(after - before, strata=strata).to_json()
    difference = stored["rows"][0]["difference"]
    assert difference["interval"] == pytest.approx(again["interval"])
    row = stored["rows"][0]
    assert row["nats_per_decision"]["value"] == pytest.approx(MOST * row["share"]["value"])
    assert "goal moved" in str(optimal) and "goal moved" in optimal._repr_html_()


def test_the_changes_of_a_maze() -> None:
    worlds = [task.world for task in suite("interventions", held_out=True, **SMALL).tasks]
    assert len(worlds) == 3 * SMALL["grids"] and all(map(held_out, worlds))
    for world, moved, blocked in zip(worlds[::3], worlds[1::3], worlds[2::3], strict=True):
        assert moved == world.with_(goal=moved.goal) and moved.goal != world.goal
        assert (blocked.start, blocked.goal) == (world.start, world.goal)
        assert (blocked.walls >= world.walls).all()
        assert planned(blocked).distance > planned(world).distance


def test_invalid_input_is_refused() -> None:
    with pytest.raises(gm.InvalidParameterError, match="expected 'interventions'"):
        interventions_of(measure("random", "maze", sizes=[7], grids=1, beside=[]))
    with pytest.raises(gm.InvalidParameterError, match="no distances"):
        suite("interventions", distances=[(4, 8)])
    with pytest.raises(gm.InvalidParameterError, match="choose a lower complexity"):
        suite("interventions", sizes=[5], complexities=[1], grids=1)
