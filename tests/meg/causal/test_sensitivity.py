"""The sensitivity table: each row is its own measure, and the graph's marks hold in numbers."""

from __future__ import annotations

import json
from itertools import chain, combinations, pairwise
from typing import Any

import numpy as np
import pytest
from causal.models import network_of, random_team
from hypothesis import assume, given
from meg.causal.instances import MEG_08, built, done, few, mouse, seeds
from oracles import causal_model as oracle
from oracles import random_diagrams as diagrams
from oracles.causal_model import Model, has_sufficient_recall

from goalmeter import meg
from goalmeter.causal import CausalBayesianNetwork


def bits(names: str, **parents: str) -> CausalBayesianNetwork:
    """Bits with random CPDs."""
    rng = np.random.default_rng(5)
    arrows = {x: parents.get(x, "").split() for x in names.split()}
    cpds = {x: rng.dirichlet([1, 1], size=[2] * len(above)) for x, above in arrows.items()}
    return CausalBayesianNetwork({key: [0, 1] for key in arrows}, arrows, cpds)


# --- By hand --------------------------------------------------------------------------------------


def test_the_table_of_the_mouse() -> None:
    table = meg.sensitivity(mouse(position=True), ["D"])
    assert str(table).split("\n") == [
        "MEG of D towards ...",
        "  T     0.192745 nats, 27.8% of 0.693147  ≤ {S, M}",
        "  S, M  0.192745 nats, 27.8% of 0.693147",
        "  S, T  0.192745 nats, 27.8% of 0.693147  ≤ {S, M}",
        "  M, T  0.192745 nats, 27.8% of 0.693147  ≤ {S, M}",
        "  M     0.000000 nats, 0.0% of 0.693147",
    ]
    rows = {row.targets: row for row in table.rows}
    # S alone is not downstream, so it is no candidate.
    assert ("S",) not in rows
    assert rows["S", "M"].value == pytest.approx(MEG_08, abs=1e-10)
    assert str(rows["T",].goal) == "cheese +1, none −1"
    assert rows["M",].rationality == 0.0
    assert (table.decisions, table.do) == (("D",), {})


def test_a_mediator_stands_for_what_it_leads_to() -> None:
    # D -> M -> T: given M the decision says nothing about T, so {M, T} is {M} alone. M tells three
    # choices apart, T only whether it is the first: log 3 - entropy of (1/2, 1/3, 1/6), and
    # log 3 - entropy of (1/2, 1/4, 1/4).
    network = CausalBayesianNetwork(
        {"D": [0, 1, 2], "M": [0, 1, 2], "T": [0, 1]},
        {"M": ["D"], "T": ["M"]},
        {"D": [1 / 2, 1 / 3, 1 / 6], "M": lambda d: d, "T": lambda m: int(m == 0)},
    )
    table = meg.sensitivity(network, ["D"])
    rows = {row.targets: row for row in table.rows}
    by_hand = np.log(3) - np.log(2) / 2 - np.log(3) / 3 - np.log(6) / 6
    assert rows["M",].value == pytest.approx(by_hand, abs=1e-10)
    by_hand = np.log(3) - np.log(2) / 2 - np.log(4) / 2
    assert rows["T",].value == pytest.approx(by_hand, abs=1e-10)
    assert rows["T",].at_most == (("M",),)
    assert rows["M", "T"].equal_to == ("M",)
    assert rows["M", "T"].value == rows["M",].value
    assert rows["M", "T"].note == (
        "equal to MEG towards M, which separates the decisions from the rest"
    )
    assert rows["M", "T"].at_most == ()
    assert [line.split("  ")[-1] for line in str(table).split("\n")[2:]] == ["= {M}", "≤ {M}"]


# --- Every row by itself --------------------------------------------------------------------------


def all_sets(model: Model, up_to: int) -> list[tuple[str, ...]]:
    """What the table should be about."""
    below: set[str] = set().union(*(oracle.descendants(model.parents, d) for d in model.decisions))
    outside = [x for x in model.sizes if x not in model.decisions]
    sets = chain.from_iterable(combinations(outside, k) for k in range(1, up_to + 1))
    return [names for names in sets if below & set(names)]


