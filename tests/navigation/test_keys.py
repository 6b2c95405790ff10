"""Worlds with a key: stages, pick-up and wrong moves, beside what chance would have."""

from __future__ import annotations

import numpy as np
import pytest
from navigation.walked import taken, task, walked
from oracles import walk_measures as oracle
from scipy.stats import binomtest

from goalmeter.gridworld.world import GridWorld
from goalmeter.navigation.keys import chance_of_passing, keys

LEFT, RIGHT, UP, DOWN = range(4)


def test_stages_by_hand() -> None:
    door = task(["########", "#KA_D_G#", "########"], cap=9, suite="key-door", complexity=None)
    walk = taken(door, RIGHT, LEFT, None, LEFT, RIGHT, RIGHT, LEFT, RIGHT, RIGHT)
    (measured,) = keys([walk])
    # Without the key right is wrong, left right, no answer wrong, and left the last one: 2 of 4.
    # With it twice right, which opens the door; then left, right, right.
    values = {name: (e.value, e.n) for name, e in measured.stages.items()}
    assert values == {
        "before the key": (0.5, 1),
        "with the key, before the door": (1, 1),
        "after the door": (pytest.approx(2 / 3), 1),
    }
    assert measured.towards_key is None  # where there is a door it is right to fetch the key
    assert (measured.pick_up.rate.value, measured.pick_up.shortest) == (1, 1)
    assert measured.row.success.value == 0 and measured.row.outcomes == {"cap": 1}


def test_pick_up_and_wrong_moves_by_hand() -> None:
    # The key is to the left, the goal to the right; nothing else to do.
    world = ["#######", "#K_A_G#", "#######"]
    lured = task(world, cap=9, suite="key-no-door", complexity=None, seed=0)
    firm = task(world, cap=9, suite="key-no-door", complexity=None, seed=1)
    walks = [
        taken(lured, LEFT, UP, RIGHT, LEFT, LEFT, RIGHT, LEFT, RIGHT, RIGHT),
        taken(firm, RIGHT, RIGHT),
    ]
    (measured,) = keys(walks)
    assert measured.pick_up.rate.value == 0.5 and measured.pick_up.shortest == 0
    assert measured.pick_up.excess.value == 0.5
    assert list(measured.stages) == ["before the key", "with the key"]
    towards = measured.towards_key
    assert towards is not None
    # Wrong without the key: left, up, left, left. Of the three wrong answers one leads to the
    # key; of the wrong moves the only one does, and of the bumps none.
    assert (towards.share.value, towards.share.n) == (3 / 4, 4)
    assert towards.share_by_walk.value == 3 / 4 and towards.share_by_walk.n == 1
    assert towards.chance.value == pytest.approx(1 / 3)
    assert towards.excess.value == pytest.approx(3 / 4 - 1 / 3)
    assert towards.chance_of_kind.value == 3 / 4 and towards.excess_of_kind.value == 0


def test_chance_of_passing_by_hand() -> None:
    # Two ways around a block, the key on one of them; and one of six in an open room.
    ring = GridWorld.from_text(["#####", "#A_K#", "#_#_#", "#__G#", "#####"])
    assert chance_of_passing(ring, 10) == 0.5
    room = GridWorld.from_text(["#####", "#A_K#", "#___#", "#__G#", "#####"])
    assert chance_of_passing(room, 10) == 0.25  # right, then right: each a fair coin
    assert chance_of_passing(room, 1) == 0
    must = GridWorld.from_text(["######", "#AK_G#", "######"])
    assert chance_of_passing(must, 3) == 1


@pytest.mark.parametrize("agent", ["unreliable", "random", "key-seeker", "greedy"])
def test_every_share_is_its_definition(agent: str) -> None:
    walks = walked(agent, "key-no-door", grids=12)
    (measured,) = keys(walks)
    plain = [walk.to_json() for walk in walks]
    assert measured.towards_key is not None
    for name, expected in oracle.towards_key(plain).items():
        assert getattr(measured.towards_key, name).value == pytest.approx(expected), name
    taken_ = [any(s["state"][2] for s in walk["steps"]) for walk in plain]
    assert measured.pick_up.rate.value == pytest.approx(np.mean(taken_))
    assert measured.pick_up.excess.value == pytest.approx(
        np.mean(taken_) - measured.pick_up.shortest
    )
    before = [[oracle.is_right(s) for s in walk["steps"] if s["state"][2] == 0] for walk in plain]
    expected = np.mean([np.mean(b) for b in before if b])
    assert measured.stages["before the key"].value == pytest.approx(expected)


@pytest.mark.parametrize(("agent", "most"), [("key-seeker", 7), ("greedy", 5)])
def test_a_few_grids_that_all_agree_prove_little(agent: str, most: int) -> None:
    for grids in range(2, most + 1):
        measured = keys(walked(agent, "two-path", grids=grids))[0].pick_up
        # All took the key, or none did; by chance half of them would.
        assert measured.rate.value == (agent == "key-seeker") and measured.shortest == 0.5
        assert measured.p_value == pytest.approx(binomtest(0, grids, 0.5).pvalue)
        low, high = measured.excess.interval or (0, 0)
        assert (low <= 0 <= high) == (measured.p_value >= 0.05)
