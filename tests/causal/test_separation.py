"""d-separation and requisite CPDs: by hand, path by path, by networkx, and by their meaning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from causal.models import many, network_of, random_model, seeds
from hypothesis import given
from hypothesis import strategies as st
from oracles import causal_model as oracle

from goalmeter.causal.graph import bayes_ball

# Rain and a sprinkler make the grass wet, and wet grass makes shoes wet.
GARDEN = {
    "season": (),
    "rain": ("season",),
    "sprinkler": ("season",),
    "grass": ("rain", "sprinkler"),
    "shoes": ("grass",),
}


def children(parents: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    return {x: tuple(y for y in parents if x in parents[y]) for x in parents}


def ball(parents: Mapping[str, Sequence[str]], xs: Sequence[str], known: Sequence[str]) -> Any:
    return bayes_ball(parents, children(parents), xs, known)


# --- By hand --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "known", "connected"),
    [
        # A fork and a chain carry until they are cut.
        ("rain", [], {"rain", "season", "sprinkler", "grass", "shoes"}),
        ("rain", ["season"], {"rain", "grass", "shoes"}),
        ("rain", ["season", "grass"], {"rain", "sprinkler"}),
        ("shoes", ["grass"], {"shoes"}),
        ("season", ["rain", "sprinkler"], {"season"}),
        # A collider carries once it, or what follows from it, is seen.
        ("rain", ["season", "shoes"], {"rain", "grass", "sprinkler"}),
        # What is given is known already.
        ("rain", ["rain"], set()),
    ],
)
def test_the_garden_by_hand(x: str, known: list[str], connected: set[str]) -> None:
    assert ball(GARDEN, [x], known).connected == connected


# --- Other definitions ----------------------------------------------------------------------------


@given(seed=seeds, data=st.data())
@many
def test_separated_is_every_path_blocked(seed: int, data: Any) -> None:
    model = random_model(seed, most=6)
    network = network_of(model)
    names = list(model.sizes)
    some_names = st.lists(st.sampled_from(names), max_size=3, unique=True)
    xs, ys, zs = data.draw(some_names), data.draw(some_names), data.draw(some_names)
    expected = oracle.d_separated(model.parents, xs, ys, zs)
    assert network.is_d_separated(xs, ys, zs) == expected
    assert network.is_d_separated(ys, xs, zs) == expected
