"""`goalmeter meg causal`: MEG of variables of a causal model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import goalmeter as gm
from goalmeter._errors import InvalidParameterError
from goalmeter.causal import CausalBayesianNetwork
from goalmeter.causal.files import load_model, load_utility, parse_do
from goalmeter.commands.declare import REQUIRED, Tell, argument, command, option, several
from goalmeter.commands.options import Count, SeedOptions
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

    model: Path = argument("MODEL.bif  The network: .bif, .xmlbif, packed, or asia.")
    decisions: Sequence[str] = several(
        "--decision D  A candidate decision, its policy the model's CPD.", default=REQUIRED
    )
    targets: Sequence[str] = several("--target T  A variable that the goal may be about.")
    utility: Path | None = option("UTILITY.json  Or a known utility.")
    sensitivity: Count | None = option("K  Or a table of every set of up to K targets.")
    do: Sequence[str] = several("X=x  Measure under this intervention; repeat to set more.")
    shift: Sequence[str] = several(
        "X=x[,Y=y]  Score the goal in this changed world too; repeat for more worlds."
    )
    data: Path | None = option("TABLE.csv  Observed outcomes, instead of the model's policy.")
    drawing: Path | None = option("FILE.svg  Draw the diagram to this file.")


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
        tables, json = _sensitivity(network, o, do, tell)
    elif shifts:
        shifted = gm.meg.under_interventions(network, decisions, shifts, rng=rng, **goal)
        first = shifted.rows[0].result
        tables = (*_result_tables(first), intervention_table(shifted))
        json = first.to_json() | {"interventions": shifted.to_json()}
    else:
        measure: Any = gm.meg.targets if o.utility is None else gm.meg.causal_utility
        if o.data is not None:
            query = ask(network, decisions, do).towards(goal.get("targets"), goal.get("utility"))
            if query.recall.kind != "none":  # without an influence no data are needed
                measure = partial(gm.meg.from_table, data=o.data)
        result = measure(network, decisions, do=do, rng=rng, **goal)
        tables, json = _result_tables(result), result.to_json()
    changed = network.do(do)
    if o.drawing is not None:
        tell(f"drawing {write_text(o.drawing, _drawn(changed, decisions, goal, do))}")
        json["drawing"] = str(o.drawing)
    small = len(network.variables) <= SHOWN_VARIABLES
    text = changed.text(decisions=o.decisions) if small else ""
    return Outcome(tables=tables, json=json, text=text)


def _check_options(o: CausalOptions) -> None:
    if not o.decisions:
        raise InvalidParameterError("--decision: none given, expected one or more variables")
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
            f"--drawing is {str(o.drawing)!r}, expected a name that ends in .svg, its format"
        )


def _result_tables(result: gm.meg.CausalMeg) -> tuple[Table, ...]:
    # A goal that is the same for all outcomes has no table.
    goal = None if result.goal is None else goal_table(result.goal, result)
    return tuple(filter(None, (result_table(result), goal)))


def _sensitivity(
    network: CausalBayesianNetwork, o: CausalOptions, do: dict[str, Any], tell: Tell
) -> tuple[tuple[Table, ...], dict[str, Any]]:
    decisions = list(o.decisions)
    outcomes = [x for x in network.variables if x not in decisions]
    reached = ask(network, decisions, do).network.descendants(*decisions)
    if outcomes and not reached.intersection(outcomes):
        # Not an error: the decisions are nobody's causes, and that is the answer.
        nothing = gm.meg.targets(network, decisions, outcomes, do=do)
        table = {"decisions": decisions, "do": do, "rows": []}
        return (result_table(nothing),), nothing.to_json() | {"sensitivity": table}

    def hear(done: int, count: int) -> None:
        if done and done % max(1, min(100, count // 10)) == 0:
            tell(f"set {done} of {count}")

    rng, up_to = np.random.default_rng(o.seed), int(o.sensitivity or 0)
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
