"""Goal-directedness from a table of joint outcomes instead of the policy's CPD."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from goalmeter._errors import InvalidFileError, InvalidParameterError, InvalidTrajectoryError
from goalmeter._names import listed, unknown_name
from goalmeter._types import FloatArray, IntArray
from goalmeter.causal.contexts import DecisionProcess
from goalmeter.causal.diagram import Utility
from goalmeter.causal.network import CausalBayesianNetwork
from goalmeter.meg.behaviour import LinearClass
from goalmeter.meg.causal.result import DecisionQuery, Do, Goal, Model, TableMeg, ask, in_model
from goalmeter.meg.causal.utilities import goal_of, payments, span_of
from goalmeter.meg.likelihood import TrajectoryGroup
from goalmeter.meg.result import FLOORED, TrajectoryMeg
from goalmeter.meg.trajectories import ResamplingOptions, check_options, estimate
from goalmeter.statistics import percentile_interval, resample_weights, widened_for_few
from goalmeter.statistics.intervals import FEWEST
from goalmeter.tabular.policies import Rewards
from goalmeter.tabular.trajectories import Trajectories

if TYPE_CHECKING:
    from goalmeter.meg.causal.outcomes import JointOutcomes, Policies
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

    Args:
        model: a `CausalBayesianNetwork` or an `InfluenceDiagram`; its CPDs of the decisions are
            not used.
        decisions: the candidate decisions; a diagram has its own.
        data: one row an independent outcome: a pandas or polars frame, {column: values}, or the
            path of a CSV file. Columns: the decisions and what they observe; others are not
            looked at.
        targets: the variables that the utility may read (Definition 4.4); or
        utility: a known utility, as in `causal_utility`; one of the two, unless the model is a
            diagram with utilities of its own.
        do: an intervention, {variable: state}, under which the outcomes were observed.
        restarts: of the search, where one is needed: without sufficient recall.
        confidence: nominal coverage of the interval, default 0.95.
        resamples: bootstrap samples, default 2000.
        folds: parts that rows are split into for the held-out value, default 5.
        rng: source of randomness for resamples, folds and the search; default seed 0.

    Returns:
        A `TableMeg`: raw and corrected value, interval, test of rationality 0, held-out value.

    Raises:
        InvalidTrajectoryError: a missing column, a value that is no state, or a row that the
            model cannot produce.
        InvalidParameterError: decisions that influence nothing, or options out of range.
        InvalidFileError: a CSV file that cannot be read.

    Source: MEG paper (NeurIPS 2024), section 3 (expectations replaced by averages).

    Example: the mouse was seen ten times, eight of them on its way to the cheese.
        >>> from goalmeter.demo.mouse import example_1
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
        goals = _one_utility(query, query.goal)
    else:
        span = span_of(process, process.indicators(), query.name)
        goals = span.utilities
    # Decisions of parallel branches are made at the same step.
    levels = tuple(d.level for d in process.decisions)
    group = TrajectoryGroup(process.mdp, rows, goals, process.log_uniform, levels)
    estimated, weights = estimate([group], known=span is None, **resampling)
    best: Goal | None = None
    method = estimated.method
    if span is not None:
        best, scale = goal_of(query, span, span.weights(weights))
        if np.isfinite(estimated.rationality):
            estimated = replace(estimated, rationality=scale)
        if query.recall.kind == "single":
            # With one decision the likelihood is concave in the weights.
            method = method.replace(" (a local maximum)", "")
    shares = {d.name: float(estimated.by_state[d.states].sum()) for d in process.decisions}
    fields = {name: getattr(estimated, name) for name in TrajectoryMeg.__dataclass_fields__}
    fields |= {"method": method, "utility": None}
    return TableMeg(**(fields | in_model(query, shares)), goal=best)


def _one_utility(query: DecisionQuery, utility: Utility) -> LinearClass:
    """Return a known utility as a class of one weight, its rationality in a unit of its own."""
    mdp, paid = query.process.mdp, payments(query.process, utility)
    rewards, unit = Rewards(paid.T[None, :, :, None], 1.0).normalised()
    matrix = np.ascontiguousarray(rewards.array.reshape(-1, 1))
    return LinearClass((1, mdp.n_actions, mdp.n_states), matrix, 1.0, query.name, float(unit[0]))


def _rows(process: DecisionProcess, network: CausalBayesianNetwork, data: Any) -> Trajectories:
    """Return the table as contexts and actions of each decision, checked against the model."""
    columns = _columns(network, [x for d in process.decisions for x in (*d.observed, d.name)], data)
    contexts = [_places(network, d.observed, columns) for d in process.decisions]
    states = [c + d.states.start for c, d in zip(contexts, process.decisions, strict=True)]
    actions = [columns[d.name] for d in process.decisions]
    rows = Trajectories(np.stack(states, axis=1), np.stack(actions, axis=1))
    _check_possible(process, network, rows)
    return rows


def _places(
    network: CausalBayesianNetwork, names: Sequence[str], columns: dict[str, IntArray]
) -> IntArray:
    """The joint value of some variables in each row, as a number, the last variable fastest."""
    place = np.zeros_like(next(iter(columns.values())))
    for x in names:
        place = place * network.size(x) + columns[x]
    return place


def _check_possible(
    process: DecisionProcess, network: CausalBayesianNetwork, rows: Trajectories
) -> None:
    """Refuse rows in which a decision sees what it cannot see after what was done before it."""
    place = {d.name: i for i, d in enumerate(process.decisions)}
    # With sufficient recall a decision follows at most one other.
    before = {after: d.name for d in process.decisions for after in d.following}
    for i, d in enumerate(process.decisions):
        previous = before.get(d.name)
        if previous is None:
            chance = process.mdp.initial[rows.states[:, i]]
        else:
            k = place[previous]
            chance = process.mdp.transition.probability(
                rows.states[:, k], rows.actions[:, k], rows.states[:, i]
            )
        if (chance <= 0).any():
            row = int(np.argmax(chance <= 0))
            context = process.contexts(d)[rows.states[row, i] - d.states.start]
            seen = ", ".join(f"{x} = {v}" for x, v in zip(d.observed, context, strict=True))
            raise InvalidTrajectoryError(
                f"row {row} of the table has {seen} at {d.name!r}, which has probability 0 in the "
                f"model{f' after what was done at {previous!r}' if previous else ''}; mend the "
                f"row, or the model's CPDs"
            )


# --- Without sufficient recall --------------------------------------------------------------------
# The frequencies of contexts and actions in the rows take the place of those of the model's policy,
# and the conditional frequencies that of the policy.

# The searches for the held-out value use this fraction of the restarts, and at least so many.
_PART, _SEARCHED_FEW = 3, 4
# Rows whose evidence differs by less, in nats, give the same.
_ALIKE = 1e-9


@dataclass(frozen=True, eq=False)
class _ObservedRows:
    """What decisions saw and did in some rows: context * actions + action of each, [N, decisions].

    As the places of an `JointOutcomes`.
    """

    table: JointOutcomes
    places: IntArray

    def __len__(self) -> int:
        return len(self.places)

    def visits(self) -> Policies:
        """Return the share of the rows with each context and action, [C, A] for each decision."""
        table, n = self.table, len(self)
        return [
            np.bincount(place, minlength=c * a).reshape(c, a) / n
            for place, c, a in zip(self.places.T, table.contexts, table.actions, strict=True)
        ]

    def policies(self) -> Policies:
        """The conditional frequencies, [C, A] for each decision; uniform where nothing was seen."""
        out = []
        for visits in self.visits():
            total = visits.sum(axis=1, keepdims=True)
            out.append(
                np.where(total > 0, visits, 1.0) / np.where(total > 0, total, visits.shape[1])
            )
        return out

    def evidence(self, model: Policies, *, mix: float = 0.0) -> FloatArray:
        """sum_i log(model_i / uniform) of each row, nats: [N].

        With `mix` the model is mixed with that share of the uniform one, decision by decision.
        """
        out = np.zeros(len(self))
        for place, policy, a in zip(self.places.T, model, self.table.actions, strict=True):
            with np.errstate(divide="ignore"):
                out += np.log((1.0 - mix) * policy.reshape(-1)[place] * a + mix)
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
    """MEG of the policy behind observed outcomes, by search.

    With e_i the evidence of row i for the model found and k fitted coordinates, the maximised
    average exceeds the truth by k / (2 n) to first order: the well-specified case of what
    `from_trajectories` takes off.
    """
    # Only here, because the search brings SciPy's optimisers along.
    from goalmeter.meg.causal.insufficient_recall import fields_of, search
    from goalmeter.meg.causal.outcomes import joint_outcomes

    rng = check_options(folds, resamples, rng)
    assert query.goal is not None
    table = joint_outcomes(query.network, query.recall.decisions, query.goal)

    def fit(rows: _ObservedRows, restarts: int) -> SearchResult:
        return search(table, rows.policies(), visits=rows.visits(), restarts=restarts, rng=rng)

    seen = _observed_rows(table, query.network, data)
    n = len(seen)
    result = fit(seen, restarts)
    fields = fields_of(query, table, seen.visits(), seen.policies(), result)
    inference = _infer(seen, result, confidence, resamples, rng, float(fields["maximum"]))
    notes = [
        *fields.pop("notes"),
        f"the interval holds the model that was found fixed, and takes k / (2 n) for its bias, as "
        f"the test takes k degrees of freedom, with k = {result.rank} for what was fitted",
    ]
    if n == 1:
        notes.append("one row supports no interval and no held-out value")
    elif n < FEWEST:
        notes.append(f"fewer than {FEWEST} rows support no interval: it is 0 to the maximum")
    elif result.value > 0 and np.ptp(seen.evidence(result.policies)) <= _ALIKE:
        notes.append(
            "every row gives the same evidence, so there is no spread to judge by; kinds of "
            "behaviour not seen in n rows may still make up 3 / n of them, and the interval says "
            "how far that many could mislead"
        )
    if inference["unfloored"] < 0:
        notes.append(FLOORED)
    outside = _held_out(seen, fit, min(folds, n), max(restarts // _PART, _SEARCHED_FEW), rng)
    return TableMeg(**fields, **inference, n=n, held_out=outside, notes=tuple(notes))


def _infer(
    seen: _ObservedRows,
    result: SearchResult,
    confidence: float,
    resamples: int,
    rng: np.random.Generator,
    maximum: float,
) -> dict[str, Any]:
    """Correct, bound and test a fit: fields of a `TrajectoryMeg`."""
    from scipy.stats import chi2

    n, k = len(seen), result.rank
    bias = k / (2 * n)
    unfloored = result.value - bias
    corrected = max(unfloored, 0.0)
    evidence = seen.evidence(result.policies)
    # A model fitted anew would gain as much in each sample, on average, as this one has gained.
    replicates = resample_weights(n, resamples, rng) @ evidence + bias
    ends = percentile_interval(replicates, bias, n, confidence)
    bounds = (0.0, max(maximum, result.value))
    low, high = widened_for_few(ends, evidence, corrected, bounds, confidence)
    statistic = 2 * n * result.value
    p_value = float(chi2.sf(statistic, k)) if k else 1.0
    # Indistinguishable from the reference at this level, so 0 is among the credible values.
    low = 0.0 if p_value > 1.0 - confidence else low
    return {
        "corrected": corrected,
        "unfloored": unfloored,
        "standard_error": float(evidence.std(ddof=1) / np.sqrt(n)) if n > 1 else float("nan"),
        "interval": (low, max(high, corrected)),
        "confidence": confidence,
        "likelihood_ratio": statistic,
        "degrees_of_freedom": float(k),
        "p_value": p_value,
    }


def _held_out(
    seen: _ObservedRows,
    fit: Callable[[_ObservedRows, int], SearchResult],
    folds: int,
    restarts: int,
    rng: np.random.Generator,
) -> float:
    """Cross-fitted evidence, nats a row; NaN if there are too few to split."""
    n, decisions = len(seen), len(seen.table.decisions)
    if n < 2:
        return float("nan")
    fold = rng.permutation(n) % folds
    total = 0.0
    for k in range(folds):
        train, test = (_ObservedRows(seen.table, seen.places[at]) for at in (fold != k, fold == k))
        # Mixed with a little of the uniform model, so that a row which the fit rules out costs
        # something finite: the less, the more rows the fit has seen.
        mix = 1.0 / (len(train) * decisions + 1)
        total += float(test.evidence(fit(train, restarts).policies, mix=mix).sum())
    return total / float(n)


def _observed_rows(
    table: JointOutcomes, network: CausalBayesianNetwork, data: Any
) -> _ObservedRows:
    """Return the rows as contexts and actions of each decision, checked against the model."""
    families = [(*network.parents(d), d) for d in table.decisions]
    columns = _columns(network, [x for family in families for x in family], data)
    places = np.stack([_places(network, family, columns) for family in families], axis=1)
    possible = set(map(tuple, np.stack(table.place, axis=1).tolist()))
    known = np.array([place in possible for place in map(tuple, places.tolist())])
    if not known.all():
        row = int(np.argmin(known))
        values = ", ".join(f"{x} = {network.domain(x)[at[row]]}" for x, at in columns.items())
        raise InvalidTrajectoryError(
            f"row {row} of the table has {values}, which has probability 0 in the model whatever "
            f"the decisions {listed(table.decisions)} are; mend the row, or the model's CPDs"
        )
    return _ObservedRows(table, places)


# --- Table columns --------------------------------------------------------------------------------
def _columns(
    network: CausalBayesianNetwork, names: Sequence[str], data: Any
) -> dict[str, IntArray]:
    """Return the states of some variables in every row of a table, as indices, [N] each."""
    columns = {x: _indices(network, x, _column(data, x)) for x in dict.fromkeys(names)}
    lengths = {len(column) for column in columns.values()}
    if len(lengths) != 1 or 0 in lengths:
        raise InvalidTrajectoryError(
            f"the columns of the table have {sorted(lengths)} rows, expected as many in each, "
            f"and at least one"
        )
    return columns


def _column(data: Any, name: str) -> list[Any]:
    if isinstance(data, (str, Path)):
        data = read_csv(data)
    columns = list(data) if isinstance(data, Mapping) else list(getattr(data, "columns", []))
    if not columns:
        raise InvalidTrajectoryError(
            f"the table is {type(data).__name__}, expected a pandas or polars frame, "
            f"{{column: values}}, or the path of a CSV file"
        )
    if columns.count(name) > 1:
        raise InvalidTrajectoryError(
            f"the table has {columns.count(name)} columns named {name!r}, expected each name once"
        )
    if name not in columns:
        raise unknown_name(name, columns, "the table's column", InvalidTrajectoryError)
    return list(data[name])


def _indices(network: CausalBayesianNetwork, x: str, values: Sequence[Any]) -> IntArray:
    known: dict[Any, int] = {}
    out = np.empty(len(values), dtype=np.int64)
    # A column has many rows and few states: each is looked up once.
    for row, value in enumerate(values):
        try:
            if value not in known:
                known[value] = network.index(x, value)
        except (InvalidParameterError, TypeError) as error:
            raise InvalidTrajectoryError(f"row {row} of the table: {error}") from None
        out[row] = known[value]
    return out


def read_csv(path: str | Path) -> dict[str, list[str]]:
    """Return a CSV file with a head line, as {column: values}."""
    try:
        # Spreadsheets put a byte order mark in front.
        with Path(path).open(newline="", encoding="utf-8-sig") as file:
            lines = list(csv.reader(file))
    except FileNotFoundError:
        raise InvalidFileError(f"{path}: there is no such file; check the path") from None
    except (OSError, UnicodeDecodeError, csv.Error) as cause:
        raise InvalidFileError(f"{path} cannot be read as CSV: {cause}") from cause
    lines = [line for line in lines if line]
    if len(lines) < 2:
        raise InvalidFileError(
            f"{path} has {len(lines)} lines, expected a line of column names and at least one row"
        )
    head = [name.strip() for name in lines[0]]
    twice = next((name for name in head if head.count(name) > 1), None)
    if twice is not None:
        raise InvalidFileError(
            f"{path} has two columns named {twice!r}, expected each name once; remove or rename one"
        )
    for index, line in enumerate(lines[1:], start=2):
        if len(line) != len(head):
            raise InvalidFileError(
                f"{path}: line {index} has {len(line)} values, expected {len(head)}, one for each "
                f"column"
            )
    return {name: [line[i].strip() for line in lines[1:]] for i, name in enumerate(head)}
