"""Goal-directedness before and after the goal is moved and the shortest path is blocked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import goalmeter as gm
from goalmeter._errors import InvalidTrajectoryError
from goalmeter.agents.grid_agents import Acting, Decision
from goalmeter.agents.user_agents import navigator_of
from goalmeter.gridworld.generators import Draws
from goalmeter.gridworld.planner import State, planned
from goalmeter.gridworld.world import GridWorld, held_out
from goalmeter.meg.interventions import LAPSE
from goalmeter.navigation import interventions, interventions_of, measure, observed, suite
from goalmeter.navigation.interventions import MOST, TARGETS
from goalmeter.navigation.rationality import Decisions, summed_evidence
from goalmeter.navigation.suites import SLIP_PROBABILITY
from goalmeter.navigation.trajectories import Trajectory
from goalmeter.statistics.clusters import estimate
from goalmeter.statistics.verdicts import share_interval

SUITES = ("interventions", "devaluation")
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
    assert [row.verdict for row in optimal.rows] == ["follows"] * 5
    planner, wall_follower, random = (optimal, *optimal.references)
    assert planner.rationality == np.inf
    for result in (wall_follower, random):
        assert [row.verdict for row in result.rows] == ["does not follow"] * 5
    # The old place no longer explains anything, and the old map explains less than the new one.
    moved, removed, out_of_reach, blocked, slips = planner.rows
    assert removed.share.interval[1] < 0 < moved.controls["old place"].interval[0]
    assert out_of_reach.share.interval[1] < 0 < slips.controls["third place"].interval[0]
    assert blocked.controls["old map"].interval[0] > 0


def test_without_a_change_the_difference_is_0() -> None:
    walked = measure("boltzmann(1)", "interventions", beside=[], **SMALL)
    unchanged = [w for w in walked.seen.trajectories if w.condition["change"] == "none"]
    same = [replace(w, condition={"change": name}) for w in unchanged for name in TARGETS]
    result = interventions_of(replace(walked, seen=observed(same)))
    assert [row.difference.value for row in result.rows] == pytest.approx([0] * 5, abs=1e-12)
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
    assert len(worlds) == 4 * SMALL["grids"] and all(map(held_out, worlds))
    devalued = [task.world for task in suite("devaluation", held_out=True, **SMALL).tasks]
    for world, moved, blocked, slips, without in zip(
        *(worlds[number::4] for number in range(4)), devalued, strict=True
    ):
        assert moved == world.with_(goal=moved.goal) and moved.goal != world.goal
        assert (blocked.start, blocked.goal) == (world.start, world.goal)
        assert (blocked.walls >= world.walls).all()
        assert planned(blocked).distance > planned(world).distance
        assert slips == world
        # The goal is where no way leads, and its old place is as far away as it was.
        assert planned(without).distance == -1 and without.start == world.start
        opened = GridWorld(without.walls, without.start, world.goal)
        assert planned(opened).distance == planned(world).distance


class Creature:
    """Goes to where the goal was in a known maze, whatever its map says, and stays there."""

    name = "creature of habit"

    def __init__(self, **options: Any) -> None:
        tasks = [t for name in SUITES for t in suite(name, held_out=True, **options).tasks]
        places = {t.seed: t.world.goal for t in tasks if t.condition == {"change": "none"}}
        self.known = {task.world: places[task.seed] for task in tasks}

    def begin(self, world: GridWorld, draws: Draws) -> Acting:
        habit = GridWorld(world.walls, world.start, place := self.known[world])
        plan = planned(habit)

        def act(state: State) -> Decision:
            if state.cell != place:
                return Decision(draws.choice(plan.optimal_actions(state)))
            return Decision(draws.below(4))

        return Acting(act)


def test_a_habit_is_known_by_its_old_place() -> None:
    options = SMALL | {"grids": 10}
    result = interventions(Creature(**options), held_out=True, beside=[], **options)
    verdicts = {row.change: row.verdict for row in result.rows}
    assert verdicts == {
        "goal moved": "does not follow",
        "goal value removed": "does not follow",
        "goal out of reach": "does not follow",
        # Its habit knows the walls, and slips do not matter to it.
        "blocked": "follows",
        "slips": "follows",
    }


def test_an_agent_that_fails_without_a_way_has_no_row_for_it() -> None:
    def careless(world: GridWorld, state: State) -> list[float]:
        if planned(world).distance < 0:
            raise KeyError(world.goal)
        return [0.25] * 4

    result = interventions(navigator_of(careless, "careless"), beside=["random"], **SMALL)
    assert [row.change for row in result.rows] == [
        "goal moved",
        "goal value removed",
        "blocked",
        "slips",
    ]
    assert len(result.references[0].rows) == 4 and "careless fails" in result.notes[0]


def test_slips_replace_moves_and_are_stored() -> None:
    walked = measure("optimal", "interventions", beside=[], **SMALL | {"grids": 60, "seed": 1})
    steps = [
        s for w in walked.seen.trajectories if w.condition["change"] == "slips" for s in w.steps
    ]
    slipped = [step for step in steps if step.slip is not None]
    low, high = share_interval(len(slipped), len(steps))
    assert low < SLIP_PROBABILITY < high
    # The answer is scored, not the slip; a slip makes any of the four moves.
    assert all(step.is_optimal for step in steps) and {step.slip for step in slipped} == {
        0,
        1,
        2,
        3,
    }
    again = [Trajectory.from_json(walk.to_json()) for walk in walked.seen.trajectories]
    assert again == list(walked.seen.trajectories)
    first = next(walk for walk in again if any(s.slip is not None for s in walk.steps))
    without = replace(first, condition={"change": "none"})
    with pytest.raises(InvalidTrajectoryError, match="its task has none"):
        observed([without])


def test_invalid_input_is_refused() -> None:
    with pytest.raises(gm.InvalidParameterError, match="expected 'interventions'"):
        interventions_of(measure("random", "maze", sizes=[7], grids=1, beside=[]))
    with pytest.raises(gm.InvalidParameterError, match="no distances"):
        suite("interventions", distances=[(4, 8)])
    with pytest.raises(gm.InvalidParameterError, match="choose a lower complexity"):
        suite("interventions", sizes=[5], complexities=[1], grids=1)
