"""Baselines: each is what its name says, and those that draw do so by their seed alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from representation.plan.plantings import walked

from goalmeter.gridworld import GridWorld, State
from goalmeter.gridworld.planner import planned
from goalmeter.representation.plans.readers import (
    END,
    NOTHING,
    UNASKED,
    majority,
    optimal_plans,
    other_walks,
    plans_in,
    stated_plans,
)
from goalmeter.representation.scenes import Scenes

OPEN = ["#####", "#A__#", "#___#", "#__G#", "#####"]
LEFT, RIGHT, UP, DOWN = range(4)


def test_the_majority_is_that_of_walks_under_way() -> None:
    done = np.array(
        [[2, 1, END, NOTHING], [2, END, NOTHING, NOTHING], [3, END, NOTHING, NOTHING], [0, 0, 0, 3]]
    )
    # Of the second steps two are ends, which do not count; of equal ones the lowest is taken.
    assert majority(done).tolist() == [2, 0, 0, 3]
    assert majority(done[:2]).tolist() == [2, 1, 1, 1]


def test_optimal_plans_are_shortest_ways_drawn_among_equals() -> None:
    plans = walked()
    told = optimal_plans(plans, seed=0)
    for world, row in zip(plans.scenes.worlds, told.tolist(), strict=True):
        plan = planned(world)
        state = plan.start
        for action in [a for a in row if 0 <= a < END]:
            assert action in plan.optimal_actions(state)
            state = plan.step(state, action)
        assert row.count(END) == (plan.distance < 10)
        assert (plan.distance_from(state) == 0) == (plan.distance <= 10)
    assert (optimal_plans(plans, seed=0) == told).all()
    # What is drawn for a walk does not depend on the others.
    assert (optimal_plans(plans.where(np.arange(7, 20)), seed=0) == told[7:20]).all()
    world = GridWorld.from_text(OPEN)
    scenes = Scenes.of([world] * 400, [State(world.start)] * 400, [RIGHT] * 400)
    ties = plans_in(scenes, [n // 2 for n in range(400)], [n % 2 for n in range(400)])
    first = optimal_plans(ties, seed=3)[:, 0]
    assert set(first.tolist()) == {RIGHT, DOWN} and 70 < (first == DOWN).sum() < 130


def test_another_walk_is_asked_of_the_same_question_alone() -> None:
    world, other = GridWorld.from_text(OPEN), GridWorld.from_text([*OPEN[:2], "#_#_#", *OPEN[3:]])
    worlds = [world] * 6 + [other] * 2
    moves = [RIGHT, RIGHT, DOWN, DOWN, RIGHT, DOWN, RIGHT, RIGHT]
    scenes = Scenes.of(worlds, [State(world.start)] * 8, moves)
    names = [number // 2 for number in range(8)]
    # The third walk was asked in other words, the fourth in another world.
    asked = ["a"] * 4 + ["b"] * 2 + ["a"] * 2
    plans = plans_in(scenes, names, [0, 1] * 4, asked)
    again = other_walks(plans, seed=0)
    assert again is not None
    assert again[0].tolist() == plans.actions[1].tolist()
    assert again[1].tolist() == plans.actions[0].tolist()
    assert (again[2:] == UNASKED).all()
    assert other_walks(plans.where(np.array([0, 2, 3])), seed=0) is None


def test_stated_plans_are_those_of_the_reasoning(networks: dict[str, Any]) -> None:
    from representation.tiny import sample

    network = networks["qwen"]
    says = sample(network, walk="says")
    silent = sample(network, walk="silent", answer='{"action": "RIGHT"}')
    scenes = Scenes.of([says.world] * 4, [says.state] * 4, [RIGHT] * 4)
    plans = plans_in(scenes, ["says", "says", "silent", "silent"], [0, 1, 0, 1], queries=5)
    told = stated_plans([says, silent], network.local.tokenizer, plans)
    assert told is not None
    assert told.tolist() == [[RIGHT, RIGHT, DOWN, END, NOTHING], [NOTHING] * 5]
    assert stated_plans([silent], network.local.tokenizer, plans) is None
