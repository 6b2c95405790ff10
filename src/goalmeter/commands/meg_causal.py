"""`goalmeter meg causal`: a network in, the goal-directedness of some of its variables out."""

from __future__ import annotations

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
from goalmeter.meg.causal.question import ask
from goalmeter.pages.meg.causal_tables import (
    goal_table,
    intervention_table,
    sensitivity_table,
)
from goalmeter.pages.meg.tables import result_table
from goalmeter.report import Table, write_text
from goalmeter.report.diagram.drawing import svg_text
from goalmeter.report.diagram.routes import Kind
from goalmeter.tabular._validation import naming

# Larger models are not shown in a terminal.
SHOWN_VARIABLES = 15

Do = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Asked:
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
    """MEG of decisions in a network that is read from a file.

    Args:
        model: the network, .bif or .xmlbif; its CPDs of the decisions are the policy.
        decisions: the candidate decisions.
        targets: the variables that the utility may read; or
        utility: the path of a utility file; or
        sensitivity: the size of the largest sets of targets to tabulate; exactly one of the three.
        do: settings "X=x" of one intervention, under which the policy is measured.
        shift: interventions "X=x,Y=y", in each of which the goal of the original world is scored.
        data: a CSV file of joint outcomes to measure instead of the policy in the model.
        drawing: the .svg file to draw the diagram to.
        seed: of searches, or of the bootstrap.
        progress: told what is being done.

    Returns:
        The outcome; its JSON has the fields of the result (of the best set, for a sensitivity
        table), with "sensitivity" or "interventions" beside them where they were asked for.

    Raises:
        GoalmeterError: files or options that cannot be used; the message says how to mend it.
    """
    _check_options(decisions, targets, utility, sensitivity, do, shift, data, drawing)
    tell = progress or (lambda line: None)
    tell(f"reading {model}")
    network = load_model(model)
    with naming("--do"):
        setting: Do = dict(parse_do(do, network))
    with naming("--shift"):
        shifts = [dict(parse_do(_pieces(text), network)) for text in shift]
    asked = Asked(
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
    tables, json = _measured(asked)
    small = len(network.variables) <= SHOWN_VARIABLES
    if drawing is not None:
        tell(f"drawing {write_text(drawing, _drawn(asked))}")
        json["drawing"] = str(drawing)
    text = network.do(setting).text(decisions=decisions) if small else ""
    return Outcome(tables=tables, json=json, text=text)


def _check_options(
    decisions: Sequence[str],
    targets: Sequence[str],
    utility: str | Path | None,
    sensitivity: int | None,
    do: Sequence[str],
    shift: Sequence[str],
    data: str | Path | None,
    drawing: str | Path | None,
) -> None:
    """Refuse options that do not go together.

    Raises:
        InvalidParameterError: the message names them, and what to do instead.
    """
    if not decisions:
        raise InvalidParameterError(
            "--decision: none given, expected one or more, the variables whose behaviour is "
            "measured"
        )
    goals = {"--target": targets or None, "--utility": utility, "--sensitivity": sensitivity}
    named = [name for name, value in goals.items() if value is not None]
    if len(named) != 1:
        raise InvalidParameterError(
            f"{', '.join(goals)}: {' and '.join(named) or 'none of them'} given, expected exactly "
            f"one of them, what goal-directedness is measured towards"
        )
    refused = {
        ("--sensitivity", "--data"): "ask for one --target after another",
        ("--sensitivity", "--shift"): "use --do for the table in one changed world",
        ("--shift", "--data"): "use --do for the world in which the data were observed",
        ("--shift", "--do"): "name everything that a changed world sets in its --shift",
    }
    there = {*named, *(n for n, v in (("--data", data), ("--do", do), ("--shift", shift)) if v)}
    for pair, instead in refused.items():
        if there.issuperset(pair):
            raise InvalidParameterError(
                f"{pair[0]} and {pair[1]} are both given, expected at most one of them; {instead}"
            )
    if drawing is not None and Path(drawing).suffix.lower() != ".svg":
        raise InvalidParameterError(
            f"--drawing is {str(drawing)!r}, expected a name that ends in .svg: the picture is in "
            f"that format"
        )


def _pieces(text: str) -> list[str]:
    """The settings of "X=x,Y=y"; a comma behind which no = follows belongs to the state."""
    out: list[str] = []
    for piece in text.split(","):
        if out and "=" not in piece:
            out[-1] += f",{piece}"
        else:
            out.append(piece)
    return out


def _measured(asked: Asked) -> tuple[tuple[Table, ...], dict[str, Any]]:
    """The tables and the JSON of what was asked."""
    if asked.up_to is not None:
        return _sensitivity(asked, asked.up_to)
    goal: dict[str, Any] = (
        {"utility": asked.utility} if asked.targets is None else {"targets": asked.targets}
    )
    if asked.shifts:
        shifted = gm.meg.under_interventions(
            asked.network, asked.decisions, asked.shifts, rng=asked.rng, **goal
        )
        first = shifted.rows[0].result
        tables = (*_result_tables(first), intervention_table(shifted))
        return tables, first.to_json() | {"interventions": shifted.to_json()}
    if asked.data is not None and _has_influence(asked):
        estimate = gm.meg.from_table(
            asked.network, asked.decisions, asked.data, do=asked.do, rng=asked.rng, **goal
        )
        return _result_tables(estimate), estimate.to_json()
    measure = gm.meg.causal_utility if asked.targets is None else gm.meg.targets
    result = measure(asked.network, asked.decisions, do=asked.do, rng=asked.rng, **goal)
    return _result_tables(result), result.to_json()


def _result_tables(result: gm.meg.CausalMeg) -> tuple[Table, ...]:
    goal = None if result.goal is None else goal_table(result.goal, result)
    return (result_table(result),) if goal is None else (result_table(result), goal)


def _has_influence(asked: Asked) -> bool:
    """Whether some decision influences the utility; without influence no data are needed."""
    question = ask(asked.network, asked.decisions, asked.do)
    if asked.utility is None:
        scopes = [question.network.check_names(asked.targets or (), "target")]
    else:
        scopes = [factor.variables for factor in asked.utility.factors]
    return question.recall(scopes).kind != "none"


def _sensitivity(asked: Asked, up_to: int) -> tuple[tuple[Table, ...], dict[str, Any]]:
    question = ask(asked.network, asked.decisions, asked.do)
    others = [x for x in asked.network.variables if x not in asked.decisions]
    if others and not question.network.descendants(*asked.decisions).intersection(others):
        # Not an error: the decisions are nobody's causes, and that is the answer.
        nothing = gm.meg.targets(asked.network, asked.decisions, others, do=asked.do)
        table = {"decisions": asked.decisions, "do": asked.do, "rows": []}
        return (result_table(nothing),), nothing.to_json() | {"sensitivity": table}
    sets = gm.meg.sensitivity(
        asked.network,
        asked.decisions,
        up_to=up_to,
        do=asked.do,
        rng=asked.rng,
        progress=_sometimes(asked.tell),
    )
    best = sets.rows[0].to_json()
    method = f"the best of {len(sets.rows)} sets of up to {up_to} targets"
    return (sensitivity_table(sets),), best | {"method": method, "sensitivity": sets.to_json()}


def _sometimes(tell: Callable[[str], None]) -> Callable[[int, int], None]:
    """A listener to a table that tells of every hundredth set, or every tenth part of a few."""

    def hear(done: int, count: int) -> None:
        if done and done % max(1, min(100, count // 10)) == 0:
            tell(f"set {done} of {count}")

    return hear


def _drawn(asked: Asked) -> str:
    """The diagram as SVG: what is set is grey, targets have a double border."""
    network = asked.network.do(asked.do)
    nodes: list[tuple[str, Kind]] = [
        (x, "decision" if x in asked.decisions else "chance") for x in network.variables
    ]
    edges = network.edges()
    factors = () if asked.utility is None else asked.utility.factors
    for number, factor in enumerate(factors, start=1):
        name = "U" if len(factors) == 1 else f"U{number}"
        while name in network.variables:
            name += "′"
        nodes.append((name, "utility"))
        edges += [(x, name) for x in factor.variables]
    return svg_text(nodes, edges, targets=asked.targets or (), observed=asked.do)
