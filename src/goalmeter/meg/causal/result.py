"""`CausalMeg`: a goal-directedness in a causal model, with its goal as a table to read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from goalmeter._names import listed
from goalmeter._types import FloatArray
from goalmeter.causal.contexts import DecisionProcess
from goalmeter.causal.mechanism import Value
from goalmeter.causal.network import CausalBayesianNetwork
from goalmeter.causal.recall import Recall
from goalmeter.meg.causal.question import Question
from goalmeter.meg.result import MegResult, TrajectoryMeg
from goalmeter.report.notebook import html_table
from goalmeter.report.numbers import nats_of_search, utility

# A goal of more outcomes than this is not written out in a text.
_SHOWN = 12
# Nats below which a ceiling is rounding.
_NOTHING = 1e-12
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
    """A utility over the joint states of the targets; its largest entry has size 1.

    Attributes:
        variables: the targets.
        domains: their states.
        values: [*sizes]; NaN for outcomes about which the decisions have no say.
    """

    variables: tuple[str, ...]
    domains: tuple[tuple[Value, ...], ...]
    values: FloatArray

    def rows(self) -> list[tuple[tuple[Value, ...], float]]:
        """Every outcome with its utility, the best first."""
        pairs = list(zip(product(*self.domains), self.values.reshape(-1).tolist(), strict=True))
        return sorted(pairs, key=lambda pair: (np.isnan(pair[1]), -pair[1]))

    def to_json(self) -> list[dict[str, Any]]:
        """One object an outcome: the state of each target, and "utility" (null for no say)."""
        return [
            {
                "outcome": dict(zip(self.variables, outcome, strict=True)),
                "utility": None if np.isnan(value) else value,
            }
            for outcome, value in self.rows()
        ]

    def __str__(self) -> str:
        rows = [(outcome, value) for outcome, value in self.rows() if not np.isnan(value)]
        shown = [f"{'/'.join(map(str, outcome))} {utility(value)}" for outcome, value in rows]
        if len(shown) > _SHOWN:
            left = len(shown) - _SHOWN
            shown = [*shown[: _SHOWN // 2], f"... {left} more ...", *shown[-_SHOWN // 2 :]]
        return ", ".join(shown)


@dataclass(frozen=True, kw_only=True, eq=False)
class CausalMeg(MegResult):
    """A `MegResult` of decisions in a causal model.

    `by_step` and `by_state` are shares of the value by level of the decision process and by
    context; `by_decision` is what to read.

    Attributes:
        decisions: the candidate decisions.
        targets: the variables that the utility reads.
        do: the intervention under which the policy was measured.
        recall: what the graph says: "none" (no decision influences the utility), "single" (one
            does), "sufficient" or "insufficient" recall.
        circle: for insufficient recall, decisions that rely on each other in a circle.
        by_decision: share of the value of each decision, nats.
        goal: the maximising utility as a table; None for a known utility.
    """

    decisions: tuple[str, ...]
    targets: tuple[str, ...]
    do: dict[str, object]
    recall: str
    circle: tuple[str, ...]
    by_decision: dict[str, float]
    goal: Goal | None = field(repr=False, default=None)

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return super().to_json() | {
            "decisions": list(self.decisions),
            "targets": list(self.targets),
            "do": dict(self.do),
            "recall": self.recall,
            "circle": list(self.circle),
            "by_decision": dict(self.by_decision),
            "goal": None if self.goal is None else self.goal.to_json(),
        }

    @property
    def heading(self) -> str:
        """What was measured, as the heading of a table."""
        world = f", under {do_text(self.do)}" if self.do else ""
        return f"Goal-directedness of {listed(self.decisions)} towards {self.target}{world}"

    def summary(self) -> list[tuple[str, str]]:
        """Everything that defends the number, with the share of each decision."""
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
        """The text of a result with the decisions below its head and the goal above its notes."""
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
    """An intervention as it is written: do(X = x, Y = y); "as it is" for none."""
    return f"do({', '.join(f'{x} = {value}' for x, value in do.items())})" if do else "as it is"


def in_process(
    question: Question, process: DecisionProcess, recall: Recall, result: MegResult, **changes: Any
) -> CausalMeg:
    """The result of the process's MDP as a result of the model; `changes` replace fields."""
    shares = {d.name: float(result.by_state[d.states].sum()) for d in process.decisions}
    fields = {name: getattr(result, name) for name in MegResult.__dataclass_fields__}
    fields |= {"utility": None, "reference": "uniform policy"}
    if result.maximum > 0 and result.ceiling <= _NOTHING:
        fields["notes"] = (*result.notes, _UNIFORM)
    fields |= {"targets": variables_of(process.scopes), **in_model(question, recall, shares)}
    return CausalMeg(**(fields | changes))


def in_model(question: Question, recall: Recall, shares: Mapping[str, float]) -> dict[str, Any]:
    """The fields of a `CausalMeg` that any measure has; decisions that cannot matter share 0."""
    return {
        "decisions": question.decisions,
        "do": question.do,
        "recall": recall.kind,
        "circle": recall.circle,
        "by_decision": {d: shares.get(d, 0.0) for d in question.decisions},
    }


def variables_of(scopes: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """Every variable of some scopes, once each, in the order of their first appearance."""
    return tuple(dict.fromkeys(x for scope in scopes for x in scope))


def no_influence(question: Question, targets: tuple[str, ...], target: str) -> CausalMeg:
    """The result where no decision influences the utility: 0, with the reason."""
    chosen = listed(question.decisions)
    noun = "decision" if len(question.decisions) == 1 else "decisions"
    subject, verb = (targets[0], "is") if len(targets) == 1 else (listed(targets), "are")
    return CausalMeg(
        value=0.0,
        upper_bound=0.0,
        maximum=0.0,
        ceiling=0.0,
        rationality=0.0,
        target=target,
        method="read off the graph",
        tolerance=0.0,
        by_step=np.zeros(0),
        by_state=np.zeros(0),
        notes=(
            f"{subject} {verb} not downstream of the {noun} {chosen} in the graph, so every policy "
            f"attains the same utility and MEG is 0 (Proposition 3.3)",
        ),
        targets=targets,
        **in_model(question, Recall("none", (), {}, ()), {}),
    )


def goal_table(
    network: CausalBayesianNetwork, variables: tuple[str, ...], values: FloatArray
) -> Goal:
    """The `Goal` of a number for each joint state of its variables, the first one slowest."""
    domains = tuple(network.domain(x) for x in variables)
    return Goal(variables, domains, values.reshape([len(states) for states in domains]))
