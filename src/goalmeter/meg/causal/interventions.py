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
from dataclasses import dataclass
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._names import listed
from goalmeter._types import FloatArray
from goalmeter.causal.contexts import DecisionProcess, decision_process
from goalmeter.causal.factors import Factor
from goalmeter.causal.utility import Utility
from goalmeter.meg.behaviour import behaviour_of
from goalmeter.meg.causal.known import known_in, known_of, payments
from goalmeter.meg.causal.question import Do, Model, Question, ask, check_targets
from goalmeter.meg.causal.result import CausalMeg, do_text, no_influence
from goalmeter.meg.causal.span import linear_in
from goalmeter.meg.causal.targets import TargetFit, target_name
from goalmeter.meg.linear_utility import TOLERANCE
from goalmeter.meg.result import json_number
from goalmeter.meg.soft_model import SoftModel
from goalmeter.meg.utility_class import LinearClass
from goalmeter.report.notebook import data_frame, html_table
from goalmeter.report.numbers import nats, nats_of_search, percent

# Actions that give up no more than this of a diverging utility are optimal for it.
_TIE = 1e-8


@dataclass(frozen=True)
class InterventionRow:
    """One world.

    Attributes:
        do: what was set; empty for the original world.
        result: MEG of the policy there.
        transferred: evidence of the original goal there, nats; negative where it predicts
            worse than chance, -inf where it rules out what the agent does; NaN where the goal
            has no rationality (a gap, without sufficient recall) and cannot be planned for.
        refitted: evidence of the original utility with the best rationality there, nats.
    """

    do: dict[str, object]
    result: CausalMeg
    transferred: float
    refitted: float

    @property
    def gap(self) -> float:
        """What the best goal of that world explains beyond the original one, nats."""
        return self.result.value - self.transferred

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {
            "do": dict(self.do),
            "meg": self.result.value,
            "transferred": json_number(self.transferred),
            "refitted": json_number(self.refitted),
            "gap": json_number(self.gap),
            "result": self.result.to_json(),
        }


