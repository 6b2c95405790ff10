"""Sensitivity of a goal-directedness to the choice of targets and to interventions on the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._names import listed
from goalmeter._types import FloatArray
from goalmeter.causal.contexts import DecisionProcess, Recall, neutral_network
from goalmeter.causal.diagram import Utility
from goalmeter.causal.elimination import Factor
from goalmeter.causal.graph import bayes_ball
from goalmeter.meg.behaviour import LinearClass, behaviour_of
from goalmeter.meg.causal.result import (
    CausalMeg,
    CausalQuery,
    Do,
    Goal,
    InterventionRow,
    Interventions,
    Model,
    ask,
    check_targets,
    no_influence,
    target_name,
    utility_name,
)
from goalmeter.meg.causal.utilities import TargetFit, known_in, known_of, linear_in, payments
from goalmeter.meg.linear import TOLERANCE
from goalmeter.meg.result import json_number
from goalmeter.meg.soft_model import SoftModel
from goalmeter.report.numbers import general, nats, nats_of_search, number, percent, rationality
from goalmeter.report.tables import data_frame, html_table

# --- Sensitivity ----------------------------------------------------------------------------------
# MEG depends on the variables that it is measured with respect to (MEG paper, section 7). The table
# answers by trying them all. Two facts of the graph save work and make the table readable:
#
# * if the decisions are d-separated from T given S, then MEG_T <= MEG_S (Theorem 4.1);
# * if S is a part of T, then MEG_S <= MEG_T, so with the first both are equal.
#
# Source: MEG paper (NeurIPS 2024), Definition 4.4, Theorem 4.1.

# More sets than this take too long to be what was meant.
MAX_SETS = 20_000
# More sets than these are not written out in a cell.
_SETS_IN_A_CELL = 2
Names = tuple[str, ...]


def set_text(names: Sequence[str]) -> str:
    """A set of variables as it is written: {S, M}."""
    return f"{{{', '.join(names)}}}"


@dataclass(frozen=True)
class SensitivityRow:
    """MEG towards one set of targets.

    Attributes:
        targets: the set, in the model's order.
        value: nats.
        upper_bound: proven bound, nats.
        maximum: what a fully predictable agent would score, nats.
        fraction: value / maximum.
        rationality: of the best utility.
        goal: the best utility.
        recall: "single", "sufficient" or "insufficient" (a search).
        at_most: smallest sets S of the table that separate the decisions from these targets:
            MEG towards them is at least as high (Theorem 4.1, pseudo-terminal goals).
        equal_to: the part of the targets that separates the decisions from the rest, so that
            both have the same MEG; None where the value was worked out for this set itself.
        note: what a reader of the number needs.
    """

    targets: Names
    value: float
    upper_bound: float
    maximum: float
    fraction: float
    rationality: float
    goal: Goal | None
    recall: str
    at_most: tuple[Names, ...]
    equal_to: Names | None
    note: str

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {
            "targets": list(self.targets),
            "meg": self.value,
            "upper_bound": self.upper_bound,
            "maximum": self.maximum,
            "fraction": self.fraction,
            "rationality": json_number(self.rationality),
            "goal": None if self.goal is None else self.goal.to_json(),
            "recall": self.recall,
            "at_most": [list(names) for names in self.at_most],
            "equal_to": None if self.equal_to is None else list(self.equal_to),
            "note": self.note,
        }

    def theorem_text(self) -> str:
        """What Theorem 4.1 says about the set: "= {A}", "≤ {A}", "" for nothing."""
        if self.equal_to is not None:
            return f"= {set_text(self.equal_to)}"
        shown = ", ".join(map(set_text, self.at_most[:_SETS_IN_A_CELL]))
        more = len(self.at_most) - _SETS_IN_A_CELL
        return f"≤ {shown}{f' and {more} more' if more > 0 else ''}" if shown else ""


@dataclass(frozen=True)
class Sensitivity:
    """MEG of the same decisions towards every candidate set, the highest first.

    Attributes:
        decisions: the candidate decisions.
        do: the intervention under which the policy was measured.
        rows: one for each set.
    """

    decisions: Names
    do: dict[str, object]
    rows: tuple[SensitivityRow, ...]

    def to_json(self) -> dict[str, Any]:
        """The table as JSON values."""
        return {
            "decisions": list(self.decisions),
            "do": dict(self.do),
            "rows": [row.to_json() for row in self.rows],
        }

    def to_pandas(self) -> Any:
        """The table as a pandas data frame, one row a set of targets.

        Columns: `targets` (text), `meg`, `upper_bound`, `maximum` in nats, `fraction`,
        `rationality`, `recall`, `at_most` and `equal_to` (texts, Theorem 4.1), and `note`.
        """
        records = []
        for row in self.rows:
            texts = {
                "targets": ", ".join(row.targets),
                "rationality": row.rationality,
                "at_most": ", ".join(map(set_text, row.at_most)),
                "equal_to": "" if row.equal_to is None else set_text(row.equal_to),
            }
            records.append({key: v for key, v in (row.to_json() | texts).items() if key != "goal"})
        return data_frame(records)

    def _repr_html_(self) -> str:
        heads = ("MEG, nats", "upper bound", "share of maximum", "rationality β", "Theorem 4.1")
        return html_table(
            f"MEG of {listed(self.decisions)} towards sets of targets",
            ("targets", *heads),
            [
                (
                    ", ".join(row.targets),
                    nats_of_search(row.value),
                    nats(row.upper_bound),
                    percent(row.fraction),
                    rationality(row.rationality),
                    row.theorem_text(),
                )
                for row in self.rows
            ],
        )

    def __str__(self) -> str:
        lines = [f"MEG of {listed(self.decisions)} towards ..."]
        width = max((len(listed(row.targets)) for row in self.rows), default=0)
        for row in self.rows:
            marks = [f"≤ {{{listed(names)}}}" for names in row.at_most]
            marks += [] if row.equal_to is None else [f"= {{{listed(row.equal_to)}}}"]
            mark = f"  {' '.join(marks)}" if marks else ""
            lines.append(
                f"  {listed(row.targets):<{width}}  {number(row.value, 6)} nats, "
                f"{percent(row.fraction)} of {general(row.maximum)}{mark}"
            )
        return "\n".join(lines)


def sensitivity(
    model: Model,
    decisions: Sequence[str] | None = None,
    *,
    up_to: int = 2,
    among: Sequence[str] | None = None,
    do: Do | None = None,
    tolerance: float = TOLERANCE,
    restarts: int = 8,
    rng: np.random.Generator | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Sensitivity:
    """MEG of the decisions towards every set of up to `up_to` targets that they can influence.

    A set counts if the decisions influence some variable in it; the others may be what the
    decisions see, such as an instruction.

    Args:
        model: a `CausalBayesianNetwork` or an `InfluenceDiagram`.
        decisions: the candidate decisions; a diagram has its own.
        up_to: size of the largest sets, at least 1.
        among: the candidate targets; default every variable that is not a decision.
        do: an intervention, {variable: state}, under which the policy is measured.
        tolerance: nats at which an optimum counts as certified.
        restarts: of a search, where one is needed.
        rng: of the searches; default seed 0.
        progress: called as progress(sets done, sets in all).

    Raises:
        InvalidModelError, InvalidParameterError: what does not fit; too many sets.

    Source: MEG paper (NeurIPS 2024), section 7 ("Choice of variables"), Theorem 4.1.

    Example: the mouse's own position does not matter to it, the cheese does.
        >>> from goalmeter.causal import CausalBayesianNetwork
        >>> side = ["left", "right"]
        >>> mouse = CausalBayesianNetwork(
        ...     {"S": side, "D": side, "M": side, "T": ["cheese", "none"]},
        ...     {"D": ["S"], "M": ["D"], "T": ["S", "M"]},
        ...     {
        ...         "S": [0.5, 0.5],
        ...         "D": [[0.8, 0.2], [0.2, 0.8]],
        ...         "M": lambda d: d,
        ...         "T": lambda s, m: "cheese" if s == m else "none",
        ...     },
        ... )
        >>> print(sensitivity(mouse, ["D"]))
        MEG of D towards ...
          T     0.192745 nats, 27.8% of 0.693147  ≤ {S, M}
          S, M  0.192745 nats, 27.8% of 0.693147
          S, T  0.192745 nats, 27.8% of 0.693147  ≤ {S, M}
          M, T  0.192745 nats, 27.8% of 0.693147  ≤ {S, M}
          M     0.000000 nats, 0.0% of 0.693147
    """
    question = ask(model, decisions, do)
    network = question.network
    if not isinstance(up_to, (int, np.integer)) or isinstance(up_to, bool) or up_to < 1:
        raise InvalidParameterError(
            f"up_to is {up_to!r}, expected a whole number of at least 1: the size of the largest "
            f"sets of targets"
        )
    if among is None:
        among = [x for x in network.variables if x not in question.decisions]
    candidates = sorted(check_targets(question, among), key=network.variables.index)
    sets = _sets(question, candidates, up_to)
    separation = _Separation(question, sets)
    neutral = neutral_network(network, question.decisions)
    neutral.elimination.prepare({x for names in sets for x in (*names, *question.decisions)})
    seed = int((np.random.default_rng(0) if rng is None else rng).integers(2**32))
    rows: dict[Names, SensitivityRow] = {}
    for done, names in enumerate(sets):
        if progress is not None:
            progress(done, len(sets))
        whole = separation.part_that_says_all(names)
        above = separation.pseudo_terminal(names)
        if whole is not None:
            part = rows[whole].equal_to or whole
            note = (
                f"equal to MEG towards {listed(part)}, which separates the decisions from the rest"
            )
            rows[names] = replace(
                rows[whole], targets=names, at_most=above, equal_to=part, note=note
            )
            continue
        recall = question.recall([names])
        # Every row gets a generator of its own, so that its number does not depend on the others.
        if recall.kind == "insufficient":
            from goalmeter.meg.causal.insufficient_recall import searched

            fresh = np.random.default_rng(seed)
            result = searched(question, recall, names, restarts=restarts, rng=fresh)
        else:
            process = question.process([names], recall, neutral)
            result = TargetFit(process, tolerance).result(question, recall)
        rows[names] = SensitivityRow(
            targets=result.targets,
            value=result.value,
            upper_bound=result.upper_bound,
            maximum=result.maximum,
            fraction=result.fraction,
            rationality=result.rationality,
            goal=result.goal,
            recall=result.recall,
            at_most=above,
            equal_to=None,
            note="; ".join(result.notes),
        )
    # Values that differ by less than they are certified to are equal: small sets come first.
    ordered = sorted(rows.values(), key=lambda row: -round(row.value / tolerance))
    return Sensitivity(question.decisions, question.do, tuple(ordered))


def _sets(question: CausalQuery, candidates: Sequence[str], up_to: int) -> list[Names]:
    """Sets with some influenced variable, the small ones first."""
    influenced = question.network.descendants(*question.decisions)
    sizes = range(1, min(up_to, len(candidates)) + 1)
    every = (names for size in sizes for names in combinations(candidates, size))
    sets = list(islice(filter(influenced.intersection, every), MAX_SETS + 1))
    if len(sets) > MAX_SETS:
        raise InvalidParameterError(
            f"there are more than {MAX_SETS} sets of up to {up_to} of {len(candidates)} variables, "
            f"expected fewer; lower up_to or name candidates with among"
        )
    if not sets:
        raise InvalidParameterError(
            f"{listed(question.decisions)} influence none of {listed(candidates) or 'nothing'}, "
            f"expected at least one candidate target downstream of a decision"
        )
    return sets


# Sets of variables are whole numbers, a bit a variable: there may be many pairs of sets.
class _Separation:
    """What d-separation says about the sets of the table."""

    def __init__(self, question: CausalQuery, sets: Sequence[Names]) -> None:
        network = question.network
        self._bit = {x: 1 << i for i, x in enumerate(network.variables)}
        parents = {x: network.parents(x) for x in network.variables}
        children = {x: network.children(x) for x in network.variables}
        self._mask = {names: self._bits(names) for names in sets}
        # Variables that the decisions are connected with, given each set.
        self._connected = {
            names: self._bits(bayes_ball(parents, children, question.decisions, names).connected)
            for names in sets
        }

    def _bits(self, names: Iterable[str]) -> int:
        return sum(self._bit[x] for x in names)

    def part_that_says_all(self, names: Names) -> Names | None:
        """A smaller set within `names` that separates the decisions from the rest of it."""
        for size in range(1, len(names)):
            for part in combinations(names, size):
                connected = self._connected.get(part)
                if connected is not None and not connected & self._mask[names]:
                    return part
        return None

    def pseudo_terminal(self, names: Names) -> tuple[Names, ...]:
        """The smallest other sets S with D _|_ names | S that do not contain `names`."""
        target = self._mask[names]
        sets: list[Names] = []
        covered: list[int] = []
        for separating, connected in self._connected.items():
            if connected & target:
                continue
            mask = self._mask[separating]
            # A set that is only a part of the names is equal to them; one that contains them, or
            # contains a set that was found before (sets come smallest first), is no news.
            news = target & mask != target and target & mask != mask
            if news and not any(mask & smaller == smaller for smaller in covered):
                sets.append(separating)
                covered.append(mask)
        return tuple(sets)


# --- Interventions --------------------------------------------------------------------------------
# MEG is measured on the agent's own distribution, where a goal that merely goes along with the true
# one predicts just as well. Under an intervention that pulls them apart only the true one goes on
# predicting. For each intervention do(X = x) three numbers stand side by side:
#
# * MEG of the unchanged policy in the changed world: the best goal one could name there;
# * the evidence of the original goal, its utility and rationality as they were fitted in the
#   original world, planned and scored in the changed one;
# * the same with the rationality fitted anew.
#
# The gap between the first two is what the original goal fails to explain under the shift.
#
# Source: the extension that the MEG paper (NeurIPS 2024) names as future work in section 7
# ("Distributional shifts") and appendix A ("Interventional distributions").

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
    worlds: Sequence[CausalQuery], names: tuple[str, ...], tolerance: float
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
        worlds: Sequence[CausalQuery],
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
        self, world: CausalQuery, result: CausalMeg, utility: Utility, rationality: float
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

    def _measured(self, world: CausalQuery) -> CausalMeg:
        if isinstance(self.goal, Utility):
            return self._with_utility(world, self.goal)
        recall = world.recall(self.scopes)
        if recall.kind == "none":
            return no_influence(world, self.goal, self.name)
        if recall.kind == "insufficient":
            return self._searched(world, recall, self.goal)
        return TargetFit(self._process(world, recall), self.tolerance).result(world, recall)

    def _with_utility(self, world: CausalQuery, utility: Utility) -> CausalMeg:
        recall = world.recall(self.scopes)
        if recall.kind == "none":
            return no_influence(world, self.variables, self.name)
        if recall.kind == "insufficient":
            # In a changed world the utility may be the one that was fitted to targets.
            return replace(self._searched(world, recall, utility), target=self.name)
        process = self._process(world, recall)
        return known_in(world, process, recall, utility, self.name)

    def _searched(
        self, world: CausalQuery, recall: Recall, goal: Utility | tuple[str, ...]
    ) -> CausalMeg:
        # Only here, because the search brings SciPy's optimisers along.
        from goalmeter.meg.causal.insufficient_recall import searched

        return searched(world, recall, goal, restarts=self.restarts, rng=self.rng)

    def _score(self, world: CausalQuery, utility: Utility, rationality: float) -> float:
        recall = world.recall(self.scopes)
        if recall.kind == "insufficient":
            from goalmeter.meg.causal.outcomes import joint_outcomes
            from goalmeter.meg.causal.search import planned_evidence

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

    def _process(self, world: CausalQuery, recall: Recall) -> DecisionProcess:
        # Each world is used for measuring and for planning; its queries cost the most.
        if id(world) not in self._processes:
            self._processes[id(world)] = world.process(self.scopes, recall)
        return self._processes[id(world)]
