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
from goalmeter.causal import CausalBayesianNetwork, InfluenceDiagram
from goalmeter.causal.files import load_model, load_utility, parse_do
from goalmeter.commands import declare
from goalmeter.commands.declare import REQUIRED, Tell, argument, command, option
from goalmeter.commands.outcome import Outcome
from goalmeter.meg.causal.result import ask
from goalmeter.pages.meg import goal_table, intervention_table, result_table, sensitivity_table
from goalmeter.report import Table, write_text
from goalmeter.tabular.arrays import naming

SHOWN_VARIABLES = 15  # larger models are not shown in a terminal
# Pairs of options that exclude each other, with what to do instead.
REFUSED = {
    ("--sensitivity", "--data"): "measure one --target after another",
    ("--sensitivity", "--shift"): "use --do for the table in one changed world",
    ("--shift", "--data"): "use --do for the world in which the data were observed",
    ("--shift", "--do"): "name everything that a changed world sets in its --shift",
}


@dataclass(frozen=True, kw_only=True)
class _CausalOptions(declare.SeedOptions):
    model: Path = argument("MODEL.bif  The network: .bif, .xmlbif, packed, or asia.")
    decisions: Sequence[str] = option(
        "--decision D  A candidate decision, its policy the model's CPD.", default=REQUIRED
    )
    targets: Sequence[str] = option("--target T  Variable that the goal may be about.", default=())
    utility: Path | None = option("UTILITY.json  Or a known utility.")
    sensitivity: int | None = option("K  Or a table of every set of up to K targets.", least=1)
    do: Sequence[str] = option("X=x  Intervention; repeat to set more.", default=())
    shift: Sequence[str] = option(
        "X=x[,Y=y]  Score the goal in this changed world too; repeat for more worlds.", default=()
    )
    data: Path | None = option("TABLE.csv  Observed outcomes, instead of the model's policy.")
    drawing: Path | None = option("FILE.svg  Draw the diagram to this file.")


@command(_CausalOptions)
def measure_causal(o: _CausalOptions, tell: Tell) -> Outcome:
    """Measure the MEG of variables of a causal model."""
    goals: dict[str, Any] = {"--target": o.targets, "--utility": o.utility}
    goals["--sensitivity"] = o.sensitivity
    declare.check_exactly_one(goals)
    goals |= {"--data": o.data, "--do": o.do, "--shift": o.shift}
    given = {name for name, value in goals.items() if value}
    for pair, instead in REFUSED.items():
        if given.issuperset(pair):
            raise InvalidParameterError(
                f"{pair[0]} and {pair[1]} are both given, expected at most one of them; {instead}"
            )
    if o.drawing is not None and Path(o.drawing).suffix.lower() != ".svg":
        raise InvalidParameterError(
            f"--drawing is {str(o.drawing)!r}, expected a name that ends in .svg, its format"
        )
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
        tables = [*_result_tables(first), intervention_table(shifted)]
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
        if o.utility is None:
            picture = changed.svg(decisions=decisions, targets=goal["targets"], observed=do)
        else:
            diagram = InfluenceDiagram.of(changed, decisions=decisions, utilities=goal["utility"])
            picture = diagram.svg(observed=do)
        tell(f"drawing {write_text(o.drawing, picture)}")
        json["drawing"] = str(o.drawing)
    text = changed.text(decisions=decisions) if len(network.variables) <= SHOWN_VARIABLES else ""
    return Outcome(tables=tables, json=json, text=text)


def _result_tables(result: gm.meg.CausalMeg) -> list[Table]:
    # A goal that is the same for all outcomes has no table.
    goal = None if result.goal is None else goal_table(result.goal, result)
    return [table for table in (result_table(result), goal) if table is not None]


def _sensitivity(
    network: CausalBayesianNetwork, o: _CausalOptions, do: dict[str, Any], tell: Tell
) -> tuple[list[Table], dict[str, Any]]:

    def hear(done: int, count: int) -> None:
        if done and done % max(1, min(100, count // 10)) == 0:
            tell(f"set {done} of {count}")

    decisions, up_to = list(o.decisions), int(o.sensitivity or 0)
    outcomes = [x for x in network.variables if x not in decisions]
    reached = ask(network, decisions, do).network.descendants(*decisions)
    if outcomes and not reached.intersection(outcomes):
        # Not an error: the decisions are nobody's causes, and that is the answer.
        nothing = gm.meg.targets(network, decisions, outcomes, do=do)
        table = {"decisions": decisions, "do": do, "rows": []}
        return [result_table(nothing)], nothing.to_json() | {"sensitivity": table}
    rng = np.random.default_rng(o.seed)
    sets = gm.meg.sensitivity(network, decisions, up_to=up_to, do=do, rng=rng, progress=hear)
    method = f"the best of {len(sets.rows)} sets of up to {up_to} targets"
    more = {"method": method, "sensitivity": sets.to_json()}
    return [sensitivity_table(sets)], sets.rows[0].to_json() | more
