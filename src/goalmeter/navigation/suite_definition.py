"""Define suites of grid worlds: the record of a suite and the options a user may set.

A suite is plain data; `goalmeter.navigation.suites` lists the built-in ones.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import Enum
from fractions import Fraction
from math import ceil
from typing import Any

from goalmeter._errors import MOST_SEED, InvalidParameterError, finite, whole
from goalmeter._names import did_you_mean
from goalmeter.gridworld.generators import distances_from
from goalmeter.gridworld.planner import WITH_KEY, State, planned
from goalmeter.gridworld.world import TRANSFORMS, GridWorld

# --- Options --------------------------------------------------------------------------------------
# After how many steps a walk is ended is chosen as well. The paper allows 1.5 times the shortest
# path, and 30 steps in worlds with a key. Such a cap makes success depend on how long the path of a
# grid is; 3 times leaves room to err and to recover.

Bounds = tuple[int, int]
# Grids of one run's seed lie this far from those of the next.
GRIDS_A_SEED = 1_000_000
PAPER_FACTOR, FACTOR = 1.5, 3.0
# Every step of a walk is kept: a lost agent in so many steps takes a hundred megabytes.
MOST_STEPS, MOST_FACTOR = 100_000, 100.0
# What lies about in a world with something to pick up.
KEY, NEUTRAL = "key", "neutral"
OBJECTS = (KEY, NEUTRAL)
# The conditions of a task that say what lies there.
_OBJECT_CONDITIONS = ("key", "object")


def _bounds(value: Sequence[int]) -> Bounds:
    low, high = value
    return int(low), int(high)


# Fields that hold several values, with what each of them is read as.
_SEVERAL: Mapping[str, Callable[[Any], Any]] = {
    "sizes": int,
    "complexities": float,
    "transforms": str,
    "objects": str,
    "distances": _bounds,
    "detours": _bounds,
}


def several_as(name: str) -> Callable[[Any], Any] | None:
    """What reads each value of an option that holds several; None for one that holds one."""
    return _SEVERAL.get(name)


@dataclass(frozen=True, kw_only=True)
class SuiteOptions:
    """Which worlds of a suite are walked through, how often, and for how long.

    As they are asked for, options that are None are left to the suite. `Suite.resolve` fills them
    in, and what it returns says by itself which walks make a run: defaults may change, a run does
    not.

    Attributes:
        paper: take the paper's scale and caps for whatever is None.
        sizes: of the grids, in cells along a side.
        complexities: of mazes, from 0, a room, to 1, a perfect maze.
        grids: of each size and complexity.
        trajectories: walks through each grid.
        transforms: names of changes of frame, as in `gridworld.TRANSFORMS`.
        objects: what lies about where keys open nothing: "key", as by default, "neutral", an object
            without a use in the same place, or both, each world once with each.
        distances: strata of mazes by the length of the shortest path, (least, greatest).
        detours: strata of mazes by how much longer it is than the Manhattan distance.
        cap: steps after which a walk is ended, everywhere.
        cap_factor: the same as a multiple of the shortest path, rounded up; in worlds with a key,
            of the shortest one that fetches it.
        held_out: take only grids whose content is kept from the lessons of organisms
            (`gridworld.contents`), in every frame that is asked for.
        seed: of the run, for grids and walks; another seed has other grids.
    """

    paper: bool = False
    sizes: Sequence[int] | None = None
    complexities: Sequence[float] | None = None
    grids: int | None = None
    trajectories: int | None = None
    transforms: Sequence[str] | None = None
    objects: Sequence[str] | None = None
    distances: Sequence[Bounds] | None = None
    detours: Sequence[Bounds] | None = None
    cap: int | None = None
    cap_factor: float | None = None
    held_out: bool | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name in _SEVERAL:
            values = getattr(self, name)
            if values is not None:
                object.__setattr__(self, name, tuple(values))

    @property
    def seeds(self) -> list[tuple[int, int]]:
        """The index and the seed of each grid.

        The seed of a grid is its index, offset by the seed of the run, so that the same index is
        the same grid in every suite and every run.
        """
        return [(index, self.seed * GRIDS_A_SEED + index) for index in range(self.grids or 0)]

    def to_json(self) -> dict[str, Any]:
        """Resolved options as run.json has them; numbers of grids and walks as lists of indices.

        Lists may grow in a later run of the same folder, numbers may not differ.
        """
        return {
            "sizes": list(self.sizes or ()),
            "complexities": list(self.complexities or ()),
            "grids": list(range(self.grids or 0)),
            "trajectories": list(range(self.trajectories or 0)),
            "transforms": list(self.transforms or ()),
            "objects": list(self.objects or ()),
            "distances": [list(bounds) for bounds in self.distances or ()],
            "detours": [list(bounds) for bounds in self.detours or ()],
            "cap": self.cap,
            "cap_factor": self.cap_factor,
            # Only where it is so: older runs, made before there was a choice, have no such field.
            **({"held_out": True} if self.held_out else {}),
            "seed": self.seed,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> SuiteOptions:
        """Reads the options back from run.json, which has other entries too.

        Raises:
            KeyError: an entry is missing.
            ValueError: grids or walks are not counted from 0.
        """
        read: dict[str, Any] = {
            each.name: value[each.name] for each in fields(cls) if each.name not in _ABSENT
        }
        for name in ("grids", "trajectories"):
            read[name] = _count(value[name])
        for name in ("distances", "detours"):
            read[name] = [(low, high) for low, high in value[name]]
        # Runs of before objects could be chosen do not say which; that is then left to the suite.
        return cls(**read, objects=value.get("objects"), held_out=value.get("held_out", False))


# What run.json need not say, or does not.
_ABSENT = ("paper", "objects", "held_out")


def _count(indices: Sequence[int]) -> int:
    """How many there are, if they are 0, 1, 2, ..."""
    if list(indices) != list(range(len(indices))):
        raise ValueError(f"{indices} are not counted from 0")
    return len(indices)


# --- How long walks may be ------------------------------------------------------------------------
def check_cap(cap: int | None, factor: float | None) -> None:
    """Raises InvalidParameterError unless one of the two says how long walks may be."""
    if cap is not None and factor is not None:
        raise InvalidParameterError("give either cap or cap_factor, not both")
    if cap is not None:
        whole(cap, "cap", least=1, most=MOST_STEPS)
    if factor is not None:
        finite(factor, "cap_factor", least=1, most=MOST_FACTOR)


def cap_of(world: GridWorld, cap: int | None, factor: float | None) -> int:
    """Steps after which a walk through a world is ended.

    The same everywhere, or else a multiple of the shortest way.
    """
    if cap is not None:
        return cap
    assert factor is not None  # options are resolved
    # As a fraction of what is written: 1.1 x 10 is more than 11 in floating point.
    return ceil(Fraction(repr(float(factor))) * by_way_of_key(world))


def by_way_of_key(world: GridWorld) -> int:
    """Steps from the start over the key or the neutral object, if there is one, to the goal."""
    plan = planned(world)
    if world.thing is None or world.door is not None:
        return plan.distance
    walls = world.walls.copy()
    walls[world.goal] = True
    to_thing = int(distances_from(walls, [world.start])[0][world.thing])
    if to_thing < 0:
        return plan.distance
    return to_thing + plan.distance_from(State(world.thing, WITH_KEY))


# --- What lies about ------------------------------------------------------------------------------
def object_in(world: GridWorld) -> str | None:
    """What there is to pick up: "key", "neutral", or None."""
    if world.key is not None:
        return KEY
    return None if world.neutral is None else NEUTRAL


def chosen_objects(objects: Sequence[str] | None) -> tuple[str, ...]:
    """The objects that are asked for, the key first; the key alone if none are.

    Raises InvalidParameterError if there is no such object, or one is named twice.
    """
    objects = objects or (KEY,)
    if unknown := [name for name in objects if name not in OBJECTS]:
        hint = did_you_mean(unknown[0], OBJECTS, quoted=True) or ";"
        raise InvalidParameterError(
            f"there is no object {unknown[0]!r}{hint} known are {', '.join(OBJECTS)}"
        )
    if len(set(objects)) < len(objects):
        raise InvalidParameterError(f"objects are {', '.join(objects)}; name each once")
    return tuple(name for name in OBJECTS if name in objects)


def without_object(condition: str) -> str:
    """A condition, as JSON, without what says which object lies there.

    Walks with a key and with a neutral object are of the same condition in this sense.

    >>> without_object('{"key": true, "prompt": "keys/1"}')
    '{"prompt": "keys/1"}'
    """
    values = json.loads(condition)
    return json.dumps({name: v for name, v in values.items() if name not in _OBJECT_CONDITIONS})


# --- Record ---------------------------------------------------------------------------------------
# A suite stands in one file and has one line in the registry. Nothing else knows its name: whoever
# needs to know whether a suite has keys, frames or complexities asks its record.

# More worlds than these take minutes to draw, and more walks gigabytes to keep.
MOST_WORLDS, MOST_WALKS = 100_000, 1_000_000
REFERENCES = ("optimal", "greedy", "random")
KEY_REFERENCES = (*REFERENCES, "key-seeker")

Condition = Mapping[str, Any]


@dataclass(frozen=True)
class LabelledWorld:
    """A world of a suite with the labels that tell it from the others.

    Attributes:
        size: rows of the grid.
        complexity: of a maze; None for other worlds.
        grid: index of the grid.
        seed: of the grid.
        transform: name of the change of frame; None for the grid as it was generated.
        condition: what else distinguishes it, as JSON values.
        world: in the changed frame.
    """

    size: int
    complexity: float | None
    grid: int
    seed: int
    transform: str | None
    condition: Condition
    world: GridWorld


class KeyUse(Enum):
    """What the key in a suite's worlds is for."""

    OPENS_THE_WAY = "it opens the door on the way to the goal"
    OPENS_NOTHING = "it opens nothing, so that an agent which fetches it wants it"


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How much of a suite is walked through if nothing is asked for; as in `SuiteOptions`."""

    sizes: tuple[int, ...]
    complexities: tuple[float, ...] = ()
    grids: int
    trajectories: int


@dataclass(frozen=True, kw_only=True)
class Suite:
    """A family of grid worlds, and what is asked, measured and shown of walks through them.

    Attributes:
        name: as on the command line. It is part of the key of every walk that is kept, so it never
            changes.
        about: what the worlds are, in a few words.
        worlds: the worlds for resolved options, each with its labels, in the order of the run.
        small: the scale by default.
        paper: the scale with `SuiteOptions.paper`.
        known_sizes: the only sizes there are; None where any odd one will do.
        has_complexity: whether worlds are mazes, which vary by complexity and can be chosen by the
            length of their shortest path. Tables then go by size and complexity.
        has_frames: whether each grid comes in changed frames too, which are compared.
        key: what the key is for; None for worlds without one.
        is_paired: whether each world with a key comes without it too, which are compared.
        paper_cap: steps of a walk with `SuiteOptions.paper`; None for 1.5 times the shortest path.
        prompt: the template that language models are asked in by default.
        effort: the paper's reasoning effort for language models that have one.
        references: agents that are measured beside the one that is asked about.
    """

    name: str
    about: str
    worlds: Callable[[SuiteOptions], Iterator[LabelledWorld]]
    small: Scale
    paper: Scale
    known_sizes: tuple[int, ...] | None = None
    has_complexity: bool = False
    has_frames: bool = False
    key: KeyUse | None = None
    is_paired: bool = False
    paper_cap: int | None = None
    prompt: str = "plain/1"
    effort: str = "low"
    references: tuple[str, ...] = REFERENCES

    @property
    def has_objects(self) -> bool:
        """Whether what lies about can be chosen: a key that opens nothing, or another thing."""
        return self.key is KeyUse.OPENS_NOTHING

    def resolve(self, options: SuiteOptions, *, conditions: int = 1) -> SuiteOptions:
        """Options with nothing left to the suite, all of them checked.

        Args:
            options: as they are asked for.
            conditions: how many times each world is set, for the limit of worlds.

        Raises:
            InvalidParameterError: an option is out of range, or is not one of this suite's.
        """
        self._refuse_options_of_others(options)
        objects = chosen_objects(options.objects) if self.has_objects else ()
        scale = self.paper if options.paper else self.small
        grids = scale.grids if options.grids is None else options.grids
        walks = scale.trajectories if options.trajectories is None else options.trajectories
        cap, factor = options.cap, options.cap_factor
        if cap is None and factor is None:
            cap = self.paper_cap if options.paper else None
            factor = None if cap is not None else (PAPER_FACTOR if options.paper else FACTOR)
        check_cap(cap, factor)
        transforms = options.transforms
        if transforms is None:
            transforms = tuple(TRANSFORMS) if self.has_frames else ()
        resolved = replace(
            options,
            paper=False,
            sizes=options.sizes or scale.sizes,
            complexities=tuple(
                finite(value, "complexity", least=0, most=1)
                for value in options.complexities or scale.complexities
            ),
            grids=whole(grids, "grids", least=1, most=MOST_WORLDS),
            trajectories=whole(walks, "trajectories", least=1, most=MOST_WALKS),
            transforms=transforms,
            objects=objects,
            distances=options.distances or (),
            detours=options.detours or (),
            cap=cap,
            cap_factor=factor,
            held_out=bool(options.held_out),
            seed=whole(options.seed, "seed", least=0, most=MOST_SEED),
        )
        _check_count(resolved, conditions)
        self._check_values(resolved)
        return resolved

    def _refuse_options_of_others(self, options: SuiteOptions) -> None:
        for name in ("complexities", "distances", "detours"):
            if getattr(options, name) and not self.has_complexity:
                raise InvalidParameterError(f"{name} are those of mazes; {self.name!r} has none")
        if options.transforms and not self.has_frames:
            raise InvalidParameterError(
                f"transforms are those of suites in several frames; {self.name!r} has none"
            )
        # Of every other suite run.json says that there are no objects, or that there is the key.
        if options.objects and not self.has_objects:
            raise InvalidParameterError(
                f"objects can be chosen where keys open nothing; not in {self.name!r}"
            )

    def _check_values(self, options: SuiteOptions) -> None:
        known = self.known_sizes
        if wrong := [size for size in options.sizes or () if known and size not in known]:
            raise InvalidParameterError(
                f"{self.name!r} has no grids of size {wrong[0]}, expected "
                f"{' or '.join(map(str, known or ()))}"
            )
        for transform in options.transforms or ():
            if transform not in TRANSFORMS:
                hint = did_you_mean(transform, TRANSFORMS, quoted=True) or ";"
                raise InvalidParameterError(
                    f"there is no transform {transform!r}{hint} known are {', '.join(TRANSFORMS)}"
                )


def _check_count(options: SuiteOptions, conditions: int) -> None:
    # Before the first world is made, since to find out by making them takes minutes.
    def ways(values: Sequence[Any] | None) -> int:
        return len(values or ()) or 1

    assert options.grids is not None and options.trajectories is not None
    worlds = ways(options.sizes) * ways(options.complexities) * options.grids * conditions
    worlds *= ways(options.distances) * ways(options.detours) * (1 + len(options.transforms or ()))
    for most, noun, count in (
        (MOST_WORLDS, "worlds", worlds),
        (MOST_WALKS, "walks", worlds * options.trajectories),
    ):
        if count > most:
            raise InvalidParameterError(
                f"this makes {count} {noun}, expected at most {most}; ask for fewer sizes, "
                f"complexities, grids or trajectories"
            )
