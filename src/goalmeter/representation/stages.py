"""Options and stages of a probe; each finished stage is stored.

The values of stages are JSON; combined over places, they are the fields of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from itertools import chain, islice, product, zip_longest
from typing import Any, NamedTuple

import numpy as np

from goalmeter._errors import MOST_SEED, InvalidParameterError, whole
from goalmeter._files import json_value
from goalmeter._names import did_you_mean
from goalmeter._options import option
from goalmeter.gridworld.conversions import symbols_at
from goalmeter.gridworld.generators import Draws
from goalmeter.gridworld.planner import State
from goalmeter.gridworld.world import Cell, content
from goalmeter.navigation.plan import made_of
from goalmeter.navigation.trajectories import Trajectory
from goalmeter.representation.activations import Captured, capture, captured
from goalmeter.representation.beliefs import believed, decoded_maps
from goalmeter.representation.network import Network
from goalmeter.representation.plans.comparison import along, decided, read_plans, rows_of
from goalmeter.representation.plans.readers import (
    LinearSteps,
    PlanDecoder,
    PlanReader,
    plans_of,
    stated_plans,
)
from goalmeter.representation.probes import comparison as probing
from goalmeter.representation.probes.protocol import PositionOnly
from goalmeter.representation.probes.registry import PROBES, probe
from goalmeter.representation.replay import Sample, checked_positions, scenes_of
from goalmeter.representation.result_rows import UsedRow
from goalmeter.representation.scenes import CLASSES, WALL, Scenes, folds, split, uncertain_cells
from goalmeter.representation.use import patching, trials
from goalmeter.representation.use.causal_use import Use, causal_use, look_ups
from goalmeter.representation.use.directions import target_cells
from goalmeter.runs import Stages

# --- Options --------------------------------------------------------------------------------------
MAPS, USE, PLAN = "maps", "use", "plan"
PARTS = (MAPS, USE, PLAN)
# Models with more blocks get the paper's three layers: after 1/3, 2/3 and all of the blocks.
_FEW_BLOCKS = 8
_list = partial(option, commas=True)


@dataclass(frozen=True)
class ProbeOptions:
    """Options of a probe of a run's model."""

    layers: Sequence[int] | None = _list(
        "K,...  Layers; default all of up to eight, else those at 1/3, 2/3 and the end."
    )
    # See `replay.position`; a position that no decision has is omitted, with the reason.
    positions: Sequence[str] = _list("NAME,...  Token positions.", default=("pre/end", "post/end"))
    probes: Sequence[str] = _list(
        "NAME,...  ridge, logistic, bilinear, mlp or the paper's.", default=("ridge",)
    )
    # The believed world needs maps and use.
    parts: Sequence[str] = _list("PART,...  What is measured.", default=PARTS)
    # Windows are patches of several layers.
    interventions: Sequence[str] = _list(
        "KIND,...  knock-out, patch, windows, write, ablate, open.", default=trials.TRIED
    )
    use_decisions: int = option(
        "Maximum number of decisions repeated under interventions.",
        default=120,
        least=4,
        most=100_000,
    )
    draws: int = option(
        "Sampled answers per decision, to measure effects in nats.", default=0, least=0, most=1000
    )
    # The paper has 1, 2 and 4, and shows 2; each takes minutes.
    decoders: Sequence[int] = _list(
        "K,...  Layers of each transformer that predicts plans.", default=(2,)
    )
    seed: int = option("Seed of everything random.", default=0, least=0, most=MOST_SEED)

    @classmethod
    def for_network(cls, network: Network, options: Mapping[str, Any]) -> ProbeOptions:
        """Validate options by name (None is the default) and choose the layers of a network."""
        raw = cls(**{name: value for name, value in options.items() if value is not None})
        blocks = len(network.blocks)
        thirds = (round(blocks / 3), round(2 * blocks / 3), blocks)
        default = range(1, blocks + 1) if blocks <= _FEW_BLOCKS else thirds
        layers = network.check_layers(default if raw.layers is None else raw.layers)
        # The embedding is always captured, as a control.
        layers = tuple(layer for layer in layers if layer > 0)
        if not layers:
            raise InvalidParameterError(
                f"layers contains only 0, the embedding, which is always read as a control; "
                f"expected layers from 1 to {blocks}"
            )
        interventions = _chosen("interventions", raw.interventions, trials.FAMILIES)
        if interventions == (trials.OPEN,):
            others = ", ".join(each for each in trials.FAMILIES if each != trials.OPEN)
            raise InvalidParameterError(
                f"interventions contains only {trials.OPEN}, which changes walls and does not show "
                f"whether a cell is used; add at least one of {others}"
            )
        _chosen("probes", raw.probes, PROBES)
        decoders = [whole(each, "decoders", least=1, most=16) for each in raw.decoders]
        numbers = {
            name: whole(getattr(raw, name), name, least=declared["least"], most=declared["most"])
            for name, declared in ((each.name, each.metadata) for each in fields(cls))
            if "least" in declared
        }
        return cls(
            layers=layers,
            positions=checked_positions(raw.positions),
            probes=tuple(dict.fromkeys(raw.probes)),
            parts=_chosen("parts", raw.parts, PARTS),
            interventions=interventions,
            decoders=tuple(dict.fromkeys(decoders)),
            **numbers,
        )

    @property
    def chosen_layers(self) -> tuple[int, ...]:
        """Layers as a tuple, once chosen for a network."""
        return tuple(self.layers or ())

    def to_json(self) -> dict[str, Any]:
        """Return the options as JSON values."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in vars(self).items()}


def _chosen(option: str, names: Sequence[str], known: Collection[str]) -> tuple[str, ...]:
    """Validate names and return them in the order of the known ones."""
    if not names:
        raise InvalidParameterError(f"{option} is empty, expected at least one")
    for name in names:
        if name not in known:
            raise InvalidParameterError(
                f"{option} contains {name!r}{did_you_mean(name, known, quoted=True)}; expected "
                f"names from {', '.join(known)}"
            )
    return tuple(name for name in known if name in names)


# --- Run ------------------------------------------------------------------------------------------
FIRST_DECISIONS = "first-decisions"  # subfolder of the probe with their activations
_FOLDS = 5
_PICTURES = 8
# Width of a plan decoder: as published, and for models with a narrower stream.
_WIDTH, _NARROW = 1024, 256


class DecodedWorlds(NamedTuple):
    """Cross-fitted maps of all decisions at one place, and control maps."""

    scenes: Scenes
    maps: decoded_maps.DecodedMaps
    controls: Mapping[str, decoded_maps.Maps]
    left_out: Mapping[str, str]


@dataclass(frozen=True, eq=False)
class ProbeRun:
    """Inputs of the stages of a probe; values that several stages need are computed once."""

    stages: Stages
    samples: tuple[Sample, ...]
    network: Network
    options: ProbeOptions  # for the network, with positions that some decision has
    trajectories: Sequence[Trajectory] = ()
    left_out: dict[str, str] = field(default_factory=dict)  # reasons by name of what is missing
    # "layer", "position" and "probe" of the decoded maps, set by `map_stage`.
    chosen: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def captures(self) -> Captured:
        """Activations of all decisions."""
        return captured(
            self.samples,
            self.network,
            self.stages.folder,
            layers=self.options.chosen_layers,
            positions=self.options.positions,
            seed=self.options.seed,
            tell=self.stages.tell,
        )

    @cached_property
    def use_samples(self) -> list[Sample]:
        """Distinct decisions with a needed uncertain cell, alternating between grids."""
        uncertain = uncertain_cells(scenes_of(self.samples))
        by_grid: dict[str, dict[tuple[int, ...], Sample]] = {}
        for sample in self.samples:
            cells = target_cells(sample.world, sample.state)
            if any(each.needed and uncertain[sample.world.shape][each.cell] for each in cells):
                by_grid.setdefault(content(sample.world), {}).setdefault(sample.prompt, sample)
        if not by_grid:
            raise InvalidParameterError(
                f"none of {len(self.samples)} decisions has an uncertain cell on every shortest "
                f"path; use more grids, or mazes of complexity 0.4 or more"
            )
        draws = Draws("decisions that are asked again", self.options.seed)
        grids = sorted(by_grid)
        draws.shuffle(grids)
        listed = [list(by_grid[grid].values()) for grid in grids]
        for each in listed:
            draws.shuffle(each)
        rounds = chain.from_iterable(zip_longest(*listed))
        return list(islice(filter(None, rounds), self.options.use_decisions))

    @cached_property
    def worlds(self) -> DecodedWorlds:
        """Decoded worlds at the chosen place."""
        return self.worlds_at(self.chosen["position"])

    def worlds_at(self, position: str) -> DecodedWorlds:
        """Decode the worlds at the chosen layer and a position."""
        reading, seed = self.captures.reading(self.chosen["layer"], position), self.options.seed
        parts = folds(reading.scenes, _FOLDS, seed=seed)
        posterior = probing.cross_fitted(probe(self.chosen["probe"]), reading, parts, seed=seed)
        maps = decoded_maps.decoded(posterior, reading.scenes)
        left_out: dict[str, str] = {}
        try:
            controls = decoded_maps.map_controls(maps, reading.scenes, seed=seed)
        except InvalidParameterError as cause:
            # Only maps of another grid require a partner for each grid.
            controls = {decoded_maps.EMPTY_ROOM: decoded_maps.empty_rooms(reading.scenes)}
            others = (decoded_maps.ANOTHER, decoded_maps.ANOTHER_WALLS)
            left_out = dict.fromkeys(others, str(cause))
        return DecodedWorlds(reading.scenes, maps, controls, left_out)

    def decoding(self, name: str, make: Callable[[], Any], position: str = "") -> Any:
        """Return the value of a stage based on decoded maps, by default at the chosen position."""
        place = f"{self.chosen['probe']}/layer-{self.chosen['layer']}"
        position = position or self.chosen["position"]
        return self.stages.value(name.format(f"{place}/{position}"), make)


# --- Maps -----------------------------------------------------------------------------------------
def map_stage(run: ProbeRun) -> dict[str, Any]:
    """Probe maps at all places, choose the place to decode, and explain moves by its maps."""
    captures, options = run.captures, run.options
    parts = split(captures.scenes.where(captures.rows), seed=options.seed)

    def compared(name: str, layer: int, position: str) -> dict[str, Any]:
        reading = captures.reading(layer, position)
        others = captures.alternatives(layer, position)
        result = probing.compare(
            probe(name), reading, parts, alternatives=others, seed=options.seed
        )
        # Gain over position alone, in bits per cell, for walls in uncertain cells of validation
        # grids. Choosing among many places on the scored grids would bias their score.
        train, validation = reading.where(parts.train), reading.where(parts.validation)
        predicted, position_alone = (
            fit.posterior(validation.activations, validation.scenes.shapes)
            for fit in (result.fitted, PositionOnly().fit(train, validation, seed=options.seed))
        )
        cells = probing.scored_cells(train.scenes, validation.scenes)
        uncertain = {probing.UNCERTAIN: cells[probing.UNCERTAIN]}
        rows = probing.scores(predicted, position_alone, validation.scenes, uncertain)
        gains = [r.gain_bits.value for r in rows if r.cells in uncertain and r.label == "wall"]
        maps, places = [], []
        for row in result.rows:
            named = {"layer": layer, "position": position, "probe": row.probe}
            named |= {"control": row.control}
            fit = {"parameters": row.parameters, "scored": row.scored}
            maps += [named | score.to_json() | fit for score in row.scores]
            for each in row.places:
                errors = {"exact": each.exact, "distance": each.distance}
                places.append(named | {"class": each.label} | json_value(errors))
        return {
            "maps": maps,
            "places": places,
            # Without uncertain cells there is no gain to choose by.
            "validation_gain": gains[0] if gains and np.isfinite(gains[0]) else -1.0 * len(CLASSES),
            "left_out": dict(result.left_out),
        }

    best = -np.inf
    out: dict[str, Any] = {"maps": [], "places": [], "chosen": run.chosen}
    for name, layer, position in product(options.probes, options.chosen_layers, options.positions):
        key = f"maps/{name}/layer-{layer}/{position}"
        value = run.stages.value(key, partial(compared, name, layer, position))
        out["maps"] += value["maps"]
        out["places"] += value["places"]
        # All places share one split of the grids and therefore these reasons.
        run.left_out.update(value.get("left_out", {}))
        # Ties are resolved in favour of the lowest layer.
        if value["validation_gain"] > best:
            best = value["validation_gain"]
            run.chosen.update(layer=layer, position=position, probe=name)
    return out | {"explained": _explained(run)}


def _explained(run: ProbeRun) -> dict[str, Any]:
    """Return how well maps of the chosen layer explain moves, at the chosen and other positions."""
    chosen = run.chosen["position"]

    def at(position: str) -> dict[str, Any]:
        worlds = run.worlds if position == chosen else run.worlds_at(position)
        parts = decoded_maps.explained(worlds.maps, worlds.controls, worlds.scenes)
        out = {part.states: part.to_json() for part in parts}
        missing = {"left_out": dict(worlds.left_out)} if worlds.left_out else {}
        return out["all"] | {"detour": out.get("detour"), "reasons": worlds.maps.counts} | missing

    others: dict[str, dict[str, Any]] = {
        position: run.decoding("explained/{}", partial(at, position), position)
        for position in run.options.positions
    }
    value = others.pop(chosen)
    run.left_out.update(value.get("left_out", {}))
    return value | {"other_positions": others}


def picture_stage(run: ProbeRun, use: Mapping[str, Any] | None) -> Any:
    """Return pictures of states, up to half of them where truth and decoded map disagree."""
    places = [] if use is None else use["all_places"]["places"]
    flips = {(*each["shape"], *each["cell"]): each["flips"] / each["decisions"] for each in places}

    def picture(number: int) -> dict[str, Any]:
        scenes, maps, *_ = run.worlds
        sample = run.samples[int(run.captures.rows[number])]
        world, own = scenes.worlds[number], maps.worlds[number]
        drawn = symbols_at(world, scenes.states[number])
        decoded = () if own is None else symbols_at(own, State(own.start))
        shape = world.shape
        rows, columns = map(range, shape)
        wall = maps.posterior[number, ..., WALL].tolist()
        return {
            "walk": sample.walk,
            "step": sample.step,
            "truth": list(map("".join, drawn)),
            "decoded": list(map("".join, decoded)),
            "wall": [[round(wall[row][column], 4) for column in columns] for row in rows],
            "used": [[flips.get((*shape, row, column)) for column in columns] for row in rows],
            "action": scenes.actions[number],
            "optimal": np.flatnonzero(scenes.optimal[number]).tolist(),
            "optimal_decoded": np.flatnonzero(maps.optimal[number]).tolist(),
        }

    def make() -> Any:
        scenes, maps, *_ = run.worlds
        order = list(range(len(scenes)))
        Draws("states to be shown", run.options.seed).shuffle(order)
        differ = (scenes.optimal != maps.optimal).any(axis=1)
        # Agreeing states show little; disagreeing states alone would not be representative.
        chosen: dict[int, int] = {}  # numbers of states by grid
        for kind, most in ((True, _PICTURES // 2), (False, _PICTURES)):
            for number in order:
                if differ[number] == kind and len(chosen) < most:
                    chosen.setdefault(int(scenes.grids[number]), number)
        return [picture(number) for number in chosen.values()]

    return run.decoding("states/{}/used" if places else "states/{}", make)


# --- Plans ----------------------------------------------------------------------------------------
def plan_stage(run: ProbeRun) -> dict[str, Any]:
    """Predict plans by linear heads at all places and by decoders at the last layer."""
    options, network, stages = run.options, run.network, run.stages
    layers, positions, seed = options.chosen_layers, options.positions, options.seed
    plans = plans_of(run.samples)
    first = tuple(sample for sample in run.samples if sample.step == 0)
    activations = capture(
        first,
        network,
        stages.folder / FIRST_DECISIONS,
        layers=layers,
        positions=tuple(dict.fromkeys([*positions, *along()])),
        progress=stages.tell,
    )
    at = rows_of(activations, plans)
    stated = stated_plans(first, network.local.tokenizer, plans)

    def read(reader: PlanReader, layers: Sequence[int], parts: int) -> Any:
        places = list(product(layers, positions))
        table = read_plans(
            at, plans, places, readers=[reader], stated=stated, parts=parts, seed=seed
        )
        return json_value({"plan": table.plan, "left_out": table.left_out})

    def read_along() -> Any:
        result = decided(at, plans, layers=layers[-1:], seed=seed)
        return json_value({"decided": result.decided, "settled": result.settled})

    width = _WIDTH if network.width >= _WIDTH else _NARROW
    # Training a decoder takes minutes: only a quarter of the grids is scored, as published.
    readers: list[tuple[PlanReader, Sequence[int], int]] = [(LinearSteps(), layers, 5)]
    readers += [(PlanDecoder(each, width=width), layers[-1:], 1) for each in options.decoders]
    rows = []
    for reader, at_layers, parts in readers:
        value = stages.value(f"plan/{reader.name}", partial(read, reader, at_layers, parts))
        rows += value["plan"]
        run.left_out.update({f"plan: {name}": why for name, why in value["left_out"].items()})
    return {"plan": rows, **stages.value("plan/decided", read_along)}


# --- Use of cells ---------------------------------------------------------------------------------
DOSES = (0.5, 1.0, 2.0, 4.0)
SALT = "0"


def use_stage(run: ProbeRun) -> dict[str, Any]:
    """Measure the use of cells by interventions; answers are cached in the folder "use"."""

    def make() -> Any:
        use = causal_use(
            run.use_samples,
            run.network,
            layers=run.options.chosen_layers,
            families=run.options.interventions,
            doses=DOSES,
            draws=run.options.draws,
            salt=SALT,
            seed=run.options.seed,
            keep=run.stages.folder / "use",
            progress=run.stages.tell,
        )
        outcomes = [*use.outcomes_of_screen, *use.outcomes]
        counted = [each for each in outcomes if each.counts and each.cell.needed]
        fields_of_use = {
            "rows": used_rows(use),
            "verdict": use.verdict,
            "doses": use.doses,
            "tried": [(each.grid, each.shape, each.cell.cell, each.flipped) for each in counted],
            "all_places": believed.used_cells(outcomes),
        }
        return json_value(fields_of_use)

    value = run.stages.value("use", make)
    opened = any(row["intervention"].startswith(trials.OPEN) for row in value["rows"])
    if trials.OPEN in run.options.interventions and not opened:
        run.left_out[trials.OPEN] = (
            "neither half, or only one, has decisions with a wall that is open in other grids and "
            "would open a shorter path; use more grids"
        )
    fields = {"use": value["rows"], "verdict": value["verdict"], "doses": value["doses"]}
    return fields | stream_stage(run)


def used_rows(use: Use) -> list[UsedRow]:
    """Return the interventions of both halves, each with the null of the highest upper bound."""

    def used_row(
        half: str, row: trials.UseRow, nulls: Sequence[trials.UseRow] = (), chosen: bool = False
    ) -> UsedRow:
        others = [each.needed.flips for each in nulls if each is not row]
        highest = max(others, key=lambda e: e.interval[1] if e.interval else -1.0, default=None)
        values = vars(row) | vars(row.needed)
        unneeded, needed = values.pop("unneeded"), values.pop("needed")
        return UsedRow(
            half=half,
            chosen=chosen,
            cells=needed.flips.n,
            unneeded_flips=unneeded.flips,
            null_flips=None if row.is_null else highest,
            **values,
        )

    nulls = [row for row in use.screened if row.is_null]
    rows = [used_row(trials.SCREEN, row, nulls) for row in use.screened]
    listed = set()
    for family in use.families:
        # Interventions on walls and on open cells are not nulls of each other.
        opens = family.row.intervention.startswith(trials.OPEN)
        nulls = [*family.nulls, *(() if opens else use.nulls)]
        is_chosen = family.row.place == use.confirmed.place
        rows.append(used_row(trials.CONFIRM, family.row, nulls, is_chosen))
        for null in family.nulls:
            if null.place not in listed:
                listed.add(null.place)
                rows.append(used_row(trials.CONFIRM, null))
    return rows + [used_row(trials.CONFIRM, null) for null in use.nulls if null.place not in listed]


def believed_stage(run: ProbeRun, use: Mapping[str, Any]) -> Any:
    """Measure the MEG of the walks in the true, the decoded and the believed world."""

    def make() -> dict[str, Any]:
        worlds, captures = run.worlds, run.captures
        caps = {made_of(walk).name: walk.cap for walk in run.trajectories}
        numbers = {name: number for number, name in enumerate(caps)}
        samples = [run.samples[row] for row in captures.rows.tolist()]
        steps = [(numbers[each.walk], each.step, caps[each.walk]) for each in samples]
        tried = [
            believed.CellTrial(grid, tuple(shape), Cell(*cell), flipped)
            for grid, shape, cell, flipped in use["tried"]
        ]
        uncertain = uncertain_cells(captures.scenes)
        possible = believed.believed_maps(worlds.scenes, tried, uncertain, seed=run.options.seed)
        # The decoded map is listed with the controls of the believed world.
        maps = {"decoded": worlds.maps, **worlds.controls}
        controls = {name: each.worlds for name, each in maps.items()}
        walk_steps = believed.WalkSteps(*np.array(steps).T)
        meg = believed.believed_meg(worlds.scenes, walk_steps, possible, controls)
        # Decisions at which at least one believed map differs from the true one.
        changed = [
            any(each[row] != world for each in possible.maps)
            for row, world in enumerate(worlds.scenes.worlds)
        ]
        result = meg.to_json() | {"changed": float(np.mean(changed))}
        fits = {"meg_decoded": result["controls"].pop("decoded")}
        fits |= {name: result[name] for name in ("meg_true", "meg_believed")}
        # Each is an estimate in nats per walk, with further fields.
        fits = {name: fit["nats"] | fit for name, fit in fits.items()}
        beyond = {"beyond_decoded": result["beyond"].pop("decoded")}
        return result | fits | beyond | {"places": use["all_places"]["counts"]}

    return run.decoding("believed/{}", make)


# --- Spans, exchanged streams and subspaces -------------------------------------------------------
# Tokens at which streams are exchanged: the name of the moved object and the end of the prompt; all
# tokens if the grid is turned.
_POSITIONS = {
    patching.GOAL: ("pre/goal", "pre/end"),
    patching.AGENT: ("pre/agent", "pre/end"),
    patching.ISOMETRY: ("pre/end", patching.EVERY_TOKEN),
}
_RANK, _STEPS = 4, 60
_SHARE = 8  # at most 1/8 of the stream's dimensions are probe directions: more fit any subspace
# Decisions of the screening half for moved goals and agents, used to choose a place and to learn a
# subspace in one pass with gradients.
_SCREENED = 24
_READ = 400  # number of decisions to which a probe of the place is fitted


def stream_stage(run: ProbeRun) -> dict[str, list[Any]]:
    """Hide cells from spans, exchange streams with other questions, and learn subspaces."""
    stages, network, seed = run.stages, run.network, run.options.seed

    def stage(key: str, name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        # The reason for a missing result is stored like a result.
        def make_or_reason() -> dict[str, Any]:
            try:
                return make()
            except InvalidParameterError as cause:
                return {"reason": str(cause)}

        value: dict[str, Any] = stages.value(key, make_or_reason)
        if "reason" in value:
            run.left_out[name] = value["reason"]
        return {"rows": [], "carrier": None} | value

    def spans() -> dict[str, Any]:
        folder = stages.folder / "spans"
        listed = look_ups(
            run.use_samples, network, salt=SALT, seed=seed, keep=folder, progress=stages.tell
        )
        return {"rows": json_value(listed)}

    def of_half(half: str, samples: Sequence[Sample]) -> list[Sample]:
        return [each for each in samples if trials.half_of(each.world, SALT) == half]

    def halves(kind: str) -> dict[str, patching.PairAnswers]:
        screened = of_half(trials.SCREEN, run.use_samples)[:_SCREENED]
        fewer = [*screened, *of_half(trials.CONFIRM, run.use_samples)]
        return patching.answers_by_half(network, fewer, kind, SALT, seed)

    def exchanged(kind: str) -> dict[str, Any]:
        places = patching.stream_places(network, _POSITIONS[kind], run.options.chosen_layers)
        rows = patching.moved(halves(kind), places, stages.tell)
        *_, confirmed, ceiling = rows
        single, carrier = patching.best_layer(rows), None
        if patching.follows(confirmed) and single is not None:
            carrier = [single.layer, single.position]
        elif patching.follows(ceiling):
            # Moves follow the other question but no stream after the embedding: the model reads
            # the moved object from the embedding of its own token.
            carrier = [0, _POSITIONS[kind][0]]
        return {"rows": json_value(rows), "carrier": carrier}

    def learnt(kind: str, carrier: list[Any] | None) -> dict[str, Any]:
        if carrier is None:
            raise InvalidParameterError(
                f"moves follow the {kind} of another question at no confirmed place"
            )
        layer, position = carrier
        place = patching.StreamPlace(position, (layer,), layer)
        row, basis = patching.subspace(
            network, halves(kind), place, rank=_RANK, steps=_STEPS, seed=seed
        )
        # The probe of the place is fitted to grids outside the confirmation half.
        listed = of_half(trials.SCREEN, run.samples)
        Draws("decisions that a probe of places reads", seed).shuffle(listed)
        most = network.width // _SHARE
        directions = patching.place_directions(listed[:_READ], network, place, kind, most)
        if directions is not None:
            degrees, chance = patching.angle(basis, directions, seed=seed)
            row = replace(row, degrees=degrees, chance=chance)
        return {"rows": [row.to_json()]}

    out: dict[str, list[Any]] = {"spans": [], "moved": [], "subspaces": []}
    if trials.KNOCK_OUT in run.options.interventions:
        out["spans"] = stage("use/spans", "spans", spans)["rows"]
    for kind in patching.KINDS if trials.PATCH in run.options.interventions else ():
        value = stage(f"use/moved/{kind}", f"{kind} moved", partial(exchanged, kind))
        out["moved"] += value["rows"]
        if kind != patching.ISOMETRY:
            make = partial(learnt, kind, value["carrier"])
            value = stage(f"use/subspace/{kind}", f"subspace of the {kind}", make)
            out["subspaces"] += value["rows"]
    return out
