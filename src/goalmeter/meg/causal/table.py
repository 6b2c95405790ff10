"""Goal-directedness from a table of joint outcomes instead of the policy's CPD."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from goalmeter._errors import InvalidParameterError, InvalidTrajectoryError
from goalmeter._names import listed
from goalmeter._types import FloatArray, IntArray
from goalmeter.causal.contexts import DecisionProcess
from goalmeter.causal.diagram import Utility
from goalmeter.causal.files import table_columns
from goalmeter.causal.network import CausalBayesianNetwork
from goalmeter.meg.behaviour import LinearClass
from goalmeter.meg.causal.result import DecisionQuery, Do, Model, TableMeg, ask, in_model
from goalmeter.meg.causal.utilities import payments, span_of
from goalmeter.meg.likelihood import TrajectoryGroup
from goalmeter.meg.result import TrajectoryMeg
from goalmeter.meg.trajectories import (
    ResamplingOptions,
    check_options,
    corrected_fields,
    estimate,
    sample_notes,
)
from goalmeter.statistics import LikelihoodRatioTest, resample_weights
from goalmeter.tabular.policies import Rewards
from goalmeter.tabular.trajectories import Trajectories

if TYPE_CHECKING:
    from goalmeter.meg.causal.outcomes import JointOutcomes
    from goalmeter.meg.causal.search import SearchResult


def from_table(
    model: Model,
    decisions: Sequence[str] | None = None,
    data: Any = None,
    *,
    targets: Sequence[str] | None = None,
    utility: Any = None,
    do: Do | None = None,
    restarts: int = 24,
    **resampling: Unpack[ResamplingOptions],
) -> TableMeg:
    """MEG of the policy behind observed outcomes; the model gives the world, not the policy.

    Each row of the data is an independent outcome: a pandas or polars frame, {column: values}, or
    the path of a CSV file, with columns for the decisions and what they observe. The model's CPDs
    of the decisions are not used. `restarts` are those of the search without sufficient recall;
    `confidence` (0.95), `resamples` (2000), `folds` (5) and `rng` those of `from_trajectories`;
    other arguments are as in `under_interventions`.

    The result has a raw and a corrected value, an interval, a test of rationality 0 and a held-out
    value.

    Source: MEG paper (NeurIPS 2024), section 3 (expectations replaced by averages).

    Example: the mouse was seen ten times, eight of them on its way to the cheese.
        >>> from goalmeter.causal.examples import example_1
        >>> seen = {"S": ["left"] * 10, "D": ["left"] * 8 + ["right"] * 2}
        >>> result = from_table(example_1(0.5), ["D"], seen, targets=["T"])
        >>> print(round(result.raw, 4), round(result.corrected, 4), round(result.p_value, 3))
        0.1927 0.1427 0.05
    """
    query = ask(model, decisions, do).towards(targets, utility)
    if query.recall.kind == "none":
        raise InvalidParameterError(
            f"{listed(query.decisions)} influence none of {listed(query.targets)}, expected a "
            f"utility that they can influence: without influence MEG is 0 whatever the data are"
        )
    if query.recall.kind == "insufficient":
        return _searched(query, data, restarts, **resampling)
    process = query.process
    rows = _rows(process, query.network, data)
    span = None
    if isinstance(query.goal, Utility):
        # A class of one weight, its rationality in a unit of its own.
        paid = payments(process, query.goal)
        rewards, (unit,) = Rewards(paid.T[None, :, :, None], 1.0).normalised()
        matrix = np.ascontiguousarray(rewards.array.reshape(-1, 1))
        goals = LinearClass((1, *paid.T.shape), matrix, 1.0, query.name, float(unit))
    else:
        span = span_of(process, process.indicators(), query.name)
        goals = span.utilities
    # Decisions of parallel branches are made at the same step.
    levels = tuple(d.level for d in process.decisions)
    group = TrajectoryGroup(process.mdp, rows, goals, process.log_uniform, levels)
    estimated, weights = estimate([group], known=span is None, **resampling)
    shares = {d.name: float(estimated.by_state[d.states].sum()) for d in process.decisions}
    fields = {name: getattr(estimated, name) for name in TrajectoryMeg.__dataclass_fields__}
    fields |= {"utility": None} | in_model(query, shares)
    if span is not None:
        shown, scale = span.shown(span.weights(weights))
        fields["goal"] = query.goal_of(shown)
        if np.isfinite(estimated.rationality):
            fields["rationality"] = scale
        if query.recall.kind == "single":
            # With one decision the likelihood is concave in the weights.
            fields["method"] = estimated.method.replace(" (a local maximum)", "")
    return TableMeg(**fields)


def _rows(process: DecisionProcess, network: CausalBayesianNetwork, data: Any) -> Trajectories:
    """Return the table as contexts and actions of each decision, checked against the model."""
    columns = table_columns(
        network, [x for d in process.decisions for x in (*d.observed, d.name)], data
    )
    states = {
        d.name: d.states.start + _places(network, d.observed, columns) for d in process.decisions
    }
    # Refuse rows in which a decision sees what it cannot see after what was done before it.
    for d in process.decisions:
        if d.previous is None:
            chance = process.mdp.initial[states[d.name]]
        else:
            before = states[d.previous], columns[d.previous]
            chance = process.mdp.transition.probability(*before, states[d.name])
        if (chance <= 0).any():
            row = int(np.argmax(chance <= 0))
            seen = ", ".join(f"{x} = {network.domain(x)[columns[x][row]]}" for x in d.observed)
            raise InvalidTrajectoryError(
                f"row {row} of the table has {seen} at {d.name!r}, which has probability 0 in the "
                f"model{f' after what was done at {d.previous!r}' if d.previous else ''}; mend the "
                f"row, or the model's CPDs"
            )
    actions = [columns[name] for name in states]
    return Trajectories(np.stack(list(states.values()), axis=1), np.stack(actions, axis=1))


def _places(
    network: CausalBayesianNetwork, names: Sequence[str], columns: Mapping[str, IntArray]
) -> IntArray:
    """The joint value of some variables in each row, as a number, the last variable fastest."""
    place = np.zeros_like(next(iter(columns.values())))
    for x in names:
        place = place * network.size(x) + columns[x]
    return place


# --- Without sufficient recall --------------------------------------------------------------------
# The frequencies of contexts and actions in the rows take the place of those of the model's policy,
# and the conditional frequencies that of the policy.

# The searches for the held-out value use this fraction of the restarts, and at least so many.
_PART, _SEARCHED_FEW = 3, 4
_ALIKE = 1e-9  # rows whose evidence differs by less, in nats, give the same


class _ObservedRows:
    """What decisions saw and did in some rows, as the places of a `JointOutcomes`: [N] each."""

    def __init__(self, table: JointOutcomes, places: IntArray) -> None:
        self.table, self.places = table, places
        self.visits = np.bincount(places.ravel(), minlength=len(table.choices)) / len(places)
        # The conditional frequencies, [K]; uniform where nothing was seen.
        total = table.sums(self.visits)
        seen = np.where(total > 0, self.visits, 1.0)
        self.policies = np.asarray(seen / np.where(total > 0, total, table.choices))

    def fit(self, restarts: int, rng: np.random.Generator) -> SearchResult:
        """Search for the best model of the rows."""
        # Only here, because the search brings SciPy's optimisers along.
        from goalmeter.meg.causal.insufficient_recall import search

        return search(self.table, self.policies, visits=self.visits, restarts=restarts, rng=rng)

    def evidence(self, model: FloatArray, *, mix: float = 0.0) -> FloatArray:
        """sum_i log(model_i / uniform) of each row, nats: [N]; of a model mixed with uniform."""
        out = np.zeros(len(self.places))
        for place in self.places.T:
            with np.errstate(divide="ignore"):
                out += np.log((1.0 - mix) * model[place] * self.table.choices[place] + mix)
        return out


def _searched(
    query: DecisionQuery,
    data: Any,
    restarts: int,
    *,
    confidence: float = 0.95,
    resamples: int = 2000,
    folds: int = 5,
    rng: np.random.Generator | None = None,
) -> TableMeg:
    """MEG of the policy behind observed outcomes, by search."""
    from scipy.stats import chi2

    from goalmeter.meg.causal.insufficient_recall import fields_of
    from goalmeter.meg.causal.outcomes import joint_outcomes

    rng = check_options(folds, resamples, rng)
    assert query.goal is not None
    table = joint_outcomes(query.network, query.recall.decisions, query.goal)
    seen = _observed_rows(table, query.network, data)
    result = seen.fit(restarts, rng)
    fields = fields_of(query, table, seen.visits, seen.policies, result)
    # With e_i the evidence of row i for the model found and k fitted coordinates, the maximised
    # average exceeds the truth by k / (2 n) to first order: the well-specified case of what
    # `from_trajectories` takes off.
    n, k = len(seen.places), result.rank
    bias, statistic = k / (2 * n), 2 * n * result.value
    evidence = seen.evidence(result.policies)
    # A model fitted anew would gain as much in each sample, on average, as this one has gained.
    replicates = resample_weights(n, resamples, rng) @ evidence + bias
    p_value = float(chi2.sf(statistic, k)) if k else 1.0
    test = LikelihoodRatioTest(statistic, float(k), 1.0, p_value)
    inference = corrected_fields(
        result.value, bias, evidence, replicates, test, float(fields["maximum"]), confidence
    )
    alike = result.value > 0 and bool(np.ptp(evidence) <= _ALIKE)
    fields["notes"] = (
        *fields["notes"],
        f"the interval holds the model that was found fixed, and takes k / (2 n) for its bias, as "
        f"the test takes k degrees of freedom, with k = {k} for what was fitted",
        *sample_notes("row", inference, alike, result.value),
    )
    held_out = _held_out(seen, min(folds, n), max(restarts // _PART, _SEARCHED_FEW), rng)
    return TableMeg(**fields, **inference, held_out=held_out)


def _held_out(seen: _ObservedRows, folds: int, restarts: int, rng: np.random.Generator) -> float:
    """Cross-fitted evidence, nats a row; NaN if there are too few to split."""
    n, decisions = seen.places.shape
    if n < 2:
        return float("nan")
    fold = rng.permutation(n) % folds
    total = 0.0
    for k in range(folds):
        train, test = (_ObservedRows(seen.table, seen.places[at]) for at in (fold != k, fold == k))
        # Mixed with a little of the uniform model, so that a row which the fit rules out costs
        # something finite: the less, the more rows the fit has seen.
        mix = 1.0 / (len(train.places) * decisions + 1)
        total += float(test.evidence(train.fit(restarts, rng).policies, mix=mix).sum())
    return total / float(n)


def _observed_rows(
    table: JointOutcomes, network: CausalBayesianNetwork, data: Any
) -> _ObservedRows:
    """Return the rows as contexts and actions of each decision, checked against the model."""
    families = [(*network.parents(d), d) for d in table.decisions]
    columns = table_columns(network, [x for family in families for x in family], data)
    places = [
        at.start + _places(network, family, columns)
        for at, family in zip(table.slices, families, strict=True)
    ]
    possible = set(zip(*(place.tolist() for place in table.place), strict=True))
    known = [row in possible for row in zip(*(place.tolist() for place in places), strict=True)]
    if not all(known):
        row = known.index(False)
        values = ", ".join(f"{x} = {network.domain(x)[at[row]]}" for x, at in columns.items())
        raise InvalidTrajectoryError(
            f"row {row} of the table has {values}, which has probability 0 in the model whatever "
            f"the decisions {listed(table.decisions)} are; mend the row, or the model's CPDs"
        )
    return _ObservedRows(table, np.stack(places, axis=1))
