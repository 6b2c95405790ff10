"""Recall: which decisions rely on which, by hand and by Koller and Milch's definition."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from causal.models import many, network_of, random_team, seeds
from hypothesis import given
from hypothesis import strategies as st
from oracles import causal_model as oracle
from oracles import random_diagrams as diagrams

from goalmeter.causal import CausalBayesianNetwork
from goalmeter.causal.contexts import Recall, recall_of


def graph(**parents: str) -> CausalBayesianNetwork:
    """Bits with these parents, each a text of their names."""
    arrows = {x: tuple(names.split()) for x, names in parents.items()}
    uniform = {x: np.full([2] * (len(names) + 1), 0.5) for x, names in arrows.items()}
    return CausalBayesianNetwork({key: [0, 1] for key in arrows}, arrows, uniform)


def recall(network: CausalBayesianNetwork, decisions: str, *scopes: str) -> Recall:
    return recall_of(network, decisions.split(), [scope.split() for scope in scopes])


def assert_circle(answer: Recall) -> None:
    """Each decision of the circle relies on the next, the last on the first; each once."""
    assert len(set(answer.circle)) == len(answer.circle)
    for decision, relied_on in pairwise([*answer.circle, *answer.circle[:1]]):
        assert relied_on in answer.reliance[decision]


# --- By hand --------------------------------------------------------------------------------------


def test_the_mouse_has_one_decision() -> None:
    mouse = graph(S="", D="S", T="S D")
    assert recall(mouse, "D", "T") == Recall("single", ("D",), {"D": ()}, ())
    assert recall(mouse, "D", "S T").kind == "single"
    assert recall(mouse, "D", "S") == Recall("none", (), {}, ())
    # A utility of what the decision itself is.
    assert recall(mouse, "D", "D").kind == "single"
    assert recall(mouse, "D").kind == "none"


def test_a_smell_is_not_a_state() -> None:
    # Figure 2 of the paper: D2 has forgotten what D1 smelled and did.
    pomdp = graph(S1="", O1="S1", D1="O1", S2="S1 D1", O2="S2", D2="O2", S3="S2 D2", U3="S3")
    answer = recall(pomdp, "D1 D2", "U3")
    assert answer.kind == "insufficient"
    assert answer.decisions == ("D1", "D2")
    assert answer.reliance == {"D1": ("D2",), "D2": ("D1",)}
    assert sorted(answer.circle) == ["D1", "D2"]
    assert recall(pomdp, "D1 D2", "S2") == Recall("single", ("D1",), {"D1": ()}, ())
    assert recall(pomdp, "D2", "U3").kind == "single"
    # Remembering mends it.
    remembers = pomdp.with_mechanism("D2", np.full((2, 2, 2, 2), 0.5), ["O1", "D1", "O2"])
    assert recall(remembers, "D1 D2", "U3").kind == "sufficient"


# --- The definition -------------------------------------------------------------------------------


def groups(model: oracle.Model) -> list[tuple[str, ...]]:
    return diagrams.groups_of(model)


def assert_as_defined(model: oracle.Model, scopes: Sequence[Sequence[str]]) -> None:
    answer = recall_of(network_of(model), model.decisions, scopes)
    sufficient = oracle.has_sufficient_recall(model.parents, model.decisions, scopes)
    assert (answer.kind != "insufficient") == sufficient
    acting = {
        d
        for d in model.decisions
        if any((oracle.descendants(model.parents, d) | {d}) & set(scope) for scope in scopes)
    }
    assert set(answer.decisions) == acting
    assert answer.kind == "none" if not acting else answer.kind != "none"
    assert (answer.kind == "single") == (len(acting) == 1)
    for d in acting:
        assert set(answer.reliance[d]) == {
            e for e in model.decisions if e != d and oracle.relies_on(model.parents, d, e, scopes)
        }
    assert_circle(answer)


@given(seed=seeds, data=st.data())
@many
def test_any_diagram_is_what_the_definition_says(seed: int, data: Any) -> None:
    model = random_team(seed, most=7)
    assert_as_defined(model, groups(model))
    names = st.sampled_from(list(model.sizes))
    scopes = data.draw(st.lists(st.lists(names, min_size=1, max_size=3, unique=True), max_size=3))
    assert_as_defined(model, scopes)
