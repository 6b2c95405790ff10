"""d-separation and requisite CPDs: by hand, path by path, by networkx, and by their meaning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from causal.models import many, network_of, random_model, seeds, several
from hypothesis import given
from hypothesis import strategies as st
from oracles import causal_model as oracle
from oracles.random_diagrams import random_cpd

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


@pytest.mark.parametrize(
    ("x", "known", "requisite"),
    [
        # P(rain): nothing below it matters.
        ("rain", [], {"rain", "season"}),
        ("rain", ["season"], {"rain"}),
        # P(rain | grass): everything but the shoes.
        ("rain", ["grass"], {"season", "rain", "sprinkler", "grass"}),
        # P(rain | grass, sprinkler): why the sprinkler runs tells about the season.
        ("rain", ["grass", "sprinkler"], {"season", "rain", "sprinkler", "grass"}),
        ("shoes", ["grass"], {"shoes"}),
        ("shoes", ["grass", "season"], {"shoes"}),
    ],
)
def test_the_cpds_that_a_question_needs_by_hand(
    x: str, known: list[str], requisite: set[str]
) -> None:
    assert ball(GARDEN, [x], known).requisite == requisite


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


# --- What they mean -------------------------------------------------------------------------------


@given(seed=seeds, data=st.data())
@several
def test_separated_variables_are_independent(seed: int, data: Any) -> None:
    model = random_model(seed, most=5)
    names = data.draw(st.permutations(list(model.sizes)))
    known = tuple(names[: data.draw(st.integers(0, 2))])
    if len(names) < len(known) + 2:
        return
    x, y = names[len(known) : len(known) + 2]
    if not network_of(model).is_d_separated([x], [y], known):
        return
    table = oracle.sum_to(model, (*known, x, y), oracle.probability_table(model))
    rows = table.sum(axis=-1, keepdims=True)
    columns = table.sum(axis=-2, keepdims=True)
    both = table.sum(axis=(-2, -1), keepdims=True)
    np.testing.assert_allclose(table * both, rows * columns, atol=1e-14)


@given(seed=seeds, data=st.data())
@several
def test_only_requisite_cpds_change_a_conditional(seed: int, data: Any) -> None:
    model = random_model(seed, most=5)
    names = data.draw(st.permutations(list(model.sizes)))
    x, known = names[0], tuple(names[1 : 1 + data.draw(st.integers(0, 2))])
    needed = ball(model.parents, [x], known).requisite
    rng = np.random.default_rng(seed)
    redrawn = {
        y: 0.5 * cpd + 0.5 * random_cpd(rng, cpd.shape)
        for y, cpd in model.cpds.items()
        if y not in needed
    }
    changed = model._replace(cpds={**model.cpds, **redrawn})
    for values in np.ndindex(*(model.sizes[y] for y in known)):
        evidence = dict(zip(known, values, strict=True))
        try:
            before = oracle.marginal(model, oracle.probability_table(model), [x], evidence)
        except ValueError:
            continue
        after = oracle.marginal(changed, oracle.probability_table(changed), [x], evidence)
        np.testing.assert_allclose(after, before, atol=1e-13)


def test_a_graph_of_twenty_thousand_nodes_is_one_pass() -> None:
    n = 20_000
    parents = {f"X{i}": (f"X{i - 1}",) if i else () for i in range(n)}
    below = {f"X{i}": (f"X{i + 1}",) if i < n - 1 else () for i in range(n)}
    answer = bayes_ball(parents, below, ["X0"], ["X10000"])
    assert len(answer.connected) == 10_000
    assert answer.requisite == {f"X{i}" for i in range(10_001)}
