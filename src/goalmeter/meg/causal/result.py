"""Questions about a causal model, the tables of outcomes that come with them, and their results."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from goalmeter._errors import (
    InvalidFileError,
    InvalidModelError,
    InvalidParameterError,
    InvalidTrajectoryError,
)
from goalmeter._names import listed, unknown_name
from goalmeter._types import FloatArray, IntArray
from goalmeter.causal.contexts import DecisionProcess, Recall, decision_process, recall_of
from goalmeter.causal.diagram import InfluenceDiagram, Utility
from goalmeter.causal.graph import Value
from goalmeter.causal.network import CausalBayesianNetwork
from goalmeter.meg.result import MegResult, TrajectoryMeg, json_number
from goalmeter.report.numbers import nats, nats_of_search, number, percent, utility
from goalmeter.report.tables import data_frame, html_table

# --- Questions ------------------------------------------------------------------------------------
Model = CausalBayesianNetwork | InfluenceDiagram
Do = Mapping[str, object]


@dataclass(frozen=True)
class CausalQuery:
    """A checked question."""

    # The model under the intervention; its CPDs of the decisions are the policy.
    network: CausalBayesianNetwork
    decisions: tuple[str, ...]  # the candidate decisions
    utility: Utility | None  # the diagram's own, if the model is a diagram with utilities
    do: dict[str, object]  # the intervention

    def recall(self, scopes: Sequence[Sequence[str]]) -> Recall:
        """What the graph says about planning the decisions for factors with these variables."""
        return recall_of(self.network, self.decisions, scopes)

    def process(
        self,
        scopes: Sequence[Sequence[str]],
        recall: Recall,
        neutral: CausalBayesianNetwork | None = None,
    ) -> DecisionProcess:
        """The decisions as a process, for factors with these variables; recall is theirs."""
        return decision_process(self.network, self.decisions, scopes, neutral, recall)


def ask(model: Model, decisions: Sequence[str] | None, do: Do | None = None) -> CausalQuery:
    """Check the model, the decisions and the intervention."""
    if hasattr(model, "get_cpds"):
        # A pgmpy model; its class is not imported to ask.
        model = CausalBayesianNetwork.from_pgmpy(model)
    if isinstance(model, InfluenceDiagram):
        network = model.network
        utility = model.utility if model.utilities else None
        chosen = model.decisions if decisions is None else decisions
    elif isinstance(model, CausalBayesianNetwork):
        network, utility, chosen = model, None, () if decisions is None else decisions
    else:
        raise InvalidModelError(
            f"the model is {type(model).__name__}, expected a CausalBayesianNetwork, an "
            f"InfluenceDiagram or a pgmpy model; CausalBayesianNetwork.from_bif reads a file"
        )
    names = _each_once(network, chosen, "decision")
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
    return CausalQuery(network.do(settings) if settings else network, names, utility, settings)


def check_targets(question: CausalQuery, targets: Any) -> tuple[str, ...]:
    """The target variables as a tuple."""
    names = _each_once(question.network, targets, "target")
    for x in names:
        if x in question.decisions:
            raise InvalidParameterError(
                f"the target {x!r} is one of the decisions, expected other variables: with respect "
                f"to utilities of its own choices every deterministic policy is maximally "
                f"goal-directed, so the number would say nothing; name what the choice is for"
            )
    return names


def _each_once(network: CausalBayesianNetwork, names: Any, noun: str) -> tuple[str, ...]:
    checked = network.check_names(names, noun)
    if not checked or len(set(checked)) < len(checked):
        raise InvalidParameterError(
            f"{noun}s are {listed(checked) or 'missing'}, expected one or more, each of them once"
        )
    return checked


def target_name(names: Sequence[str]) -> str:
    """The class of all utilities over targets, in words."""
    return f"some utility over {listed(names)}"


def utility_name(utility: Utility) -> str:
    """A known utility, in words."""
    return f"the given utility over {listed(utility.variables)}"


# --- Result ---------------------------------------------------------------------------------------
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
    question: CausalQuery,
    process: DecisionProcess,
    recall: Recall,
    result: MegResult,
    **changes: Any,
) -> CausalMeg:
    """The result of the process's MDP as a result of the model; `changes` replace fields."""
    shares = {d.name: float(result.by_state[d.states].sum()) for d in process.decisions}
    fields = {name: getattr(result, name) for name in MegResult.__dataclass_fields__}
    fields |= {"utility": None, "reference": "uniform policy"}
    if result.maximum > 0 and result.ceiling <= _NOTHING:
        fields["notes"] = (*result.notes, _UNIFORM)
    fields |= {"targets": variables_of(process.scopes), **in_model(question, recall, shares)}
    return CausalMeg(**(fields | changes))


