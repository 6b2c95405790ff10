"""Built-in suites of grid worlds (sections 3 and 4.3 of the paper) and the registry of suites."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import islice, product
from typing import TypeVar

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

T = TypeVar("T")

# --- Held-out grids -------------------------------------------------------------------------------
# Seeds to try for each held-out grid. One grid in four is held out; of the rarest kind (rooms of
# size 5, held out in both frames of an exchange) one in twenty.
_SEEDS_PER_GRID = 200


def drawn_grids(
    world_of: Callable[[int], GridWorld],
    options: SuiteOptions,
    frames: Sequence[Callable[[GridWorld], GridWorld]] = (),
) -> Iterator[tuple[int, int, GridWorld]]:
    """Return index, seed and world of each grid; only held-out grids with `options.held_out`."""
    if not options.held_out:
        return ((index, seed, world_of(seed)) for index, seed in options.seeds)

    def held_out(seed: int) -> GridWorld | None:
        # Frames are checked too, since a frame that is not an isometry changes the content.
        world = world_of(seed)
        every = (frame(world) for frame in frames)
        return world if is_held_out(world) and all(map(is_held_out, every)) else None

    lack = "are held out in every frame; choose fewer grids or transforms"
    return _first_usable(options, held_out, lack)


def _first_usable(
    options: SuiteOptions, made_of: Callable[[int], T | None], lack: str
) -> Iterator[tuple[int, int, T]]:
    """Yield index, seed and value of the first seeds that have one; `lack` ends the error."""
    number, count, first = 0, len(options.seeds), options.seeds[0][1]
    made = ((seed, made_of(seed)) for seed in range(first, first + _SEEDS_PER_GRID * count))
    usable = ((seed, value) for seed, value in made if value is not None)
    for number, (seed, value) in enumerate(islice(usable, count), start=1):
        yield number - 1, seed, value
    if number < count:
        raise InvalidParameterError(
            f"only {number} of {_SEEDS_PER_GRID * count} grids from seed {first} on, expected "
            f"{count}, {lack}"
        )


# --- Mazes ----------------------------------------------------------------------------------------
# Section 3: 5 sizes x 6 complexities x 10 grids x 10 trajectories.


def mazes(options: SuiteOptions) -> Iterator[LabelledWorld]:
    """Yield each maze in each stratum, in the original and in each changed frame."""
    none: list[Bounds | None] = [None]
    strata = list(product(options.distances or none, options.detours or none))
    frames = {name: TRANSFORMS[name] for name in options.transforms or ()}
    for size, complexity in product(options.sizes or (), options.complexities or ()):
        in_stratum = [partial(_maze_world, size, complexity, *stratum) for stratum in strata]
        drawn = (drawn_grids(world_of, options, [*frames.values()]) for world_of in in_stratum)
        # The strata of a grid follow each other.
        for worlds in zip(*drawn, strict=True):
            for stratum, (index, seed, world) in zip(strata, worlds, strict=True):
                bounds = zip(("distance", "detour"), stratum, strict=True)
                condition = {name: list(ends) for name, ends in bounds if ends is not None}
                label = partial(LabelledWorld, size, complexity, index, seed)
                yield label(None, condition, world)
                for name, frame in frames.items():
                    yield label(name, condition, frame(world))


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
    about="the mazes of `maze`, also reflected and rotated",
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
    in_lessons: bool = True,
) -> Iterator[LabelledWorld]:
    """Yield each world with each object, followed by its control without an object, if any."""
    if not in_lessons:  # organisms are not trained on such worlds, so every grid is held out
        options = replace(options, held_out=False)
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


KEY_DOOR = Suite(
    name="key-door",
    about="rooms with a locked door between the agent and the goal, and its key",
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
    about="the worlds of `key-door` without the door",
    worlds=partial(key_worlds, with_key=lambda n, seed: key_no_door(seed, rooms=ROOMS_OF_SIZE[n])),
    key=OPENS_NOTHING,
)
TWO_PATH = replace(
    KEY_NO_DOOR,
    name="two-path",
    about="two equal paths with a key on one of them, and the same worlds without the key",
    worlds=partial(
        key_worlds,
        with_key=lambda n, seed: two_paths(seed).world,
        without_key=lambda seed: two_paths(seed).control,
        in_lessons=False,
    ),
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


def changed_mazes(options: SuiteOptions, *, devalued: bool = False) -> Iterator[LabelledWorld]:
    """Yield each maze, followed by the maze with each change, or only with its goal closed in."""
    if options.distances or options.detours:
        raise InvalidParameterError("mazes with changes have no distances and no detours")
    for size, complexity in product(options.sizes or (), options.complexities or ()):
        lack = (
            f"of size {size} and complexity {complexity:g} have a second path and a place to move "
            f"the goal to; choose a lower complexity or fewer grids"
        )
        changes = partial(_changes, size, complexity, bool(options.held_out))
        for index, seed, worlds in _first_usable(options, changes, lack):
            if devalued:
                draws = Draws(OUT_OF_REACH, size, repr(complexity), seed)
                closed = _closed_in(worlds[UNCHANGED], draws)
                worlds = {} if closed is None else {OUT_OF_REACH: closed}
            for name, world in worlds.items():
                condition = {CHANGE: name} | ({SLIP: SLIP_PROBABILITY} if name == SLIPS else {})
                yield LabelledWorld(size, complexity, index, seed, None, condition, world)


# Both suites, and every agent, have the same mazes; most of the drawn ones are not held out.
@lru_cache(maxsize=4096)
def _changes(
    size: int, complexity: float, held_out: bool, seed: int
) -> dict[str, GridWorld] | None:
    """Return a maze without and with each change; None if a change is impossible."""
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
            return None
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
    about="mazes, unchanged and with the goal moved, the shortest path blocked, or random slips",
    worlds=changed_mazes,
    small=Scale((7, 9), (0.0, 0.5), grids=10, trajectories=1),
    paper=Scale((7, 9, 11, 13, 15), (0.0, 0.2, 0.4, 0.6), grids=10, trajectories=10),
    has_complexity=True,
    references=("optimal", "wall-follower", "random"),
)
DEVALUATION = replace(
    INTERVENTIONS,
    name="devaluation",
    about="the mazes of `interventions` with a goal that cannot be reached",
    worlds=partial(changed_mazes, devalued=True),
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
