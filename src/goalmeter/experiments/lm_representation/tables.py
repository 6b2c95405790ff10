"""The tables of `goalmeter replicate lm-representation`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from goalmeter.experiments.ledger.number import Number
from goalmeter.experiments.lm_representation.compute import (
    ALL,
    DECODER,
    LAYER,
    LEDGER_PREFIX,
    LINEAR,
    MLP,
    POST,
    PRE,
    RIDGE,
    Results,
)
from goalmeter.report import Table
from goalmeter.report.numbers import hundredths, percent
from goalmeter.report.table_of import column, table_of, words
from goalmeter.representation.explained import Compared
from goalmeter.representation.plan.comparison import PlanRow
from goalmeter.representation.probes.comparison import LINKS, ProbeRow
from goalmeter.statistics.clustered import Estimate

_TIMES = {PRE: "before it reasons", POST: "after"}
_GRIDS = "95% intervals over grids in brackets. No grid's content was taught to the mouse."


@dataclass(frozen=True)
class _Beside:
    """A published number and ours."""

    row: Number
    ours: Estimate


@dataclass(frozen=True)
class _Map:
    """A probe, or a control of it, at a position."""

    position: str
    row: ProbeRow

    @property
    def name(self) -> str:
        return self.row.control or self.row.probe


@dataclass(frozen=True)
class _Share:
    """A share of decisions that decoded maps explain."""

    name: str
    value: Compared


@dataclass(frozen=True)
class _Prefix:
    """Prefixes of plans of one length, in grids of one size."""

    size: str
    row: PlanRow


def all_tables(results: Results, published: Sequence[Number]) -> tuple[Table, ...]:
    """What was measured, beside the published numbers of a ledger."""
    return (
        _beside(results, published),
        _maps(results),
        _decoded(results),
        _plans(results),
    )


def _beside(results: Results, published: Sequence[Number]) -> Table:
    rows = [
        _Beside(row, results.numbers[row.id.removeprefix(LEDGER_PREFIX)])
        for row in published
        if row.id.removeprefix(LEDGER_PREFIX) in results.numbers
    ]
    return table_of(
        rows,
        (
            words("quantity", lambda r: r.row.quantity.partition(":")[0]),
            words("setting", lambda r: r.row.setting),
            column("published, GPT-OSS-20B", lambda r: r.row.published),
            column("ours, the mouse", lambda r: r.ours, percent),
        ),
        caption="The paper's maps and plans, beside the mouse's",
        meaning="Published: percent, of GPT-OSS-20B. Ours: the same probes and decoder on the "
        "mouse, a model of 4 blocks whose goal and map are known. The numbers need not be equal: "
        "what is compared is what the method says of an agent that is known to have a map.",
        notes=(
            _GRIDS,
            "Published plans leave out walks of more than 9 actions; ours do not. Published shares "
            "on the decoded map leave out invalid maps; ours count them as explaining nothing, but "
            "for the recovery.",
        ),
    )


def _maps(results: Results) -> Table:
    rows = []
    for position in (PRE, POST):
        rows += [_Map(position, results.maps[p, position, ALL][0]) for p in (MLP.name, LINEAR.name)]
        rows += [_Map(position, row) for row in results.maps[RIDGE.name, position, ALL]]
    return table_of(
        rows,
        (
            words("probe or control", lambda r: r.name),
            words("tokens", lambda r: _TIMES[r.position]),
            column("cells right", lambda r: r.row.score().accuracy, percent),
            column("balanced", lambda r: r.row.score().balanced_accuracy, percent),
            column("walls of links, AUROC", lambda r: r.row.score(LINKS, "wall").auroc, hundredths),
            column("gain, bits a link", lambda r: r.row.score(LINKS, "wall").gain_bits, hundredths),
        ),
        caption="Maps read from the mouse",
        meaning=f"First decisions of walks, layer {LAYER} of 4, three tokens. A link is a cell "
        "between two rooms of a maze; the gain is log-loss over position alone. Random weights "
        "are the same network before any training.",
        notes=(_GRIDS, "The published linear probe cannot express what a cell holds."),
    )


def _decoded(results: Results) -> Table:
    each = results.explained
    rows = [
        _Share("optimal on the map, of all actions", each.on_map),
        _Share("explained errors, of wrong actions", each.explained_errors),
        _Share("the map corrects, of wrong actions", each.map_corrects),
    ]
    names = list(each.on_map.controls)
    return table_of(
        rows,
        (
            words("share", lambda r: r.name),
            column("decoded map", lambda r: r.value.value, percent),
            *(column(name, partial(_control, name), percent) for name in names),
        ),
        caption="What the decoded maps explain of the mouse's actions",
        meaning=f"{each.steps} decisions, {each.errors} of them wrong, on the maps of the "
        "published MLP before it reasons, made into grids as published; beside maps that know "
        "nothing of these walls.",
        notes=(_GRIDS, f"Maps that are none: {percent(each.invalid)}; they explain nothing."),
    )


def _plans(results: Results) -> Table:
    rows = [
        _Prefix(size, row)
        for size, table in results.plans.items()
        for row in table.rows
        if row.score.n in (1, 2, 4)
    ]
    names = list(rows[0].row.baselines)

    return table_of(
        rows,
        (
            words("grids", lambda r: r.size if r.size == ALL else f"size {r.size}"),
            words("tokens", lambda r: _TIMES[r.row.position]),
            column("actions", lambda r: str(r.row.score.n)),
            column("all right", lambda r: r.row.score.prefix, percent),
            *(column(name, partial(_baseline, name), percent) for name in names),
        ),
        caption="Plans read from the mouse",
        meaning="Share of walks whose first actions are all read rightly from their first "
        f"decision by {DECODER.name} of width {DECODER.width}, layer {LAYER}; beside what knows "
        "no activations. Scored on a quarter of the grids.",
        notes=(_GRIDS,),
    )


def _control(name: str, row: _Share) -> Estimate | None:
    return row.value.controls.get(name)


def _baseline(name: str, row: _Prefix) -> Estimate | None:
    beside = row.row.baselines[name]
    return None if beside is None else beside.score.prefix
