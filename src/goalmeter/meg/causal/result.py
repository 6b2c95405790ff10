"""Questions about a causal model and their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from goalmeter._errors import InvalidModelError, InvalidParameterError
from goalmeter._files import json_value
from goalmeter._names import listed
from goalmeter._types import FloatArray
from goalmeter.causal.contexts import (
    DecisionProcess,
    Recall,
    decision_process,
    neutral_network,
    recall_of,
)
from goalmeter.causal.diagram import InfluenceDiagram, Utility, utility_of
from goalmeter.causal.graph import Value
from goalmeter.causal.network import CausalBayesianNetwork
from goalmeter.meg.result import MegResult, TrajectoryMeg
from goalmeter.report.numbers import nats_of_search, utility
from goalmeter.report.tables import html_table

# --- Questions ------------------------------------------------------------------------------------
Model = CausalBayesianNetwork | InfluenceDiagram
Do = Mapping[str, object]
Names = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class DecisionQuery:
    """A checked question: decisions of a model, and what they are measured against."""

    network: CausalBayesianNetwork  # under the intervention; its CPDs of the decisions: the policy
    decisions: Names
    goal: Utility | Names | None  # known, or the targets of any utility; None: the model has none
    do: dict[str, object]
    neutral: CausalBayesianNetwork | None = None  # with uniform decisions, to share eliminations

    @property
    def scopes(self) -> list[Names]:
        """The variables that each factor of the utility reads."""
        if isinstance(self.goal, Utility):
            return [factor.variables for factor in self.goal.factors]
        return [self.goal or ()]

    @property
    def targets(self) -> Names:
        """Every variable that the utility may read."""
        return tuple(dict.fromkeys(x for scope in self.scopes for x in scope))

    @property
    def name(self) -> str:
        """What goal-directedness is measured towards, in words."""
        kind = "the given utility" if isinstance(self.goal, Utility) else "some utility"
        return f"{kind} over {listed(self.targets)}"

    @cached_property
    def recall(self) -> Recall:
        """What the graph says about planning the decisions for the utility."""
        return recall_of(self.network, self.decisions, self.scopes)

    @cached_property
    def process(self) -> DecisionProcess:
        """The decisions as a process, with sufficient recall."""
        neutral = self.neutral or neutral_network(self.network, self.decisions)
        return decision_process(self.network, self.recall, self.scopes, neutral)

    def goal_of(self, values: FloatArray) -> Goal:
        """Return the `Goal` of a number for each joint state of the targets, the first slowest."""
        domains = tuple(self.network.domain(x) for x in self.targets)
        return Goal(self.targets, domains, values.reshape([len(states) for states in domains]))

    def towards(self, targets: Any = None, utility: Any = None) -> DecisionQuery:
        """Return the question with checked targets, a utility, or the diagram's own utility."""
        if targets is not None and utility is not None:
            raise InvalidParameterError("targets and utility are both given, expected one of them")
        if targets is not None:
            names = _each_once(self.network, targets, "target")
            for x in names:
                if x in self.decisions:
                    raise InvalidParameterError(
                        f"the target {x!r} is one of the decisions, expected other variables: with "
                        f"respect to utilities of its own choices every deterministic policy is "
                        f"maximally goal-directed, so the number would say nothing; name what the "
                        f"choice is for"
                    )
            return replace(self, goal=names)
        if utility is not None:
            return replace(self, goal=utility_of(self.network, utility))
        if self.goal is None:
            raise InvalidParameterError(
                "the utility is missing, expected {variable: {state: number}} or another form of "
                "it; for the best of all utilities over some variables use goalmeter.meg.targets"
            )
        return self


