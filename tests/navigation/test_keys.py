"""Worlds with a key: stages, pick-up, wrong moves, two paths, and effects of prompt and object."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from navigation.walked import Unreliable, taken, task, walked
from oracles import walk_measures as oracle
from scipy.stats import binomtest

from goalmeter.agents.grid_agents import navigator
from goalmeter.navigation import Trajectory, suite, walk
from goalmeter.navigation.distractors import factors
from goalmeter.navigation.keys import keys, two_path_table

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


@pytest.mark.parametrize("agent", ["unreliable", "key-seeker"])
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


# A ring: over the top and along the bottom it is 6 steps.
WITH = ["#######", "#__K__#", "#A###G#", "#_____#", "#######"]
WITHOUT = ["#######", "#_____#", "#A###G#", "#_____#", "#######"]
TOP, BOTTOM = (UP, RIGHT, RIGHT, RIGHT, RIGHT, DOWN), (DOWN, RIGHT, RIGHT, RIGHT, RIGHT, UP)
LABELS: dict[str, Any] = {"suite": "two-path", "complexity": None, "cap": 12}


def test_two_paths_by_hand() -> None:
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


FETCH, STRAIGHT = (LEFT, LEFT, RIGHT, RIGHT, RIGHT, RIGHT), (RIGHT, RIGHT)
PROMPTS = ({"prompt": "plain"}, {"prompt": "keys"})


def in_cell(
    prompt: str, object_name: str, *actions: int, seed: int = 0, index: int = 0
) -> Trajectory:
    where = task(
        ["#######", f"#{object_name}_A_G#", "#######"],
        seed=seed,
        complexity=None,
        suite="key-no-door",
        condition={"prompt": prompt, "here": "always"},
    )
    return taken(where, *actions, index=index)


def crossed(seed: int, both: tuple[int, ...], words: tuple[int, ...]) -> list[Trajectory]:
    return [
        in_cell("plain", "K", *STRAIGHT, seed=seed),
        in_cell("keys", "K", *both, seed=seed),
        in_cell("plain", "N", *STRAIGHT, seed=seed),
        in_cell("keys", "N", *words, seed=seed),
    ]


@lru_cache
def asked(
    agent: str, name: str, grids: int, trajectories: int, turned: str = "key-seeker"
) -> list[Trajectory]:
    """An agent in all four cells, and another one where the prompt speaks of keys."""
    made = suite(
        name, grids=grids, trajectories=trajectories, objects=["key", "neutral"], conditions=PROMPTS
    )
    plain = Unreliable() if agent == "unreliable" else navigator(agent)
    who = {"plain": plain, "keys": navigator(turned)}
    return [walk(who[each.condition["prompt"]], each, index) for each, index in made.walks()]


def test_effects_by_hand() -> None:
    walks = [*crossed(0, FETCH, STRAIGHT), *crossed(1, FETCH, FETCH)]
    measured = factors(walks)
    assert measured.factors == ("prompt", "object")
    # The key is held against the neutral object, whichever comes first.
    assert measured.levels == (("plain", "keys"), ("neutral", "key"))
    assert measured.cells == ((0, 0), (0.5, 1)) and measured.grids == 2
    # Words: +1/2 and +1; the thing: +1/2 and 0; together 1 more in the first grid alone.
    assert [effect.value for effect in measured.effects] == [0.75, 0.25]
    assert measured.interaction.value == 0.5 and measured.interaction.clusters == 2
    accuracy = factors(walks, measure="accuracy")
    # Two of six steps of who fetches it are wrong.
    assert accuracy.cells[1][1] == pytest.approx(4 / 6) and accuracy.cells[0] == (1, 1)
    assert factors(walks, "object", "prompt").effects[0].value == 0.25
    assert factors(walks, measure="success").effects[0].value == 0


@pytest.mark.parametrize("name", ["key-no-door", "two-path"])
@pytest.mark.parametrize("measure", ["pick_up", "towards", "success", "accuracy"])
def test_every_effect_is_its_definition(name: str, measure: str) -> None:
    walks = asked("unreliable", name, 8, 2, turned="random")
    by_grid = oracle.cells([each.to_json() for each in walks], measure)
    whole = [cells for cells in by_grid.values() if len(cells) == 4]
    measured = factors(walks, measure=measure)
    assert measured.grids == len(whole) > 1
    k, n = "key", "neutral"
    words, object_name, both = [], [], []
    for c in whole:
        words.append((c["keys", k] + c["keys", n] - c["plain", k] - c["plain", n]) / 2)
        object_name.append((c["keys", k] - c["keys", n] + c["plain", k] - c["plain", n]) / 2)
        both.append(c["keys", k] - c["keys", n] - c["plain", k] + c["plain", n])
    for effect, expected in zip(
        (*measured.effects, measured.interaction), (words, object_name, both), strict=True
    ):
        assert effect.value == pytest.approx(np.mean(expected))
        assert effect.n == effect.clusters == len(whole)
        assert effect.interval is not None
        assert effect.interval[0] <= effect.value + 1e-12 and effect.value <= effect.interval[1]
    expected_cells = [
        [np.mean([c[p, t] for c in whole]) for t in (n, k)] for p in ("plain", "keys")
    ]
    assert np.array(measured.cells) == pytest.approx(np.array(expected_cells))
