"""Stages that decode: captures, maps, decoded worlds, pictures and plans."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._files import json_value
from goalmeter._types import FloatArray, IntArray
from goalmeter.gridworld.conversions import symbols_at
from goalmeter.gridworld.generators import Draws
from goalmeter.gridworld.planner import State
from goalmeter.gridworld.world import Cell
from goalmeter.navigation.plan import made_of
from goalmeter.navigation.trajectories import Trajectory
from goalmeter.representation.activations import Activations
from goalmeter.representation.beliefs import decoded_maps
from goalmeter.representation.beliefs.decoded_maps import DecodedMaps, Maps
from goalmeter.representation.beliefs.meg import WalkSteps
from goalmeter.representation.capture import alternatives_of, capture, untrained
from goalmeter.representation.network import Network
from goalmeter.representation.options import ProbeOptions
from goalmeter.representation.plans.comparison import along, decided, read_plans, rows_of
from goalmeter.representation.plans.readers import (
    LinearSteps,
    PlanDecoder,
    PlanReader,
    plans_of,
    stated_plans,
)
from goalmeter.representation.probes import comparison as probing
from goalmeter.representation.probes.protocol import PositionOnly, Reading
from goalmeter.representation.probes.registry import probe
from goalmeter.representation.replay import Sample, scenes_of
from goalmeter.representation.result_rows import (
    DecidedRow,
    MapRow,
    PlaceRow,
    PlanRow,
    SettledRow,
    StatePicture,
    rows_from,
)
from goalmeter.representation.scenes import CLASSES, WALL, Scenes, Shape, Split, folds, split
from goalmeter.runs import Stages
from goalmeter.runs.progress import Tell

# Folders of activations in the folder of a probe.
ACTIVATIONS, RANDOM_WEIGHTS, FIRST_DECISIONS = "activations", "random-weights", "first-decisions"
_FOLDS = 5
_PICTURES = 8
# The published width of a plan decoder; one of a narrow stream needs no more than the second.
_WIDTH, _NARROW = 1024, 256


@dataclass(frozen=True)
class ProbeRun:
    """What the stages of a probe work on."""

    stages: Stages
    samples: tuple[Sample, ...]
    network: Network
    options: ProbeOptions  # for the network, with positions that some decision has
    left_out: dict[str, str] = field(default_factory=dict)  # why something is missing, by its name


@dataclass(frozen=True)
class Captured:
    """Activations of the decisions of a run, of the model and of random weights."""

    samples: tuple[Sample, ...]  # [N]
    scenes: Scenes  # [N]
    trained: Activations
    replay_random: Callable[[], Activations]
    rows: IntArray  # numbers of the decisions that have every position

    @cached_property
    def random(self) -> Activations:
        """Activations of the same architecture with random weights, captured on first use."""
        return self.replay_random()

    def reading(self, layer: int, position: str) -> Reading:
        """Return activations at a place, tokens concatenated, of decisions with every position."""
        rows = self.trained.at(layer, position)[self.rows]
        return Reading(rows.reshape(len(rows), -1), self.scenes.where(self.rows))

    def alternatives(self, layer: int, position: str) -> dict[str, FloatArray]:
        """Return activations of controls at a place, by name."""
        return alternatives_of(self.trained, layer, position, random=self.random, rows=self.rows)


def captured(
    samples: tuple[Sample, ...],
    network: Network,
    folder: Path,
    *,
    layers: Sequence[int],
    positions: Sequence[str],
    seed: int,
    tell: Tell,
) -> Captured:
    """Replay all decisions through the model and, on first use, through random weights."""
    of_random = folder / RANDOM_WEIGHTS
    capture_all = partial(capture, samples, positions=positions, progress=tell)
    trained = capture_all(
        network, folder / ACTIVATIONS, layers=[0, *layers], later={of_random: layers}
    )

    def replay_random() -> Activations:
        # Such a network is made and hashed even if all its activations are stored: some seconds.
        return capture_all(untrained(network, seed=seed), of_random, layers=layers)

    complete = np.array([not set(positions) & set(row.lacks) for row in trained.rows])
    if not complete.any():
        raise InvalidParameterError(
            f"none of {len(samples)} decisions has all of the positions {', '.join(positions)}; "
            f"choose fewer"
        )
    rows = np.flatnonzero(complete)
    return Captured(samples, scenes_of(samples), trained, replay_random, rows)


# --- Maps -----------------------------------------------------------------------------------------
def map_stage(run: ProbeRun, captures: Captured) -> dict[str, Any]:
    """Return the rows of all places, and the place whose maps are decoded ("chosen").

    That place is chosen by what the probe gains on validation grids, not on the grids that it is
    scored on, so that the best of many is not taken for its luck.
    """
    options = run.options
    parts = split(captures.scenes.where(captures.rows), seed=options.seed)
    maps: list[MapRow] = []
    places: list[PlaceRow] = []
    gains: dict[tuple[str, int, str], float] = {}
    for name in options.probes:
        for layer in options.chosen_layers:
            for position in options.positions:
                value = run.stages.value(
                    f"maps/{name}/layer-{layer}/{position}",
                    partial(_compared, captures, name, layer, position, parts, options.seed),
                )
                maps += rows_from(MapRow, value["maps"])
                places += rows_from(PlaceRow, value["places"])
                gains[name, layer, position] = value["validation_gain"]
                # Grids are split in the same way everywhere, so the reasons are the same too.
                run.left_out.update(value.get("left_out", {}))
    # The first of equals, which is of the lowest layer.
    name, layer, position = max(gains, key=lambda place: gains[place])
    chosen = {"layer": layer, "position": position, "probe": name}
    return {"maps": tuple(maps), "places": tuple(places), "chosen": chosen}


def _compared(
    captures: Captured, name: str, layer: int, position: str, parts: Split, seed: int
) -> dict[str, Any]:
    reading = captures.reading(layer, position)
    others = captures.alternatives(layer, position)
    result = probing.compare(probe(name), reading, parts, alternatives=others, seed=seed)
    maps = [
        MapRow(
            layer=layer,
            position=position,
            probe=row.probe,
            control=row.control,
            parameters=row.parameters,
            scored=row.scored,
            **vars(score),
        )
        for row in result.rows
        for score in row.scores
    ]
    places = [
        PlaceRow(layer, position, row.probe, row.control, each.label, each.exact, each.distance)
        for row in result.rows
        for each in row.places
    ]
    # Bits per cell over position alone, of walls in uncertain cells of validation grids.
    train, validation = reading.where(parts.train), reading.where(parts.validation)
    uncertain = probing.UNCERTAIN
    ours, position_alone = (
        fit.posterior(validation.activations, validation.scenes.shapes)
        for fit in (result.fitted, PositionOnly().fit(train, validation, seed=seed))
    )
    rows = probing.scores(
        ours,
        position_alone,
        validation.scenes,
        {uncertain: probing.scored_cells(train.scenes, validation.scenes)[uncertain]},
    )
    gains = [r.gain_bits.value for r in rows if (r.cells, r.label) == (uncertain, "wall")]
    return {
        "maps": json_value(maps),
        "places": json_value(places),
        # Where no cell is uncertain there is nothing to choose by.
        "validation_gain": gains[0] if gains and np.isfinite(gains[0]) else -float(len(CLASSES)),
        "left_out": dict(result.left_out),
    }


# --- Decoded worlds -------------------------------------------------------------------------------
class DecodedWorlds(NamedTuple):
    """The maps of all decisions at one place, each by a fit to other grids, and control maps."""

    scenes: Scenes
    maps: DecodedMaps
    controls: Mapping[str, Maps]
    left_out: Mapping[str, str]


@dataclass(frozen=True, eq=False)
class Decoding:
    """The maps at the layer that was chosen, decoded on first use."""

    captures: Captured
    trajectories: Sequence[Trajectory]
    chosen: Mapping[str, Any]  # "layer", "position" and "probe"
    seed: int

    def key(self, stage: str, position: str | None = None) -> str:
        """Return the cache key of a stage; it changes with the probe and layer."""
        chosen = self.chosen
        position = position or chosen["position"]
        return f"{stage}/{chosen['probe']}/layer-{chosen['layer']}/{position}"

    @cached_property
    def worlds(self) -> DecodedWorlds:
        """Decoded worlds at the chosen place."""
        return self.at(self.chosen["position"])

    def at(self, position: str) -> DecodedWorlds:
        """Decode the worlds at a position."""
        reading = self.captures.reading(self.chosen["layer"], position)
        scenes = reading.scenes
        parts = folds(scenes, _FOLDS, seed=self.seed)
        fits = probe(self.chosen["probe"])
        posterior = probing.cross_fitted(fits, reading, parts, seed=self.seed)
        maps = decoded_maps.decoded(posterior, scenes)
        left_out: dict[str, str] = {}
        try:
            controls = decoded_maps.map_controls(maps, scenes, seed=self.seed)
        except InvalidParameterError as cause:
            # Only maps of another grid need one for each.
            controls = {decoded_maps.EMPTY_ROOM: Maps.of(decoded_maps.empty_rooms(scenes))}
            others = (decoded_maps.ANOTHER, decoded_maps.ANOTHER_WALLS)
            left_out = dict.fromkeys(others, str(cause))
        return DecodedWorlds(scenes, maps, controls, left_out)

    @property
    def walk_steps(self) -> WalkSteps:
        """Walk, step and cap of each decision that has every position."""
        caps = {made_of(trajectory).name: trajectory.cap for trajectory in self.trajectories}
        numbers = {name: number for number, name in enumerate(caps)}
        samples = [self.captures.samples[row] for row in self.captures.rows.tolist()]
        rows = [(numbers[each.walk], each.step, caps[each.walk]) for each in samples]
        return WalkSteps(*np.array(rows).T)


def explained_stage(run: ProbeRun, decoding: Decoding) -> dict[str, Any]:
    """Return what the maps of the chosen layer explain: at the chosen position, and at others."""
    chosen = decoding.chosen["position"]

    def at(position: str) -> dict[str, Any]:
        worlds = decoding.worlds if position == chosen else decoding.at(position)
        parts = decoded_maps.explained(worlds.maps, worlds.controls, worlds.scenes)
        out = {part.states: part.to_json() for part in parts}
        missing = {"left_out": dict(worlds.left_out)} if worlds.left_out else {}
        return out["all"] | {"detour": out.get("detour"), "reasons": worlds.maps.counts} | missing

    others: dict[str, dict[str, Any]] = {
        position: run.stages.value(decoding.key("explained", position), partial(at, position))
        for position in run.options.positions
    }
    value = others.pop(chosen)
    run.left_out.update(value.get("left_out", {}))
    return value | {"other_positions": others}


# --- Pictures -------------------------------------------------------------------------------------
# The share of moves that flip when a cell at a place is changed, by the shape of the world.
UsedPlaces = Mapping[Shape, Mapping[Cell, float]]


def picture_stage(run: ProbeRun, decoding: Decoding, used: UsedPlaces) -> tuple[StatePicture, ...]:
    """Draw states of different grids, half of them where truth and decoded map disagree.

    Where they agree there is little to see, and where they disagree is no fair sample, so a page
    shows both. States without the use of cells are stored apart from those with it.
    """

    def make() -> Any:
        scenes, maps = decoding.worlds.scenes, decoding.worlds.maps
        order = list(range(len(scenes)))
        Draws("states to be shown", decoding.seed).shuffle(order)
        differ = (scenes.optimal != maps.optimal).any(axis=1)
        chosen: dict[int, int] = {}
        for kind, most in ((True, _PICTURES // 2), (False, _PICTURES)):
            taken = set(chosen.values())
            for number in order:
                grid = int(scenes.grids[number])
                if differ[number] == kind and grid not in taken and len(chosen) < most:
                    taken.add(grid)
                    chosen[number] = grid
        return json_value([_picture(decoding, used, number) for number in chosen])

    key = decoding.key("states")
    return rows_from(StatePicture, run.stages.value(f"{key}/used" if used else key, make))


def _picture(decoding: Decoding, used: UsedPlaces, number: int) -> StatePicture:
    scenes, maps = decoding.worlds.scenes, decoding.worlds.maps
    sample = decoding.captures.samples[int(decoding.captures.rows[number])]
    world, inner = scenes.worlds[number], maps.worlds[number]
    rows, columns = world.shape
    places = used.get(world.shape, {})
    drawn = [symbols_at(world, scenes.states[number])]
    drawn += [] if inner is None else [symbols_at(inner, State(inner.start))]
    truth, *decoded = (tuple("".join(row) for row in symbols) for symbols in drawn)
    wall = maps.posterior[number, :rows, :columns, WALL]
    return StatePicture(
        walk=sample.walk,
        step=sample.step,
        truth=truth,
        decoded=decoded[0] if decoded else (),
        wall=tuple(tuple(round(float(p), 4) for p in row) for row in wall),
        used=tuple(
            tuple(places.get(Cell(row, column)) for column in range(columns)) for row in range(rows)
        ),
        action=scenes.actions[number],
        optimal=tuple(np.flatnonzero(scenes.optimal[number]).tolist()),
        optimal_decoded=tuple(np.flatnonzero(maps.optimal[number]).tolist()),
    )


# --- Plans ----------------------------------------------------------------------------------------
def plan_stage(run: ProbeRun) -> dict[str, Any]:
    """Read plans at all places by linear heads and at the last layer by decoders."""
    options, network = run.options, run.network
    layers, positions, seed = options.chosen_layers, options.positions, options.seed
    plans = plans_of(run.samples)
    first = tuple(sample for sample in run.samples if sample.step == 0)
    activations = capture(
        first,
        network,
        run.stages.folder / FIRST_DECISIONS,
        layers=layers,
        positions=tuple(dict.fromkeys([*positions, *along()])),
        progress=run.stages.tell,
    )
    at = rows_of(activations, plans)
    stated = stated_plans(first, network.local.tokenizer, plans)

    def read(reader: PlanReader, layers: Sequence[int], parts: int) -> Any:
        places = [(layer, name) for layer in layers for name in positions]
        table = read_plans(
            at, plans, places, readers=[reader], stated=stated, parts=parts, seed=seed
        )
        return json_value({"plan": table.plan, "left_out": table.left_out})

    def read_along() -> Any:
        result = decided(at, plans, layers=layers[-1:], seed=seed)
        return json_value({"decided": result.decided, "settled": result.settled})

    width = _WIDTH if network.width >= _WIDTH else _NARROW
    # A decoder is trained for minutes, so a quarter of the grids is scored, as published.
    readers: list[tuple[PlanReader, Sequence[int], int]] = [(LinearSteps(), layers, 5)]
    readers += [(PlanDecoder(each, width=width), layers[-1:], 1) for each in options.decoders]
    rows: list[PlanRow] = []
    for reader, at_layers, parts in readers:
        value = run.stages.value(f"plan/{reader.name}", partial(read, reader, at_layers, parts))
        rows += rows_from(PlanRow, value["plan"])
        run.left_out.update({f"plan: {name}": why for name, why in value["left_out"].items()})
    value = run.stages.value("plan/decided", read_along)
    return {
        "plan": tuple(rows),
        "decided": rows_from(DecidedRow, value["decided"]),
        "settled": rows_from(SettledRow, value["settled"]),
    }
