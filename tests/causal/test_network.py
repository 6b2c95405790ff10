"""`CausalBayesianNetwork`: by hand, against the enumerated joint, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from causal.models import (
    CPDS,
    DOMAINS,
    PARENTS,
    SIDE,
    many,
    mouse,
    network_of,
    random_model,
    seeds,
    several,
)
from hypothesis import given
from hypothesis import strategies as st
from oracles import causal_model as oracle

from goalmeter._errors import InvalidModelError, InvalidParameterError
from goalmeter.causal import CausalBayesianNetwork

# --- By hand --------------------------------------------------------------------------------------


def test_the_mouse_by_hand() -> None:
    network = mouse()
    # P(cheese) = 0.5 * 0.8 + 0.5 * 0.8.
    np.testing.assert_allclose(network.marginal("T"), [0.8, 0.2], atol=1e-15)
    # P(D = left, T) = P(left, left) and P(right, left).
    np.testing.assert_allclose(network.marginal("D", "T"), [[0.4, 0.1], [0.4, 0.1]], atol=1e-15)
    # Bayes: P(S = left | D = left) = 0.4 / (0.4 + 0.1).
    np.testing.assert_allclose(network.marginal("S", given={"D": "left"}), [0.8, 0.2], atol=1e-15)
    # Doing says nothing about causes.
    np.testing.assert_allclose(network.do(D="left").marginal("S"), [0.5, 0.5], atol=1e-15)
    np.testing.assert_allclose(network.do(D="left").marginal("T"), [0.5, 0.5], atol=1e-15)


def test_a_changed_mechanism_changes_the_world_and_not_the_original() -> None:
    network = mouse()
    # The cheese now falls out of reach whatever the mouse does.
    never = network.with_mechanism("T", lambda s, d: "none")
    assert never.marginal("T").tolist() == [0, 1]
    # A mouse that sees nothing and always goes left.
    blind = network.with_mechanism("D", [1.0, 0.0], parents=[])
    assert blind.parents("D") == ()
    np.testing.assert_allclose(blind.marginal("T"), [0.5, 0.5])
    both = network.with_mechanisms({"S": [1.0, 0.0], "D": [[0.1, 0.9], [0.0, 1.0]]})
    np.testing.assert_allclose(both.marginal("T"), [0.1, 0.9], atol=1e-15)
    np.testing.assert_allclose(network.marginal("T"), [0.8, 0.2], atol=1e-15)
    assert blind.name == "mouse"


# --- The enumerated joint -------------------------------------------------------------------------


@given(seed=seeds, data=st.data())
@many
def test_marginals_and_conditionals_are_those_of_the_joint(seed: int, data: Any) -> None:
    model = random_model(seed)
    network = network_of(model)
    names = data.draw(st.permutations(list(model.sizes)))
    asked = names[: data.draw(st.integers(1, len(names)))]
    seen = names[len(asked) :][: data.draw(st.integers(0, 3))]
    evidence = {x: data.draw(st.integers(0, model.sizes[x] - 1)) for x in seen}
    table = oracle.probability_table(model)
    try:
        expected = oracle.marginal(model, table, asked, evidence)
    except ValueError:
        with pytest.raises(InvalidParameterError, match="has probability 0, expected a positive"):
            network.marginal(*asked, given=evidence)
        return
    np.testing.assert_allclose(network.marginal(*asked, given=evidence), expected, atol=1e-12)


@given(seed=seeds, data=st.data())
@many
def test_do_is_the_truncated_factorisation(seed: int, data: Any) -> None:
    model = random_model(seed, most=5)
    names = data.draw(st.permutations(list(model.sizes)))
    settings = {
        x: data.draw(st.integers(0, model.sizes[x] - 1))
        for x in names[: data.draw(st.integers(0, 3))]
    }
    done = network_of(model).do(settings)
    np.testing.assert_allclose(
        done.marginal(*model.sizes), oracle.truncated(model, settings), atol=1e-14
    )


@given(seed=seeds)
@several
def test_samples_have_the_frequencies_of_the_joint(seed: int) -> None:
    model = random_model(seed, most=4)
    n = 4000
    drawn = network_of(model).sample(n, np.random.default_rng(seed))
    table = oracle.joint(model)
    counts = np.zeros(table.shape)
    np.add.at(counts, tuple(np.array(drawn[x]) for x in model.sizes), 1)
    assert counts.sum() == n
    # Nothing impossible, and everything within 5 standard errors (of 81 cells, 20 times: the
    # chance that a fair sampler strays this far is below 1 in 1000).
    assert (counts[table == 0] == 0).all()
    error = np.sqrt(table * (1 - table) / n)
    assert (np.abs(counts / n - table) <= 5 * error + 1 / n).all()


def test_probabilities_that_do_not_quite_add_up_leave_no_state_outside() -> None:
    class Largest:
        def random(self, shape: tuple[int, int]) -> Any:
            return np.full(shape, np.nextafter(1.0, 0.0))

    # 0.1 ten times adds up to less than 1.
    network = CausalBayesianNetwork({"X": range(10)}, {}, {"X": [0.1] * 10})
    rng: Any = Largest()
    assert network.sample(2, rng)["X"] == [9, 9]


@given(seed=seeds)
@several
def test_arrays_and_functions_say_the_same(seed: int) -> None:
    model = random_model(seed)
    domains = {x: range(size) for x, size in model.sizes.items()}
    functions: dict[str, Any] = {
        x: lambda *values, rows=rows: dict(enumerate(rows[values]))
        for x, rows in model.cpds.items()
    }
    first = CausalBayesianNetwork(domains, model.parents, model.cpds)
    second = CausalBayesianNetwork(domains, model.parents, functions)
    for x in model.sizes:
        np.testing.assert_array_equal(first.cpd(x), second.cpd(x))
        assert not first.cpd(x).flags.writeable


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (({}, {}, {}), "the model has no variables"),
        (({"S": "yes"}, {}, {"S": [1]}), "the domain of 'S' is 'yes'"),
        (({"S": ["a", "b", "a"]}, {}, {"S": [1, 0, 0]}), "has two states with the text 'a'"),
        (({"S": [float("nan")]}, {}, {"S": [1]}), "the domain of 'S' has the state nan"),
        (({"Smell": SIDE, "D": SIDE}, {"D": ["smel"]}, {}), "did you mean 'Smell'?"),
        ((DOMAINS, {**PARENTS, "S": ["T"]}, CPDS), r"form a cycle \((S|D|T) -> .* -> .*\)"),
        ((DOMAINS, PARENTS, {"S": [0.5, 0.5]}), "D, T have no CPD"),
    ],
)
def test_models_that_make_no_sense_are_refused(arguments: Any, message: str) -> None:
    with pytest.raises(InvalidModelError, match=message):
        CausalBayesianNetwork(*arguments)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ([[0.8, 0.2], [0.3, 0.6]], r"the CPD of 'D' given S = right sums to 0\.9, expected"),
        ([[1.5, -0.5], [0, 1]], r"given S = left has the negative probability -0\.5, expected"),
        ([0.5, 0.5], r"the CPD of 'D' has shape \[2\], expected \[2, 2\]"),
        ("left", r"cpds\['D'\] is not an array of numbers"),
        (lambda s: None, "given S = left: the returned state None does not exist"),
        (lambda s: [1, 0, 0], r"given S = left returns \[1, 0, 0\], expected 2 probabilities"),
        (lambda s: {"left": np.nan, "right": 1.0}, r"the CPD of 'D'\[0, 0\] is nan, expected"),
    ],
)
def test_what_is_no_distribution_is_refused(written: Any, message: str) -> None:
    with pytest.raises(InvalidModelError, match=message):
        mouse(D=written)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda n: n.marginal("t"), "variable 't' does not exist.*did you mean 'T'?"),
        (lambda n: n.with_mechanism("Q", [1]), "variable 'Q' does not exist"),
        (lambda n: n.do(S="lefft"), "state of 'S': 'lefft' does not exist.*did you mean 'left'"),
        (lambda n: n.marginal(), "marginal of nothing given nothing"),
        (lambda n: n.marginal("S", given={"S": "right"}), "marginal of S given S"),
        (lambda n: n.is_d_separated(3, ["D"]), "variables are 3, expected a list of names"),
        (lambda n: n.sample(0, np.random.default_rng()), "n is 0, expected an integer of at"),
    ],
)
def test_questions_that_make_no_sense_are_refused(ask: Any, message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        ask(mouse())
