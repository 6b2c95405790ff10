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
from goalmeter.causal import CausalBayesianNetwork
from goalmeter.causal.files import load_model, load_utility, parse_do
from goalmeter.commands.declare import REQUIRED, Tell, argument, command, option
from goalmeter.commands.options import SeedOptions
from goalmeter.commands.outcome import Outcome
from goalmeter.meg.causal.result import ask
from goalmeter.pages.meg import goal_table, intervention_table, result_table, sensitivity_table
from goalmeter.report import Table, write_text
from goalmeter.report.diagram import Kind, svg_text
from goalmeter.tabular.arrays import naming

SHOWN_VARIABLES = 15  # larger models are not shown in a terminal


@dataclass(frozen=True, kw_only=True)
class CausalOptions(SeedOptions):
    """Options of `goalmeter meg causal`."""

    model: Path = argument("The network: .bif, .xmlbif, packed, or asia.", "MODEL.bif")
    decisions: Sequence[str] = option(
        "A candidate decision, its policy the model's CPD; repeat for more.",
        "D",
        default=REQUIRED,
        flag="--decision",
    )
    targets: Sequence[str] = option(
        "A variable that the goal may be about; repeat for more.", "T", default=(), flag="--target"
    )
    utility: Path | None = option("Or a known utility.", "UTILITY.json")
    sensitivity: int | None = option("Or a table of every set of up to K targets.", "K", least=1)
    do: Sequence[str] = option(
        "Measure under this intervention; repeat to set more.", "X=x", default=()
    )
    shift: Sequence[str] = option(
        "Score the goal in this changed world too; repeat for more worlds.", "X=x[,Y=y]", default=()
    )
    data: Path | None = option(
        "Observed outcomes, to measure instead of the model's policy.", "TABLE.csv"
    )
    drawing: Path | None = option("Draw the diagram to this file.", "FILE.svg")


@command(CausalOptions)
def measure_causal(o: CausalOptions, tell: Tell) -> Outcome:
    """Measure the MEG of variables of a causal model."""
    _check_options(o)
    tell(f"reading {o.model}")
    network = load_model(o.model)
    with naming("--do"):
        do = dict(parse_do(o.do, network))
    with naming("--shift"):
        # Names of states may have commas: one behind which no = follows belongs to the state.
        worlds = [re.split(r",(?=[^,]*=)", text) for text in o.shift]
        shifts = [dict(parse_do(world, network)) for world in worlds]
    goal: dict[str, Any] = {"targets": list(o.targets)}
    if o.utility is not None:
        goal = {"utility": load_utility(o.utility, network)}
    tell(f"measuring in {network!r}")
    decisions, rng = list(o.decisions), np.random.default_rng(o.seed)
    if o.sensitivity is not None:
        tables, json = _sensitivity(network, decisions, o.sensitivity, do, rng, tell)
    elif shifts:
        shifted = gm.meg.under_interventions(network, decisions, shifts, rng=rng, **goal)
        first = shifted.rows[0].result
        tables = (*_result_tables(first), intervention_table(shifted))
        json = first.to_json() | {"interventions": shifted.to_json()}
    else:
        if o.data is not None and _has_influence(network, decisions, do, goal):
            result: gm.meg.CausalMeg = gm.meg.from_table(
                network, decisions, o.data, do=do, rng=rng, **goal
            )
        elif o.utility is not None:
            result = gm.meg.causal_utility(network, decisions, do=do, rng=rng, **goal)
        else:
            result = gm.meg.targets(network, decisions, do=do, rng=rng, **goal)
        tables, json = _result_tables(result), result.to_json()
    if o.drawing is not None:
        text = _drawn(network.do(do), decisions, goal, do)
        tell(f"drawing {write_text(o.drawing, text)}")
        json["drawing"] = str(o.drawing)
    small = len(network.variables) <= SHOWN_VARIABLES
    text = network.do(do).text(decisions=o.decisions) if small else ""
    return Outcome(tables=tables, json=json, text=text)


def _check_options(o: CausalOptions) -> None:
    """Raise an error where options exclude each other."""
    if not o.decisions:
        raise InvalidParameterError(
            "--decision: none given, expected one or more, the variables whose behaviour is "
            "measured"
        )
    goals = {"--target": o.targets or None, "--utility": o.utility, "--sensitivity": o.sensitivity}
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


def _result_tables(result: gm.meg.CausalMeg) -> tuple[Table, ...]:
    # A goal that is the same for all outcomes has no table.
    goal = None if result.goal is None else goal_table(result.goal, result)
    return (result_table(result),) if goal is None else (result_table(result), goal)


def _has_influence(
    network: CausalBayesianNetwork, decisions: list[str], do: dict[str, Any], goal: dict[str, Any]
) -> bool:
    """Return whether a decision influences the utility; otherwise no data are needed."""
    posed = ask(network, decisions, do)
    return posed.towards(goal.get("targets"), goal.get("utility")).recall.kind != "none"


def _sensitivity(
    network: CausalBayesianNetwork,
    decisions: list[str],
    up_to: int,
    do: dict[str, Any],
    rng: np.random.Generator,
    tell: Tell,
) -> tuple[tuple[Table, ...], dict[str, Any]]:
    changed = ask(network, decisions, do).network
    outcomes = [x for x in network.variables if x not in decisions]
    if outcomes and not changed.descendants(*decisions).intersection(outcomes):
        # Not an error: the decisions are nobody's causes, and that is the answer.
        nothing = gm.meg.targets(network, decisions, outcomes, do=do)
        table = {"decisions": decisions, "do": do, "rows": []}
        return (result_table(nothing),), nothing.to_json() | {"sensitivity": table}

    def hear(done: int, count: int) -> None:
        if done and done % max(1, min(100, count // 10)) == 0:
            tell(f"set {done} of {count}")

    sets = gm.meg.sensitivity(network, decisions, up_to=up_to, do=do, rng=rng, progress=hear)
    best = sets.rows[0].to_json()
    method = f"the best of {len(sets.rows)} sets of up to {up_to} targets"
    return (sensitivity_table(sets),), best | {"method": method, "sensitivity": sets.to_json()}


def _drawn(
    network: CausalBayesianNetwork, decisions: list[str], goal: dict[str, Any], do: dict[str, Any]
) -> str:
    """Return the diagram as SVG: what is set is grey, targets have a double border."""
    nodes: list[tuple[str, Kind]] = [
        (x, "decision" if x in decisions else "chance") for x in network.variables
    ]
    edges = network.edges()
    factors = goal["utility"].factors if "utility" in goal else ()
    for number, factor in enumerate(factors, start=1):
        name = "U" if len(factors) == 1 else f"U{number}"
        # A variable of the model may have that name already.
        while name in network.variables:
            name += "′"
        nodes.append((name, "utility"))
        edges += [(x, name) for x in factor.variables]
    return svg_text(nodes, edges, targets=goal.get("targets", ()), observed=do)
