"""Goal-directedness towards the best utility of a parametric class in a causal model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from goalmeter._errors import InvalidParameterError, InvalidUtilityError
from goalmeter._names import listed
from goalmeter._types import ArrayLike, FloatArray
from goalmeter.causal.factors import Factor
from goalmeter.causal.network import CausalBayesianNetwork
from goalmeter.causal.recall import Recall
from goalmeter.causal.utility import Utility, utility_of
from goalmeter.meg.behaviour import behaviour_of, reconciled
from goalmeter.meg.causal.known import causal_utility, known_in
from goalmeter.meg.causal.question import Do, Model, Question, ask, check_targets
from goalmeter.meg.causal.result import CausalMeg, in_process, no_influence, variables_of
from goalmeter.meg.causal.span import span_of
from goalmeter.meg.causal.targets import TargetFit, goal_of
from goalmeter.meg.linear_utility import TOLERANCE, measure_class
from goalmeter.meg.neural import HIDDEN, Progress, climb, unheard
from goalmeter.tabular._validation import as_floats, shape_text

if TYPE_CHECKING:
    from torch import nn


def causal_class(
    model: Model,
    decisions: Sequence[str] | None = None,
    *,
    utilities: Sequence[Any] | None = None,
    features: Sequence[Any] | None = None,
    network: nn.Module | bool | None = None,
    targets: Sequence[str] = (),
    inputs: ArrayLike | None = None,
    seeds: Iterable[int] = range(5),
    iterations: int = 200,
    do: Do | None = None,
    tolerance: float = TOLERANCE,
    progress: Progress | None = None,
) -> CausalMeg:
    """MEG towards the best utility of a parametric class (Definitions 4.1 to 4.3).

    Give exactly one class:

    * `utilities`: a finite list. A note says which one is the best and what each scores.
    * `features`: all weighted sums of these utilities. The optimum is certified, and the
      result's `utility` holds the weights, the largest of size 1.
    * `network`: what a torch module computes from the joint states of `targets`; True for the
      paper's MLP. Algorithm 2: a lower bound, beside the certified bound of all utilities.

    Args:
        model: a `CausalBayesianNetwork` or an `InfluenceDiagram`; the policy is its CPD of
            each decision.
        decisions: the candidate decisions; a diagram has its own.
        utilities: each in a form that `causal_utility` takes.
        features: each in a form that `causal_utility` takes.
        network: a module from `inputs` [joint states of the targets, F] to a utility for each.
        targets: for a network, the variables that its utility is over.
        inputs: for a network, what it reads of each joint state, the last target fastest;
            default the targets' states, one-hot each.
        seeds: for a network, one restart for each.
        iterations: for a network, L-BFGS iterations a restart.
        do: an intervention, {variable: state}, under which the policy is measured.
        tolerance: nats between value and bound at which an optimum counts as certified.
        progress: for a network, called as progress(restart, iteration, best value in nats).

    Raises:
        InvalidParameterError: not exactly one class, an empty one, or features or a network for
            decisions without sufficient recall.
        InvalidModelError, InvalidUtilityError, MissingExtraError: as elsewhere.

    Source: MEG paper (NeurIPS 2024), Definitions 4.1 to 4.3, Algorithm 2.

    Example: is the mouse after the cheese, or after the left side?
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
        >>> cheese, left = {"T": {"cheese": 1, "none": 0}}, {"D": {"left": 1, "right": 0}}
        >>> causal_class(mouse, ["D"], utilities=[left, cheese]).notes
        ('the best is utility 1, counted from 0; nats of each: 0, 0.192745',)
    """
    chosen = network is not None and network is not False
    if (utilities is not None) + (features is not None) + chosen != 1:
        raise InvalidParameterError(
            "expected exactly one of utilities (a list), features (a linear class) and network (a "
            "torch module); for all utilities over some variables use goalmeter.meg.targets"
        )
    if chosen:
        return _of_network(
            ask(model, decisions, do),
            targets,
            module=None if isinstance(network, bool) else network,
            inputs=inputs,
            seeds=list(seeds),
            iterations=iterations,
            tolerance=tolerance,
            progress=progress,
        )
    if utilities is not None:
        return _of_list(model, decisions, list(utilities), do)
    assert features is not None
    return _linear(ask(model, decisions, do), list(features), tolerance)


def _of_list(
    model: Model, decisions: Sequence[str] | None, utilities: list[Any], do: Do | None
) -> CausalMeg:
    if not utilities:
        raise InvalidParameterError("utilities is empty, expected at least one utility")
    results = [causal_utility(model, decisions, utility, do=do) for utility in utilities]
    best = max(range(len(results)), key=lambda i: results[i].value)
    values = ", ".join(f"{result.value:.6g}" for result in results)
    note = f"the best is utility {best}, counted from 0; nats of each: {values}"
    # No utility of the list exceeds its own bound, so none exceeds the largest.
    return replace(
        results[best],
        upper_bound=max(result.upper_bound for result in results),
        target=f"the best of {len(results)} given utilities",
        notes=(note, *results[best].notes),
    )


def _linear(question: Question, features: list[Any], tolerance: float) -> CausalMeg:
    if not features:
        raise InvalidParameterError("features is empty, expected at least one utility")
    utilities = [utility_of(question.network, feature) for feature in features]
    scopes = tuple(dict.fromkeys(f.variables for utility in utilities for f in utility.factors))
    names = variables_of(scopes)
    name = f"some utility linear in {len(utilities)} features over {listed(names)}"
    recall = question.recall(scopes)
    if recall.kind == "none":
        return no_influence(question, names, name)
    _check_recall(recall)
    process = question.process(scopes, recall)
    values = [_stacked(question.network, utilities, scope) for scope in scopes]
    span = span_of(process, process.payoff(values), name)
    behaviour = behaviour_of(process.mdp, [process.policy()])
    result, fit = measure_class(behaviour, span.utilities, process.log_uniform, tolerance)
    main = fit.directions[0] if fit.directions else fit.model.theta
    weights, scale = span.shown(span.weights(main))
    return in_process(
        question,
        process,
        recall,
        result,
        utility=weights,
        rationality=float("inf") if fit.directions else scale,
    )


def _check_recall(recall: Recall) -> None:
    if recall.kind == "insufficient":
        raise InvalidParameterError(
            f"the decisions {listed(recall.circle)} rely on each other in a circle (insufficient "
            f"recall), expected decisions that can be planned one after the other; give a finite "
            f"list of utilities instead, which are searched for one by one"
        )


def _stacked(
    network: CausalBayesianNetwork, features: Sequence[Utility], scope: tuple[str, ...]
) -> FloatArray:
    """What each feature gives for the variables of a scope: [*sizes, D]."""
    out = np.zeros((*(network.size(x) for x in scope), len(features)))
    for i, utility in enumerate(features):
        for factor in utility.factors:
            if factor.variables == scope:
                out[..., i] += factor.values
    return out


def _of_network(
    question: Question,
    targets: Sequence[str],
    *,
    module: nn.Module | None,
    inputs: ArrayLike | None,
    seeds: list[int],
    iterations: int,
    tolerance: float,
    progress: Progress | None,
) -> CausalMeg:
    names = check_targets(question, targets)
    recall = question.recall([names])
    label = f"a network with one hidden layer of {HIDDEN}" if module is None else "a torch module"
    name = f"some utility over {listed(names)} computed by {label}"
    if recall.kind == "none":
        return no_influence(question, names, name)
    _check_recall(recall)
    process = question.process([names], recall)
    bound = TargetFit(process, tolerance)
    climbed = climb(
        bound.behaviour,
        bound.span.plain,
        process.log_uniform,
        _inputs(question.network, names, inputs),
        module=module,
        seeds=seeds,
        iterations=iterations,
        heard=unheard(progress),
    )
    shape = [question.network.size(x) for x in names]
    utilities = [Utility((Factor(names, values.reshape(shape)),)) for values in climbed]
    results = [known_in(question, process, recall, utility, name) for utility in utilities]
    values = np.array([result.value for result in results])
    best = int(values.argmax())
    # A constant changes no choice, and would hide the differences in the goal that is shown.
    goal, scale = goal_of(process, bound.span, climbed[best] - climbed[best].mean())
    # Restarts that end apart are all that is known of how far the optimum may be.
    spread = 2 * float(values.std(ddof=1)) if len(values) > 1 else 0.0
    return replace(
        results[best],
        upper_bound=reconciled(
            bound.optimum.upper_bound, float(values[best]), results[best].maximum
        ),
        rationality=results[best].rationality * scale if scale else 0.0,
        method=f"Algorithm 2, the best of {len(values)} seeded restarts",
        goal=goal,
        notes=(
            "a lower bound: the problem is not convex; the upper bound is the certified one of "
            "all utilities over the targets",
            f"over {len(values)} seeds: {values.mean():.4g} ± {spread:.2g} nats (mean ± 2 sd)",
            *results[best].notes,
        ),
    )


def _inputs(
    network: CausalBayesianNetwork, names: Sequence[str], inputs: ArrayLike | None
) -> FloatArray:
    """What the module reads of each joint state of the targets, [joint states, F]."""
    sizes = [network.size(x) for x in names]
    joint = int(np.prod(sizes))
    if inputs is None:
        places = np.indices(sizes).reshape(len(sizes), -1)
        parts = [np.eye(size)[place] for size, place in zip(sizes, places, strict=True)]
        return np.ascontiguousarray(np.concatenate(parts, axis=1))
    array = as_floats(inputs, "inputs", InvalidUtilityError)
    if array.ndim != 2 or len(array) != joint:
        raise InvalidUtilityError(
            f"inputs has shape {shape_text(array.shape)}, expected [{joint}, F]: features of each "
            f"joint state of {listed(names)}, the last one fastest"
        )
    return array
