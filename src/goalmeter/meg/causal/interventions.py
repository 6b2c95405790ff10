"""Goal-directedness of one policy in changed worlds, and what its original goal predicts there.

MEG is measured on the agent's own distribution, where a goal that merely correlates with the true
one predicts just as well. Under an intervention that separates them only the true one goes on
predicting. So for each intervention do(X = x) there are three numbers: MEG of the unchanged policy
in the changed world, the best goal one could name there; the evidence of the original goal, its
utility and rationality as they were fitted in the original world; and the same with the rationality
fitted anew. The gap between the first two is what the original goal fails to explain.

Source: the extension that the MEG paper (NeurIPS 2024) names as future work in section 7
("Distributional shifts") and appendix A ("Interventional distributions").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._names import listed
from goalmeter._types import FloatArray
from goalmeter.causal.diagram import Utility
from goalmeter.causal.elimination import Factor
from goalmeter.meg.behaviour import LinearClass, behaviour_of
from goalmeter.meg.causal.result import CausalMeg, DecisionQuery, Do, Model, Names, ask, do_text
from goalmeter.meg.causal.utilities import linear_in, measure, payments, target_fit
from goalmeter.meg.linear import TOLERANCE
from goalmeter.meg.result import json_number
from goalmeter.meg.soft_model import SoftModel
from goalmeter.report.numbers import nats, nats_of_search, number, percent
from goalmeter.report.tables import data_frame, html_table

_TIE = 1e-8  # actions that give up no more of a diverging utility are optimal for it
_IN_A_GAP = (
    "the original goal explains the original world in a gap, at an expected utility that no "
    "rationality attains, so it says nothing of what is done in other worlds: its evidence here "
    "is NaN"
)


@dataclass(frozen=True)
class InterventionRow:
    """One world."""

    do: dict[str, object]  # what was set; empty for the original world
    result: CausalMeg  # MEG of the policy there
    # Evidence of the original goal there, nats; negative where it predicts worse than chance, -inf
    # where it rules out what the agent does; NaN where the goal has no rationality (a gap, without
    # sufficient recall) and cannot be planned for.
    transferred: float
    refitted: float  # evidence of the original utility with the best rationality there, nats

    @property
    def gap(self) -> float:
        """What the best goal of that world explains beyond the original one, nats."""
        return self.result.value - self.transferred

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        numbers = ("transferred", "refitted", "gap")
        return {
            "do": dict(self.do),
            "meg": self.result.value,
            **{name: json_number(getattr(self, name)) for name in numbers},
            "result": self.result.to_json(),
        }


@dataclass(frozen=True)
class Interventions:
    """The original world and every changed one."""

    decisions: Names
    target: str  # what goal-directedness was measured towards, in words
    rows: tuple[InterventionRow, ...]  # the original world first

    @property
    def largest_gap(self) -> float:
        """The largest gap of all changed worlds, nats; 0 if there are none, NaN if one is."""
        gaps = [row.gap for row in self.rows[1:]]
        return float(np.max(gaps)) if gaps else 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the table as JSON values."""
        return {
            "decisions": list(self.decisions),
            "target": self.target,
            "largest_gap": json_number(self.largest_gap),
            "rows": [row.to_json() for row in self.rows],
        }

    def to_pandas(self) -> Any:
        """Return the table as a pandas data frame, one row a world, numbers in nats."""
        own, of_result = ("transferred", "refitted", "gap"), ("upper_bound", "maximum", "fraction")
        return data_frame(
            [
                {"do": do_text(row.do), "meg": row.result.value}
                | {name: getattr(row.result, name) for name in of_result}
                | {name: getattr(row, name) for name in own}
                for row in self.rows
            ]
        )

    def _repr_html_(self) -> str:
        heads = ("MEG there, nats", "upper bound", "share of maximum", "original goal, nats")
        return html_table(
            f"{listed(self.decisions)} towards {self.target}, in the original world and others",
            ("world", *heads, "the same, β refitted", "gap"),
            [
                (
                    *(do_text(row.do), nats_of_search(row.result.signed)),
                    *(nats(row.result.upper_bound), percent(row.result.fraction)),
                    *(nats(row.transferred), nats_of_search(row.refitted), nats(row.gap)),
                )
                for row in self.rows
            ],
        )

    def __str__(self) -> str:
        lines = [f"{listed(self.decisions)} towards {self.target}, nats"]
        names = [do_text(row.do) for row in self.rows]
        width = max(len(name) for name in names)
        for name, row in zip(names, self.rows, strict=True):
            lines.append(
                f"  {name:<{width}}  MEG {number(row.result.signed, 4)}, original goal "
                f"{number(row.transferred, 4)} (refitted {number(row.refitted, 4)}), "
                f"gap {number(row.gap, 4)}"
            )
        return "\n".join(lines)


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

    The policy is the model's CPD of each decision, and stays as it is in each changed world, one
    for each {variable: state} of the `interventions`. The goal is any utility over `targets`
    (Definition 4.4), a known `utility`, or the diagram's own. Other arguments are those of
    `goalmeter.meg.targets`.
    """
    if isinstance(interventions, (Mapping, str)) or not isinstance(interventions, Iterable):
        raise InvalidParameterError(
            f"interventions is {interventions!r}, expected a list with a mapping {{variable: "
            f"state}} for each changed world"
        )
    worlds = [ask(model, decisions, do).towards(targets, utility) for do in ({}, *interventions)]
    if not isinstance(worlds[0].goal, Utility) and worlds[0].recall.kind != "insufficient":
        # An intervention only takes edges away, so recall that suffices here does so everywhere.
        rows = _best_over_targets(worlds, tolerance)
    else:
        rows = _of_one_utility(worlds, tolerance=tolerance, restarts=restarts, rng=rng)
    return Interventions(worlds[0].decisions, worlds[0].name, tuple(rows))


def _best_over_targets(worlds: Sequence[DecisionQuery], tolerance: float) -> list[InterventionRow]:
    """Return rows of the best utility over targets, with the directions in which it diverges."""
    goal: tuple[FloatArray, Sequence[FloatArray]] | None = None  # weights, directions before them
    rows = []
    for world in worlds:
        if world.recall.kind == "none":
            rows.append(InterventionRow(world.do, measure(world), 0.0, 0.0))
            continue
        best = target_fit(world, tolerance)
        if goal is None:
            # A world in which the decisions have no say in the targets shows no goal.
            goal = (0.0 * best.weights, []) if world.do else (best.weights, best.directions)
        weights, directions = goal
        score = _evidence(world, best.span.plain, weights, directions)
        shape = [world.network.size(x) for x in world.targets]
        main = directions[0] if directions else weights
        utility = Utility((Factor(world.targets, main.reshape(shape)),))
        known = replace(world, goal=utility, neutral=world.process.neutral)
        rows.append(InterventionRow(world.do, best.towards_targets(), score, measure(known).value))
    return rows


def _of_one_utility(
    worlds: Sequence[DecisionQuery],
    *,
    tolerance: float,
    restarts: int,
    rng: np.random.Generator | None,
) -> list[InterventionRow]:
    """Return rows of a goal that is carried along as a utility with its rationality."""
    # It is a known utility, or the one that a search found without sufficient recall. Where an
    # intervention has cut the circle, what an agent with that goal would do is planned.
    rows: list[InterventionRow] = []
    goal, rationality = worlds[0].goal, 0.0
    for world in worlds:
        result = measure(world, tolerance=tolerance, restarts=restarts, rng=rng)
        if not rows:
            rationality = result.rationality
            if not isinstance(goal, Utility):
                assert result.goal is not None
                # What the decisions have no say in was not fitted, and is worth as much as any.
                goal = Utility((Factor(world.targets, np.nan_to_num(result.goal.values)),))
        if result.recall == "none":
            rows.append(InterventionRow(world.do, result, 0.0, 0.0))
            continue
        known, refitted = replace(world, goal=goal), result.value
        if goal is not world.goal:
            refitted = measure(known, restarts=restarts, rng=rng).value
        score = result.value
        if not np.isnan(rationality):
            score = _score(known, rationality, restarts, rng)
        elif world.do:
            score = float("nan")
            result = replace(result, notes=(*result.notes, _IN_A_GAP))
        rows.append(InterventionRow(world.do, result, score, refitted))
    return rows


def _score(
    query: DecisionQuery, rationality: float, restarts: int, rng: np.random.Generator | None
) -> float:
    """Return how well a known utility at a rationality predicts the policy of a world, nats."""
    assert isinstance(query.goal, Utility)
    if query.recall.kind == "insufficient":
        from goalmeter.meg.causal.outcomes import joint_outcomes
        from goalmeter.meg.causal.search import planned_evidence

        table = joint_outcomes(query.network, query.recall.decisions, query.goal)
        rng = np.random.default_rng(0) if rng is None else rng
        measured = table.policies(query.network)
        return planned_evidence(table, measured, rationality, restarts, rng)
    # A known utility is a class of one weight, which is its rationality.
    utilities = linear_in(payments(query.process, query.goal)[..., None], query.name)
    if np.isinf(rationality):
        return _evidence(query, utilities, np.zeros(1), [np.sign([rationality])])
    return _evidence(query, utilities, np.array([rationality]), [])


def _evidence(
    query: DecisionQuery,
    utilities: LinearClass,
    weights: FloatArray,
    directions: Sequence[FloatArray],
) -> float:
    """Return how well an agent who plans for weights, after directions, predicts a policy, nats."""
    process = query.process
    model = SoftModel(process.mdp, utilities, weights, process.log_uniform)
    for direction in directions:
        model = model.confined(model.regrets(direction / np.abs(direction).max()) <= _TIE)
    return model.evidence(behaviour_of(process.mdp, [process.policy()]))
