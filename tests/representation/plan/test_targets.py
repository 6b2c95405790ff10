"""Sequences of actions: against the oracle, none is dropped, what is not known is no end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oracles import plans as oracle
from representation.planted import Plant, planted

from goalmeter import GoalmeterError
from goalmeter.gridworld import GridWorld, State
from goalmeter.gridworld.planner import planned
from goalmeter.representation.plans.readers import END, NOTHING, WalkPlans, plans_in
from goalmeter.representation.scenes import Scenes

HALL = ["#" * 16, "#A" + "_" * 12 + "G#", "#" * 16]
ROOM = ["#####", "#A#_#", "#___#", "#_#G#", "#####"]
LEFT, RIGHT, UP, DOWN = range(4)


def plans_by(*walks: oracle.Walk, **options: Any) -> WalkPlans:
    worlds, states, actions, names, steps = [], [], [], [], []
    for name, (picture, moves) in enumerate(walks):
        world = GridWorld.from_text(picture)
        state = State(world.start)
        for number, move in enumerate(moves):
            worlds.append(world)
            states.append(state)
            actions.append(move)
            names.append(f"walk {name}")
            steps.append(number)
            state = state if move is None else planned(world).step(state, move)
    return plans_in(Scenes.of(worlds, states, actions), names, steps, **options)


def spelled(plans: WalkPlans) -> list[list[int | str]]:
    return [
        ["end" if a == END else a for a in row if a != NOTHING] for row in plans.actions.tolist()
    ]


def test_sequences_of_walks_that_arrive_are_cut_or_are_ended() -> None:
    walks: list[oracle.Walk] = [
        (ROOM, [DOWN, RIGHT, RIGHT, DOWN]),
        (ROOM, [DOWN, None, UP, None]),
        (ROOM, [None, None]),
        (HALL, [RIGHT] * 13),
        (["#" * 12, "#A" + "_" * 8 + "G#", "#" * 12], [RIGHT] * 9),
        (["#" * 13, "#A" + "_" * 9 + "G#", "#" * 13], [RIGHT] * 10),
    ]
    plans = plans_by(*walks)
    # Thirteen actions and ten are cut without an end; nine leave room for it.
    expected = [
        [DOWN, RIGHT, RIGHT, DOWN, "end"],
        [DOWN, UP],
        [],
        [RIGHT] * 10,
        [RIGHT] * 9 + ["end"],
        [RIGHT] * 10,
    ]
    assert spelled(plans) == expected == [oracle.told_of(walk, 10) for walk in walks]
    assert plans.lengths.tolist() == [4, 2, 0, 10, 9, 10]
    assert plans.unreadable == 4 and plans.queries == 10


def test_no_walk_is_dropped_and_all_agree_with_the_oracle() -> None:
    made = planted(Plant(grids=60, size=9, use="nothing", cap=14, dimensions=150), seed=1)
    plans = plans_in(made.scenes, made.walks.tolist(), made.steps.tolist(), queries=6)
    assert len(plans) == 60 and plans.walks == tuple(range(60))
    for row, walk in zip(spelled(plans), range(60), strict=True):
        rows = np.flatnonzero(made.walks == walk)
        world = made.scenes.worlds[rows[0]]
        moves = [made.scenes.actions[i] for i in rows]
        assert row == oracle.told_of((str(world).splitlines(), moves), 6)
    assert (plans.lengths == 6).sum() > 10


def test_what_is_no_whole_walk_is_refused() -> None:
    whole = plans_by((ROOM, [DOWN, RIGHT]))
    scenes = Scenes.of([whole.scenes.worlds[0]] * 2, [whole.scenes.states[0]] * 2, [DOWN, DOWN])
    with pytest.raises(GoalmeterError, match="decisions of walk 'w' are incomplete"):
        plans_in(scenes, ["w", "w"], [0, 2])
    with pytest.raises(GoalmeterError, match="decisions of walk 'w' are incomplete"):
        plans_in(scenes, ["w", "w"], [1, 1])
    with pytest.raises(GoalmeterError, match="every walk has a single decision and not all"):
        plans_in(scenes, ["w", "v"], [0, 0])
    # Walks of one step that arrive are whole.
    near = ["####", "#AG#", "####"]
    assert spelled(plans_by((near, [RIGHT]), (near, [RIGHT]))) == [[RIGHT, "end"]] * 2
