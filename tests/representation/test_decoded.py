"""Posteriors as maps: both rules by hand and against the literal ones, and maps that are none."""

from __future__ import annotations

import numpy as np
import pytest
from oracles import representation as oracle
from representation.scenery import PICTURES, certain, random_posterior, scenes_of, spelled

from goalmeter.gridworld import State, key_door
from goalmeter.gridworld.planner import DOOR_OPEN, WITH_KEY
from goalmeter.representation.beliefs.decoded_maps import NO_AGENT, NO_GOAL, NO_WAY, decoded
from goalmeter.representation.scenes import AGENT, CLASSES, DOOR, EMPTY, WALL, Scenes

SCENES = scenes_of(*PICTURES)
RULES = ("published", "places")


@pytest.mark.parametrize("rule", RULES)
def test_the_truth_decodes_to_itself(rule: str) -> None:
    maps = decoded(certain(SCENES), SCENES, rule=rule)
    assert maps.worlds == SCENES.worlds and maps.reasons == (None,) * 3 and maps.counts == {}
    assert (maps.optimal == SCENES.optimal).all() and maps.valid.all()


@pytest.mark.parametrize("seed", range(6))
def test_both_rules_agree_with_their_literal_form(seed: int) -> None:
    posterior = random_posterior(SCENES, seed)
    for rule, picture_of in (
        ("published", oracle.published_picture),
        ("places", oracle.places_picture),
    ):
        maps = decoded(posterior, SCENES, rule=rule)
        for n, world in enumerate(maps.worlds):
            picture = picture_of(spelled(posterior[n]))
            assert (None if world is None else str(world).splitlines()) == picture
            moves = oracle.best_moves(picture)
            assert set(np.flatnonzero(maps.optimal[n]).tolist()) == moves
            assert (maps.reasons[n] is None) == bool(moves)


def one(changes: dict[tuple[int, int], dict[int, float]]) -> tuple[np.ndarray, Scenes]:  # type: ignore[type-arg]
    """The first picture with other posteriors in some cells."""
    scenes = scenes_of(PICTURES[0])
    posterior = certain(scenes)
    for (row, column), shares in changes.items():
        posterior[0, row, column] = [shares.get(k, 0.0) for k in range(len(CLASSES))]
    return posterior, scenes


def test_why_a_map_is_none() -> None:
    start, goal = (1, 1), (3, 3)
    for changes, reason in (
        ({start: {EMPTY: 0.6, AGENT: 0.4}}, NO_AGENT),
        ({goal: {WALL: 1.0}}, NO_GOAL),
        ({(2, 2): {WALL: 1.0}}, NO_WAY),
    ):
        posterior, scenes = one(changes)
        maps = decoded(posterior, scenes, rule="published")
        assert maps.reasons == (reason,) and maps.counts == {reason: 1}
        assert not maps.valid.any() and not maps.optimal.any()
        assert (maps.worlds[0] is None) == (reason != NO_WAY)
    # By places there is an agent wherever it is most probable.
    posterior, scenes = one({start: {EMPTY: 0.6, AGENT: 0.4}})
    assert decoded(posterior, scenes).worlds == scenes.worlds


def test_a_door_is_open_to_who_has_the_key_and_a_wall_to_others() -> None:
    world = key_door(1)
    assert world.door is not None
    states = [State(world.start, layer) for layer in (0, WITH_KEY, DOOR_OPEN)]
    scenes = Scenes.of([world] * 3, states, [0] * 3)
    truth = certain(scenes)
    maps = decoded(truth, scenes)
    assert maps.worlds[0] == world
    assert all(
        w is not None and w.door is None and not w.walls[world.door] for w in maps.worlds[1:]
    )
    assert (maps.optimal == scenes.optimal).all()
    # The key is not read: what the door keeps shut stays shut.
    assert world.key is not None
    truth[0, *world.key] = 0.0
    truth[0, *world.key, EMPTY] = 1.0
    (unread, *_) = decoded(truth, scenes, rule="published").worlds
    assert unread is not None and unread.key is None and unread.walls[world.door]
    assert truth[0, *world.door, DOOR] == 1.0
