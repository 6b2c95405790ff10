"""Stages that decode: captures, maps, decoded worlds, pictures and plans."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError, whole
from goalmeter._files import json_value
from goalmeter._names import did_you_mean
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
from goalmeter.representation.plans.comparison import At, along, decided, read_plans, rows_of
from goalmeter.representation.plans.readers import LinearSteps, PlanDecoder
from goalmeter.representation.plans.targets import Plans, plans_of, stated_plans
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
from goalmeter.representation.replay import Sample, checked_positions, scenes_of
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
from goalmeter.representation.use.trials import FAMILIES, OPEN
from goalmeter.runs import Stages
from goalmeter.runs.progress import Tell

# --- Asked ----------------------------------------------------------------------------------------
MAPS, USE, PLAN = "maps", "use", "plan"
PARTS = (MAPS, USE, PLAN)
POSITIONS = ("pre/end", "post/end")
PROBES = ("ridge",)
# Layers of the decoder of plans; the paper has 1, 2 and 4, and shows 2.
DECODERS = (2,)
# Of larger models the paper's three places: a third and two thirds of the way, and the end.
_FEW_BLOCKS = 8


@dataclass(frozen=True)
class Asked:
    """What is to be read of the model of a run.

    Attributes:
        layers: 1 to L, each once; the embedding is read beside them, as a control.
        positions: names of tokens.
        probes: names of probes.
        parts: "maps", "use" and "plan", those that are wanted.
        interventions: those of `FAMILIES` that are tried.
        use_decisions: decisions whose prompts are asked again under interventions, at most.
        draws: answers for each of them by which the effect in nats is measured; 0 for none.
        decoders: numbers of layers of the decoders that read plans.
        seed: of everything random.
    """

    layers: tuple[int, ...]
    positions: tuple[str, ...]
    probes: tuple[str, ...]
    parts: tuple[str, ...]
    interventions: tuple[str, ...]
    use_decisions: int
    draws: int
    decoders: tuple[int, ...]
    seed: int

    def what(self) -> dict[str, Any]:
        """What decides the numbers, as JSON values."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in vars(self).items()}


def asked(
    network: Network,
    *,
    layers: Sequence[int] | None,
    positions: Sequence[str],
    probes: Sequence[str],
    parts: Sequence[str],
    interventions: Sequence[str],
    use_decisions: int,
    draws: int,
    decoders: Sequence[int],
    seed: int,
) -> Asked:
    """The record, after every part of it was looked at."""
    most = len(network.blocks)
    chosen = network.check_layers(layers if layers is not None else default_layers(most))
    if chosen == (0,):
        raise InvalidParameterError(
            f"layers are [0], the embedding, which is read as a control; expected some of 1 to "
            f"{most}"
        )
    places = checked_positions(positions)
    for each in probes:
        probe(each)
    if not probes:
        raise InvalidParameterError("probes is empty, expected at least one")
    _check_words("parts", parts, PARTS)
    _check_words("interventions", interventions, FAMILIES)
    if set(interventions) == {OPEN}:
        raise InvalidParameterError(
            f"interventions are {OPEN} alone, which is done to walls and tells of no cell whether "
            f"it is used; expected some of {', '.join(each for each in FAMILIES if each != OPEN)} "
            f"beside it"
        )
    return Asked(
        tuple(layer for layer in chosen if layer > 0),
        places,
        tuple(dict.fromkeys(probes)),
        tuple(part for part in PARTS if part in parts),
        tuple(family for family in FAMILIES if family in interventions),
        whole(use_decisions, "use_decisions", least=4, most=100_000),
        whole(draws, "draws", least=0, most=1000),
        tuple(dict.fromkeys(whole(each, "decoders", least=1, most=16) for each in decoders)),
        whole(seed, "seed", least=0, most=2**63 - 1),
    )


def _check_words(name: str, values: Sequence[str], known: Sequence[str]) -> None:
    if not values:
        raise InvalidParameterError(f"{name} is empty, expected at least one")
    for value in values:
        if value not in known:
            raise InvalidParameterError(
                f"{name} has {value!r}{did_you_mean(value, known, quoted=True)}; expected some of "
                f"{', '.join(known)}"
            )


def default_layers(blocks: int) -> tuple[int, ...]:
    """All layers of a small model; of a larger one a third, two thirds and the end of the way."""
    if blocks <= _FEW_BLOCKS:
        return tuple(range(1, blocks + 1))
    return tuple(sorted({round(blocks / 3), round(2 * blocks / 3), blocks}))


# --- Captures -------------------------------------------------------------------------------------
# Folders of the probe in which activations lie.
ACTIVATIONS, RANDOM_WEIGHTS = "activations", "random-weights"


