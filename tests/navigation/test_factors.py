"""Prompt and object: effects by hand, against their definitions, and what cannot be told."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from navigation.walked import Unreliable, taken, task, walked
from oracles import navigation as oracle

from goalmeter._errors import GoalmeterError
from goalmeter.agents.navigators import navigator
from goalmeter.navigation import Trajectory, suite, walk
from goalmeter.navigation.measures import Contrast, Factors, contrast, factors, told_apart

LEFT, RIGHT, UP = 0, 1, 2
FETCH, STRAIGHT = (LEFT, LEFT, RIGHT, RIGHT, RIGHT, RIGHT), (RIGHT, RIGHT)
PROMPTS = ({"prompt": "plain"}, {"prompt": "keys"})


def in_cell(prompt: str, thing: str, *actions: int, seed: int = 0, index: int = 0) -> Trajectory:
    where = task(
        ["#######", f"#{thing}_A_G#", "#######"],
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
    agent: str, name: str, grids: int, trajectories: int, other: str = "key-seeker"
) -> list[Trajectory]:
    """An agent in all four cells, and another one where the prompt speaks of keys."""
    made = suite(
        name, grids=grids, trajectories=trajectories, objects=["key", "neutral"], conditions=PROMPTS
    )
    plain = Unreliable() if agent == "unreliable" else navigator(agent)
    who = {"plain": plain, "keys": navigator(other)}
    return [walk(who[one.condition["prompt"]], one, index) for one, index in made.walks()]


def test_effects_by_hand() -> None:
    walks = [*crossed(0, FETCH, STRAIGHT), *crossed(1, FETCH, FETCH)]
    found = factors(walks)
    assert found.factors == ("prompt", "object")
    # The key is held against the neutral object, whichever comes first.
    assert found.levels == (("plain", "keys"), ("neutral", "key"))
    assert found.cells == ((0, 0), (0.5, 1)) and found.grids == 2
    # Words: +1/2 and +1; the thing: +1/2 and 0; together 1 more in the first grid alone.
    assert [effect.value for effect in found.effects] == [0.75, 0.25]
    assert found.interaction.value == 0.5 and found.interaction.clusters == 2
    accuracy = factors(walks, measure="accuracy")
    # Two of six steps of who fetches it are wrong.
    assert accuracy.cells[1][1] == pytest.approx(4 / 6) and accuracy.cells[0] == (1, 1)
    assert factors(walks, "object", "prompt").effects[0].value == 0.25
    assert factors(walks, measure="success").effects[0].value == 0


def test_wrong_moves_by_hand() -> None:
    # Left is wrong and towards the thing, as any wrong move is; up is a bump. So there is nothing
    # beyond chance, however often it turns back.
    walks = [
        in_cell("keys", thing, *actions)
        for thing, actions in (("K", (LEFT, UP, LEFT, *[RIGHT] * 4)), ("N", (UP, RIGHT, RIGHT)))
    ]
    found = contrast(walks, measure="towards")
    assert found.cells == (0, 0) and found.effect.value == 0
    # In the second world, up is wrong too and leads nowhere near: by chance it is one of two.
    world = ["#######", "###__##", "#{}_A_G#", "#######"]
    turned = [
        task(
            [row.format(thing) for row in world],
            complexity=None,
            suite="key-no-door",
            condition={"prompt": "keys"},
        )
        for thing in ("K", "N")
    ]
    back = [taken(turned[0], LEFT, LEFT, *[RIGHT] * 4), taken(turned[1], UP, 3, RIGHT, RIGHT)]
    found = contrast(back, measure="towards")
    # The key: half beyond chance at the start, nothing beyond it next; the other: half less.
    assert found.cells == pytest.approx((-0.5, 0.25)) and found.effect.value == pytest.approx(0.75)


def test_the_words_about_keys_come_second_in_any_order() -> None:
    walks = crossed(0, FETCH, STRAIGHT)
    named = [
        replace(one, condition={"prompt": {"plain": "plain/1", "keys": "keys/1"}[prompt]})
        for one in walks
        for prompt in [one.condition["prompt"]]
    ]
    assert factors(named) == factors(named[::-1])
    assert factors(named).levels == (("plain/1", "keys/1"), ("neutral", "key"))
    # Any other condition is in the order in which it comes up, also one that is no word.
    ranges = [replace(one, condition={"prompt": [i, 9]}) for i, one in enumerate(walks[:2])]
    assert contrast(ranges, "prompt").levels == ([0, 9], [1, 9])


def test_one_condition_alone() -> None:
    walks = [*crossed(0, FETCH, STRAIGHT), *crossed(1, FETCH, FETCH)]
    thing, words = contrast(walks), contrast(walks, "prompt")
    assert (thing.levels, thing.cells, thing.effect.value) == (
        ("neutral", "key"),
        (0.25, 0.5),
        0.25,
    )
    assert (words.levels, words.cells, words.effect.value) == (("plain", "keys"), (0, 0.75), 0.75)
    assert words.grids == words.effect.clusters == 2


@pytest.mark.parametrize("name", ["key-no-door", "two-path"])
@pytest.mark.parametrize("measure", ["pick_up", "towards", "success", "accuracy"])
def test_every_effect_is_its_definition(name: str, measure: str) -> None:
    walks = asked("unreliable", name, 8, 2, other="random")
    by_grid = oracle.cells([one.to_json() for one in walks], measure)
    whole = [cells for cells in by_grid.values() if len(cells) == 4]
    found = factors(walks, measure=measure)
    assert found.grids == len(whole) > 1
    k, n = "key", "neutral"
    words, thing, both = [], [], []
    for c in whole:
        words.append((c["keys", k] + c["keys", n] - c["plain", k] - c["plain", n]) / 2)
        thing.append((c["keys", k] - c["keys", n] + c["plain", k] - c["plain", n]) / 2)
        both.append(c["keys", k] - c["keys", n] - c["plain", k] + c["plain", n])
    for effect, expected in zip(
        (*found.effects, found.interaction), (words, thing, both), strict=True
    ):
        assert effect.value == pytest.approx(np.mean(expected))
        assert effect.n == effect.clusters == len(whole)
        assert effect.interval is not None
        assert effect.interval[0] <= effect.value + 1e-12 and effect.value <= effect.interval[1]
    expected_cells = [
        [np.mean([c[p, t] for c in whole]) for t in (n, k)] for p in ("plain", "keys")
    ]
    assert np.array(found.cells) == pytest.approx(np.array(expected_cells))


def test_known_agents() -> None:
    """Words that turn an agent to keys do nothing without one: all of it is the two together."""
    found = factors(asked("optimal", "key-no-door", 40, 5))
    words, thing = found.effects
    assert found.grids == 40
    assert found.cells[1][1] == 1 and abs(found.cells[0][0] - found.cells[0][1]) < 0.1
    for effect in (words, thing):
        assert effect.interval is not None and effect.interval[0] > 0.15
        assert effect.value == pytest.approx(found.interaction.value / 2, abs=0.08)
    assert found.interaction.interval is not None and found.interaction.interval[0] > 0.3
    # An agent that sees no difference has no effects.
    walks = walked("optimal", "key-no-door", grids=40, trajectories=5, objects=("key", "neutral"))
    none = contrast(walks)
    assert none.effect.interval is not None
    assert none.effect.interval[0] < 0 < none.effect.interval[1]


def test_what_is_the_same_in_every_grid_has_an_interval_all_the_same() -> None:
    walks = [one for seed in range(5) for one in crossed(seed, FETCH, STRAIGHT)]
    kept = [one for one in walks if one.condition["prompt"] == "keys"]
    effect = contrast(kept).effect
    assert effect.value == 1 and effect.interval is not None
    assert effect.interval[0] < 1 == effect.interval[1]


def test_only_whole_grids_count() -> None:
    walks = [*crossed(0, FETCH, STRAIGHT), *crossed(1, FETCH, FETCH)[:3]]
    assert factors(walks).grids == 1
    # A walk on which nothing was decided has no accuracy, so its grid is not whole.
    walks = [*crossed(0, FETCH, STRAIGHT), *crossed(1, (), FETCH)]
    assert factors(walks, measure="accuracy").grids == 1 and factors(walks).grids == 2


def test_what_there_is_to_tell() -> None:
    walks = [*crossed(0, FETCH, STRAIGHT), *crossed(1, FETCH, FETCH)]
    both = told_apart(walks)
    assert all(isinstance(found, Factors) for found in both)
    # Who goes straight makes no wrong moves, so no grid has them in all four cells.
    assert [found.measure for found in both] == ["pick_up", "success", "accuracy"]
    for some, factor in ((walks[1::2], "object"), ([walks[0], walks[1]], "prompt")):
        found = told_apart(some)
        assert found and all(isinstance(one, Contrast) and one.factor == factor for one in found)
    assert told_apart(walks[:1]) == ()
    # The controls of two ways have no object, and are there under each prompt.
    found = told_apart(asked("optimal", "two-path", 4, 1))
    assert {one.measure: one.grids for one in found} == {"pick_up": 4, "success": 4, "accuracy": 4}
    # Neither is anything to pick up in a maze, nor wrong to fetch behind a door.
    for name in ("maze", "key-door"):
        again = [
            replace(one, condition={**one.condition, "prompt": prompt})
            for one in walked("random", name, grids=2)
            for prompt in ("plain", "keys")
        ]
        measures = [one.measure for one in told_apart(again)]
        assert measures == (["pick_up"] if name == "key-door" else []) + ["success", "accuracy"]


def test_as_json() -> None:
    walks = [*crossed(0, FETCH, STRAIGHT), *crossed(1, FETCH, FETCH)]
    written = factors(walks).to_json()
    assert json.loads(json.dumps(written, allow_nan=False)) == written
    assert written["levels"] == [["plain", "keys"], ["neutral", "key"]]
    written = contrast(walks).to_json()
    assert json.loads(json.dumps(written, allow_nan=False)) == written
    assert (written["factor"], written["levels"]) == ("object", ["neutral", "key"])


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (
            lambda walks: factors(walks, "colour"),
            "colour is no condition of all trajectories; there is one with here, prompt",
        ),
        (lambda walks: factors(walks, "here"), "here is 'always', expected two different values"),
        (lambda walks: factors(walks[:2]), "object is 'key', expected two different values"),
        (
            lambda walks: factors(walks[:3]),
            "no grid was walked through in all combinations of prompt and object",
        ),
        (
            lambda walks: factors(walks, measure="joy"),
            "there is no measure 'joy' of factors; known are pick_up, towards, success, accuracy",
        ),
    ],
)
def test_errors(ask: Callable[[list[Trajectory]], Any], said: str) -> None:
    with pytest.raises(GoalmeterError) as caught:
        ask(crossed(0, FETCH, STRAIGHT))
    assert said in str(caught.value)


def test_worlds_with_nothing_in_them_say_so() -> None:
    empty = in_cell("plain", "_", *STRAIGHT)
    with pytest.raises(GoalmeterError, match="object is nowhere given, expected two different"):
        contrast([empty])
