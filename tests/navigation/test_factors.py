"""Two conditions crossed: effects by hand, and what cannot be told."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from navigation.walked import taken, task

from goalmeter._errors import GoalmeterError
from goalmeter.navigation import Trajectory
from goalmeter.navigation.measures import factors

LEFT, RIGHT, UP = 0, 1, 2
WORLD = ["#######", "#K_A_G#", "#######"]
FETCH, STRAIGHT = (LEFT, LEFT, RIGHT, RIGHT, RIGHT, RIGHT), (RIGHT, RIGHT)


def in_cell(prompt: str, thing: str, *actions: int, seed: int = 0, index: int = 0) -> Trajectory:
    where = task(
        WORLD,
        seed=seed,
        complexity=None,
        suite="key-no-door",
        condition={"prompt": prompt, "object": thing, "key": True},
    )
    return taken(where, *actions, index=index)


def crossed(seed: int, both: tuple[int, ...], words: tuple[int, ...]) -> list[Trajectory]:
    return [
        in_cell("plain", "neutral", *STRAIGHT, seed=seed),
        in_cell("keys", "neutral", *words, seed=seed),
        in_cell("plain", "key", *STRAIGHT, seed=seed),
        in_cell("keys", "key", *both, seed=seed),
    ]


def test_effects_by_hand() -> None:
    walks = [*crossed(0, FETCH, STRAIGHT), *crossed(1, FETCH, FETCH)]
    found = factors(walks)
    assert found.factors == ("prompt", "object")
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


def test_only_whole_grids_count() -> None:
    walks = [*crossed(0, FETCH, STRAIGHT), *crossed(1, FETCH, FETCH)[:3]]
    assert factors(walks).grids == 1
    # A walk on which nothing was decided has no accuracy, so its grid is not whole.
    walks = [*crossed(0, FETCH, STRAIGHT), *crossed(1, (), FETCH)]
    assert factors(walks, measure="accuracy").grids == 1 and factors(walks).grids == 2


def test_as_json() -> None:
    written = factors([*crossed(0, FETCH, STRAIGHT), *crossed(1, FETCH, FETCH)]).to_json()
    assert json.loads(json.dumps(written, allow_nan=False)) == written
    assert written["levels"] == [["plain", "keys"], ["neutral", "key"]]


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (
            lambda walks: factors(walks, "colour"),
            "colour is no condition of all trajectories; there",
        ),
        (lambda walks: factors(walks, "key"), "key is True, expected two different values"),
        (
            lambda walks: factors(walks[:3]),
            "no grid was walked through in all four combinations of",
        ),
        (
            lambda walks: factors(walks, measure="joy"),
            "there is no measure 'joy' of factors; known",
        ),
    ],
)
def test_errors(ask: Callable[[list[Trajectory]], Any], said: str) -> None:
    with pytest.raises(GoalmeterError) as caught:
        ask(crossed(0, FETCH, STRAIGHT))
    assert said in str(caught.value)
