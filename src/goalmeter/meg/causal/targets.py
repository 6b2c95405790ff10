"""Goal-directedness of decisions towards target variables: all utilities on their joint states."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.causal.contexts import DecisionProcess
from goalmeter.causal.recall import Recall
from goalmeter.meg.behaviour import PolicyBehaviour, behaviour_of
from goalmeter.meg.causal.question import Do, Model, Question, ask, check_targets, target_name
from goalmeter.meg.causal.result import CausalMeg, Goal, goal_table, in_process, no_influence
from goalmeter.meg.causal.span import Span, span_of
from goalmeter.meg.linear_utility import TOLERANCE, measure_class
from goalmeter.meg.result import MegResult


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

    Args:
        model: a `CausalBayesianNetwork` or an `InfluenceDiagram`; the policy is its CPD of
            each decision.
        decisions: the candidate decisions; a diagram has its own.
        targets: the variables that the utility may read, jointly. They need not all be
            downstream of the decisions: for an agent that follows instructions, name the
            instruction and the outcome.
        do: an intervention, {variable: state}, under which the policy is measured.
        tolerance: nats between value and bound at which the optimum counts as certified.
        restarts: of the search, where one is needed.
        rng: of the search; default seed 0.

    Returns:
        A `CausalMeg` whose `goal` is the maximising utility, scaled to -1..1, with `rationality`
        its beta; inf where the supremum is approached by ever larger utilities.

    Raises:
        InvalidModelError, InvalidParameterError: what does not fit, a decision among the
            targets, or a model that is too large; the message names it.

    Source: MEG paper (NeurIPS 2024), Definition 4.4.

    Example: whatever the mouse of Example 1 wants, it is about the cheese.
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
        >>> result = targets(mouse, decisions=["D"], targets=["T"])
        >>> print(round(result.value, 4), result.goal, result.certified)
        0.1927 cheese +1, none −1 True
    """
    question = ask(model, decisions, do)
    names = check_targets(question, targets)
    recall = question.recall([names])
    if recall.kind == "none":
        return no_influence(question, names, target_name(names))
    if recall.kind == "insufficient":
        # Only here, because the search brings SciPy's optimisers along.
        from goalmeter.meg.causal.searched import searched

        return searched(question, recall, names, restarts=restarts, rng=rng)
    return TargetFit(question.process([names], recall), tolerance).result(question, recall)


class TargetFit:
    """The best utility over the targets of a decision process, with what it was found from.

    Attributes:
        process: of the decisions, for one scope: the targets.
        span: all utilities over the targets.
        behaviour: the measured policy.
        optimum: the result, in terms of the process's MDP.
        weights: of the joint states of the targets [D], as far as they are finite.
        directions: weights [D] that grow without bound, the dominant first.
    """

    def __init__(self, process: DecisionProcess, tolerance: float = TOLERANCE) -> None:
        (names,) = process.scopes
        self.process = process
        self.span = span_of(process, process.indicators(), target_name(names))
        self.behaviour: PolicyBehaviour = behaviour_of(process.mdp, [process.policy()])
        self.optimum: MegResult
        self.optimum, fit = measure_class(
            self.behaviour, self.span.utilities, process.log_uniform, tolerance
        )
        self.weights = self.span.weights(fit.model.theta)
        self.directions = [self.span.weights(direction) for direction in fit.directions]

    def result(self, question: Question, recall: Recall) -> CausalMeg:
        """The fit as a result of the model."""
        main = self.directions[0] if self.directions else self.weights
        goal, scale = goal_of(self.process, self.span, main)
        return in_process(
            question,
            self.process,
            recall,
            self.optimum,
            rationality=float("inf") if self.directions else scale,
            goal=goal,
        )


def goal_of(process: DecisionProcess, span: Span, weights: FloatArray) -> tuple[Goal, float]:
    """A utility [D] over the targets as a table, and the scale taken out of it."""
    (names,) = process.scopes
    values, scale = span.shown(weights)
    return goal_table(process.network, names, values), scale
