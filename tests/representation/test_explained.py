"""What a map explains: by hand, against the literal shares, and beside its controls."""

from __future__ import annotations

import numpy as np
import pytest
from oracles import representation as oracle
from representation.scenery import random_posterior, scenes_of

from goalmeter.gridworld import State, maze
from goalmeter.representation.beliefs.decoded_maps import (
    ANOTHER,
    ANOTHER_WALLS,
    CHANCE,
    EMPTY_ROOM,
    GREEDY,
    Maps,
    decoded,
    empty_rooms,
    explained,
    map_controls,
)
from goalmeter.representation.scenes import Scenes

LEFT, RIGHT, UP, DOWN = range(4)


def test_four_steps_by_hand() -> None:
    # True: the only way is down. Believed: the way to the right is open as well, and as short.
    true = ["#####", "#A#_#", "#_#_#", "#__G#", "#####"]
    wrong = ["#####", "#A__#", "#_#_#", "#__G#", "#####"]
    scenes = scenes_of(*[true] * 5, actions=[DOWN, RIGHT, LEFT, None, RIGHT])
    (belief,) = scenes_of(wrong).worlds
    maps = Maps.of([belief, belief, belief, belief, None])
    (row, *_) = explained(maps, {}, scenes)
    assert (row.steps, row.errors, row.unreadable) == (5, 3, 1)
    assert row.invalid.value == pytest.approx(1 / 5)
    # Down and the first right are optimal on the map.
    assert row.on_map.value.value == pytest.approx(2 / 5)
    # Of right, left and the right without a map, the first is explained.
    assert row.explained_errors.value.value == pytest.approx(1 / 3)
    # The map has down, which is right, in two of the three errors; always where it is valid.
    assert row.map_corrects.value.value == pytest.approx(2 / 3)
    assert row.recovery.value == 1.0 and row.agreement.value.value == pytest.approx(4 / 5)
    assert row.reversed.value == 0.0
    # Of the three wrong actions one is optimal on the map, and none where there is no map.
    assert row.explained_errors.controls[CHANCE].value == pytest.approx(2 / 9)
    # The compass goes down alone: it explains no error.
    assert row.explained_errors.controls[GREEDY].value == 0.0


def walked(seed: int, n: int = 30) -> Scenes:
    rng = np.random.default_rng(seed)
    worlds = [maze(7, 0.7, seed=int(i)).world for i in rng.integers(0, 12, n)]
    cells = [
        rooms[rng.integers(len(rooms))]
        for rooms in ([c for c in world.open_cells if c != world.goal] for world in worlds)
    ]
    actions = [None if a == 4 else int(a) for a in rng.integers(0, 5, n)]
    return Scenes.of(worlds, [State(cell) for cell in cells], actions)


@pytest.mark.parametrize("rule", ["published", "places"])
def test_shares_agree_with_their_definition(rule: str) -> None:
    scenes = walked(0)
    maps = decoded(random_posterior(scenes, 1), scenes, rule=rule)
    states = []
    for n, (world, state) in enumerate(zip(scenes.worlds, scenes.states, strict=True)):
        here = str(world.with_(start=state.cell)).splitlines()
        belief = maps.worlds[n]
        on_map = oracle.best_moves(None if belief is None else str(belief).splitlines())
        states.append((scenes.actions[n], oracle.best_moves(here), on_map))
    for row in explained(maps, {}, scenes):
        kept = np.ones(len(scenes), dtype=bool) if row.states == "all" else scenes.detour
        expected = oracle.shares([states[n] for n in np.flatnonzero(kept)])
        for name, value in expected.items():
            if name == "chance":
                seen = row.explained_errors.controls[CHANCE]
            else:
                field = getattr(row, name)
                seen = getattr(field, "value", field)
                seen = field if isinstance(seen, float) else seen
            assert seen.value == pytest.approx(value, nan_ok=True), name


def test_controls_know_nothing_of_the_map() -> None:
    scenes = walked(2)
    maps = decoded(random_posterior(scenes, 3), scenes)
    controls = map_controls(maps, scenes, seed=0)
    rooms = [room for room in empty_rooms(scenes).worlds if room is not None]
    assert controls[EMPTY_ROOM].worlds == tuple(rooms)
    assert all(not w.walls[1:-1, 1:-1].any() for w in rooms)
    assert [w.start for w in rooms] == [s.cell for s in scenes.states]
    for n, world in enumerate(controls[ANOTHER_WALLS].worlds):
        own, whole = maps.worlds[n], controls[ANOTHER].worlds[n]
        assert world is not None and own is not None and whole is not None
        assert (world.start, world.goal) == (own.start, own.goal)
        lent = whole.walls.copy()
        objects = [own.start, own.goal, whole.start, whole.goal]
        for cell in objects:
            lent[cell] = False
        drawn = world.walls.copy()
        for cell in objects:
            drawn[cell] = False
        assert (drawn == lent).all()
