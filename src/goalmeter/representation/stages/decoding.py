"""Stages that decode: captures, maps, decoded worlds, pictures and plans."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._files import json_value
from goalmeter._types import BoolArray, FloatArray, IntArray
from goalmeter.gridworld.conversions import symbols_at
from goalmeter.gridworld.generators import Draws
from goalmeter.gridworld.planner import State
from goalmeter.gridworld.world import ACTIONS, Cell, GridWorld
from goalmeter.navigation.plan import made_of
from goalmeter.navigation.trajectories import Trajectory
from goalmeter.representation.activations import Activations
from goalmeter.representation.beliefs.decoded_maps import (
    ANOTHER,
    ANOTHER_WALLS,
    EMPTY_ROOM,
    DecodedMaps,
    Maps,
    decoded,
    empty_rooms,
    explained,
    map_controls,
)
from goalmeter.representation.beliefs.meg import WalkSteps
from goalmeter.representation.capture import alternatives_of, capture, untrained
from goalmeter.representation.network import Network
from goalmeter.representation.options import ProbeOptions
from goalmeter.representation.plans.comparison import along, decided, read_plans, rows_of
from goalmeter.representation.plans.readers import LinearSteps, PlanDecoder, PlanReader
from goalmeter.representation.plans.targets import plans_of, stated_plans
from goalmeter.representation.probes.comparison import (
    UNCERTAIN,
    Comparison,
    compare,
    cross_fitted,
    scored_cells,
)
from goalmeter.representation.probes.protocol import PositionOnly, Reading
from goalmeter.representation.probes.registry import probe
from goalmeter.representation.probes.scores import scores
from goalmeter.representation.replay import Sample, scenes_of
from goalmeter.representation.result_rows import (
    DecidedRow,
    MapRow,
    PlaceRow,
    PlanRow,
    SettledRow,
    StatePicture,
    row_from,
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
    trained = capture(
        samples,
        network,
        folder / ACTIVATIONS,
        layers=[0, *layers],
        positions=positions,
        later={of_random: layers},
        progress=tell,
    )

    def replay_random() -> Activations:
        # Such a network is made and hashed even if all its activations are stored: some seconds.
        drawn = untrained(network, seed=seed)
        return capture(samples, drawn, of_random, layers=layers, positions=positions, progress=tell)

    complete = np.array([not set(positions) & set(row.lacks) for row in trained.rows])
    if not complete.any():
        raise InvalidParameterError(
            f"none of {len(samples)} decisions has all of the positions {', '.join(positions)}; "
            f"choose fewer"
        )
    rows = np.flatnonzero(complete)
    return Captured(samples, scenes_of(samples), trained, replay_random, rows)


# --- Maps -----------------------------------------------------------------------------------------
def map_stage(
    stages: Stages, captures: Captured, options: ProbeOptions
) -> tuple[tuple[MapRow, ...], tuple[PlaceRow, ...], dict[str, Any], dict[str, str]]:
    """Return the rows of all places, the place whose maps are decoded, and omitted controls.

    That place is chosen by what the probe gains on validation grids, not on the grids that it is
    scored on, so that the best of many is not taken for its luck.
    """
    parts = split(captures.scenes.where(captures.rows), seed=options.seed)
    maps: list[MapRow] = []
    places: list[PlaceRow] = []
    gains: dict[tuple[str, int, str], float] = {}
    left_out: dict[str, str] = {}
    for name in options.probes:
        for layer in options.layers or ():
            for position in options.positions:
                value = stages.value(
                    f"maps/{name}/layer-{layer}/{position}",
                    partial(_compared, captures, name, layer, position, parts, options.seed),
                )
                maps += [row_from(MapRow, row) for row in value["maps"]]
                places += [row_from(PlaceRow, row) for row in value["places"]]
                gains[name, layer, position] = value["validation_gain"]
                # Grids are split in the same way everywhere, so the reasons are the same too.
                left_out |= value.get("left_out", {})
    # The first of equals, which is of the lowest layer.
    name, layer, position = max(gains, key=lambda place: gains[place])
    chosen = {"layer": layer, "position": position, "probe": name}
    return tuple(maps), tuple(places), chosen, left_out


def _compared(
    captures: Captured, name: str, layer: int, position: str, parts: Split, seed: int
) -> dict[str, Any]:
    reading = captures.reading(layer, position)
    others = captures.alternatives(layer, position)
    result = compare(probe(name), reading, parts, alternatives=others, seed=seed)
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
    return {
        "maps": json_value(maps),
        "places": json_value(places),
        "validation_gain": _validation_gain(result, reading, parts, seed),
        "left_out": dict(result.left_out),
    }


def _validation_gain(result: Comparison, reading: Reading, parts: Split, seed: int) -> float:
    """Return bits per cell over position alone, of walls in uncertain cells of validation grids."""
    train, validation = reading.where(parts.train), reading.where(parts.validation)
    shapes = validation.scenes.shapes
    position = PositionOnly().fit(train, validation, seed=seed)
    cells = scored_cells(train.scenes, validation.scenes)
    rows = scores(
        result.fitted.posterior(validation.activations, shapes),
        position.posterior(validation.activations, shapes),
        validation.scenes,
        {UNCERTAIN: cells[UNCERTAIN]},
    )
    gains = [r.gain_bits.value for r in rows if (r.cells, r.label) == (UNCERTAIN, "wall")]
    # Where no cell is uncertain there is nothing to choose by.
    return gains[0] if gains and np.isfinite(gains[0]) else -float(len(CLASSES))


# --- Decoded worlds -------------------------------------------------------------------------------
@dataclass(frozen=True)
class DecodedWorlds:
    """The maps of all decisions at one place, each by a fit to other grids, and control maps."""

    scenes: Scenes
    walk_steps: WalkSteps
    maps: DecodedMaps
    controls: Mapping[str, Maps]
    left_out: Mapping[str, str] = field(default_factory=dict)


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
        return self._decoded(self.chosen["position"])

    def at(self, position: str) -> DecodedWorlds:
        """Return decoded worlds at a position; only those of the chosen one are cached."""
        return self.worlds if position == self.chosen["position"] else self._decoded(position)

    def _decoded(self, position: str) -> DecodedWorlds:
        reading = self.captures.reading(self.chosen["layer"], position)
        scenes = reading.scenes
        parts = folds(scenes, _FOLDS, seed=self.seed)
        posterior = cross_fitted(probe(self.chosen["probe"]), reading, parts, seed=self.seed)
        maps = decoded(posterior, scenes)
        left_out: dict[str, str] = {}
        try:
            controls = map_controls(maps, scenes, seed=self.seed)
        except InvalidParameterError as cause:
            # Only maps of another grid need one for each.
            controls = {EMPTY_ROOM: Maps.of(empty_rooms(scenes))}
            left_out = dict.fromkeys((ANOTHER, ANOTHER_WALLS), str(cause))
        return DecodedWorlds(scenes, self._walk_steps(), maps, controls, left_out)

    def _walk_steps(self) -> WalkSteps:
        """Walk, step and cap of each decision that has every position."""
        caps = {made_of(trajectory).name: trajectory.cap for trajectory in self.trajectories}
        numbers = {name: number for number, name in enumerate(caps)}
        samples = [self.captures.samples[row] for row in self.captures.rows.tolist()]
        return WalkSteps(
            np.array([numbers[sample.walk] for sample in samples]),
            np.array([sample.step for sample in samples]),
            np.array([caps[sample.walk] for sample in samples]),
        )


def explained_stage(stages: Stages, decoding: Decoding, positions: Sequence[str]) -> dict[str, Any]:
    """Return what the maps of the chosen layer explain: at the chosen position, and at each.

    Controls that could not be made are named under "left_out", with the reason, if there are any.
    """

    def at(position: str) -> dict[str, Any]:
        worlds = decoding.at(position)
        parts = explained(worlds.maps, worlds.controls, worlds.scenes)
        out = {part.states: part.to_json() for part in parts}
        missing = {"left_out": dict(worlds.left_out)} if worlds.left_out else {}
        return out["all"] | {"detour": out.get("detour"), "reasons": worlds.maps.counts} | missing

    by_position: dict[str, dict[str, Any]] = {
        position: stages.value(decoding.key("explained", position), partial(at, position))
        for position in positions
    }
    chosen = decoding.chosen["position"]
    others = {name: value for name, value in by_position.items() if name != chosen}
    return by_position[chosen] | {"other_positions": others}


# --- Pictures -------------------------------------------------------------------------------------
# The share of moves that flip when a cell at a place is changed, by the shape of the world.
UsedPlaces = Mapping[Shape, Mapping[Cell, float]]


def picture_stage(stages: Stages, decoding: Decoding, used: UsedPlaces) -> tuple[StatePicture, ...]:
    """Return some states; those without the use of cells are stored apart from those with it."""
    key = decoding.key("states")
    made = partial(_pictures, decoding, used)
    value = stages.value(f"{key}/used" if used else key, lambda: json_value(made()))
    return tuple(row_from(StatePicture, row) for row in value)


def _pictures(decoding: Decoding, used: UsedPlaces) -> tuple[StatePicture, ...]:
    """Draw states of different grids, half of them where truth and decoded map disagree.

    Where they agree there is little to see, and where they disagree is no fair sample, so a page
    shows both.
    """
    scenes, maps = decoding.worlds.scenes, decoding.worlds.maps
    order = list(range(len(scenes)))
    Draws("states to be shown", decoding.seed).shuffle(order)
    differ = (scenes.optimal != maps.optimal).any(axis=1)
    chosen: list[int] = []
    for kind in (True, False):
        grids = {int(scenes.grids[number]) for number in chosen}
        wanted = _PICTURES // 2 if kind else _PICTURES
        for number in order:
            grid = int(scenes.grids[number])
            if differ[number] == kind and grid not in grids and len(chosen) < wanted:
                grids.add(grid)
                chosen.append(number)
    return tuple(_picture(decoding, used, number) for number in chosen)


def _picture(decoding: Decoding, used: UsedPlaces, number: int) -> StatePicture:
    scenes, maps = decoding.worlds.scenes, decoding.worlds.maps
    sample = decoding.captures.samples[int(decoding.captures.rows[number])]
    world, inner = scenes.worlds[number], maps.worlds[number]
    rows, columns = world.shape
    places = used.get(world.shape, {})
    wall = maps.posterior[number, :rows, :columns, WALL]
    return StatePicture(
        walk=sample.walk,
        step=sample.step,
        truth=_drawn(world, scenes.states[number]),
        decoded=() if inner is None else _drawn(inner, State(inner.start)),
        wall=tuple(tuple(round(float(p), 4) for p in row) for row in wall),
        used=tuple(
            tuple(places.get(Cell(row, column)) for column in range(columns)) for row in range(rows)
        ),
        action=scenes.actions[number],
        optimal=_actions(scenes.optimal[number]),
        optimal_decoded=_actions(maps.optimal[number]),
    )


def _drawn(world: GridWorld, state: State) -> tuple[str, ...]:
    return tuple("".join(row) for row in symbols_at(world, state))


def _actions(optimal: BoolArray) -> tuple[int, ...]:
    return tuple(action for action in range(len(ACTIONS)) if optimal[action])


# --- Plans ----------------------------------------------------------------------------------------
def plan_stage(
    stages: Stages, samples: tuple[Sample, ...], network: Network, options: ProbeOptions
) -> tuple[dict[str, Any], dict[str, str]]:
    """Read plans at all places by linear heads and at the last layer by decoders.

    Returns:
        Fields of the result, and why a baseline is missing.
    """
    layers, positions, seed = options.chosen_layers, options.positions, options.seed
    plans = plans_of(samples)
    first = tuple(sample for sample in samples if sample.step == 0)
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
    rows: list[PlanRow] = []
    left_out: dict[str, str] = {}

    def read(reader: PlanReader, read_at: Sequence[int], parts: int) -> None:
        def make() -> Any:
            table = read_plans(
                at,
                plans,
                [(layer, name) for layer in read_at for name in positions],
                readers=[reader],
                stated=stated,
                parts=parts,
                seed=seed,
            )
            return json_value({"plan": table.plan, "left_out": table.left_out})

        value = stages.value(f"plan/{reader.name}", make)
        rows.extend(row_from(PlanRow, row) for row in value["plan"])
        left_out.update({f"plan: {name}": why for name, why in value["left_out"].items()})

    read(LinearSteps(), layers, parts=5)
    for depth in options.decoders:
        # A decoder is trained for minutes, so a quarter of the grids is scored, as published.
        width = _WIDTH if network.width >= _WIDTH else _NARROW
        read(PlanDecoder(depth, width=width), layers[-1:], parts=1)

    def make_decided() -> Any:
        result = decided(at, plans, layers=layers[-1:], seed=seed)
        return json_value({"decided": result.decided, "settled": result.settled})

    value = stages.value("plan/decided", make_decided)
    fields = {
        "plan": tuple(rows),
        "decided": tuple(row_from(DecidedRow, row) for row in value["decided"]),
        "settled": tuple(row_from(SettledRow, row) for row in value["settled"]),
    }
    return fields, left_out
