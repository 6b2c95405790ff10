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
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter.causal.contexts import decision_process
from goalmeter.causal.factors import Factor
from goalmeter.causal.utility import Utility
from goalmeter.meg.causal.hypothesis import Hypothesis, score_of
from goalmeter.meg.causal.intervention_table import InterventionRow, Interventions
from goalmeter.meg.causal.known import known_in, known_of
from goalmeter.meg.causal.question import (
    Do,
    Model,
    Question,
    ask,
    check_targets,
    target_name,
)
from goalmeter.meg.causal.result import no_influence
from goalmeter.meg.causal.targets import TargetFit
from goalmeter.meg.linear_utility import TOLERANCE


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
    # Only here, because the search brings SciPy's optimisers along.
    from goalmeter.meg.causal.changed_worlds import carried_utility

    return carried_utility(worlds, goal, tolerance=tolerance, restarts=restarts, rng=rng)


def _best_over_targets(
    worlds: Sequence[Question], names: tuple[str, ...], tolerance: float
) -> Interventions:
    """Rows of the best utility over targets, with the directions in which it grows without end."""
    name = target_name(names)
    goal: Hypothesis | None = None
    rows = []
    for world in worlds:
        recall = world.recall([names])
        if recall.kind == "none":
            result = no_influence(world, names, name)
            rows.append(InterventionRow(world.do, result, 0.0, 0.0))
            continue
        process = decision_process(world.network, world.decisions, [names], recall=recall)
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
