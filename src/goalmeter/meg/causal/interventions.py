"""The same policy in changed worlds: does the goal that explains it here explain it there?

MEG is measured on the agent's own distribution, where a goal that merely goes along with the true
one predicts just as well. Under an intervention that pulls them apart only the true one goes on
predicting. For each intervention do(X = x) three numbers stand side by side:

* MEG of the unchanged policy in the changed world: the best goal one could name there;
* the evidence of the original goal, its utility and rationality as they were fitted in the
  original world, planned and scored in the changed one;
* the same with the rationality fitted anew.

The gap between the first two is what the original goal fails to explain under the shift.

Source: the extension that the MEG paper (NeurIPS 2024) names as future work in section 7
("Distributional shifts") and appendix A ("Interventional distributions").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import FloatArray
from goalmeter.causal.contexts import DecisionProcess
from goalmeter.causal.factors import Factor
from goalmeter.causal.recall import Recall
from goalmeter.causal.utility import Utility
from goalmeter.meg.behaviour import behaviour_of
from goalmeter.meg.causal.intervention_table import InterventionRow, Interventions
from goalmeter.meg.causal.known import known_in, known_of, payments
from goalmeter.meg.causal.question import (
    Do,
    Model,
    Question,
    ask,
    check_targets,
    target_name,
    utility_name,
)
from goalmeter.meg.causal.result import CausalMeg, no_influence
from goalmeter.meg.causal.span import linear_in
from goalmeter.meg.causal.targets import TargetFit
from goalmeter.meg.linear_utility import TOLERANCE
from goalmeter.meg.soft_model import SoftModel
from goalmeter.meg.utility_class import LinearClass

# Actions that give up no more than this of a diverging utility are optimal for it.
_TIE = 1e-8
_IN_A_GAP = (
    "the original goal explains the original world in a gap, at an expected utility that no "
    "rationality attains, so it says nothing of what is done in other worlds: its evidence here "
    "is NaN"
)


def under_interventions(
    model: Model,
    decisions: Sequence[str] | None = None,
    interventions: Sequence[Do] = (),
    *,
    targets: Sequence[str] | None = None,
    utility: Any = None,
    tolerance: float = TOLERANCE,
    restarts: int = 24,
    rng: np.random.Generator | None = None,
) -> Interventions:
    """MEG of one policy in a world and in changed ones, and how well its goal transfers.

    Args:
        model: a `CausalBayesianNetwork` or an `InfluenceDiagram`; the policy is its CPD of
            each decision, and stays as it is.
        decisions: the candidate decisions; a diagram has its own.
        interventions: {variable: state} for each changed world.
        targets: the variables that the utility may read (Definition 4.4); or
        utility: a known utility, as in `causal_utility`; exactly one of the two, unless the
            model is a diagram with utilities of its own.
        tolerance: nats at which an optimum counts as certified.
        restarts: of the searches, where they are needed: without sufficient recall.
        rng: of the searches; default seed 0.

    Raises:
        InvalidModelError, InvalidParameterError, InvalidUtilityError: what does not fit; the
            message names it.

    Example: in training the bell rings where the cheese is, and the mouse follows the cheese. A
    goal about the bell explains that as well; when the bell is moved it no longer does.
        >>> from goalmeter.causal import CausalBayesianNetwork
        >>> side = ["left", "right"]
        >>> mouse = CausalBayesianNetwork(
        ...     {"S": side, "B": side, "D": side, "T": [0, 1], "R": [0, 1]},
        ...     {"B": ["S"], "D": ["S"], "T": ["S", "D"], "R": ["B", "D"]},
        ...     {
        ...         "S": [0.5, 0.5],
        ...         "B": lambda s: s,
        ...         "D": [[0.8, 0.2], [0.2, 0.8]],
        ...         "T": lambda s, d: int(s == d),
        ...         "R": lambda b, d: int(b == d),
        ...     },
        ... )
        >>> for goal in ("T", "R"):
        ...     print(under_interventions(mouse, ["D"], [{"B": "left"}], targets=[goal]))
        D towards some utility over T, nats
          as it is      MEG 0.1927, original goal 0.1927 (refitted 0.1927), gap 0.0000
          do(B = left)  MEG 0.1927, original goal 0.1927 (refitted 0.1927), gap 0.0000
        D towards some utility over R, nats
          as it is      MEG 0.1927, original goal 0.1927 (refitted 0.1927), gap 0.0000
          do(B = left)  MEG 0.0000, original goal −0.2231 (refitted 0.0000), gap 0.2231
    """
    if targets is not None and utility is not None:
        raise InvalidParameterError("targets and utility are both given, expected one of them")
    if isinstance(interventions, (Mapping, str)) or not isinstance(interventions, Iterable):
        raise InvalidParameterError(
            f"interventions is {interventions!r}, expected a list with a mapping {{variable: "
            f"state}} for each changed world"
        )
    worlds = [ask(model, decisions, do) for do in ({}, *interventions)]
    goal: Utility | tuple[str, ...]
    if targets is None:
        goal = known_of(worlds[0], utility)
        scopes = [factor.variables for factor in goal.factors]
    else:
        goal = check_targets(worlds[0], targets)
        scopes = [goal]
    # An intervention only takes edges away, so recall that suffices here does so everywhere.
    if targets is not None and worlds[0].recall(scopes).kind != "insufficient":
        return _best_over_targets(worlds, scopes[0], tolerance)
    return _Worlds(worlds, goal, tolerance, restarts, rng).table()


@dataclass(frozen=True)
class _Hypothesis:
    """A goal as it was fitted: weights, and the directions that diverge before them."""

    weights: FloatArray
    directions: list[FloatArray]

    def evidence(self, process: DecisionProcess, utilities: LinearClass) -> float:
        """How well an agent who plans for it in a world predicts the policy there, nats."""
        model = SoftModel(process.mdp, utilities, self.weights, process.log_uniform)
        for direction in self.directions:
            model = model.confined(model.regrets(direction / np.abs(direction).max()) <= _TIE)
        return model.evidence(behaviour_of(process.mdp, [process.policy()]))


def _best_over_targets(
    worlds: Sequence[Question], names: tuple[str, ...], tolerance: float
) -> Interventions:
    """Rows of the best utility over targets, with the directions in which it grows without end."""
    name = target_name(names)
    goal: _Hypothesis | None = None
    rows = []
    for world in worlds:
        recall = world.recall([names])
        if recall.kind == "none":
            result = no_influence(world, names, name)
            rows.append(InterventionRow(world.do, result, 0.0, 0.0))
            continue
        process = world.process([names], recall)
        best = TargetFit(process, tolerance)
        if goal is None:
            # A world in which the decisions have no say in the targets shows no goal.
            idle = _Hypothesis(0.0 * best.weights, [])
            goal = idle if world.do else _Hypothesis(best.weights, best.directions)
        score = goal.evidence(process, best.span.plain)
        shape = [world.network.size(x) for x in names]
        main = goal.directions[0] if goal.directions else goal.weights
        utility = Utility((Factor(names, main.reshape(shape)),))
        refitted = known_in(world, process, recall, utility, name)
        result = best.result(world, recall)
        rows.append(InterventionRow(world.do, result, score, refitted.value))
    return Interventions(worlds[0].decisions, name, tuple(rows))


# So is every known utility, and the goal that a search found without sufficient recall. Where
# decisions rely on each other, what an agent with that goal would do is searched for, like the goal
# itself; elsewhere, also where an intervention has cut the circle, it is planned.
class _Worlds:
    """Rows of a goal that is carried through all worlds as a utility with its rationality."""

    def __init__(
        self,
        worlds: Sequence[Question],
        goal: Utility | tuple[str, ...],
        tolerance: float,
        restarts: int,
        rng: np.random.Generator | None,
    ) -> None:
        self.worlds, self.goal = worlds, goal
        self.tolerance, self.restarts, self.rng = tolerance, restarts, rng
        self._processes: dict[int, DecisionProcess] = {}
        if isinstance(goal, Utility):
            self.scopes = [factor.variables for factor in goal.factors]
            self.variables = goal.variables
            self.name = utility_name(goal)
        else:
            self.scopes, self.variables, self.name = [goal], goal, target_name(goal)

    def table(self) -> Interventions:
        first = self._measured(self.worlds[0])
        utility = self._utility(first)
        rows = [self._row(self.worlds[0], first, utility, first.rationality)]
        for world in self.worlds[1:]:
            rows.append(self._row(world, self._measured(world), utility, first.rationality))
        return Interventions(self.worlds[0].decisions, self.name, tuple(rows))

    def _row(
        self, world: Question, result: CausalMeg, utility: Utility, rationality: float
    ) -> InterventionRow:
        if result.recall == "none":
            return InterventionRow(world.do, result, 0.0, 0.0)
        known = isinstance(self.goal, Utility)
        refitted = result.value if known else self._with_utility(world, utility).value
        if not np.isnan(rationality):
            score = self._score(world, utility, rationality)
        elif not world.do:
            score = result.value
        else:
            score = float("nan")
            result = replace(result, notes=(*result.notes, _IN_A_GAP))
        return InterventionRow(world.do, result, score, refitted)

    def _utility(self, first: CausalMeg) -> Utility:
        if isinstance(self.goal, Utility):
            return self.goal
        assert first.goal is not None
        # What the decisions have no say in was not fitted, and is worth as much as anything.
        return Utility((Factor(self.goal, np.nan_to_num(first.goal.values)),))

    def _measured(self, world: Question) -> CausalMeg:
        if isinstance(self.goal, Utility):
            return self._with_utility(world, self.goal)
        recall = world.recall(self.scopes)
        if recall.kind == "none":
            return no_influence(world, self.goal, self.name)
        if recall.kind == "insufficient":
            return self._searched(world, recall, self.goal)
        return TargetFit(self._process(world, recall), self.tolerance).result(world, recall)

    def _with_utility(self, world: Question, utility: Utility) -> CausalMeg:
        recall = world.recall(self.scopes)
        if recall.kind == "none":
            return no_influence(world, self.variables, self.name)
        if recall.kind == "insufficient":
            # In a changed world the utility may be the one that was fitted to targets.
            return replace(self._searched(world, recall, utility), target=self.name)
        process = self._process(world, recall)
        return known_in(world, process, recall, utility, self.name)

    def _searched(
        self, world: Question, recall: Recall, goal: Utility | tuple[str, ...]
    ) -> CausalMeg:
        # Only here, because the search brings SciPy's optimisers along.
        from goalmeter.meg.causal.searched import searched

        return searched(world, recall, goal, restarts=self.restarts, rng=self.rng)

    def _score(self, world: Question, utility: Utility, rationality: float) -> float:
        recall = world.recall(self.scopes)
        if recall.kind == "insufficient":
            from goalmeter.meg.causal.search import joint_outcomes, planned_evidence

            table = joint_outcomes(world.network, recall.decisions, utility)
            rng = np.random.default_rng(0) if self.rng is None else self.rng
            measured = table.policies(world.network)
            return planned_evidence(table, measured, rationality, restarts=self.restarts, rng=rng)
        process = self._process(world, recall)
        paid = linear_in(process, payments(process, utility)[..., None], self.name)
        # A known utility is a class of one weight, which is its rationality.
        goal = _Hypothesis(np.array([rationality]), [])
        if np.isinf(rationality):
            goal = _Hypothesis(np.zeros(1), [np.sign([rationality])])
        return goal.evidence(process, paid)

    def _process(self, world: Question, recall: Recall) -> DecisionProcess:
        # A world is asked for what is measured and for what is planned; its queries cost the most.
        if id(world) not in self._processes:
            self._processes[id(world)] = world.process(self.scopes, recall)
        return self._processes[id(world)]
