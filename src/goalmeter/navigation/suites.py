"""Built-in suites of grid worlds (sections 3 and 4.3 of the paper) and the registry of suites."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import islice, product

import numpy as np

from goalmeter._errors import InvalidParameterError, shown
from goalmeter._names import SUITES as PLUGINS
from goalmeter._names import PluginError, did_you_mean, loaded, origin, plugins, refuse_taken
from goalmeter.gridworld.generators import (
    SIZE_OF_TWO_PATHS,
    Draws,
    distances_from,
    key_door,
    key_no_door,
    maze,
    two_paths,
)
from goalmeter.gridworld.planner import planned
from goalmeter.gridworld.world import MOVES, TRANSFORMS, Cell, GridWorld
from goalmeter.gridworld.world import held_out as is_held_out
from goalmeter.navigation.suite_definition import (
    KEY,
    KEY_REFERENCES,
    NEUTRAL,
    OPENS_NOTHING,
    OPENS_THE_WAY,
    SLIP,
    Bounds,
    LabelledWorld,
    Scale,
    Suite,
    SuiteOptions,
)

# --- Held-out grids -------------------------------------------------------------------------------
# Seeds to try for each held-out grid. One grid in four is held out; of the rarest kind (rooms of
# size 5, held out in both frames of an exchange) one in twenty.
_SEEDS_PER_GRID = 200


def drawn_grids(
    world_of: Callable[[int], GridWorld],
    options: SuiteOptions,
    frames: Sequence[Callable[[GridWorld], GridWorld]] = (),
) -> Iterator[tuple[int, int, GridWorld]]:
    """Yield index, seed and world of each grid; only held-out grids with `options.held_out`."""
    seeds = options.seeds
    if not options.held_out:
        yield from ((index, seed, world_of(seed)) for index, seed in seeds)
        return
    # Frames are checked too, since a frame that is not an isometry changes the content.
    number, first, most = 0, seeds[0][1], _SEEDS_PER_GRID * len(seeds)
    candidates = ((seed, world_of(seed)) for seed in range(first, first + most))
    held_out = (
        (seed, world)
        for seed, world in candidates
        if is_held_out(world) and all(is_held_out(frame(world)) for frame in frames)
    )
    for (index, _), found in zip(seeds, held_out, strict=False):
        number += 1
        yield index, *found
    if number < len(seeds):
        raise InvalidParameterError(
            f"only {number} of {most} grids from seed {first} on are held out in every frame, "
            f"expected {len(seeds)}; choose fewer grids or transforms"
        )


# --- Mazes ----------------------------------------------------------------------------------------
# Section 3: 5 sizes x 6 complexities x 10 grids x 10 trajectories.


def mazes(options: SuiteOptions) -> Iterator[LabelledWorld]:
    """Yield each maze in each stratum, in the original and in each changed frame."""
    none: list[Bounds | None] = [None]
    strata = list(product(options.distances or none, options.detours or none))
    frames = {name: TRANSFORMS[name] for name in options.transforms or ()}
    for size, complexity in product(options.sizes or (), options.complexities or ()):
        grids = [
            (index, stratum, seed, world)
            for stratum in strata
            for index, seed, world in drawn_grids(
                partial(_maze_world, size, complexity, *stratum), options, list(frames.values())
            )
        ]
        # The strata of a grid follow each other.
        for index, stratum, seed, world in sorted(grids, key=lambda row: row[0]):
            bounds = zip(_STRATA, stratum, strict=True)
            condition = {name: list(ends) for name, ends in bounds if ends is not None}
            yield LabelledWorld(size, complexity, index, seed, None, condition, world)
            for name, frame in frames.items():
                yield LabelledWorld(size, complexity, index, seed, name, condition, frame(world))


_STRATA = ("distance", "detour")


# Every agent walks through the same mazes.
@lru_cache(maxsize=512)
def _maze_world(
    size: int, complexity: float, distance: Bounds | None, detour: Bounds | None, seed: int
) -> GridWorld:
    return maze(size, complexity, seed, distance=distance, detour=detour).world


MAZE = Suite(
    name="maze",
    about="mazes by size and complexity",
    worlds=mazes,
    small=Scale((7, 9), (0.0, 0.5, 1.0), grids=5, trajectories=4),
    paper=Scale((7, 9, 11, 13, 15), (0.0, 0.2, 0.4, 0.6, 0.8, 1.0), grids=10, trajectories=10),
    has_complexity=True,
)
ISOMETRIES = replace(
    MAZE,
    name="isometries",
    about="the same mazes in other frames",
    # Each grid is walked through in five frames.
    small=replace(MAZE.small, trajectories=2),
    has_frames=True,
)


# --- Worlds with a key ----------------------------------------------------------------------------
# Section 4.3 (KeyDoorEnv, KeyNoDoorEnv, 2PathKeyEnv): 100 worlds each, and 30 steps.

# Rooms along a side of a key world by its size.
ROOMS_OF_SIZE = {9: 2, 13: 3}


def key_worlds(
    options: SuiteOptions,
    *,
    with_key: Callable[[int, int], GridWorld],
    without_key: Callable[[int], GridWorld] | None = None,
) -> Iterator[LabelledWorld]:
    """Yield each world with each object, followed by its control without an object, if any."""
    for size in options.sizes or ():
        for index, seed, world in drawn_grids(partial(with_key, size), options):
            label = partial(LabelledWorld, size, None, index, seed, None)
            # Suites without a choice of objects have the key.
            for name in options.objects or (KEY,):
                if name == NEUTRAL:
                    yield label({"object": NEUTRAL}, world.with_(key=None, neutral=world.key))
                else:
                    yield label({"key": True}, world)
            if without_key is not None:
                yield label({"key": False}, without_key(seed))


def _two_path_worlds(options: SuiteOptions) -> Iterator[LabelledWorld]:
    # Organisms are not trained on two paths, so every grid is held out.
    return key_worlds(
        replace(options, held_out=False),
        with_key=lambda size, seed: two_paths(seed).world,
        without_key=lambda seed: two_paths(seed).control,
    )


KEY_DOOR = Suite(
    name="key-door",
    about="worlds whose key opens the way",
    worlds=partial(key_worlds, with_key=lambda n, seed: key_door(seed, rooms=ROOMS_OF_SIZE[n])),
    small=Scale((9,), grids=20),
    paper=Scale((9,), grids=100),
    known_sizes=tuple(ROOMS_OF_SIZE),
    key=OPENS_THE_WAY,
    paper_cap=30,
    prompt="keys/1",
    effort="medium",
    references=KEY_REFERENCES,
)
KEY_NO_DOOR = replace(
    KEY_DOOR,
    name="key-no-door",
    about="the same worlds without a door",
    worlds=partial(key_worlds, with_key=lambda n, seed: key_no_door(seed, rooms=ROOMS_OF_SIZE[n])),
    key=OPENS_NOTHING,
)
TWO_PATH = replace(
    KEY_NO_DOOR,
    name="two-path",
    about="two equal paths with a key on one, and the same without it",
    worlds=_two_path_worlds,
    small=Scale((SIZE_OF_TWO_PATHS,), grids=20),
    paper=Scale((SIZE_OF_TWO_PATHS,), grids=100),
    known_sizes=(SIZE_OF_TWO_PATHS,),
    is_paired=True,
)


# --- Interventions --------------------------------------------------------------------------------
# Each maze is followed by the same maze with each change: the goal moved, a wall on the shortest
# path, and slips. Mazes that do not admit all of them are skipped; in a perfect maze no second path
# remains. In the suite "devaluation" the same mazes have their goal where no way leads.

CHANGE = "change"  # entry of a task's condition
UNCHANGED, GOAL_MOVED, BLOCKED, SLIPS = "none", "goal moved", "blocked", "slips"
OUT_OF_REACH = "goal out of reach"
SLIP_PROBABILITY = 0.2
_LEAST_STEPS = 4  # to the goal; a shorter walk has too few decisions to tell places apart
_BLOCKS = 12  # attempts to block the shortest path of a maze


def changed_mazes(options: SuiteOptions) -> Iterator[LabelledWorld]:
    """Yield each maze, followed by the maze with each change."""
    for size, complexity, number, seed, worlds in _changeable_mazes(options):
        for name, world in worlds.items():
            condition = {CHANGE: name} | ({SLIP: SLIP_PROBABILITY} if name == SLIPS else {})
            yield LabelledWorld(size, complexity, number, seed, None, condition, world)


def devalued_mazes(options: SuiteOptions) -> Iterator[LabelledWorld]:
    """Yield the mazes of `changed_mazes` with their goal closed in."""
    for size, complexity, number, seed, worlds in _changeable_mazes(options):
        draws = Draws(OUT_OF_REACH, size, repr(complexity), seed)
        if (world := _closed_in(worlds[UNCHANGED], draws)) is not None:
            condition = {CHANGE: OUT_OF_REACH}
            yield LabelledWorld(size, complexity, number, seed, None, condition, world)


def _changeable_mazes(
    options: SuiteOptions,
) -> Iterator[tuple[int, float, int, int, dict[str, GridWorld]]]:
    """Yield size, complexity, index and seed of each maze, with the maze under each change."""
    if options.distances or options.detours:
        raise InvalidParameterError("mazes with changes have no distances and no detours")
    for size, complexity in product(options.sizes or (), options.complexities or ()):
        first, most = options.seeds[0][1], _SEEDS_PER_GRID * len(options.seeds)
        drawn = (
            (seed, _changes(size, complexity, seed, bool(options.held_out)))
            for seed in range(first, first + most)
        )
        usable = ((seed, worlds) for seed, worlds in drawn if worlds)
        number = 0
        for number, (seed, worlds) in enumerate(islice(usable, len(options.seeds)), 1):
            yield size, complexity, number - 1, seed, worlds
        if number < len(options.seeds):
            raise InvalidParameterError(
                f"only {number} of {most} mazes of size {size} and complexity {complexity:g} have "
                f"a second path and a place to move the goal to, expected {len(options.seeds)}; "
                f"choose a lower complexity or fewer grids"
            )


# Both suites, and every agent, have the same mazes; most of the drawn ones are not held out.
@lru_cache(maxsize=4096)
def _changes(size: int, complexity: float, seed: int, held_out: bool) -> dict[str, GridWorld]:
    """Return a maze without and with each change; empty if a change is impossible."""
    world = _maze_world(size, complexity, (_LEAST_STEPS, size**2), None, seed)
    draws = Draws("change", size, repr(complexity), seed)
    cells = separate_cells(world)
    draws.shuffle(cells)
    changes = {
        UNCHANGED: iter([world]),
        GOAL_MOVED: (world.with_(goal=cell) for cell in cells),
        BLOCKED: (_blocked(world, draws) for _ in range(_BLOCKS)),
    }
    out = {}
    for name, worlds in changes.items():
        usable = (each for each in worlds if each and (not held_out or is_held_out(each)))
        chosen = next((each for each in usable if set(separate_cells(each)) - {world.goal}), None)
        if chosen is None:
            return {}
        out[name] = chosen
    return out | {SLIPS: world}


def separate_cells(world: GridWorld) -> list[Cell]:
    """Return cells whose shortest path shares at most half with the one to the goal."""
    to_cell, from_goal = distances_from(world.walls, [world.start, world.goal])
    distance = to_cell[world.goal]
    shared = (to_cell + distance - from_goal) / 2
    separate = (to_cell >= _LEAST_STEPS - 1) & (2 * shared <= np.minimum(to_cell, distance))
    return [cell for cell in world.open_cells if separate[cell]]


def _blocked(world: GridWorld, draws: Draws) -> GridWorld | None:
    """Add walls on the shortest path until it is longer; None if no path remains."""
    walls = world.walls.copy()
    places = [world.start, world.goal]
    distance = int(distances_from(walls, places[:1])[0][world.goal])
    while True:
        to_cell, from_goal = distances_from(walls, places)
        if to_cell[world.goal] != distance:
            is_longer = to_cell[world.goal] > distance
            return GridWorld(walls, world.start, world.goal) if is_longer else None
        on_path = (to_cell + from_goal == distance) & ~walls
        on_path[world.start] = on_path[world.goal] = False
        on_path[1::2, 1::2] = False  # a maze is open where row and column are odd
        if not on_path.any():
            return None
        walls[draws.choice([Cell(*map(int, place)) for place in np.argwhere(on_path)])] = True


def _closed_in(world: GridWorld, draws: Draws) -> GridWorld | None:
    """Move the goal to a cell between four walls; None if this lengthens the way to its place."""
    cells = separate_cells(world)
    draws.shuffle(cells)
    distance = planned(world).distance
    for cell in cells:
        around = [cell.moved(action) for action in range(len(MOVES))]
        walls = world.walls.copy()
        walls[tuple(np.transpose(around))] = True
        to_goal = distances_from(walls, [world.start])[0][world.goal]
        if world.start not in around and to_goal == distance:
            return GridWorld(walls, world.start, cell)
    return None


INTERVENTIONS = Suite(
    name="interventions",
    about="mazes, the same with the goal moved, with the shortest path blocked, and with slips",
    worlds=changed_mazes,
    small=Scale((7, 9), (0.0, 0.5), grids=10, trajectories=1),
    paper=Scale((7, 9, 11, 13, 15), (0.0, 0.2, 0.4, 0.6), grids=10, trajectories=10),
    has_complexity=True,
    references=("optimal", "wall-follower", "random"),
)
DEVALUATION = replace(
    INTERVENTIONS,
    name="devaluation",
    about="the mazes of interventions with the goal where no way leads",
    worlds=devalued_mazes,
)

_PAPER = (MAZE, ISOMETRIES, KEY_DOOR, KEY_NO_DOOR, TWO_PATH)
SUITES = tuple(suite.name for suite in _PAPER)  # suites of the paper
_SUITES = {suite.name: suite for suite in (*_PAPER, INTERVENTIONS, DEVALUATION)}


def suite_names() -> tuple[str, ...]:
    """Return the names of all suites, built-in suites first, without importing plugins."""
    refuse_taken(PLUGINS, tuple(_SUITES))
    return (*_SUITES, *(name for name in plugins(PLUGINS) if name not in _SUITES))


def suite_named(name: str) -> Suite:
    """Return a suite by name."""
    known = suite_names()
    if not isinstance(name, str) or name not in known:
        hint = did_you_mean(str(name), known, quoted=True)
        raise InvalidParameterError(
            f"there is no suite {shown(name)}, expected one of {', '.join(known)}{hint}"
        )
    if name in _SUITES:
        return _SUITES[name]
    entry = plugins(PLUGINS)[name]
    suite = loaded(entry)
    if not isinstance(suite, Suite) or suite.name != name:
        raise PluginError(
            f"{origin(entry)} registers {entry.value} as the suite {name!r}, expected a "
            f"goalmeter.navigation.Suite of that name; report it to that package"
        )
    return suite


def register_suite(suite: Suite) -> None:
    """Register a suite in this process.

    For worker processes, register it by the entry-point group `goalmeter.suites`.
    """
    if suite.name in suite_names() and suite_named(suite.name) != suite:
        raise InvalidParameterError(
            f"another suite is already registered as {suite.name!r}; choose another name"
        )
    _SUITES[suite.name] = suite
