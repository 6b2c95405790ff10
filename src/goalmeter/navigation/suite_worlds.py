"""The worlds of every suite, each with the labels that tell it from the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import product
from typing import Any

from goalmeter._errors import InvalidParameterError
from goalmeter._names import did_you_mean
from goalmeter.gridworld.contents import held_out as is_held_out
from goalmeter.gridworld.key_worlds import SIZE_OF_TWO_PATHS, key_door, key_no_door, two_paths
from goalmeter.gridworld.maze import maze
from goalmeter.gridworld.transforms import TRANSFORMS
from goalmeter.gridworld.world import GridWorld

# What may lie where a key opens nothing, and the suites in which that can be chosen.
KEY, NEUTRAL = "key", "neutral"
OBJECTS = (KEY, NEUTRAL)
HAVE_OBJECTS = ("key-no-door", "two-path")
# Rooms along a side of a key world by its size.
ROOMS_OF_SIZE = {9: 2, 13: 3}
# Seeds that are looked at for each held-out grid that is wanted: one content in four is held out,
# and of the rarest kind (rooms of size 5 with both frames of an exchange held out) one in twenty.
_SEEDS_A_GRID = 200

Bounds = tuple[int, int]
Condition = Mapping[str, Any]
# Fields of `suites.Task`: those that do not follow from the others.
Labels = dict[str, Any]


def mazes(
    sizes: Sequence[int],
    complexities: Sequence[float],
    seeds: Sequence[tuple[int, int]],
    transforms: Sequence[str | None],
    strata: Sequence[tuple[Bounds | None, Bounds | None]],
    *,
    held_out: bool = False,
) -> Iterator[Labels]:
    """The labels of each maze in each frame."""
    for transform in transforms:
        if transform is not None and transform not in TRANSFORMS:
            hint = did_you_mean(transform, TRANSFORMS, quoted=True) or ";"
            raise InvalidParameterError(
                f"there is no transform {transform!r}{hint} known are {', '.join(TRANSFORMS)}"
            )
    for size, complexity in product(sizes, complexities):
        listed = [
            (index, stratum, seed, world)
            for stratum in strata
            for index, seed, world in _chosen(
                partial(_maze, size, complexity, stratum),
                seeds,
                [TRANSFORMS[t] for t in transforms if t is not None],
                held_out=held_out,
            )
        ]
        # Strata of a grid stand side by side, as they did before any grid was held out.
        for index, (distance, detour), seed, world in sorted(listed, key=lambda row: row[0]):
            bounds = {"distance": distance, "detour": detour}
            for transform in transforms:
                yield {
                    "size": size,
                    "complexity": float(complexity),
                    "grid": index,
                    "seed": seed,
                    "transform": transform,
                    "condition": {k: list(v) for k, v in bounds.items() if v is not None},
                    "world": world if transform is None else TRANSFORMS[transform](world),
                }


def _chosen(
    made: Callable[[int], GridWorld],
    seeds: Sequence[tuple[int, int]],
    transforms: Sequence[Callable[[GridWorld], GridWorld]] = (),
    *,
    held_out: bool,
) -> Iterator[tuple[int, int, GridWorld]]:
    """The index, seed and world of each grid; with `held_out` the next ones that lessons lack.

    A frame that is no isometry has another content, so it has to be held out as well.

    Raises:
        InvalidParameterError: too few of the next seeds give a grid that is held out.
    """
    if not held_out:
        for index, seed in seeds:
            yield index, seed, made(seed)
        return
    number, (_, first) = 0, seeds[0]
    for seed in range(first, first + _SEEDS_A_GRID * len(seeds)):
        world = made(seed)
        if is_held_out(world) and all(is_held_out(frame(world)) for frame in transforms):
            yield seeds[number][0], seed, world
            number += 1
            if number == len(seeds):
                return
    raise InvalidParameterError(
        f"only {number} of the {_SEEDS_A_GRID * len(seeds)} grids from seed {first} on are held "
        f"out in every frame, expected {len(seeds)}; ask for fewer grids or transforms"
    )


def _maze(
    size: int,
    complexity: float,
    stratum: tuple[Bounds | None, Bounds | None],
    seed: int,
) -> GridWorld:
    distance, detour = stratum
    return _world(size, float(complexity), seed, _pair(distance), _pair(detour))


@lru_cache(maxsize=512)
def _world(
    size: int, complexity: float, seed: int, distance: Bounds | None, detour: Bounds | None
) -> GridWorld:
    """A maze; the same ones are walked through by one agent after the other."""
    return maze(size, complexity, seed, distance=distance, detour=detour).world


def _pair(bounds: Sequence[int] | None) -> Bounds | None:
    """Bounds that can be remembered, if they were given as a list."""
    return None if bounds is None else (bounds[0], bounds[1])


def object_in(world: GridWorld) -> str | None:
    """What there is to pick up: "key", "neutral", or None."""
    if world.key is not None:
        return KEY
    return None if world.neutral is None else NEUTRAL


def objects_of(name: str, objects: Sequence[str] | None) -> tuple[str, ...]:
    """What lies in the worlds of a suite, the key first; the key alone if nothing is given.

    Raises:
        InvalidParameterError: another thing, one twice, or a suite in which it cannot be chosen.
    """
    if objects is None:
        return (KEY,)
    if name not in HAVE_OBJECTS:
        raise InvalidParameterError(
            f"objects can be chosen in {' and '.join(map(repr, HAVE_OBJECTS))}, whose keys open "
            f"nothing; not in {name!r}"
        )
    if wrong := [one for one in objects if one not in OBJECTS]:
        hint = did_you_mean(wrong[0], OBJECTS, quoted=True) or ";"
        raise InvalidParameterError(
            f"there is no object {wrong[0]!r}{hint} known are {', '.join(OBJECTS)}"
        )
    if len(set(objects)) < len(objects):
        raise InvalidParameterError(f"objects are {', '.join(objects)}; name each once")
    return tuple(one for one in OBJECTS if one in objects) or (KEY,)


def key_worlds(
    name: str,
    sizes: Sequence[int] | None,
    seeds: Sequence[tuple[int, int]],
    objects: Sequence[str],
    *,
    held_out: bool = False,
) -> Iterator[Labels]:
    """The labels of each world with each thing that lies in it, and of its control.

    A world with a key is labelled as if there were no other thing, so that its walks are the same
    ones whatever else a run has.
    """
    known = (SIZE_OF_TWO_PATHS,) if name == "two-path" else tuple(ROOMS_OF_SIZE)
    if wrong := [size for size in sizes or () if size not in known]:
        raise InvalidParameterError(
            f"{name!r} has no grids of size {wrong[0]}, expected {' or '.join(map(str, known))}"
        )
    two = name == "two-path"
    grids = (
        (size, *grid)
        for size in sizes or known[:1]
        for grid in _chosen(partial(_with_key, name, size), seeds, held_out=held_out and not two)
    )
    for size, index, seed, with_key in grids:
        controls: list[tuple[GridWorld, Condition]] = []
        if two:
            controls = [(two_paths(seed).control, {"key": False})]
        things: dict[str, tuple[GridWorld, Condition]] = {KEY: (with_key, {"key": True})}
        if NEUTRAL in objects:
            neutral = with_key.with_(key=None, neutral=with_key.key)
            things[NEUTRAL] = neutral, {"object": NEUTRAL}
        for world, condition in [*(things[one] for one in objects), *controls]:
            yield {
                "size": size,
                "complexity": None,
                "grid": index,
                "seed": seed,
                "transform": None,
                "condition": condition,
                "world": world,
            }


def _with_key(name: str, size: int, seed: int) -> GridWorld:
    """The world of a suite in which there is a key."""
    if name == "two-path":
        return two_paths(seed).world
    of = key_door if name == "key-door" else key_no_door
    return of(seed, rooms=ROOMS_OF_SIZE[size])