@dataclass(frozen=True)
class Captured:
    """What was captured of the decisions of a run.

    Attributes:
        samples: the decisions, [N].
        scenes: what they look like, [N].
        trained: activations of the model.
        replay_random: replays them through the same architecture with random weights.
        rows: numbers of the decisions that have every position, so that positions can be compared.
    """

    samples: tuple[Sample, ...]
    scenes: Scenes
    trained: Activations
    replay_random: Callable[[], Activations]
    rows: IntArray

    @cached_property
    def random(self) -> Activations:
        """Activations of the same architecture with random weights, replayed when first needed."""
        return self.replay_random()

    def reading(self, layer: int, position: str) -> Reading:
        """Activations at a place, tokens side by side, of decisions that have every position."""
        return Reading(self._flat(layer, position), self.scenes.where(self.rows))

    def alternatives(self, layer: int, position: str) -> dict[str, FloatArray]:
        """What might hold as much without having learnt anything, by name."""
        return alternatives_of(self.trained, layer, position, random=self.random, rows=self.rows)

    def _flat(self, layer: int, position: str) -> FloatArray:
        rows = self.trained.at(layer, position)[self.rows]
        return rows.reshape(len(rows), -1)


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
    """Replay all decisions through the model and, when they are needed, through random weights."""
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
        # Such a network is made and hashed even if its activations are all kept: some seconds.
        return capture(
            samples,
            untrained(network, seed=seed),
            of_random,
            layers=layers,
            positions=positions,
            progress=tell,
        )

    complete = np.array([not set(positions) & set(row.lacks) for row in trained.rows])
    if not complete.any():
        raise InvalidParameterError(
            f"none of {len(samples)} decisions has all of the positions {', '.join(positions)}; "
            f"choose fewer"
        )
    return Captured(
        samples,
        scenes_of(samples),
        trained,
        replay_random,
        np.flatnonzero(complete),
    )


# --- Maps -----------------------------------------------------------------------------------------
_WALL = "wall"


def map_stage(
    stages: Stages, captures: Captured, wanted: Asked
) -> tuple[tuple[MapRow, ...], tuple[PlaceRow, ...], dict[str, Any], dict[str, str]]:
    """The rows of all places, the place whose maps are decoded, and why a control is not there.

    That place is chosen by what the probe gains on the grids that stop its fit; those that it is
    scored on have no say, so that the best of many is not taken for its luck.
    """
    seed = wanted.seed
    parts = split(captures.scenes.where(captures.rows), seed=seed)
    maps: list[MapRow] = []
    places: list[PlaceRow] = []
    gains: dict[tuple[str, int, str], float] = {}
    left_out: dict[str, str] = {}
    for name in wanted.probes:
        for layer in wanted.layers:
            for position in wanted.positions:

                def made(name: str = name, layer: int = layer, position: str = position) -> Any:
                    return _compared(captures, name, layer, position, parts, seed)

                value = stages.value(f"maps/{name}/layer-{layer}/{position}", made)
                maps += [row_from(MapRow, row) for row in value["maps"]]
                places += [row_from(PlaceRow, row) for row in value["places"]]
                gains[name, layer, position] = value["validation_gain"]
                # The parts are the same everywhere, and with them what could not be exchanged.
                left_out |= value.get("left_out", {})
    # The first of equals, which is of the lowest layer.
    name, layer, position = max(gains, key=lambda place: gains[place])
    chosen = {"layer": layer, "position": position, "probe": name}
    return tuple(maps), tuple(places), chosen, left_out