def ask(model: Model, decisions: Sequence[str] | None, do: Do | None = None) -> DecisionQuery:
    """Check the model, the decisions and the intervention."""
    if hasattr(model, "get_cpds"):
        # A pgmpy model; its class is not imported to ask.
        model = CausalBayesianNetwork.from_pgmpy(model)
    goal: Utility | None = None
    if isinstance(model, InfluenceDiagram):
        decisions = model.decisions if decisions is None else decisions
        goal = model.utility if model.utilities else None
        model = model.network
    if not isinstance(model, CausalBayesianNetwork):
        raise InvalidModelError(
            f"the model is {type(model).__name__}, expected a CausalBayesianNetwork, an "
            f"InfluenceDiagram or a pgmpy model; CausalBayesianNetwork.from_bif reads a file"
        )
    names = _each_once(model, () if decisions is None else decisions, "decision")
    if do is not None and not isinstance(do, Mapping):
        raise InvalidParameterError(
            f"an intervention is {do!r}, expected a mapping {{variable: state}}"
        )
    settings = dict(do or {})
    for x in settings:
        if x in names:
            raise InvalidParameterError(
                f"do sets the decision {x!r}, expected other variables: a decision that is set "
                f"is nobody's choice, so it says nothing about a goal"
            )
    return DecisionQuery(model.do(settings) if settings else model, names, goal, settings)


def _each_once(network: CausalBayesianNetwork, names: Any, noun: str) -> Names:
    checked = network.check_names(names, noun)
    if not checked or len(set(checked)) < len(checked):
        raise InvalidParameterError(
            f"{noun}s are {listed(checked) or 'missing'}, expected one or more, each of them once"
        )
    return checked


# --- Result ---------------------------------------------------------------------------------------
_SHOWN = 12  # outcomes of a goal that a text writes out
_NOTHING = 1e-12  # nats below which a ceiling is rounding
_UNIFORM = (
    "the measured policy chooses uniformly wherever its choices matter, so there is nothing that a "
    "goal could explain better than chance"
)
RECALLS = {
    "none": "none of them influences the utility",
    "single": "one decision influences the utility",
    "sufficient": "sufficient recall, so backward induction is exact",
    "insufficient": "insufficient recall, so the policies were searched for",
}


