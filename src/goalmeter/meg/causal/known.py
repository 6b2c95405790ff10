"""Goal-directedness of decisions in a causal model with respect to a known utility."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import FloatArray
from goalmeter.causal.contexts import DecisionProcess
from goalmeter.causal.recall import Recall
from goalmeter.causal.utility import Utility, utility_of
from goalmeter.meg.causal.question import Do, Model, Question, ask, utility_name
from goalmeter.meg.causal.result import CausalMeg, in_process, no_influence
from goalmeter.meg.known_batch import measure_known


def causal_utility(
    model: Model,
    decisions: Sequence[str] | None = None,
    utility: Any = None,
    *,
    do: Do | None = None,
    restarts: int = 24,
    rng: np.random.Generator | None = None,
) -> CausalMeg:
    """MEG of decisions in a causal model with respect to a known utility (Definition 3.2).

    The policy is the model's own CPD of each decision. Which method applies is read off the
    graph: one decision has a closed form in the rationality; with sufficient recall, soft
    backward induction over the contexts of the decisions is exact; otherwise the maximum entropy
    policies are searched for, and the result says so.

    Args:
        model: a `CausalBayesianNetwork` or an `InfluenceDiagram`.
        decisions: the candidate decisions; a diagram has its own.
        utility: {variable: {state: number}}, (variables, array or function of their values), a
            list of {"variables": [...], "values": nested lists}, or a `Utility`; a diagram has
            its own.
        do: an intervention, {variable: state}, under which the policy is measured.
        restarts: of the search, where one is needed.
        rng: of the search; default seed 0.

    Returns:
        A `CausalMeg`; nats. 0 with a note where no decision influences the utility.

    Raises:
        InvalidModelError, InvalidParameterError, InvalidUtilityError: what does not fit; the
            message names it.

    Source: MEG paper (NeurIPS 2024), Definitions 3.1 and 3.2.

    Example: the mouse that goes for the cheese with probability 0.8 (the paper's Example 1).
        >>> from goalmeter.causal import CausalBayesianNetwork
        >>> side = ["left", "right"]
        >>> mouse = CausalBayesianNetwork(
        ...     {"S": side, "D": side, "T": ["cheese", "none"]},
        ...     {"D": ["S"], "T": ["S", "D"]},
        ...     {
        ...         "S": [0.5, 0.5],
        ...         "D": [[0.8, 0.2], [0.2, 0.8]],
        ...         "T": lambda s, d: "cheese" if s == d else "none",
        ...     },
        ... )
        >>> result = causal_utility(mouse, ["D"], {"T": {"cheese": 1, "none": -1}})
        >>> print(round(result.value, 4), round(result.rationality, 4))
        0.1927 0.6931
    """
    question = ask(model, decisions, do)
    chosen = known_of(question, utility)
    scopes = [factor.variables for factor in chosen.factors]
    recall = question.recall(scopes)
    name = utility_name(chosen)
    if recall.kind == "none":
        return no_influence(question, chosen.variables, name)
    if recall.kind == "insufficient":
        # Only here, because the search brings SciPy's optimisers along.
        from goalmeter.meg.causal.searched import searched

        return searched(question, recall, chosen, restarts=restarts, rng=rng)
    return known_in(question, question.process(scopes, recall), recall, chosen, name)


def known_of(question: Question, utility: Any) -> Utility:
    """The given utility, or the diagram's own."""
    if utility is not None:
        return utility_of(question.network, utility)
    if question.utility is None:
        raise InvalidParameterError(
            "the utility is missing, expected {variable: {state: number}} or another form of it; "
            "for the best of all utilities over some variables use goalmeter.meg.targets"
        )
    return question.utility


def known_in(
    question: Question,
    process: DecisionProcess,
    recall: Recall,
    utility: Utility,
    name: str,
) -> CausalMeg:
    """The result of a utility in the process of its scopes."""
    paid = payments(process, utility)
    (result,) = measure_known(process.mdp, [process.policy()], [paid], process.log_uniform)
    how = {
        "single": "one decision: closed form in the rationality",
        "sufficient": "soft backward induction over what each decision sees",
    }[recall.kind]
    method = f"{how}; {result.method}"
    return in_process(question, process, recall, result, target=name, method=method)


def payments(process: DecisionProcess, utility: Utility) -> FloatArray:
    """What each decision can expect of a utility, [S, A], in units of the utility.

    A constant that a decision gets whatever it does and sees changes nothing, and would only cost
    digits: it is taken out of each factor on its own, which may be of very different sizes.
    """
    return process.payoff([factor.values[..., None] for factor in utility.factors], centred=True)[
        ..., 0
    ]