def _compared(
    captures: Captured, name: str, layer: int, position: str, parts: Split, seed: int
) -> dict[str, Any]:
    reading = captures.reading(layer, position)
    result = compare(
        probe(name),
        reading,
        parts,
        alternatives=captures.alternatives(layer, position),
        seed=seed,
    )
    maps = [
        MapRow(
            layer,
            position,
            row.probe,
            row.control,
            score.label,
            score.cells,
            score.accuracy,
            score.balanced_accuracy,
            score.auroc,
            score.gain_bits,
            row.parameters,
            row.scored,
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
    """Bits a cell over position alone, of walls in uncertain cells of the validation grids."""
    train, beside = reading.where(parts.train), reading.where(parts.validation)
    shapes = beside.scenes.shapes
    position = PositionOnly().fit(train, beside, seed=seed)
    cells = scored_cells(train.scenes, beside.scenes)
    rows = scores(
        result.fitted.posterior(beside.activations, shapes),
        position.posterior(beside.activations, shapes),
        beside.scenes,
        {UNCERTAIN: cells[UNCERTAIN]},
    )
    gains = [r.gain_bits.value for r in rows if (r.cells, r.label) == (UNCERTAIN, _WALL)]
    # Where no cell is uncertain there is nothing to choose by.
    return gains[0] if gains and np.isfinite(gains[0]) else -float(len(CLASSES))


# --- Worlds ---------------------------------------------------------------------------------------
_FOLDS = 5


@dataclass(frozen=True)
class DecodedWorlds:
    """The maps of all decisions at one place, each by a fit that saw nothing of its grid.

    Attributes:
        scenes: the decisions, [N].
        walk_steps: where each stands in its walk.
        maps: what was decoded.
        controls: maps that know nothing of what was believed, by name.
        left_out: why such a map could not be made, by its name.
    """

    scenes: Scenes
    walk_steps: WalkSteps
    maps: DecodedMaps
    controls: Mapping[str, Maps]
    left_out: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Decoding:
    """The maps at the layer that was chosen, decoded when a stage first asks for them.

    Attributes:
        captures: the activations.
        trajectories: the walks.
        chosen: {"layer", "position", "probe"} whose maps are looked at further.
        seed: of folds, fits and controls.
    """

    captures: Captured
    trajectories: Sequence[Trajectory]
    chosen: Mapping[str, Any]
    seed: int

    def key(self, stage: str, position: str | None = None) -> str:
        """What a stage is kept under: with another probe or layer chosen, it is another one.

        Args:
            stage: what is made of the maps.
            position: of the maps; None for the chosen one.
        """
        chosen = self.chosen
        position = position or chosen["position"]
        return f"{stage}/{chosen['probe']}/layer-{chosen['layer']}/{position}"

    @cached_property
    def worlds(self) -> DecodedWorlds:
        """Those at the chosen place."""
        return self._decoded(self.chosen["position"])

    def at(self, position: str) -> DecodedWorlds:
        """Those at a position; the chosen one is decoded once, the others each time."""
        return self.worlds if position == self.chosen["position"] else self._decoded(position)

    def _decoded(self, position: str) -> DecodedWorlds:
        reading = self.captures.reading(self.chosen["layer"], position)
        parts = folds(reading.scenes, _FOLDS, seed=self.seed)
        posterior = cross_fitted(probe(self.chosen["probe"]), reading, parts, seed=self.seed)
        maps = decoded(posterior, reading.scenes)
        left_out: dict[str, str] = {}
        try:
            controls = map_controls(maps, reading.scenes, seed=self.seed)
        except InvalidParameterError as cause:
            # Only what is borrowed from another grid needs one for each.
            controls = {EMPTY_ROOM: Maps.of(empty_rooms(reading.scenes))}
            left_out = dict.fromkeys((ANOTHER, ANOTHER_WALLS), str(cause))
        return DecodedWorlds(
            reading.scenes,
            _walk_steps(self.captures, self.trajectories),
            maps,
            controls,
            left_out,
        )


def explained_stage(stages: Stages, decoding: Decoding, positions: Sequence[str]) -> dict[str, Any]:
    """What the maps of the chosen layer explain: at the chosen position, and at each.

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


def _walk_steps(captures: Captured, trajectories: Sequence[Trajectory]) -> WalkSteps:
    """Where each decision that has every position stands in its walk."""
    caps = {made_of(trajectory).name: trajectory.cap for trajectory in trajectories}
    numbers = {name: number for number, name in enumerate(caps)}
    kept = [captures.samples[row] for row in captures.rows.tolist()]
    return WalkSteps(
        np.array([numbers[sample.walk] for sample in kept]),
        np.array([sample.step for sample in kept]),
        np.array([caps[sample.walk] for sample in kept]),
    )


# --- Pictures -------------------------------------------------------------------------------------
# The share of moves that flip when a cell at a place is changed, by the shape of the world.
UsedPlaces = Mapping[Shape, Mapping[Cell, float]]
STATES = 8


def picture_stage(stages: Stages, decoding: Decoding, used: UsedPlaces) -> tuple[StatePicture, ...]:
    """Some states; those that know of no use are kept apart from those that do."""
    key = decoding.key("states")

    def made() -> Any:
        return json_value(_pictures(decoding.captures, decoding.worlds, used, decoding.seed))

    value = stages.value(f"{key}/used" if used else key, made)
    return tuple(row_from(StatePicture, row) for row in value)


def _pictures(
    captures: Captured, worlds: DecodedWorlds, used: UsedPlaces, seed: int
) -> tuple[StatePicture, ...]:
    """States of different grids, drawn at random: half where truth and decoded map disagree.

    Where they agree there is little to see, and where they disagree is no fair sample, so a page
    shows both.
    """
    scenes, maps = worlds.scenes, worlds.maps
    order = list(range(len(scenes)))
    Draws("states to be shown", seed).shuffle(order)
    differ = (scenes.optimal != maps.optimal).any(axis=1)
    chosen: list[int] = []
    for kind in (True, False):
        grids = {int(scenes.grids[number]) for number in chosen}
        wanted = STATES // 2 if kind else STATES
        for number in order:
            grid = int(scenes.grids[number])
            if differ[number] == kind and grid not in grids and len(chosen) < wanted:
                grids.add(grid)
                chosen.append(number)
    return tuple(_picture(captures, worlds, used, number) for number in chosen)


def _picture(
    captures: Captured, worlds: DecodedWorlds, used: UsedPlaces, number: int
) -> StatePicture:
    scenes, maps = worlds.scenes, worlds.maps
    sample = captures.samples[int(captures.rows[number])]
    world = scenes.worlds[number]
    rows, columns = world.shape
    places = used.get(world.shape, {})
    wall = maps.posterior[number, :rows, :columns, WALL]
    return StatePicture(
        sample.walk,
        sample.step,
        _drawn(world, scenes.states[number]),
        () if (inner := maps.worlds[number]) is None else _drawn(inner, State(inner.start)),
        tuple(tuple(round(float(p), 4) for p in row) for row in wall),
        tuple(
            tuple(places.get(Cell(row, column)) for column in range(columns)) for row in range(rows)
        ),
        scenes.actions[number],
        _actions(scenes.optimal[number]),
        _actions(maps.optimal[number]),
    )


def _drawn(world: GridWorld, state: State) -> tuple[str, ...]:
    return tuple("".join(row) for row in symbols_at(world, state))


def _actions(optimal: BoolArray) -> tuple[int, ...]:
    return tuple(action for action in range(len(ACTIONS)) if optimal[action])


# --- Plans ----------------------------------------------------------------------------------------
# The folder of the probe in which their activations lie.
FIRST_DECISIONS = "first-decisions"
# The published width; a decoder of a narrow stream needs no more than this.
_WIDTH, _NARROW = 1024, 256


def plan_stage(
    stages: Stages, samples: tuple[Sample, ...], network: Network, wanted: Asked
) -> tuple[dict[str, Any], dict[str, str]]:
    """Plans at all places by linear heads, at the last layer by decoders; when it is decided.

    Also why a baseline is not there.
    """
    layers, positions, seed = wanted.layers, wanted.positions, wanted.seed
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
    width = _WIDTH if network.width >= _WIDTH else _NARROW
    linear = LinearSteps()
    decoders = [PlanDecoder(depth, width=width) for depth in wanted.decoders]
    readers: list[LinearSteps | PlanDecoder] = [linear, *decoders]
    rows: list[PlanRow] = []
    left_out: dict[str, str] = {}
    for reader in readers:
        read_at = layers if reader is linear else layers[-1:]
        places = [(layer, name) for layer in read_at for name in positions]
        read = partial(
            _read,
            at,
            plans,
            places,
            readers=[reader],
            stated=stated,
            # The decoder is trained for minutes, so a quarter of the grids is scored, as published.
            parts=5 if reader is linear else 1,
            seed=seed,
            progress=stages.tell,
        )
        value = stages.value(f"plan/{reader.name}", read)
        rows += [row_from(PlanRow, row) for row in value["plan"]]
        left_out |= {f"plan: {name}": reason for name, reason in value["left_out"].items()}
    value = stages.value(
        "plan/decided", partial(_decided, at, plans, layers[-1], seed, stages.tell)
    )
    fields = {
        "plan": tuple(rows),
        "decided": tuple(row_from(DecidedRow, row) for row in value["decided"]),
        "settled": tuple(row_from(SettledRow, row) for row in value["settled"]),
    }
    return fields, left_out


def _decided(at: At, plans: Plans, layer: int, seed: int, tell: Tell) -> dict[str, Any]:
    result = decided(at, plans, layers=[layer], seed=seed, progress=tell)
    return {"decided": json_value(result.rows), "settled": json_value(result.settled)}


def _read(*arguments: Any, **options: Any) -> Any:
    table = read_plans(*arguments, **options)
    rows = [
        PlanRow(
            row.layer,
            row.position,
            row.decoder,
            row.score.n,
            row.score.prefix,
            row.score.conditional,
            {
                name: None
                if beside is None
                else {
                    "prefix": beside.score.prefix,
                    "conditional": beside.score.conditional,
                    "beyond": beside.beyond,
                }
                for name, beside in row.baselines.items()
            },
        )
        for row in table.rows
    ]
    return json_value({"plan": rows, "left_out": table.left_out})
