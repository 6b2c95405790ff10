"""`goalmeter meg causal`: MEG of variables of a causal model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import goalmeter as gm
from goalmeter._errors import InvalidParameterError
from goalmeter.causal import CausalBayesianNetwork, Utility
from goalmeter.causal.files import load_model, load_utility, parse_do
from goalmeter.commands.declare import (
    REQUIRED,
    SeedOptions,
    Tell,
    argument,
    command,
    option,
)
from goalmeter.commands.outcome import Outcome
from goalmeter.meg.causal.result import ask
from goalmeter.pages.meg import goal_table, intervention_table, result_table, sensitivity_table
from goalmeter.report import Table, write_text
from goalmeter.report.diagram import Kind, svg_text
from goalmeter.tabular.arrays import naming

# Larger models are not shown in a terminal.
SHOWN_VARIABLES = 15

Do = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class CausalOptions(SeedOptions):
    """Options of `goalmeter meg causal`."""

    model: Path = argument(Path, "The network: .bif, .xmlbif, packed, or asia.", "MODEL.bif")
    decisions: Sequence[str] = option(
        list[str],
        "A candidate decision, its policy the model's CPD; repeat for more.",
        "D",
        default=REQUIRED,
        flag="--decision",
    )
    targets: Sequence[str] = option(
        list[str],
        "A variable that the goal may be about; repeat for more.",
        "T",
        default=(),
        flag="--target",
    )
    utility: Path | None = option(Path, "Or a known utility.", "UTILITY.json")
    sensitivity: int | None = option(
        int, "Or a table of every set of up to K targets.", "K", least=1
    )
    do: Sequence[str] = option(
        list[str], "Measure under this intervention; repeat to set more.", "X=x", default=()
    )
    shift: Sequence[str] = option(
        list[str],
        "Score the goal in this changed world too; repeat for more worlds.",
        "X=x[,Y=y]",
        default=(),
    )
    data: Path | None = option(
        Path, "Observed outcomes, to measure instead of the model's policy.", "TABLE.csv"
    )
    drawing: Path | None = option(Path, "Draw the diagram to this file.", "FILE.svg")


@dataclass(frozen=True, kw_only=True)
class CausalQuery:
    """The options as read from files: exactly one of targets, utility and up_to is given."""

    network: CausalBayesianNetwork
    decisions: list[str]
    targets: list[str] | None
    utility: Utility | None
    up_to: int | None
    do: Do
    shifts: list[Do]
    data: str | Path | None
    seed: int
    tell: Tell

    @property
    def rng(self) -> np.random.Generator:
        """A new generator, so that a number does not depend on what was measured before it."""
        return np.random.default_rng(self.seed)


@command(CausalOptions)
def measure_causal(o: CausalOptions, tell: Tell) -> Outcome:
    """Measure the MEG of variables of a causal model."""
    _check_options(o)
    tell(f"reading {o.model}")
    network = load_model(o.model)
    with naming("--do"):
        setting: Do = dict(parse_do(o.do, network))
    with naming("--shift"):
        shifts = [dict(parse_do(_pieces(text), network)) for text in o.shift]
    query = CausalQuery(
        network=network,
        decisions=list(o.decisions),
        targets=list(o.targets) or None,
        utility=None if o.utility is None else load_utility(o.utility, network),
        up_to=o.sensitivity,
        do=setting,
        shifts=shifts,
        data=o.data,
        seed=o.seed,
        tell=tell,
    )
    tell(f"measuring in {network!r}")
    tables, json = _measured(query)
    if o.drawing is not None:
        tell(f"drawing {write_text(o.drawing, _drawn(query))}")
        json["drawing"] = str(o.drawing)
    small = len(network.variables) <= SHOWN_VARIABLES
    text = network.do(setting).text(decisions=o.decisions) if small else ""
    return Outcome(tables=tables, json=json, text=text)


def _check_options(o: CausalOptions) -> None:
    """Raise an error where options exclude each other."""
    if not o.decisions:
        raise InvalidParameterError(
            "--decision: none given, expected one or more, the variables whose behaviour is "
            "measured"
        )
    goals = {
        "--target": o.targets or None,
        "--utility": o.utility,
        "--sensitivity": o.sensitivity,
    }
    named = [name for name, value in goals.items() if value is not None]
    if len(named) != 1:
        raise InvalidParameterError(
            f"{', '.join(goals)}: {' and '.join(named) or 'none of them'} given, expected exactly "
            f"one of them, what goal-directedness is measured towards"
        )
    # Pairs of options with what to do instead.
    refused = {
        ("--sensitivity", "--data"): "measure one --target after another",
        ("--sensitivity", "--shift"): "use --do for the table in one changed world",
        ("--shift", "--data"): "use --do for the world in which the data were observed",
        ("--shift", "--do"): "name everything that a changed world sets in its --shift",
    }
    conditions = {"--data": o.data, "--do": o.do, "--shift": o.shift}
    options = {*named, *(name for name, value in conditions.items() if value)}
    for pair, instead in refused.items():
        if options.issuperset(pair):
            raise InvalidParameterError(
                f"{pair[0]} and {pair[1]} are both given, expected at most one of them; {instead}"
            )
    if o.drawing is not None and Path(o.drawing).suffix.lower() != ".svg":
        raise InvalidParameterError(
            f"--drawing is {str(o.drawing)!r}, expected a name that ends in .svg: the picture is "
            f"in that format"
        )


def _pieces(text: str) -> list[str]:
    """Return the settings of "X=x,Y=y"."""
    # Names of states may have commas: one behind which no = follows belongs to the state.
    return re.split(r",(?=[^,]*=)", text)


def _measured(query: CausalQuery) -> tuple[tuple[Table, ...], dict[str, Any]]:
    """Return the tables and the JSON of a query."""
    if query.up_to is not None:
        return _sensitivity(query, query.up_to)
    goal: dict[str, Any] = (
        {"utility": query.utility} if query.targets is None else {"targets": query.targets}
    )
    if query.shifts:
        shifted = gm.meg.under_interventions(
            query.network, query.decisions, query.shifts, rng=query.rng, **goal
        )
        first = shifted.rows[0].result
        tables = (*_result_tables(first), intervention_table(shifted))
        return tables, first.to_json() | {"interventions": shifted.to_json()}
    if query.data is not None and _has_influence(query):
        estimate = gm.meg.from_table(
            query.network, query.decisions, query.data, do=query.do, rng=query.rng, **goal
        )
        return _result_tables(estimate), estimate.to_json()
    measure = gm.meg.causal_utility if query.targets is None else gm.meg.targets
    result = measure(query.network, query.decisions, do=query.do, rng=query.rng, **goal)
    return _result_tables(result), result.to_json()


def _result_tables(result: gm.meg.CausalMeg) -> tuple[Table, ...]:
    # A goal that is the same for all outcomes has no table.
    goal = None if result.goal is None else goal_table(result.goal, result)
    return (result_table(result),) if goal is None else (result_table(result), goal)


def _has_influence(query: CausalQuery) -> bool:
    """Return whether a decision influences the utility; otherwise no data are needed."""
    posed = ask(query.network, query.decisions, query.do)
    return posed.towards(query.targets, query.utility).recall.kind != "none"


def _sensitivity(query: CausalQuery, up_to: int) -> tuple[tuple[Table, ...], dict[str, Any]]:
    changed = ask(query.network, query.decisions, query.do).network
    outcomes = [x for x in query.network.variables if x not in query.decisions]
    if outcomes and not changed.descendants(*query.decisions).intersection(outcomes):
        # Not an error: the decisions are nobody's causes, and that is the answer.
        nothing = gm.meg.targets(query.network, query.decisions, outcomes, do=query.do)
        table = {"decisions": query.decisions, "do": query.do, "rows": []}
        return (result_table(nothing),), nothing.to_json() | {"sensitivity": table}

    def hear(done: int, count: int) -> None:
        if done and done % max(1, min(100, count // 10)) == 0:
            query.tell(f"set {done} of {count}")

    sets = gm.meg.sensitivity(
        query.network, query.decisions, up_to=up_to, do=query.do, rng=query.rng, progress=hear
    )
    best = sets.rows[0].to_json()
    method = f"the best of {len(sets.rows)} sets of up to {up_to} targets"
    return (sensitivity_table(sets),), best | {"method": method, "sensitivity": sets.to_json()}


def _drawn(query: CausalQuery) -> str:
    """Return the diagram as SVG: what is set is grey, targets have a double border."""
    network = query.network.do(query.do)
    nodes: list[tuple[str, Kind]] = [
        (x, "decision" if x in query.decisions else "chance") for x in network.variables
    ]
    edges = network.edges()
    factors = () if query.utility is None else query.utility.factors
    for number, factor in enumerate(factors, start=1):
        name = "U" if len(factors) == 1 else f"U{number}"
        # A variable of the model may have that name already.
        while name in network.variables:
            name += "′"
        nodes.append((name, "utility"))
        edges += [(x, name) for x in factor.variables]
    return svg_text(nodes, edges, targets=query.targets or (), observed=query.do)
