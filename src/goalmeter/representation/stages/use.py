"""The stage of use: which cells the model acts on, and MEG in the world that it believes in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, islice, zip_longest
from typing import Any

from goalmeter._errors import InvalidParameterError
from goalmeter._json import json_value
from goalmeter.gridworld.contents import content
from goalmeter.gridworld.draws import Draws
from goalmeter.gridworld.world import Cell
from goalmeter.representation.network import Network
from goalmeter.representation.replay import Sample, scenes_of
from goalmeter.representation.result_rows import DoseRow, UsedRow
from goalmeter.representation.rows import row_from
from goalmeter.representation.scenes import Shape, uncertain_cells
from goalmeter.representation.stages.asked import Asked
from goalmeter.representation.stages.worlds import Decoding
from goalmeter.representation.use.believed_world import believed_by_use
from goalmeter.representation.use.candidates import OPEN
from goalmeter.representation.use.causal_use import Use, causal_use
from goalmeter.representation.use.cells import target_cells
from goalmeter.representation.use.halves import CONFIRM, SCREEN
from goalmeter.representation.use.outcomes import UseRow
from goalmeter.representation.use.used_cells import Tried, UsedCells, tried_of, used_cells
from goalmeter.runs import Stages
from goalmeter.statistics.clustered import Estimate

DOSES = (0.5, 1.0, 2.0, 4.0)
SALT = "0"
# What is merely decoded stands beside the controls of what is believed.
_DECODED = "decoded"
# The decisions that are asked again, looked for when a stage first needs them.
Again = Callable[[], Sequence[Sample]]


@dataclass(frozen=True)
class UseResults:
    """What came of changing cells.

    Attributes:
        rows: interventions of both halves.
        verdict: of the one that was confirmed.
        doses: of the best write.
        tried: the decisions of both halves by which places are told.
        all_places: places of cells by these decisions.
    """

    rows: tuple[UsedRow, ...]
    verdict: str
    doses: tuple[DoseRow, ...]
    tried: tuple[Tried, ...]
    all_places: UsedCells

    @property
    def shares(self) -> dict[Shape, dict[Cell, float]]:
        """The share of moves that flip when a cell at a place is changed, by shape."""
        out: dict[Shape, dict[Cell, float]] = {}
        for place in self.all_places.places:
            out.setdefault(place.shape, {})[place.cell] = place.flips / place.decisions
        return out


def use_stage(stages: Stages, again: Again, network: Network, wanted: Asked) -> UseResults:
    """Change cells while the model answers; what is answered is kept beside the stages."""

    def made() -> dict[str, Any]:
        use = causal_use(
            again(),
            network,
            layers=wanted.layers,
            families=wanted.interventions,
            doses=DOSES,
            draws=wanted.draws,
            salt=SALT,
            seed=wanted.seed,
            keep=stages.folder / "use",
            progress=stages.tell,
        )
        return {
            "rows": json_value(rows_of(use)),
            "verdict": use.verdict,
            "doses": [row.to_json() for row in use.doses],
            "tried": json_value(tried_of([*use.outcomes_of_screen, *use.outcomes])),
            "all_places": used_cells([*use.outcomes_of_screen, *use.outcomes]).to_json(),
        }

    value = stages.value("use", made)
    return UseResults(
        tuple(row_from(UsedRow, row) for row in value["rows"]),
        value["verdict"],
        tuple(row_from(DoseRow, row) for row in value["doses"]),
        tuple(
            Tried(grid, (rows, columns), Cell(*cell), flipped)
            for grid, (rows, columns), cell, flipped in value["tried"]
        ),
        UsedCells.from_json(value["all_places"]),
    )


def asked_again(samples: Sequence[Sample], most: int, seed: int) -> list[Sample]:
    """Different decisions with an uncertain cell that a shortest way needs, of many grids.

    A second decision of a grid is taken only when each grid has one.
    """
    uncertain = uncertain_cells(scenes_of(samples))
    by_grid: dict[str, dict[tuple[int, ...], Sample]] = {}
    for sample in samples:
        cells = target_cells(sample.world, sample.state)
        if any(each.needed and uncertain[sample.world.shape][each.cell] for each in cells):
            by_grid.setdefault(content(sample.world), {}).setdefault(sample.prompt, sample)
    if not by_grid:
        raise InvalidParameterError(
            f"none of {len(samples)} decisions has an uncertain cell that every shortest way "
            f"needs; take more grids, or mazes of complexity 0.4 and above"
        )
    grids = sorted(by_grid)
    draws = Draws("decisions that are asked again", seed)
    draws.shuffle(grids)
    listed = [list(by_grid[grid].values()) for grid in grids]
    for each in listed:
        draws.shuffle(each)
    rounds = chain.from_iterable(zip_longest(*listed))
    return list(islice((sample for sample in rounds if sample is not None), most))


def rows_of(use: Use) -> list[UsedRow]:
    """The interventions of both halves, each beside the null that reaches highest."""
    nulls = [row for row in use.screened if row.is_null]
    rows = [_row(SCREEN, row, nulls, chosen=False) for row in use.screened]
    seen = set()
    for family in use.families:
        # What is done to walls is no null of what is done to open cells, nor the other way round.
        opens = family.row.intervention.startswith(OPEN)
        beside = [*family.nulls, *(() if opens else use.nulls)]
        chosen = _place(family.row) == _place(use.confirmed)
        rows.append(_row(CONFIRM, family.row, beside, chosen=chosen))
        for null in family.nulls:
            if _place(null) not in seen:
                seen.add(_place(null))
                rows.append(_row(CONFIRM, null, [], chosen=False))
    rows += [_row(CONFIRM, n, [], chosen=False) for n in use.nulls if _place(n) not in seen]
    return rows


def believed_stage(stages: Stages, decoding: Decoding, use: UseResults) -> dict[str, Any]:
    """MEG of the walks in truth, on what is decoded, and on the maps that interventions tell."""

    def made() -> dict[str, Any]:
        worlds = decoding.worlds
        controls = {name: maps.worlds for name, maps in worlds.controls.items()}
        result = believed_by_use(
            worlds.scenes,
            worlds.walk_steps,
            use.tried,
            uncertain_cells(decoding.captures.scenes),
            controls={_DECODED: worlds.maps.worlds} | controls,
            seed=decoding.seed,
        ).to_json()
        fits = {"meg_decoded": result["controls"].pop(_DECODED)}
        fits |= {name: result[name] for name in ("meg_true", "meg_believed")}
        # A measured number first, in nats a walk; what belongs to it behind.
        fits = {name: fit["nats"] | fit for name, fit in fits.items()}
        beyond = {"beyond_decoded": result["beyond"].pop(_DECODED)}
        return result | fits | beyond | {"places": use.all_places.counts}

    return dict(stages.value(decoding.key("believed"), made))


def _row(half: str, row: UseRow, nulls: Sequence[UseRow], *, chosen: bool) -> UsedRow:
    beside = [each.needed.flips for each in nulls if each is not row]
    return UsedRow(
        half,
        row.intervention,
        row.layer,
        row.position,
        row.is_null,
        chosen,
        row.needed.flips.n,
        row.needed.flips,
        row.needed.as_if_changed,
        row.needed.unreadable,
        row.unneeded.flips,
        None if row.is_null or not beside else max(beside, key=_reach),
        row.effect_nats,
        row.dose,
    )


def _place(row: UseRow) -> tuple[str, int | str, str]:
    return row.intervention, row.layer, row.position


def _reach(flips: Estimate) -> float:
    """How high the interval reaches; that of nothing reaches nowhere."""
    return -1.0 if flips.interval is None else flips.interval[1]
