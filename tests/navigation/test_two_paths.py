"""Two paths: routes, differences to the control, and overlap of ways."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from navigation.walked import taken, task

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
