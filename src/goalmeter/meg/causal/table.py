"""Goal-directedness from a table of joint outcomes instead of the policy's CPD."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError, InvalidTrajectoryError
from goalmeter._names import listed
from goalmeter.causal.contexts import DecisionProcess, Recall
from goalmeter.causal.diagram import Utility
from goalmeter.causal.network import CausalBayesianNetwork
from goalmeter.meg.behaviour import LinearClass
from goalmeter.meg.causal.result import (
    CausalQuery,
    Do,
    Goal,
    Model,
    TableMeg,
    ask,
    check_targets,
    columns_of,
    in_model,
    target_name,
    utility_name,
    variables_of,
)
from goalmeter.meg.causal.utilities import goal_of, known_of, payments, span_of
from goalmeter.meg.likelihood import Group
from goalmeter.meg.result import TrajectoryMeg
from goalmeter.meg.trajectories import estimate
from goalmeter.tabular.policies import Rewards
from goalmeter.tabular.trajectories import Trajectories


def from_table(
    model: Model,
    decisions: Sequence[str] | None = None,
    data: Any = None,
    *,
    targets: Sequence[str] | None = None,
    utility: Any = None,
    do: Do | None = None,
    confidence: float = 0.95,
    resamples: int = 2000,
    folds: int = 5,
    restarts: int = 24,
    rng: np.random.Generator | None = None,
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
        confidence: nominal coverage of the interval.
        resamples: bootstrap samples.
        folds: parts that rows are split into for the held-out value.
        restarts: of the search, where one is needed: without sufficient recall.
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
        >>> from goalmeter.causal import CausalBayesianNetwork
        >>> side = ["left", "right"]
        >>> mouse = CausalBayesianNetwork(
        ...     {"S": side, "D": side, "T": ["cheese", "none"]},
        ...     {"D": ["S"], "T": ["S", "D"]},
        ...     {
        ...         "S": [0.5, 0.5],
        ...         "D": [[0.5, 0.5], [0.5, 0.5]],
        ...         "T": lambda s, d: "cheese" if s == d else "none",
        ...     },
        ... )
        >>> seen = {"S": ["left"] * 10, "D": ["left"] * 8 + ["right"] * 2}
        >>> result = from_table(mouse, ["D"], seen, targets=["T"])
        >>> print(round(result.raw, 4), round(result.corrected, 4), round(result.p_value, 3))
        0.1927 0.1427 0.05
    """
    question = ask(model, decisions, do)
    if targets is not None and utility is not None:
        raise InvalidParameterError("targets and utility are both given, expected one of them")
    chosen = known_of(question, utility) if targets is None else None
    scopes = (
        [check_targets(question, targets)]
        if chosen is None
        else [factor.variables for factor in chosen.factors]
    )
    recall = question.recall(scopes)
    if recall.kind == "none":
        raise InvalidParameterError(
            f"{listed(question.decisions)} influence none of "
            f"{listed(variables_of(scopes))}, expected a utility "
            f"that they can influence: without influence MEG is 0 whatever the data are"
        )
    options: Any = {
        "confidence": confidence,
        "resamples": resamples,
        "folds": folds,
        "rng": rng,
    }
    if recall.kind == "insufficient":
        # Only here, because the search brings SciPy's optimisers along.
        from goalmeter.meg.causal.insufficient_recall import searched_table

        goal = scopes[0] if chosen is None else chosen
        return searched_table(question, recall, goal, data, restarts, options)
    process = question.process(scopes, recall)
    rows = _rows(process, question.network, data)
    if chosen is None:
        span = span_of(process, process.indicators(), target_name(scopes[0]))
        goals = span.utilities
    else:
        goals = _one_utility(process, chosen)
    # Decisions of parallel branches are made at the same step.
    levels = tuple(d.level for d in process.decisions)
    group = Group(process.mdp, rows, goals, process.log_uniform, levels)
    estimated, weights = estimate([group], known=chosen is not None, **options)
    best: Goal | None = None
    if chosen is None:
        best, scale = goal_of(process, span, span.weights(weights))
        if np.isfinite(estimated.rationality):
            estimated = replace(estimated, rationality=scale)
    return _result(question, process, estimated, recall, best)


def _one_utility(process: DecisionProcess, utility: Utility) -> LinearClass:
    """A known utility as a class of one weight, its rationality in a unit of its own."""
    paid = payments(process, utility)
    rewards, unit = Rewards(paid.T[None, :, :, None], 1.0).normalised()
    name = utility_name(utility)
    return LinearClass(
        (1, process.mdp.n_actions, process.mdp.n_states),
        np.ascontiguousarray(rewards.array.reshape(-1, 1)),
        1.0,
        name,
        float(unit[0]),
    )


def _result(
    question: CausalQuery,
    process: DecisionProcess,
    estimated: TrajectoryMeg,
    recall: Recall,
    goal: Goal | None,
) -> TableMeg:
    """The estimate in the process's MDP as an estimate in the model."""
    shares = {d.name: float(estimated.by_state[d.states].sum()) for d in process.decisions}
    fields = {name: getattr(estimated, name) for name in TrajectoryMeg.__dataclass_fields__}
    method = estimated.method
    if goal is not None and recall.kind == "single":
        # With one decision the likelihood is concave in the weights.
        method = method.replace(" (a local maximum)", "")
    fields |= {"method": method, "utility": None, "targets": variables_of(process.scopes)}
    return TableMeg(**(fields | in_model(question, recall, shares)), goal=goal)


def _rows(process: DecisionProcess, network: CausalBayesianNetwork, data: Any) -> Trajectories:
    """The table as contexts and actions of each decision, checked against the model."""
    columns = columns_of(
        network, [x for d in process.decisions for x in (*d.observed, d.name)], data
    )
    states, actions = [], []
    for d in process.decisions:
        context = np.zeros_like(columns[d.name])
        for x in d.observed:
            context = context * network.size(x) + columns[x]
        states.append(context + d.states.start)
        actions.append(columns[d.name])
    rows = Trajectories(np.stack(states, axis=1), np.stack(actions, axis=1))
    _check_possible(process, network, rows)
    return rows


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