@dataclass(frozen=True)
class Goal:
    """A utility over the joint states of the targets; its largest entry has size 1."""

    variables: tuple[str, ...]
    domains: tuple[tuple[Value, ...], ...]
    values: FloatArray  # [*sizes]; NaN for outcomes about which the decisions have no say

    def rows(self) -> list[tuple[tuple[Value, ...], float]]:
        """Return every outcome with its utility, the best first."""
        pairs = list(zip(product(*self.domains), self.values.reshape(-1).tolist(), strict=True))
        return sorted(pairs, key=lambda pair: (np.isnan(pair[1]), -pair[1]))

    def to_json(self) -> list[dict[str, Any]]:
        """Return one object an outcome: the state of each target, and "utility" (null: no say)."""
        return [
            {
                "outcome": dict(zip(self.variables, outcome, strict=True)),
                "utility": None if np.isnan(value) else value,
            }
            for outcome, value in self.rows()
        ]

    def __str__(self) -> str:
        rows = self.rows()
        shown = [f"{'/'.join(map(str, x))} {utility(u)}" for x, u in rows if not np.isnan(u)]
        if len(shown) > _SHOWN:
            left = len(shown) - _SHOWN
            shown = [*shown[: _SHOWN // 2], f"... {left} more ...", *shown[-_SHOWN // 2 :]]
        return ", ".join(shown)


@dataclass(frozen=True, kw_only=True, eq=False)
class CausalMeg(MegResult):
    """A `MegResult` of decisions in a causal model.

    `by_step` and `by_state` are shares of the value by level of the decision process and by
    context; the shares to read are in `by_decision`.
    """

    decisions: tuple[str, ...]  # the candidate decisions
    targets: tuple[str, ...]  # the variables that the utility reads
    do: dict[str, object]  # the intervention under which the policy was measured
    # What the graph says: "none" (no decision influences the utility), "single" (one does),
    # "sufficient" or "insufficient" recall.
    recall: str
    circle: tuple[str, ...]  # of insufficient recall: decisions that rely on each other in a circle
    by_decision: dict[str, float]  # share of the value of each decision, nats
    # The maximising utility as a table; None for a known utility.
    goal: Goal | None = field(repr=False, default=None)

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        names = ("decisions", "targets", "do", "recall", "circle", "by_decision", "goal")
        return super().to_json() | {name: json_value(getattr(self, name)) for name in names}

    @property
    def heading(self) -> str:
        """Heading of the table of the result."""
        world = f", under {do_text(self.do)}" if self.do else ""
        return f"Goal-directedness of {listed(self.decisions)} towards {self.target}{world}"

    def summary(self) -> list[tuple[str, str]]:
        """Return the details of the result, with the share of each decision."""
        rows = [*super().summary(), ("what the graph says", RECALLS[self.recall])]
        if len(self.decisions) > 1:
            shares = self.by_decision.items()
            rows += [(f"share of {d}", f"{nats_of_search(share)} nats") for d, share in shares]
        return rows

    def _repr_html_(self) -> str:
        goal = () if self.goal is None or not str(self.goal) else (("goal", str(self.goal)),)
        return html_table(self.heading, ("", ""), [*self.summary(), *goal], self.notes)

    def __str__(self) -> str:
        return self._in_model(super().__str__())

    def _in_model(self, text: str) -> str:
        """Return the text with the decisions below its head and the goal above its notes."""
        lines = text.split("\n")
        lines.insert(1, f"  decisions {listed(self.decisions)}; {RECALLS[self.recall]}")
        if self.goal is not None:
            lines.insert(-len(self.notes) or len(lines), f"  goal: {self.goal}")
        return "\n".join(lines)


@dataclass(frozen=True, kw_only=True, eq=False)
class TableMeg(TrajectoryMeg, CausalMeg):
    """A `TrajectoryMeg` whose n trajectories are the rows of a table, in a causal model."""

    _COUNTED = "rows of the table"

    def __str__(self) -> str:
        return self._in_model(TrajectoryMeg.__str__(self).replace("trajectories", "rows"))


def do_text(do: Mapping[str, object]) -> str:
    """Return an intervention as it is written: do(X = x, Y = y); "as it is" for none."""
    return f"do({', '.join(f'{x} = {value}' for x, value in do.items())})" if do else "as it is"


def in_process(query: DecisionQuery, result: MegResult, **changes: Any) -> CausalMeg:
    """Return the result of the process's MDP as a result of the model; `changes` replace fields."""
    fields = {name: getattr(result, name) for name in MegResult.__dataclass_fields__}
    fields |= {"utility": None, "reference": "uniform policy"}
    if result.maximum > 0 and result.ceiling <= _NOTHING:
        fields["notes"] = (*result.notes, _UNIFORM)
    shares = {d.name: float(result.by_state[d.states].sum()) for d in query.process.decisions}
    return CausalMeg(**(fields | in_model(query, shares) | changes))


def in_model(query: DecisionQuery, shares: Mapping[str, float]) -> dict[str, Any]:
    """Return the fields of a `CausalMeg` of any measure; decisions that cannot matter share 0."""
    return {
        "decisions": query.decisions,
        "targets": query.targets,
        "do": query.do,
        "recall": query.recall.kind,
        "circle": query.recall.circle,
        "by_decision": {d: shares.get(d, 0.0) for d in query.decisions},
    }


def no_influence(query: DecisionQuery) -> CausalMeg:
    """Return the result where no decision influences the utility: 0, with the reason."""
    noun = "decision" if len(query.decisions) == 1 else "decisions"
    verb = "is" if len(query.targets) == 1 else "are"
    numbers: dict[str, Any] = dict.fromkeys(("value", "upper_bound", "maximum", "ceiling"), 0.0)
    return CausalMeg(
        **numbers,
        rationality=0.0,
        tolerance=0.0,
        target=query.name,
        method="read off the graph",
        by_step=np.zeros(0),
        by_state=np.zeros(0),
        notes=(
            f"{listed(query.targets)} {verb} not downstream of the {noun} "
            f"{listed(query.decisions)} in the graph, so every policy attains the same utility and "
            f"MEG is 0 (Proposition 3.3)",
        ),
        **in_model(query, {}),
    )
