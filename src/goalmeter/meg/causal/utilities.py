"""Goal-directedness in a causal model: known utilities, target variables and parametric classes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._names import listed
from goalmeter._types import ArrayLike, FloatArray
from goalmeter.causal.contexts import DecisionProcess
from goalmeter.causal.diagram import Utility, utility_of
from goalmeter.causal.elimination import Factor
from goalmeter.causal.network import CausalBayesianNetwork
from goalmeter.meg.behaviour import LinearClass, behaviour_of, reconciled
from goalmeter.meg.causal.result import (
    CausalMeg,
    DecisionQuery,
    Do,
    Model,
    ask,
    in_process,
    no_influence,
)
from goalmeter.meg.known import measure_known
from goalmeter.meg.linear import TOLERANCE, is_large, measure_class
from goalmeter.meg.neural import HIDDEN, NetworkSearch, checked_inputs, climb, restart_notes
from goalmeter.tabular.planning import state_occupancy
from goalmeter.tabular.policies import check_policy

if TYPE_CHECKING:
    from torch import nn


# --- Coordinates of linear classes ----------------------------------------------------------------
# Most of what one can add to a utility over targets changes no policy, and what does may do so on
# very different scales. Both are taken out beforehand: with psi = W diag(s) V^T the derivative of
# the uniform policy's log-probabilities in the weights, [rows, D], the class is fitted in the
# coordinates s V^T of its weights. Large classes are fitted in their own weights, where features
# are probabilities of outcomes, which `goalmeter.meg.visit_matching` can count.

_NULL_SHARE = 1e-12  # singular values below this share of the largest are rounding
# Multiplications that the singular values of a class may take; larger ones are fitted as they are.
_MAX_WORK = 2e10


@dataclass(frozen=True)
class UtilitySpan:
    """A linear class with D weights and the K coordinates in which it is fitted."""

    utilities: LinearClass  # the class as it is fitted: in K coordinates, or in its D weights
    # Weights of each coordinate, [D, K], orthonormal where the D weights are fitted themselves;
    # None where nothing is known of what choices can tell apart.
    basis: FloatArray | None
    plain: LinearClass  # the class in its D weights

    def weights(self, fitted: FloatArray) -> FloatArray:
        """Return the least weights [D] that say what was fitted, [K] or [D]."""
        if self.basis is None:
            return fitted
        coordinates = self.basis.T @ fitted if self.utilities is self.plain else fitted
        return np.asarray(self.basis @ coordinates)

    def shown(self, weights: FloatArray) -> tuple[FloatArray, float]:
        """Weights [D] scaled to -1..1 and the scale; NaN where the decisions have no say."""
        scale = float(np.abs(weights).max(initial=0.0))
        shown = weights / scale if scale > 0 else weights.copy()
        shown[np.abs(shown) < 1e-9] = 0.0
        if self.basis is not None:
            reach = np.abs(self.basis).max(axis=1, initial=0.0)
            shown[reach <= 1e-9 * reach.max(initial=0.0)] = np.nan
        return shown, scale


def linear_in(features: FloatArray, name: str) -> LinearClass:
    """Return the class of utilities that are linear in expected features [S, A, D]."""
    s, a, d = features.shape
    matrix = np.ascontiguousarray(features.transpose(1, 0, 2)).reshape(a * s, d)
    return LinearClass((1, a, s), matrix, 1.0, name)


def span_of(process: DecisionProcess, features: FloatArray, name: str) -> UtilitySpan:
    """The class of utilities that are linear in expected features [S, A, D]."""
    plain = linear_in(features, name)
    *shape, d = features.shape
    if np.prod(shape) * d * min(np.prod(shape), d) > _MAX_WORK:
        return UtilitySpan(plain, None, plain)
    _, sizes, right = np.linalg.svd(_tangents(process, features), full_matrices=False)
    keep = sizes > _NULL_SHARE * max(float(sizes.max(initial=0.0)), 1e-300)
    if is_large(process.mdp, plain):
        return UtilitySpan(plain, right[keep].T, plain)
    # Where nothing the decisions do makes a difference, one idle coordinate keeps the shapes.
    basis = right[keep].T / sizes[keep] if keep.any() else np.zeros((d, 1))
    # What no choice can change is taken out first, or small differences would drown in it: of a
    # first decision what it expects in a context, of a later one only a constant.
    centred = features.copy()
    for node in process.decisions:
        expected = centred[node.states, : node.n_actions]
        axes = 1 if node.level == 0 else (0, 1)
        centred[node.states] -= expected.mean(axis=axes, keepdims=True)
    fitted = centred @ basis
    # What is exactly alike stays so.
    alike = np.ptp(features, axis=1).max(axis=-1, initial=0.0) == 0.0
    fitted = np.where(alike[:, None, None], fitted[:, :1], fitted)
    return UtilitySpan(linear_in(fitted, name), basis, plain)


def _tangents(process: DecisionProcess, features: FloatArray) -> FloatArray:
    """Derivatives of the uniform policy's log-probabilities in the weights, as weighted rows."""
    # What `SoftModel.tangents` gives for all D directions at once, without forming them.
    mdp = process.mdp
    policy = np.exp(process.log_uniform[0])
    uniform = np.ascontiguousarray(policy.T)
    visits = state_occupancy(mdp, check_policy(mdp, uniform)[..., None])[..., 0]
    paid = features.transpose(1, 0, 2)
    later = np.zeros((mdp.n_states, features.shape[-1]))
    parts = []
    for t in reversed(range(mdp.steps)):
        value = mdp.transition.expect_all(later) + paid
        later = np.einsum("as,asd->sd", policy, value)
        weight = np.sqrt(policy * visits[t])
        used = weight > 0
        parts.append((value - later)[used] * weight[used][:, None])
    return np.concatenate(parts)


