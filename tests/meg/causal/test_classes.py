"""MEG towards classes of utilities: lists, weighted sums of features, torch modules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from causal.models import network_of
from hypothesis import assume, given
from meg.causal.instances import CHEESE, MEG_08, built, few, mouse, several, solvable
from oracles import causal_meg as oracle
from oracles import causal_targets
from oracles import random_diagrams as diagrams
from oracles.causal_model import Model, has_sufficient_recall

from goalmeter import meg
from goalmeter._errors import InvalidParameterError, InvalidUtilityError

LEFT = {"D": {"left": 1, "right": 0}}


def indicators(model: Model, group: tuple[str, ...]) -> list[Any]:
    """One feature for each joint state of some variables."""
    sizes = [model.sizes[x] for x in group]
    rows = np.eye(int(np.prod(sizes)))
    return [(group, row.reshape(sizes)) for row in rows]


# --- A finite list --------------------------------------------------------------------------------


def test_the_best_of_a_list_by_hand() -> None:
    result = meg.causal_class(mouse(), ["D"], utilities=[LEFT, CHEESE, {"S": [1, 2]}])
    assert result.value == pytest.approx(MEG_08, abs=1e-15)
    assert result.rationality == pytest.approx(np.log(2))
    assert result.target == "the best of 3 given utilities"
    assert result.notes[0] == (
        "the best is utility 1, counted from 0; nats of each: 0, 0.192745, 0"
    )
    assert result.certified
    # Reversed and in another unit it is the same goal.
    worse = meg.causal_class(mouse(), ["D"], utilities=[{"T": [-3, 5]}])
    assert worse.value == pytest.approx(MEG_08, abs=1e-14)
    assert worse.rationality == pytest.approx(-np.log(2) / 4)
    # A list without any influence.
    none = meg.causal_class(mouse(), ["D"], utilities=[{"S": [1, 2]}])
    assert none.value == 0.0
    assert "S is not downstream" in none.notes[1]


# --- A linear class -------------------------------------------------------------------------------


def test_one_feature_is_a_known_utility() -> None:
    result = meg.causal_class(mouse(), ["D"], features=[CHEESE])
    known = meg.causal_utility(mouse(), ["D"], CHEESE)
    assert result.value == pytest.approx(known.value, abs=1e-12)
    assert result.rationality == pytest.approx(known.rationality, rel=1e-6)
    assert result.utility is not None
    np.testing.assert_allclose(result.utility, [1.0])
    assert result.certified
    # A mouse that avoids the cheese has the weight -1, at a positive rationality.
    avoids = meg.causal_class(mouse(0.2), ["D"], features=[CHEESE])
    assert avoids.utility is not None
    np.testing.assert_allclose(avoids.utility, [-1.0])
    assert avoids.rationality == pytest.approx(np.log(2), rel=1e-6)


def test_two_features_by_hand() -> None:
    # The mouse goes to the cheese with 0.8 when it is left, with 0.4 when it is right. Cheese and
    # left together say it exactly: beta (2 c + l) = log 4 and beta (2 c - l) = log(2/3).
    model = mouse().with_mechanism("D", [[0.8, 0.2], [0.6, 0.4]])
    result = meg.causal_class(model, ["D"], features=[CHEESE, LEFT])
    assert result.value == pytest.approx(result.ceiling, abs=1e-10)
    cheese, left = np.log(4 * 2 / 3) / 4, np.log(4 * 3 / 2) / 2
    assert result.rationality == pytest.approx(left, rel=1e-5)
    assert result.utility is not None
    np.testing.assert_allclose(result.utility, [cheese / left, 1.0], rtol=1e-5)
    assert result.target == "some utility linear in 2 features over T, D"
    assert result.targets == ("T", "D")


def test_a_certain_mouse_needs_weights_without_end() -> None:
    result = meg.causal_class(mouse(1.0), ["D"], features=[CHEESE, LEFT])
    assert result.value == pytest.approx(np.log(2), abs=1e-12)
    assert result.rationality == np.inf
    assert result.utility is not None
    assert result.utility[0] == pytest.approx(1.0)


@given(model=solvable)
@several
def test_sums_of_utilities_are_the_literal_optimum(model: Model) -> None:
    # The class of all sums of one utility for each group that the model's own utility reads.
    groups = diagrams.groups_of(model)
    features = [feature for group in groups for feature in indicators(model, group)]
    result = meg.causal_class(network_of(model), model.decisions, features=features)
    optimiser = causal_targets.targets_meg(model, groups, starts=1)
    assert optimiser.value <= result.value + 1e-8
    assert result.value <= optimiser.value + (2e-6 if np.isinf(result.rationality) else 1e-8)
    assert result.certified
    if np.isfinite(result.rationality) and result.recall != "none":
        assert result.utility is not None
        weights = result.rationality * np.nan_to_num(result.utility)
        factors = causal_targets.factors_of(model, groups, weights)
        policy = oracle.soft_optimal_policy(model, 1.0, factors)
        assert oracle.evidence(model, policy) == pytest.approx(result.value, abs=1e-7)


@given(model=solvable)
@few
def test_an_indicator_of_each_outcome_is_all_utilities(model: Model) -> None:
    targets = model.factors[0][0]
    assume(has_sufficient_recall(model.parents, model.decisions, [targets]))
    network = network_of(model)
    features = indicators(model, targets)
    linear = meg.causal_class(network, model.decisions, features=features)
    best = meg.targets(network, model.decisions, targets)
    assert linear.value == pytest.approx(best.value, abs=1e-8)
    assert linear.maximum == pytest.approx(best.maximum, abs=1e-10)


# --- MDPs -----------------------------------------------------------------------------------------


# --- Refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"utilities": []}, InvalidParameterError, "utilities is empty, expected at least one"),
        ({"utilities": [{"T": [1]}]}, InvalidUtilityError, "the utility over T has shape"),
        (
            {"network": True, "targets": ["T", "S"], "inputs": [[1], [2]]},
            InvalidUtilityError,
            r"inputs has shape \[2, 1\], expected \[4, F\]: features of each joint state of T, S, "
            "the last one fastest",
        ),
    ],
)
def test_classes_that_make_no_sense_are_refused(options: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        meg.causal_class(mouse(), ["D"], **options)


@pytest.mark.parametrize("kind", ["features", "network"])
def test_classes_are_refused_where_decisions_rely_on_each_other(kind: str) -> None:
    model = built(diagrams.team, 0, "random")
    (targets,) = diagrams.groups_of(model)
    options: Any = (
        {"features": indicators(model, targets)}
        if kind == "features"
        else {"network": True, "targets": targets}
    )
    with pytest.raises(
        InvalidParameterError,
        match=r"the decisions (D1, D2|D2, D1) rely on each other in a circle "
        r"\(insufficient recall\), expected decisions that can be planned one after the other; "
        "give a finite list of utilities instead, which are searched for one by one",
    ):
        meg.causal_class(network_of(model), model.decisions, **options)
