"""Goal-directedness of walks, pooled over worlds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from goalmeter.experiments.navigate import navigate
from goalmeter.experiments.navigation_meg import directed, directed_table
from goalmeter.experiments.navigation_results import Measured, measured
from goalmeter.gridworld import tabular_world
from goalmeter.meg.trajectories import from_trajectories
from goalmeter.navigation import Trajectory
from goalmeter.navigation.plan import plan_of
from goalmeter.navigation.playing import Walked, play_all

SMALL: dict[str, Any] = {"sizes": [5], "complexities": [1.0], "grids": 1, "trajectories": 4}


def walked(agent: str, name: str = "maze", **options: Any) -> Walked:
    return play_all(plan_of(agent, name, **(options or SMALL)))


def with_invalid(walk: Trajectory, at: int) -> Trajectory:
    """The walk with an answer that was no action, at a step; the agent stayed for it."""
    step = replace(walk.steps[at], action=None, invalid="no action", probabilities=None)
    steps = (*walk.steps[:at], step, *walk.steps[at:])
    return replace(walk, steps=steps[: walk.cap])


def test_one_world_is_that_of_its_mdp() -> None:
    result = measured(walked("epsilon-optimal(0.5)"))
    (found,) = directed(result, seed=3)
    (world,) = {walk.world for walk in result.seen.trajectories}
    cap = result.seen.trajectories[0].cap
    tabular = tabular_world(world, horizon=cap)
    longest = max(len(walk.steps) for walk in result.seen.trajectories)
    states, actions = np.zeros((2, 4, longest), dtype=int)
    lengths = []
    for row, walk in enumerate(result.seen.trajectories):
        lengths.append(len(walk.steps))
        states[row, : lengths[-1]] = [tabular.index(step.state) for step in walk.steps]
        actions[row, : lengths[-1]] = [step.action for step in walk.steps]  # type: ignore[misc]
    rng = np.random.default_rng(3)
    expected = from_trajectories(tabular.mdp, (states, actions, lengths), rng=rng)
    assert found.found is not None
    assert found.found.corrected == pytest.approx(expected.corrected)
    assert found.found.interval == pytest.approx(expected.interval)
    assert (found.towards, found.worlds, found.cut, found.left_out) == ("goal", 1, 0, 0)
    assert found.to_json()["n"] == 4


def test_towards_what_an_agent_goes() -> None:
    nats = {}
    for agent in ("optimal", "key-seeker"):
        result = measured(walked(agent, "key-no-door", grids=2, cap_factor=1.0))
        nats |= {(agent, one.towards): one.found.corrected for one in directed(result) if one.found}
    assert nats["key-seeker", "key"] > 1 > nats["optimal", "key"]
    assert nats["optimal", "goal"] > nats["key-seeker", "goal"]


def test_answers_that_are_no_action_cut_a_walk_and_are_counted() -> None:
    run = walked("optimal", grids=1, sizes=[9], complexities=[1.0], trajectories=4)
    first, second, *others = run.trajectories
    changed = (with_invalid(first, 0), with_invalid(second, 1), *others)
    result: Measured = measured(replace(run, trajectories=changed))
    (found,) = directed(result)
    assert (found.cut, found.left_out) == (1, 1) and found.found is not None
    assert found.found.n == 3
    assert "1 walks count up to the first answer" in directed_table([found]).notes[1]
    none = replace(run, trajectories=tuple(with_invalid(walk, 0) for walk in run.trajectories))
    (nothing,) = directed(measured(none))
    assert nothing.found is None and nothing.left_out == 4
    assert nothing.to_json()["corrected"] is None
    assert directed_table([nothing]).cells[0][3].text == "–"


def test_every_agent_of_the_command_has_its_nats() -> None:
    said: list[str] = []
    outcome = navigate("optimal", **SMALL, meg=True, progress=said.append)
    (own,) = outcome.json["meg"]
    assert own["towards"] == "goal" and own["corrected"] > 0 and own["worlds"] == 1
    others = outcome.json["references"]
    assert all(len(other["meg"]) == 1 for other in others.values())
    assert [row[0].text for row in outcome.tables[-1].cells] == ["optimal", *others]
    assert "goal-directedness: greedy" in said
    assert "meg" not in navigate("optimal", **SMALL).json
