"""The sensitivity table: each row is its own measure, and the graph's marks hold in numbers."""

from __future__ import annotations

from itertools import chain, combinations, pairwise
from typing import Any

import pytest
from causal.models import network_of, random_team
from hypothesis import assume, given
from meg.causal.instances import MEG_08, done, few, mouse, seeds
from oracles import causal_model as oracle
from oracles.causal_model import Model, has_sufficient_recall

from goalmeter import meg


def test_the_table_of_the_mouse() -> None:
    table = meg.sensitivity(mouse(position=True), ["D"])
    assert "\n  T     0.192745 nats, 27.8% of 0.693147  ≤ {S, M}\n" in str(table)
    rows = {row.targets: row for row in table.rows}
    # S alone is not downstream, so it is no candidate.
    assert ("S",) not in rows
    assert rows["S", "M"].value == pytest.approx(MEG_08, abs=1e-10)
    assert str(rows["T",].goal) == "cheese +1, none −1"
    assert rows["M",].rationality == 0.0
    assert (table.decisions, table.do) == (("D",), {})


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
