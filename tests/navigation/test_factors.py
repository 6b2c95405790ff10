"""Prompt and object: effects by hand, against their definitions, and what cannot be told."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
from navigation.walked import Unreliable, taken, task
from oracles import walk_measures as oracle

from goalmeter.agents.grid_agents import navigator
from goalmeter.navigation import Trajectory, suite, walk
from goalmeter.navigation.distractors import Contrast, Factors, condition_effects, factors

LEFT, RIGHT, UP = 0, 1, 2
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


def test_what_there_is_to_tell() -> None:
    walks = [*crossed(0, FETCH, STRAIGHT), *crossed(1, FETCH, FETCH)]
    both = condition_effects(walks)
    assert all(isinstance(measured, Factors) for measured in both)
    # Who goes straight makes no wrong moves, so no grid has them in all four cells.
    assert [measured.measure for measured in both] == ["pick_up", "success", "accuracy"]
    for few, factor in ((walks[1::2], "object"), ([walks[0], walks[1]], "prompt")):
        measured = condition_effects(few)
        assert measured and all(
            isinstance(each, Contrast) and each.factor == factor for each in measured
        )
    assert condition_effects(walks[:1]) == ()
