"""Stages that intervene: use of cells, patched positions, look-ups and subspaces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice, zip_longest
from typing import Any, TypeVar

from goalmeter._errors import InvalidParameterError
from goalmeter._files import JsonFields, json_value
from goalmeter.gridworld.generators import Draws
from goalmeter.gridworld.world import Cell, content
from goalmeter.representation.beliefs.used_cells import (
    CellTrial,
    UsedCells,
    believed_by_use,
    tried_of,
    used_cells,
)
from goalmeter.representation.replay import Sample, scenes_of
from goalmeter.representation.result_rows import (
    DoseRow,
    MovedRow,
    SpanRow,
    SubspaceRow,
    UsedRow,
    row_from,
    rows_from,
)
from goalmeter.representation.scenes import Shape, uncertain_cells
from goalmeter.representation.stages.decoding import Decoding, ProbeRun
from goalmeter.representation.use import patching
from goalmeter.representation.use.causal_use import Use, causal_use, look_ups
from goalmeter.representation.use.directions import target_cells
from goalmeter.representation.use.patching import StreamPlace, angle, place_directions, subspace
from goalmeter.representation.use.trials import (
    CONFIRM,
    KNOCK_OUT,
    OPEN,
    PATCH,
    SCREEN,
    UseRow,
    half_of,
)

DOSES = (0.5, 1.0, 2.0, 4.0)
SALT = "0"
# The decoded map is listed with the controls of the believed world.
_DECODED = "decoded"
# Tokens at which streams are exchanged: where what moved is named, and the end of the prompt; if
# the grid is turned, all tokens.
_POSITIONS = {
    patching.GOAL: ("pre/goal", "pre/end"),
    patching.AGENT: ("pre/agent", "pre/end"),
    patching.ISOMETRY: ("pre/end", patching.EVERY_TOKEN),
}
_RANK, _STEPS = 4, 60
# Directions of a probe are at most such a part of the stream: more lie near any subspace.
_SHARE = 8
# Decisions of the screening half for moved goals and agents: a place is chosen by them, and a
# subspace is learnt on them in one pass with its gradients.
_SCREENED = 24
# Decisions that a probe of the place is fitted to.
_READ = 400
_REASON = "reason"
Row = TypeVar("Row")
# Selects the decisions that are answered again, when a stage first needs them.
Again = Callable[[], Sequence[Sample]]


@dataclass(frozen=True)
class UseResults(JsonFields):
    """Results of interventions on cells, and whether the places of cells are used."""

    rows: tuple[UsedRow, ...]
    verdict: str
    doses: tuple[DoseRow, ...]
    tried: tuple[CellTrial, ...]
    all_places: UsedCells

    @property
    def shares(self) -> dict[Shape, dict[Cell, float]]:
        """The share of moves that flip when a cell at a place is changed, by shape."""
        out: dict[Shape, dict[Cell, float]] = {}
        for place in self.all_places.places:
            out.setdefault(place.shape, {})[place.cell] = place.flips / place.decisions
        return out


def use_stage(run: ProbeRun, again: Again) -> UseResults:
    """Change cells while the model answers; answers are cached in the folder "use"."""
    options, stages = run.options, run.stages

    def make() -> dict[str, Any]:
        use = causal_use(
            again(),
            run.network,
            layers=options.chosen_layers,
            families=options.interventions,
            doses=DOSES,
            draws=options.draws,
            salt=SALT,
            seed=options.seed,
            keep=stages.folder / "use",
            progress=stages.tell,
        )
        outcomes = [*use.outcomes_of_screen, *use.outcomes]
        rows, tried = tuple(rows_of(use)), tried_of(outcomes)
        return UseResults(rows, use.verdict, use.doses, tried, used_cells(outcomes)).to_json()

    return row_from(UseResults, stages.value("use", make))


def select_decisions(samples: Sequence[Sample], most: int, seed: int) -> list[Sample]:
    """Select distinct decisions with a needed uncertain cell, one of each grid before a second."""
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
    """Return the interventions of both halves, each with the null that reaches highest."""
    nulls = [row for row in use.screened if row.is_null]
    rows = [_row(SCREEN, row, nulls) for row in use.screened]
    seen = set()
    for family in use.families:
        # Interventions on walls are no null of those on open cells, nor the other way round.
        opens = family.row.intervention.startswith(OPEN)
        nulls_of = [*family.nulls, *(() if opens else use.nulls)]
        chosen = family.row.place == use.confirmed.place
        rows.append(_row(CONFIRM, family.row, nulls_of, chosen=chosen))
        for null in family.nulls:
            if null.place not in seen:
                seen.add(null.place)
                rows.append(_row(CONFIRM, null, []))
    return rows + [_row(CONFIRM, null, []) for null in use.nulls if null.place not in seen]


def _row(half: str, row: UseRow, nulls: Sequence[UseRow], *, chosen: bool = False) -> UsedRow:
    others = [each.needed.flips for each in nulls if each is not row]
    highest = max(others, key=lambda e: e.interval[1] if e.interval else -1.0, default=None)
    return UsedRow(
        half=half,
        intervention=row.intervention,
        layer=row.layer,
        position=row.position,
        is_null=row.is_null,
        chosen=chosen,
        cells=row.needed.flips.n,
        flips=row.needed.flips,
        as_if_changed=row.needed.as_if_changed,
        unreadable=row.needed.unreadable,
        unneeded_flips=row.unneeded.flips,
        null_flips=None if row.is_null else highest,
        effect_nats=row.effect_nats,
        dose=row.dose,
    )


def believed_stage(run: ProbeRun, decoding: Decoding, use: UseResults) -> dict[str, Any]:
    """Measure MEG of the walks in the true, the decoded and the believed world."""

    def make() -> dict[str, Any]:
        worlds = decoding.worlds
        controls = {name: maps.worlds for name, maps in worlds.controls.items()}
        meg, changed = believed_by_use(
            worlds.scenes,
            decoding.walk_steps,
            use.tried,
            uncertain_cells(decoding.captures.scenes),
            controls={_DECODED: worlds.maps.worlds} | controls,
            seed=decoding.seed,
        )
        result = meg.to_json() | {"changed": changed}
        fits = {"meg_decoded": result["controls"].pop(_DECODED)}
        fits |= {name: result[name] for name in ("meg_true", "meg_believed")}
        # Each is a measured number, in nats a walk, with further fields.
        fits = {name: fit["nats"] | fit for name, fit in fits.items()}
        beyond = {"beyond_decoded": result["beyond"].pop(_DECODED)}
        return result | fits | beyond | {"places": use.all_places.counts}

    return dict(run.stages.value(decoding.key("believed"), make))


# --- Spans, exchanged streams and subspaces -------------------------------------------------------
def stream_stage(run: ProbeRun, again: Again) -> dict[str, tuple[Any, ...]]:
    """Hide cells from spans, exchange streams with other questions, learn what carries them.

    Spans need "knock-out" among the interventions, exchanged streams "patch". Returns "spans",
    "moved" and "subspaces"; the reason why one of them cannot be made is stored like any outcome.
    """
    stages, network, seed = run.stages, run.network, run.options.seed

    def stage(key: str, name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        def make_or_reason() -> dict[str, Any]:
            try:
                return make()
            except InvalidParameterError as cause:
                return {_REASON: str(cause)}

        value: dict[str, Any] = stages.value(key, make_or_reason)
        if _REASON in value:
            run.left_out[name] = value[_REASON]
        return {"rows": ()} | value

    def spans() -> dict[str, Any]:
        folder = stages.folder / "spans"
        listed = look_ups(again(), network, salt=SALT, seed=seed, keep=folder, progress=stages.tell)
        return {"rows": json_value(listed)}

    def halves(kind: str) -> dict[str, patching.PairAnswers]:
        """Answers to the decisions of the confirming half, and to some of the other."""
        samples = again()
        screened = [each for each in samples if half_of(each.world, SALT) == SCREEN]
        judged = [each for each in samples if half_of(each.world, SALT) == CONFIRM]
        fewer = [*screened[:_SCREENED], *judged]
        return patching.answers_by_half(network, fewer, kind, SALT, seed)

    def exchanged(kind: str) -> dict[str, Any]:
        places = patching.stream_places(network, _POSITIONS[kind], run.options.chosen_layers)
        rows = patching.moved(halves(kind), places, stages.tell)
        return {"rows": json_value(rows), "carrier": _carrier(rows)}

    def learnt(kind: str, exchanges: dict[str, Any]) -> dict[str, Any]:
        if exchanges.get("carrier") is None:
            raise InvalidParameterError(
                f"no place was confirmed at which moves follow the {kind} of another question"
            )
        layer, position = exchanges["carrier"]
        place = StreamPlace(position, (layer,), layer)
        row, basis = subspace(network, halves(kind), place, rank=_RANK, steps=_STEPS, seed=seed)
        # A probe of the place is fitted to decisions of other grids than those that judge.
        listed = [sample for sample in run.samples if half_of(sample.world, SALT) == SCREEN]
        Draws("decisions that a probe of places reads", seed).shuffle(listed)
        most = network.width // _SHARE
        directions = place_directions(listed[:_READ], network, place, kind, most)
        if directions is not None:
            degrees, chance = angle(basis, directions, seed=seed)
            row = replace(row, degrees=degrees, chance=chance)
        return {"rows": [row.to_json()]}

    kinds = patching.KINDS if PATCH in run.options.interventions else ()
    looked = KNOCK_OUT in run.options.interventions
    values = [stage("use/spans", "spans", spans)] if looked else []
    by_kind = {
        kind: stage(f"use/moved/{kind}", f"{kind} moved", partial(exchanged, kind))
        for kind in kinds
    }
    spaces = [
        stage(f"use/subspace/{kind}", f"subspace of the {kind}", partial(learnt, kind, exchanges))
        for kind, exchanges in by_kind.items()
        if kind != patching.ISOMETRY
    ]

    def rows(kind: type[Row], values: Iterable[dict[str, Any]]) -> tuple[Row, ...]:
        return tuple(row for value in values for row in rows_from(kind, value["rows"]))

    return {
        "spans": rows(SpanRow, values),
        "moved": rows(MovedRow, by_kind.values()),
        "subspaces": rows(SubspaceRow, spaces),
    }


def _carrier(rows: Sequence[MovedRow]) -> list[Any] | None:
    """Return the layer and position at which a subspace is sought; None if none was confirmed.

    Where moves follow no stream after the embedding, but do follow the other question, what moved
    is read off the embedding of its own word.
    """
    *_, confirmed, ceiling = rows
    single = patching.best_layer(rows)
    if patching.follows(confirmed) and single is not None:
        return [single.layer, single.position]
    return [0, _POSITIONS[confirmed.moved][0]] if patching.follows(ceiling) else None
