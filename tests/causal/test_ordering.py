"""Orders to sum variables out in: complete, priced as they cost, and the best of several."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pytest
from causal.models import random_model, seeds, several
from hypothesis import given
from hypothesis import strategies as st
from oracles.causal_model import Model

from goalmeter.causal.elimination import (
    backward_order,
    best_plan,
    contraction_order,
    cost_of,
    least_fill_order,
    smallest_table_order,
)

ORDERS = (contraction_order, backward_order, smallest_table_order, least_fill_order)


def scopes_of(model: Model, seen: Collection[str] = ()) -> list[tuple[str, ...]]:
    """What each CPD reads, causes first, without what is observed."""
    ordered: list[str] = []
    while len(ordered) < len(model.sizes):
        ordered += [
            x for x in model.sizes if x not in ordered and set(model.parents[x]) <= set(ordered)
        ]
    rows = [(*model.parents[x], x) for x in ordered]
    return [tuple(v for v in row if v not in seen) for row in rows]


def numbers_of(
    scopes: list[tuple[str, ...]], order: list[str], sizes: dict[str, int], keep: Any
) -> tuple[int, int]:
    """The largest table kept and the largest product summed, by going through the sets."""
    sets = [set(scope) for scope in scopes]
    stored = product = 1
    for x in [*order, None]:
        joined = set(keep).union(*sets) if x is None else {x}.union(*(s for s in sets if x in s))
        entries = int(np.prod([sizes[v] for v in joined], dtype=int))
        product = max(product, entries)
        stored = max(stored, entries if x is None else entries // sizes[x])
        sets = [s for s in sets if x not in s] + [joined - {x}]
    return stored, product


# --- By hand --------------------------------------------------------------------------------------

# A -> B -> C -> D, bits but for B, which has 5 states.
CHAIN = [("A",), ("A", "B"), ("B", "C"), ("C", "D")]
SIZES = {"A": 2, "B": 5, "C": 2, "D": 2}


def test_the_cost_of_an_order_by_hand() -> None:
    # A: [A, B] gives [B]; B: [B, C] gives [C]; C: [C, D] gives [D], which is kept.
    plan = cost_of(CHAIN, ["A", "B", "C"], SIZES, ["D"])
    assert (plan.product, plan.stored) == (10, 5)
    assert plan.table in ({"A", "B"}, {"B", "C"})
    # B first: [A, B, C] gives [A, C]; C: [A, C, D] gives [A, D].
    plan = cost_of(CHAIN, ["B", "C", "A"], SIZES, ["D"])
    assert (plan.product, plan.stored, plan.table) == (20, 4, {"A", "B", "C"})
    # What is kept is a table, too.
    assert cost_of([], [], SIZES, ["A", "B", "C"]).stored == 20


# --- Laws -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("find", ORDERS)
@given(seed=seeds, data=st.data())
@several
def test_an_order_sums_out_everything_else_once(find: Any, seed: int, data: Any) -> None:
    model = random_model(seed)
    names = data.draw(st.permutations(list(model.sizes)))
    kept = names[: data.draw(st.integers(0, 2))]
    seen = set(names[len(kept) :][: data.draw(st.integers(0, 2))])
    order = find(scopes_of(model, seen), model.sizes, kept)
    assert sorted([*order, *kept, *seen]) == sorted(model.sizes)


@given(seed=seeds, data=st.data())
@several
def test_the_cost_is_that_of_the_tables_on_the_way(seed: int, data: Any) -> None:
    model = random_model(seed, most=7)
    names = data.draw(st.permutations(list(model.sizes)))
    kept, order = names[:1], names[1:]
    plan = cost_of(scopes_of(model), order, model.sizes, kept)
    assert (plan.stored, plan.product) == numbers_of(scopes_of(model), order, model.sizes, kept)
    assert np.prod([model.sizes[x] for x in plan.table], dtype=int) == plan.product


@given(seed=seeds)
@several
def test_the_best_of_all_orders_is_taken(seed: int) -> None:
    model = random_model(seed, most=7)
    scopes, keep = scopes_of(model), list(model.sizes)[:1]
    costs = [
        cost_of(scopes, find(scopes, model.sizes, keep), model.sizes, keep).product
        for find in ORDERS
    ]
    assert best_plan(scopes, model.sizes, keep, 0).product == min(costs)
    # What is small enough is not improved on.
    assert best_plan(scopes, model.sizes, keep, max(costs)).product == costs[0]