def assert_consistent(model: Model, **options: Any) -> None:
    network = network_of(model)
    table = meg.sensitivity(network, model.decisions, **options)
    rows = {row.targets: row for row in table.rows}
    asked = done(model, options.get("do", {}))
    assert set(rows) == set(all_sets(asked, 2))
    for names, row in rows.items():
        alone = meg.targets(network, model.decisions, names, do=options.get("do"))
        assert row.value == pytest.approx(alone.value, abs=1e-8), names
        assert row.upper_bound == pytest.approx(alone.upper_bound, abs=2e-6)
        assert row.maximum == pytest.approx(alone.maximum, abs=1e-9)
        assert row.fraction == pytest.approx(alone.fraction, abs=1e-6)
        assert row.recall == alone.recall
        for mark in row.at_most:
            assert mark in rows
            assert oracle.d_separated(asked.parents, model.decisions, names, mark)
        if row.equal_to is not None:
            assert set(row.equal_to) < set(names)
            assert oracle.d_separated(asked.parents, model.decisions, names, row.equal_to)
        for names_above in rows:
            # Theorem 4.1, marked or not; and what follows from the graph is marked.
            if oracle.d_separated(asked.parents, model.decisions, names, names_above):
                assert row.value <= rows[names_above].value + 1e-8
                covered = {names, *row.at_most, row.equal_to or names}
                assert any(set(mark) <= set(names_above) for mark in covered)
    values = [row.value for row in table.rows]
    assert all(a >= b - 2e-6 for a, b in pairwise(values))


@given(seed=seeds)
@few
def test_every_row_is_the_measure_of_its_targets_in_any_diagram(seed: int) -> None:
    model = random_team(seed)
    sets = all_sets(model, 2)
    assume(sets)
    assume(all(has_sufficient_recall(model.parents, model.decisions, [s]) for s in sets))
    assert_consistent(model)


def test_rows_that_are_searched_for_say_so() -> None:
    # Two decisions that rely on each other, and a view V of the outcome.
    model = built(diagrams.forgetful, 0, "random")
    views = np.random.default_rng(0).dirichlet([1, 1], size=model.sizes["T"])
    network = network_of(
        model._replace(
            sizes={**model.sizes, "V": 2},
            parents={**model.parents, "V": ("T",)},
            cpds={**model.cpds, "V": views},
        )
    )
    table = meg.sensitivity(network, model.decisions, among=["T", "V", "S2"], up_to=2)
    rows = {row.targets: row for row in table.rows}
    # S2 is acted on by the first decision alone.
    assert rows["S2",].recall == "single"
    for names in (("T",), ("V",), ("T", "V")):
        assert rows[names].recall == "insufficient"
        assert "lower bound" in rows[names].note or rows[names].equal_to == ("T",)
    assert rows["V",].at_most == (("T",),)
    assert rows["V",].value <= rows["T",].value + 1e-5
    alone = meg.targets(network, model.decisions, ["T"])
    assert rows["T",].value == pytest.approx(alone.value, abs=1e-5)


# --- How it reads ---------------------------------------------------------------------------------


def test_the_table_is_json() -> None:
    table = meg.sensitivity(bits("D M T", M="D", T="M"), ["D"])
    shown = json.loads(json.dumps(table.to_json()))
    assert (shown["decisions"], shown["do"]) == (["D"], {})
    by_targets = {tuple(row["targets"]): row for row in shown["rows"]}
    assert by_targets["T",]["at_most"] == [["M"]]
    assert by_targets["M", "T"]["equal_to"] == ["M"]
    assert by_targets["M",]["equal_to"] is None
    assert {"outcome", "utility"} == set(by_targets["M",]["goal"][0])
    certain = meg.sensitivity(mouse(1.0), ["D"]).to_json()
    assert certain["rows"][0]["rationality"] == "inf"
    assert "ever larger utilities" in certain["rows"][0]["note"]


# --- Refusals -------------------------------------------------------------------------------------