# --- Known utilities and targets ------------------------------------------------------------------
def measure(
    query: DecisionQuery,
    *,
    tolerance: float = TOLERANCE,
    restarts: int = 24,
    rng: np.random.Generator | None = None,
) -> CausalMeg:
    """Return MEG towards the goal of a query, by the method that the graph allows."""
    if query.recall.kind == "none":
        return no_influence(query)
    if query.recall.kind == "insufficient":
        # Only here, because the search brings SciPy's optimisers along.
        from goalmeter.meg.causal.insufficient_recall import searched

        return searched(query, restarts=restarts, rng=rng)
    if not isinstance(query.goal, Utility):
        return target_fit(query, tolerance).towards_targets()
    process = query.process
    paid = payments(process, query.goal)
    (result,) = measure_known(process.mdp, [process.policy()], [paid], process.log_uniform)
    how = {
        "single": "one decision: closed form in the rationality",
        "sufficient": "soft backward induction over what each decision sees",
    }[query.recall.kind]
    return in_process(query, result, target=query.name, method=f"{how}; {result.method}")


def payments(process: DecisionProcess, utility: Utility) -> FloatArray:
    """Return what each decision can expect of a utility, [S, A], in units of the utility."""
    # A constant that a decision gets whatever it does would only cost digits: it is taken out of
    # each factor on its own, which may be of very different sizes.
    values = [factor.values[..., None] for factor in utility.factors]
    return process.payoff(values, centred=True)[..., 0]


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
    policies are searched for, and the result says so. Where no decision influences the utility, it
    is 0 with a note.

    Args:
        model: a `CausalBayesianNetwork` or an `InfluenceDiagram`.
        decisions: the candidate decisions; a diagram has its own.
        utility: {variable: {state: number}}, (variables, array or function of their values), a
            list of {"variables": [...], "values": nested lists}, or a `Utility`; a diagram has
            its own.
        do: an intervention, {variable: state}, under which the policy is measured.
        restarts: of the search, where one is needed.
        rng: of the search; default seed 0.

    Source: MEG paper (NeurIPS 2024), Definitions 3.1 and 3.2.

    Example: the mouse that goes for the cheese with probability 0.8 (the paper's Example 1).
        >>> from goalmeter.causal.examples import example_1
        >>> result = causal_utility(example_1(0.8), ["D"], {"T": {"cheese": 1, "none": -1}})
        >>> print(round(result.value, 4), round(result.rationality, 4))
        0.1927 0.6931
    """
    query = ask(model, decisions, do).towards(utility=utility)
    return measure(query, restarts=restarts, rng=rng)


def targets(
    model: Model,
    decisions: Sequence[str] | None = None,
    targets: Sequence[str] = (),
    *,
    do: Do | None = None,
    tolerance: float = TOLERANCE,
    restarts: int = 24,
    rng: np.random.Generator | None = None,
) -> CausalMeg:
    """MEG of decisions towards target variables: the best of *all* utilities over them.

    With one decision or sufficient recall the problem is concave in the utility, the optimum is
    global, and `upper_bound` proves it. Otherwise the result is that of a search, and says so.

    The utility may read the `targets` jointly. They need not all be downstream of the decisions:
    for an agent that follows instructions, name the instruction and the outcome. With `tolerance`
    nats between value and bound the optimum counts as certified; other arguments are those of
    `causal_utility`.

    The result's `goal` is the maximising utility, scaled to -1..1, with `rationality` its beta; inf
    where the supremum is approached by ever larger utilities.

    Source: MEG paper (NeurIPS 2024), Definition 4.4.

    Example: whatever the mouse of Example 1 wants, it is about the cheese.
        >>> from goalmeter.causal.examples import example_1
        >>> result = targets(example_1(0.8), decisions=["D"], targets=["T"])
        >>> print(round(result.value, 4), result.goal, result.certified)
        0.1927 cheese +1, none −1 True
    """
    query = ask(model, decisions, do).towards(targets)
    return measure(query, tolerance=tolerance, restarts=restarts, rng=rng)


class ClassFit:
    """The best utility that is linear in expected features [S, A, D], with what it was found by."""

    def __init__(
        self, query: DecisionQuery, features: FloatArray, name: str, tolerance: float
    ) -> None:
        self.query, process = query, query.process
        self.span = span_of(process, features, name)
        self.behaviour = behaviour_of(process.mdp, [process.policy()])
        self.optimum, fit = measure_class(
            self.behaviour, self.span.utilities, process.log_uniform, tolerance
        )
        # Weights [D], as far as they are finite, and those that grow without bound, the dominant
        # first.
        self.weights = self.span.weights(fit.model.theta)
        self.directions = [self.span.weights(direction) for direction in fit.directions]
        main = self.directions[0] if self.directions else self.weights
        self.shown, scale = self.span.shown(main)
        self.rationality = np.inf if self.directions else scale

    def towards_targets(self) -> CausalMeg:
        """Return the fit as a result of the model, where features are those of `target_fit`."""
        goal = self.query.goal_of(self.shown)
        return in_process(self.query, self.optimum, rationality=self.rationality, goal=goal)


def target_fit(query: DecisionQuery, tolerance: float = TOLERANCE) -> ClassFit:
    """Return the best of all utilities over the targets of a query."""
    return ClassFit(query, query.process.indicators(), query.name, tolerance)


# --- Classes --------------------------------------------------------------------------------------
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
    progress: Callable[[int, int, float], None] | None = None,
) -> CausalMeg:
    """MEG towards the best utility of a parametric class (Definitions 4.1 to 4.3).

    Give exactly one class:

    * `utilities`: a finite list. A note says which one is the best and what each scores.
    * `features`: all weighted sums of these utilities. The optimum is certified, and the
      result's `utility` holds the weights, the largest of size 1.
    * `network`: what a torch module computes from the joint states of `targets`; True for the
      paper's MLP. Algorithm 2: a lower bound, with the certified bound of all utilities.

    Utilities and features are given in forms that `causal_utility` takes. A module computes a
    utility for each joint state of the targets from `inputs` [joint states, F], the last target
    fastest, by default the targets' states, one-hot each; it is fitted once for each of the
    `seeds`, with at most `iterations` L-BFGS iterations, which progress(restart, iteration, best
    value in nats) reports. Other arguments are those of `targets`.

    Source: MEG paper (NeurIPS 2024), Definitions 4.1 to 4.3, Algorithm 2.

    Example: is the mouse after the cheese, or after the left side?
        >>> from goalmeter.causal.examples import example_1
        >>> cheese, left = {"T": {"cheese": 1, "none": 0}}, {"D": {"left": 1, "right": 0}}
        >>> causal_class(example_1(0.8), ["D"], utilities=[left, cheese]).notes
        ('the best is utility 1, counted from 0; nats of each: 0, 0.192745',)
    """
    chosen = network is not None and network is not False
    if (utilities is not None) + (features is not None) + chosen != 1:
        raise InvalidParameterError(
            "expected exactly one of utilities (a list), features (a linear class) and network (a "
            "torch module); for all utilities over some variables use goalmeter.meg.targets"
        )
    given = utilities if utilities is not None else features
    if not chosen and not given:
        name = "features" if utilities is None else "utilities"
        raise InvalidParameterError(f"{name} is empty, expected at least one utility")
    query = ask(model, decisions, do)
    if utilities is not None:
        return _best_of([measure(query.towards(utility=utility)) for utility in utilities])
    values: dict[tuple[str, ...], FloatArray] = {}  # of each scope, [*sizes, features]
    if features is not None:
        for i, feature in enumerate(features):
            for scope, part in utility_of(query.network, feature).factors:
                values.setdefault(scope, np.zeros((*part.shape, len(features))))[..., i] += part
        # A utility with one more axis, of which only the scopes are read.
        query = replace(query, goal=Utility(tuple(Factor(*item) for item in values.items())))
        name = f"some utility linear in {len(features)} features over {listed(query.targets)}"
    else:
        module = None if isinstance(network, bool) else network
        label = "a torch module" if module else f"a network with one hidden layer of {HIDDEN}"
        query = query.towards(targets)
        name = f"{query.name} computed by {label}"
    if query.recall.kind == "none":
        return replace(no_influence(query), target=name)
    if query.recall.kind == "insufficient":
        raise InvalidParameterError(
            f"the decisions {listed(query.recall.circle)} rely on each other in a circle "
            f"(insufficient recall), expected decisions that can be planned one after the other; "
            f"give a finite list of utilities instead, which are searched for one by one"
        )
    if features is not None:
        fit = ClassFit(query, query.process.payoff(list(values.values())), name, tolerance)
        return in_process(query, fit.optimum, utility=fit.shown, rationality=fit.rationality)
    bound = target_fit(query, tolerance)
    climbed = climb(
        bound.behaviour,
        bound.span.plain,
        query.process.log_uniform,
        _inputs(query.network, query.targets, inputs),
        NetworkSearch(module, list(seeds), iterations),
        heard=progress and (lambda restart, step, value, _: progress(restart, step, value)),
    )
    return replace(_best_of_restarts(bound, climbed), target=name)


def _best_of(results: Sequence[CausalMeg]) -> CausalMeg:
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


def _best_of_restarts(bound: ClassFit, climbed: Sequence[FloatArray]) -> CausalMeg:
    """Return the best of some utilities over the targets, [joint states] each (Algorithm 2)."""
    query = bound.query
    known = replace(query, neutral=query.process.neutral)
    shape = [query.network.size(x) for x in query.targets]
    results = [
        measure(replace(known, goal=Utility((Factor(query.targets, u.reshape(shape)),))))
        for u in climbed
    ]
    values = np.array([result.value for result in results])
    i = int(values.argmax())
    best = results[i]
    # A constant changes no choice, and would hide the differences in the goal that is shown.
    shown, scale = bound.span.shown(climbed[i] - climbed[i].mean())
    bound_name = "the certified one of all utilities over the targets"
    return replace(
        best,
        upper_bound=reconciled(bound.optimum.upper_bound, best.value, best.maximum),
        rationality=best.rationality * scale if scale else 0.0,
        method=f"Algorithm 2, the best of {len(values)} seeded restarts",
        goal=query.goal_of(shown),
        notes=(*restart_notes(values, bound_name), *best.notes),
    )


def _inputs(
    network: CausalBayesianNetwork, names: Sequence[str], inputs: ArrayLike | None
) -> FloatArray:
    """Return what the module reads of each joint state of the targets, [joint states, F]."""
    sizes = [network.size(x) for x in names]
    joint = int(np.prod(sizes))
    if inputs is None:
        places = np.indices(sizes).reshape(len(sizes), -1)
        parts = [np.eye(size)[place] for size, place in zip(sizes, places, strict=True)]
        return np.ascontiguousarray(np.concatenate(parts, axis=1))
    return checked_inputs(inputs, joint, f"joint state of {listed(names)}, the last one fastest")
