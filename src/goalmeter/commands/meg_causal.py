"""`goalmeter meg causal`: a network in, the goal-directedness of some of its variables out."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import goalmeter as gm
from goalmeter._errors import InvalidParameterError
from goalmeter.causal import CausalBayesianNetwork, Utility
from goalmeter.causal.files import load_model, load_utility, parse_do
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
class CausalQuery:
    """The options, read and checked: exactly one of targets, utility and up_to is there."""

    network: CausalBayesianNetwork
    decisions: list[str]
    targets: list[str] | None
    utility: Utility | None
    up_to: int | None
    do: Do
    shifts: list[Do]
    data: str | Path | None
    seed: int
    tell: Callable[[str], None]

    @property
    def rng(self) -> np.random.Generator:
        """A fresh source of randomness from the seed."""
        # Fresh each time, so that a number does not depend on what was measured before it.
        return np.random.default_rng(self.seed)


def measure_causal(
    model: str | Path,
    *,
    decisions: Sequence[str],
    targets: Sequence[str] = (),
    utility: str | Path | None = None,
    sensitivity: int | None = None,
    do: Sequence[str] = (),
    shift: Sequence[str] = (),
    data: str | Path | None = None,
    drawing: str | Path | None = None,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> Outcome:
    """MEG of decisions in a network that is read from a file, whose CPDs of them are the policy.

    Exactly one of `targets` (variables that the utility may read), `utility` (the path of a utility
    file) and `sensitivity` (the size of the largest sets of targets to tabulate) is given. `do`
    sets "X=x" under which the policy is measured; each `shift` "X=x,Y=y" is a world in which the
    goal of the original one is scored; `data` is a CSV file of joint outcomes to measure instead of
    the policy in the model; `drawing` is the .svg file to draw the diagram to.

    Returns:
        The outcome; its JSON has the fields of the result (of the best set, for a sensitivity
        table), with "sensitivity" or "interventions" beside them where they were asked for.
    """
    goals = {"--target": targets or None, "--utility": utility, "--sensitivity": sensitivity}
    _check_options(decisions, goals, {"--data": data, "--do": do, "--shift": shift})
    if drawing is not None and Path(drawing).suffix.lower() != ".svg":
        raise InvalidParameterError(
            f"--drawing is {str(drawing)!r}, expected a name that ends in .svg: the picture is in "
            f"that format"
        )
    tell = progress or (lambda line: None)
    tell(f"reading {model}")
    network = load_model(model)
    with naming("--do"):
        setting: Do = dict(parse_do(do, network))
    with naming("--shift"):
        shifts = [dict(parse_do(_pieces(text), network)) for text in shift]
    query = CausalQuery(
        network=network,
        decisions=list(decisions),
        targets=list(targets) or None,
        utility=None if utility is None else load_utility(utility, network),
        up_to=sensitivity,
        do=setting,
        shifts=shifts,
        data=data,
        seed=seed,
        tell=tell,
    )
    tell(f"measuring in {network!r}")
    tables, json = _measured(query)
    if drawing is not None:
        tell(f"drawing {write_text(drawing, _drawn(query))}")
        json["drawing"] = str(drawing)
    small = len(network.variables) <= SHOWN_VARIABLES
    text = network.do(setting).text(decisions=decisions) if small else ""
    return Outcome(tables=tables, json=json, text=text)


def _check_options(
    decisions: Sequence[str], goals: dict[str, Any], conditions: dict[str, Any]
) -> None:
    """Raises where options do not go together; the message says what to do instead."""
    if not decisions:
        raise InvalidParameterError(
            "--decision: none given, expected one or more, the variables whose behaviour is "
            "measured"
        )
    named = [name for name, value in goals.items() if value is not None]
    if len(named) != 1:
        raise InvalidParameterError(
            f"{', '.join(goals)}: {' and '.join(named) or 'none of them'} given, expected exactly "
            f"one of them, what goal-directedness is measured towards"
        )
    # Pairs of options with what to do instead.
    refused = {
        ("--sensitivity", "--data"): "ask for one --target after another",
        ("--sensitivity", "--shift"): "use --do for the table in one changed world",
        ("--shift", "--data"): "use --do for the world in which the data were observed",
        ("--shift", "--do"): "name everything that a changed world sets in its --shift",
    }
    options = {*named, *(name for name, value in conditions.items() if value)}
    for pair, instead in refused.items():
        if options.issuperset(pair):
            raise InvalidParameterError(
                f"{pair[0]} and {pair[1]} are both given, expected at most one of them; {instead}"
            )


def _pieces(text: str) -> list[str]:
    """The settings of "X=x,Y=y"."""
    # Names of states may have commas: one behind which no = follows belongs to the state.
    return re.split(r",(?=[^,]*=)", text)


def _measured(query: CausalQuery) -> tuple[tuple[Table, ...], dict[str, Any]]:
    """The tables and the JSON that answer the query."""
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
    """Whether some decision influences the utility; without influence no data are needed."""
    posed = ask(query.network, query.decisions, query.do)
    if query.utility is None:
        scopes = [posed.network.check_names(query.targets or (), "target")]
    else:
        scopes = [factor.variables for factor in query.utility.factors]
    return posed.recall(scopes).kind != "none"


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
    """The diagram as SVG: what is set is grey, targets have a double border."""
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