@dataclass(frozen=True)
class Interventions:
    """The original world and every changed one.

    Attributes:
        decisions: the candidate decisions.
        target: what goal-directedness was measured towards, in words.
        rows: the original world first.
    """

    decisions: tuple[str, ...]
    target: str
    rows: tuple[InterventionRow, ...]

    @property
    def largest_gap(self) -> float:
        """The largest gap of all changed worlds, nats; 0 if there are none, NaN if one is."""
        gaps = [row.gap for row in self.rows[1:]]
        return float(np.max(gaps)) if gaps else 0.0

    def to_json(self) -> dict[str, Any]:
        """The table as JSON values."""
        return {
            "decisions": list(self.decisions),
            "target": self.target,
            "largest_gap": json_number(self.largest_gap),
            "rows": [row.to_json() for row in self.rows],
        }

    def to_pandas(self) -> Any:
        """The table as a pandas data frame, one row a world.

        Columns: `do` (text), `meg`, `upper_bound`, `maximum` in nats, `fraction`, and in nats
        `transferred`, `refitted` and `gap`, see `InterventionRow`.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        return data_frame(
            [
                {
                    "do": do_text(row.do),
                    "meg": row.result.value,
                    "upper_bound": row.result.upper_bound,
                    "maximum": row.result.maximum,
                    "fraction": row.result.fraction,
                    "transferred": row.transferred,
                    "refitted": row.refitted,
                    "gap": row.gap,
                }
                for row in self.rows
            ]
        )

    def _repr_html_(self) -> str:
        """The table as a notebook shows it."""
        heads = ("MEG there, nats", "upper bound", "share of maximum", "original goal, nats")
        return html_table(
            f"{listed(self.decisions)} towards {self.target}, in the original world and others",
            ("world", *heads, "the same, β refitted", "gap"),
            [
                (
                    do_text(row.do),
                    nats_of_search(row.result.value),
                    nats(row.result.upper_bound),
                    percent(row.result.fraction),
                    nats(row.transferred),
                    nats_of_search(row.refitted),
                    nats(row.gap),
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
                f"  {name:<{width}}  MEG {row.result.value:.4f}, original goal "
                f"{row.transferred:.4f} (refitted {row.refitted:.4f}), gap {row.gap:z.4f}"
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
          do(B = left)  MEG 0.0000, original goal -0.2231 (refitted 0.0000), gap 0.2231
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
    if worlds[0].recall(scopes).kind == "insufficient":
        from goalmeter.meg.causal.forgetful_interventions import searched_worlds

        return searched_worlds(worlds, goal, tolerance=tolerance, restarts=restarts, rng=rng)
    if isinstance(goal, Utility):
        return _known(worlds, goal)
    return _unknown(worlds, goal, tolerance)


@dataclass(frozen=True)
class Hypothesis:
    """A goal as it was fitted: weights, and the directions that diverge before them."""

    weights: FloatArray
    directions: list[FloatArray]

    def planned(self, process: DecisionProcess, utilities: LinearClass) -> SoftModel:
        """What an agent with this goal would do in a world."""
        model = SoftModel(process.mdp, utilities, self.weights, process.log_uniform)
        for direction in self.directions:
            model = model.confined(model.regrets(direction / np.abs(direction).max()) <= _TIE)
        return model


def _known(worlds: Sequence[Question], utility: Utility) -> Interventions:
    """Rows of a known utility, whose rationality is all that was fitted."""
    name = f"the given utility over {listed(utility.variables)}"
    scopes = [factor.variables for factor in utility.factors]
    goal: Hypothesis | None = None
    rows = []
    for world in worlds:
        process = _process(world, scopes)
        if process is None:
            result = no_influence(world, utility.variables, name)
            rows.append(InterventionRow(world.do, result, 0.0, 0.0))
            continue
        (result,) = known_in(world, process, world.recall(scopes), [utility], name)
        if goal is None:
            goal = one_weight(result.rationality if not world.do else 0.0)
        paid = linear_in(process, payments(process, utility)[..., None], name)
        score = score_of(process, goal.planned(process, paid))
        rows.append(InterventionRow(world.do, result, score, result.value))
    return Interventions(worlds[0].decisions, name, tuple(rows))


def one_weight(rationality: float) -> Hypothesis:
    """A known utility with its rationality as a class of one weight."""
    if np.isinf(rationality):
        return Hypothesis(np.zeros(1), [np.sign([rationality])])
    return Hypothesis(np.array([rationality]), [])


def _unknown(worlds: Sequence[Question], names: tuple[str, ...], tolerance: float) -> Interventions:
    """Rows of the best utility over targets."""
    name = target_name(names)
    goal: Hypothesis | None = None
    rows = []
    for world in worlds:
        process = _process(world, [names])
        if process is None:
            result = no_influence(world, names, name)
            rows.append(InterventionRow(world.do, result, 0.0, 0.0))
            continue
        recall = world.recall([names])
        best = TargetFit(process, tolerance)
        if goal is None:
            # A world in which the decisions have no say in the targets shows no goal.
            idle = Hypothesis(0.0 * best.weights, [])
            goal = idle if world.do else Hypothesis(best.weights, best.directions)
        score = score_of(process, goal.planned(process, best.span.plain))
        shape = [world.network.size(x) for x in names]
        main = goal.directions[0] if goal.directions else goal.weights
        utility = Utility((Factor(names, main.reshape(shape)),))
        (refitted,) = known_in(world, process, recall, [utility], name)
        result = best.result(world, recall)
        rows.append(InterventionRow(world.do, result, score, refitted.value))
    return Interventions(worlds[0].decisions, name, tuple(rows))


def score_of(process: DecisionProcess, model: SoftModel) -> float:
    """Evidence of the measured policy for a model, nats."""
    return model.evidence(behaviour_of(process.mdp, [process.policy()]))


def _process(world: Question, scopes: Sequence[Sequence[str]]) -> DecisionProcess | None:
    """The decision process of a world; None where no decision influences the utility."""
    recall = world.recall(scopes)
    if recall.kind == "none":
        return None
    return decision_process(world.network, world.decisions, scopes, recall=recall)
