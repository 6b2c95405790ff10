"""A goal that is carried through changed worlds as a utility with its rationality.

So is every known utility, and the goal that a search found without sufficient recall. In a world
where decisions rely on each other, what an agent with that goal would do is searched for, like the
goal itself; elsewhere, also where an intervention has cut the circle, it is planned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from goalmeter.causal.contexts import DecisionProcess, decision_process
from goalmeter.causal.factors import Factor
from goalmeter.causal.recall import Recall
from goalmeter.causal.utility import Utility
from goalmeter.meg.causal.hypothesis import one_weight, score_of
from goalmeter.meg.causal.intervention_table import InterventionRow, Interventions
from goalmeter.meg.causal.known import known_in, payments
from goalmeter.meg.causal.question import Question, target_name, utility_name
from goalmeter.meg.causal.result import CausalMeg, no_influence
from goalmeter.meg.causal.search import joint_outcomes, planned_evidence
from goalmeter.meg.causal.searched import searched
from goalmeter.meg.causal.span import linear_in
from goalmeter.meg.causal.targets import TargetFit

_IN_A_GAP = (
    "the original goal explains the original world in a gap, at an expected utility that no "
    "rationality attains, so it says nothing of what is done in other worlds: its evidence here "
    "is NaN"
)


def carried_utility(
    worlds: Sequence[Question],
    goal: Utility | tuple[str, ...],
    *,
    tolerance: float,
    restarts: int,
    rng: np.random.Generator | None,
) -> Interventions:
    """The rows of `under_interventions`.

    Args:
        worlds: the original one first.
        goal: a known utility; or the targets, if recall is insufficient in the original world.
        tolerance: nats at which an optimum counts as certified, where one can be.
        restarts: of each search, where one is needed.
        rng: of the searches; default seed 0.
    """
    return _Worlds(worlds, goal, tolerance, restarts, rng).table()


class _Worlds:
    """What is asked of every world, and how."""

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
        """All rows."""
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
        """The original goal."""
        if isinstance(self.goal, Utility):
            return self.goal
        assert first.goal is not None
        # What the decisions have no say in was not fitted, and is worth as much as anything.
        return Utility((Factor(self.goal, np.nan_to_num(first.goal.values)),))

    def _measured(self, world: Question) -> CausalMeg:
        """MEG in a world."""
        if isinstance(self.goal, Utility):
            return self._with_utility(world, self.goal)
        recall = world.recall(self.scopes)
        if recall.kind == "none":
            return no_influence(world, self.goal, self.name)
        if recall.kind == "insufficient":
            return searched(world, recall, self.goal, restarts=self.restarts, rng=self.rng)
        return TargetFit(self._process(world, recall), self.tolerance).result(world, recall)

    def _with_utility(self, world: Question, utility: Utility) -> CausalMeg:
        """MEG with respect to a known utility in a world."""
        recall = world.recall(self.scopes)
        if recall.kind == "none":
            return no_influence(world, self.variables, self.name)
        if recall.kind == "insufficient":
            result = searched(world, recall, utility, restarts=self.restarts, rng=self.rng)
            # In a changed world the utility may be the one that was fitted to targets.
            return replace(result, target=self.name)
        process = self._process(world, recall)
        return known_in(world, process, recall, [utility], self.name)[0]

    def _score(self, world: Question, utility: Utility, rationality: float) -> float:
        """Evidence of a goal that is planned anew in a world, nats."""
        recall = world.recall(self.scopes)
        if recall.kind == "insufficient":
            table = joint_outcomes(world.network, recall.decisions, utility)
            rng = np.random.default_rng(0) if self.rng is None else self.rng
            measured = table.policies(world.network)
            return planned_evidence(table, measured, rationality, restarts=self.restarts, rng=rng)
        process = self._process(world, recall)
        paid = linear_in(process, payments(process, utility)[..., None], self.name)
        return score_of(process, one_weight(rationality).planned(process, paid))

    def _process(self, world: Question, recall: Recall) -> DecisionProcess:
        # A world is asked for what is measured and for what is planned; its queries cost the most.
        if id(world) not in self._processes:
            network, decisions = world.network, world.decisions
            process = decision_process(network, decisions, self.scopes, recall=recall)
            self._processes[id(world)] = process
        return self._processes[id(world)]
