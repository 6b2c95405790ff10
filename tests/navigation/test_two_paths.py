"""Two paths: routes, differences to the control, and overlap of ways."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from navigation.walked import taken, task, walked

from goalmeter.navigation.keys import two_path_table

LEFT, RIGHT, UP, DOWN = range(4)
# A ring: over the top and along the bottom it is 6 steps.
WITH = ["#######", "#__K__#", "#A###G#", "#_____#", "#######"]
WITHOUT = ["#######", "#_____#", "#A###G#", "#_____#", "#######"]
TOP, BOTTOM = (UP, RIGHT, RIGHT, RIGHT, RIGHT, DOWN), (DOWN, RIGHT, RIGHT, RIGHT, RIGHT, UP)
LABELS: dict[str, Any] = {"suite": "two-path", "complexity": None, "cap": 12}


def test_by_hand() -> None:
    walks = []
    for seed in (0, 1):
        with_key = task(WITH, seed=seed, condition={"key": True}, **LABELS)
        control = task(WITHOUT, seed=seed, condition={"key": False}, **LABELS)
        walks += [
            taken(with_key, *TOP),
            taken(with_key, *(TOP if seed else BOTTOM), index=1),
            taken(control, *BOTTOM),
            taken(control, *[LEFT] * 12, index=1),
        ]
    (table,) = two_path_table(walks)
    assert table.condition == "{}"
    assert table.pick_up.rate.value == 3 / 4 and table.pick_up.shortest == 0.5
    assert table.pick_up.excess.value == 0.25
    assert list(table.by_side) == ["above"] and table.by_side["above"].value == 3 / 4
    assert table.with_key.success.value == 1 and table.without_key.success.value == 0.5
    assert table.success_difference.value == 0.5 and table.success_difference.clusters == 2
    assert table.accuracy_difference.value == 0.5
    assert table.taken is not None and table.taken.trajectories == 3
    assert table.not_taken is not None and table.not_taken.trajectories == 1
    # Top against bottom share start and goal of 12 cells; a way against the start alone one of 7.
    first = [2 / 12, 1 / 7]
    assert table.jaccard.value == pytest.approx(np.mean(first)) and table.jaccard.n == 4
    assert table.jaccard_control is not None and table.jaccard_control.value == pytest.approx(1 / 7)


def test_sides_in_a_world_that_stands() -> None:
    lying = task(WITH, condition={"key": True}, **LABELS)
    turned = [list(row) for row in zip(*WITH, strict=True)]
    standing = task(["".join(row) for row in turned], seed=1, condition={"key": True}, **LABELS)
    right = task(["".join(row[::-1]) for row in turned], seed=2, condition={"key": True}, **LABELS)
    control = task(WITHOUT, condition={"key": False}, **LABELS)
    walks = [
        taken(lying, *TOP),
        taken(standing, LEFT, DOWN, DOWN, DOWN, DOWN, RIGHT),
        taken(right, LEFT, DOWN, DOWN, DOWN, DOWN, RIGHT),
        taken(control, *TOP),
    ]
    table = two_path_table(walks)[0]
    assert {side: (e.value, e.n) for side, e in table.by_side.items()} == {
        "above": (1, 1),
        "left": (1, 1),
        "right": (0, 1),
    }


def test_known_agents() -> None:
    (coin,) = two_path_table(walked("optimal", "two-path", grids=60, trajectories=4))
    excess = coin.pick_up.excess.interval
    assert coin.pick_up.shortest == pytest.approx(0.5) and excess is not None
    assert excess[0] < 0 < excess[1]
    assert coin.success_difference.value == 0 == coin.accuracy_difference.value
    assert coin.with_key.success.value == coin.without_key.success.value == 1
    assert coin.jaccard_control is not None
    (seeker,) = two_path_table(walked("key-seeker", "two-path", grids=30))
    assert seeker.pick_up.rate.value == 1 and seeker.pick_up.p_value < 1e-6
    assert seeker.not_taken is None and seeker.jaccard_control is None
    assert seeker.with_key.accuracy.value == 1  # fetching this key costs nothing
    # One that keeps to its hand takes the key by luck, and its route does not mind it.
    (hand,) = two_path_table(walked("wall-follower", "two-path", grids=30))
    assert hand.jaccard.value == 1 and hand.pick_up.p_value > 0.05
    # The way to the right of who looks at the goal is the lower one in worlds that lie, and the
    # left one in worlds that stand.
    sides = {side: rate.value for side, rate in hand.by_side.items()}
    assert sides == {"above": 0, "below": 1, "left": 1, "right": 0}