def in_model(question: CausalQuery, recall: Recall, shares: Mapping[str, float]) -> dict[str, Any]:
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


def no_influence(question: CausalQuery, targets: tuple[str, ...], target: str) -> CausalMeg:
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


# --- Intervention table ---------------------------------------------------------------------------
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
        heads = ("MEG there, nats", "upper bound", "share of maximum", "original goal, nats")
        return html_table(
            f"{listed(self.decisions)} towards {self.target}, in the original world and others",
            ("world", *heads, "the same, β refitted", "gap"),
            [
                (
                    do_text(row.do),
                    nats_of_search(row.result.signed),
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
                f"  {name:<{width}}  MEG {number(row.result.signed, 4)}, original goal "
                f"{number(row.transferred, 4)} (refitted {number(row.refitted, 4)}), "
                f"gap {number(row.gap, 4)}"
            )
        return "\n".join(lines)


# --- Table columns --------------------------------------------------------------------------------
def columns_of(
    network: CausalBayesianNetwork, names: Sequence[str], data: Any
) -> dict[str, IntArray]:
    """The states of some variables in every row of a table, as indices, [N] each."""
    columns = {x: _indices(network, x, _column(data, x)) for x in dict.fromkeys(names)}
    lengths = {len(column) for column in columns.values()}
    if len(lengths) != 1 or 0 in lengths:
        raise InvalidTrajectoryError(
            f"the columns of the table have {sorted(lengths)} rows, expected as many in each, "
            f"and at least one"
        )
    return columns


def _column(data: Any, name: str) -> list[Any]:
    if isinstance(data, (str, Path)):
        data = read_csv(data)
    columns = list(data) if isinstance(data, Mapping) else list(getattr(data, "columns", []))
    if not columns:
        raise InvalidTrajectoryError(
            f"the table is {type(data).__name__}, expected a pandas or polars frame, "
            f"{{column: values}}, or the path of a CSV file"
        )
    if columns.count(name) > 1:
        raise InvalidTrajectoryError(
            f"the table has {columns.count(name)} columns named {name!r}, expected each name once"
        )
    if name not in columns:
        raise unknown_name(name, columns, "the table's column", InvalidTrajectoryError)
    return list(data[name])


def _indices(network: CausalBayesianNetwork, x: str, values: Sequence[Any]) -> IntArray:
    known: dict[Any, int] = {}
    out = np.empty(len(values), dtype=np.int64)
    # A column has many rows and few states: each is looked up once.
    for row, value in enumerate(values):
        try:
            if value not in known:
                known[value] = network.index(x, value)
        except (InvalidParameterError, TypeError) as error:
            raise InvalidTrajectoryError(f"row {row} of the table: {error}") from None
        out[row] = known[value]
    return out


def read_csv(path: str | Path) -> dict[str, list[str]]:
    """A CSV file with a head line, as {column: values}."""
    try:
        # Spreadsheets put a byte order mark in front.
        with Path(path).open(newline="", encoding="utf-8-sig") as file:
            lines = list(csv.reader(file))
    except FileNotFoundError:
        raise InvalidFileError(f"{path}: there is no such file; check the path") from None
    except (OSError, UnicodeDecodeError, csv.Error) as cause:
        raise InvalidFileError(f"{path} cannot be read as CSV: {cause}") from cause
    lines = [line for line in lines if line]
    if len(lines) < 2:
        raise InvalidFileError(
            f"{path} has {len(lines)} lines, expected a line of column names and at least one row"
        )
    head = [name.strip() for name in lines[0]]
    twice = next((name for name in head if head.count(name) > 1), None)
    if twice is not None:
        raise InvalidFileError(
            f"{path} has two columns named {twice!r}, expected each name once; remove or rename one"
        )
    for index, line in enumerate(lines[1:], start=2):
        if len(line) != len(head):
            raise InvalidFileError(
                f"{path}: line {index} has {len(line)} values, expected {len(head)}, one for each "
                f"column"
            )
    return {name: [line[i].strip() for line in lines[1:]] for i, name in enumerate(head)}
