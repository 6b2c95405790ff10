"""Define suites of grid worlds: the record of a suite and the options a user may set."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import partial
from math import ceil, prod
from typing import Any

from goalmeter._errors import MOST_SEED, InvalidParameterError, finite, shown, whole, whole_in_text
from goalmeter._files import json_value
from goalmeter._names import did_you_mean
from goalmeter._options import count, option
from goalmeter.gridworld.generators import distances_from
from goalmeter.gridworld.planner import WITH_KEY, State, planned
from goalmeter.gridworld.world import TRANSFORMS, GridWorld

Bounds = tuple[int, int]
Condition = Mapping[str, Any]
# Grid seeds of consecutive run seeds differ by this.
GRIDS_A_SEED = 1_000_000
# The paper caps walks at 1.5 times the shortest path, so success depends on the path's length; a
# factor of 3 allows for errors and recovery.
PAPER_FACTOR, FACTOR = 1.5, 3.0
# Larger values take a hundred megabytes per walk (steps), minutes (worlds) or gigabytes (walks).
MOST_STEPS, MOST_FACTOR = 100_000, 100.0
MOST_WORLDS, MOST_WALKS = 100_000, 1_000_000
# Objects to pick up, and the entries of a task's condition that name one.
KEY, NEUTRAL = "key", "neutral"
OBJECTS = (KEY, NEUTRAL)
_OBJECT_CONDITIONS = ("key", "object")
# Entry of a task's condition: the probability that a random move replaces the move of the agent.
SLIP = "slip"
# Use of the key. If it opens nothing, an agent that fetches it pursues it for its own sake.
OPENS_THE_WAY, OPENS_NOTHING = "opens the way", "opens nothing"
REFERENCES = ("optimal", "greedy", "random")
KEY_REFERENCES = (*REFERENCES, "key-seeker")


def _bounds(value: Sequence[int]) -> Bounds:
    low, high = value
    return int(low), int(high)


def _read_bounds(flag: str, texts: Sequence[str] | None) -> list[Bounds] | None:
    """Return pairs of bounds, each written LOW-HIGH."""
    ranges = []
    for text in texts or ():
        ends = re.fullmatch(r"(\d+)\s*-\s*(\d+)", text.strip())
        if ends is None:
            raise InvalidParameterError(
                f"{flag} is {shown(text)}, expected two whole numbers LOW-HIGH, such as 4-8"
            )
        low, high = (whole_in_text(end, flag, least=0, most=MOST_STEPS) for end in ends.groups())
        ranges.append((low, high))
    return ranges or None


_strata = partial(option, kind=list[str], read=_read_bounds)


# Options with several values, and the type of each value.
SEVERAL: Mapping[str, Callable[[Any], Any]] = {
    "sizes": int,
    "complexities": float,
    "transforms": str,
    "objects": str,
    "distances": _bounds,
    "detours": _bounds,
}
_STRATA = ("distances", "detours")
_COUNTED = ("grids", "trajectories")
_ABSENT = ("objects", "held_out")  # missing from runs of older versions


@dataclass(frozen=True, kw_only=True)
class SuiteOptions:
    """Worlds, number of walks and step limits of a suite.

    `Suite.resolve` replaces None by the values of the suite, so that a stored run does not change
    with the defaults.
    """

    paper: bool = option("The paper's scale and caps, where none is given.", default=False)
    sizes: Sequence[int] | None = option("7,9  Rows of the grids, odd.", commas=True)
    complexities: Sequence[float] | None = option(
        "0,0.5,1  Complexities of mazes: from 0, a room, to 1, a perfect maze.", commas=True
    )
    grids: int | None = count("Grids of each size and complexity.")
    trajectories: int | None = count("Trajectories through each grid.")
    transforms: Sequence[str] | None = option(
        "reflect,swap  Isometries of the grids; default all.", commas=True
    )
    # "neutral" is an object without a use; with both, each world comes once with each.
    objects: Sequence[str] | None = option(
        "key,neutral  Objects to place in key-no-door worlds.", commas=True
    )
    distances: Sequence[Bounds] | None = _strata(
        "--distance LOW-HIGH  Range of the shortest path of mazes; repeat for more strata."
    )
    detours: Sequence[Bounds] | None = _strata(
        "--detour LOW-HIGH  Range of the shortest path minus the Manhattan distance; repeat for "
        "more strata."
    )
    cap: int | None = count("Maximum trajectory length.")
    # Rounded up; in worlds with a key the shortest path fetches it.
    cap_factor: float | None = count(
        "Maximum trajectory length as a multiple of the shortest path; default 3."
    )
    held_out: bool | None = option(
        "--held-out/--all-grids  Only grids that no organism was trained on; default for organisms."
    )
    seed: int = option("Seed of everything random.", default=0, least=0, most=MOST_SEED)

    def __post_init__(self) -> None:
        for name in SEVERAL:
            values = getattr(self, name)
            if values is not None:
                items = map(tuple, values) if name in _STRATA else values
                object.__setattr__(self, name, tuple(items))

    @property
    def seeds(self) -> list[tuple[int, int]]:
        """Index and seed of each grid; they depend on the run's seed only."""
        return [(index, self.seed * GRIDS_A_SEED + index) for index in range(self.grids or 0)]

    def to_json(self) -> dict[str, Any]:
        """Return resolved options as in run.json; counts are lists of indices, which may grow."""
        plain = {name: json_value(getattr(self, name)) for name in _stored()}
        plain |= {name: list(range(plain[name])) for name in _COUNTED}
        if not plain["held_out"]:
            del plain["held_out"]
        return plain

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> SuiteOptions:
        """Read the options from run.json; raises KeyError or ValueError if they are invalid."""
        values: dict[str, Any] = {n: value.get(n) if n in _ABSENT else value[n] for n in _stored()}
        for name in SEVERAL:
            if name in value and not isinstance(value[name], list):
                raise ValueError(f"{name} is {value[name]!r}, expected a list")
        for name in _COUNTED:
            if values[name] != list(range(len(values[name]))):
                raise ValueError(f"{name} is {values[name]}, expected indices from 0")
            values[name] = len(values[name])
        return cls(**(values | {"held_out": bool(values["held_out"])}))


def _stored() -> list[str]:
    return [each.name for each in fields(SuiteOptions) if each.name != "paper"]


@dataclass(frozen=True)
class LabelledWorld:
    """World of a suite with its labels."""

    size: int  # rows of the grid
    complexity: float | None  # of a maze; None for other worlds
    grid: int  # index of the grid
    seed: int  # random seed of the grid
    transform: str | None  # name of the change of frame; None for the original grid
    condition: Condition  # other labels, as JSON values
    world: GridWorld  # world in the changed frame


def cap_of(world: GridWorld, cap: int | None, factor: float | None) -> int:
    """Return the maximum number of steps in a world: `cap`, or a multiple of the shortest path.

    Where no way leads to the goal, it is the number of steps to the farthest cell.
    """
    if cap is not None:
        return cap
    plan = planned(world)
    steps = plan.distance
    if steps < 0:
        return int(distances_from(world.walls, [world.start]).max())
    if world.thing is not None and world.door is None:  # the path fetches the object
        walls = world.walls.copy()
        walls[world.goal] = True
        to_thing = int(distances_from(walls, [world.start])[0][world.thing])
        if to_thing >= 0:
            steps = to_thing + plan.distance_from(State(world.thing, WITH_KEY))
    # In floating point 1.1 * 10 exceeds 11, so the factor is a fraction.
    return ceil(Fraction(repr(float(factor or 0))) * steps)


def object_in(world: GridWorld) -> str | None:
    """Return the object to pick up: "key", "neutral", or None."""
    return next((name for name in OBJECTS if getattr(world, name) is not None), None)


def without_object(condition: str) -> str:
    """Return a condition, as JSON, without the entries that name the object."""
    values = json.loads(condition)
    return json.dumps({name: v for name, v in values.items() if name not in _OBJECT_CONDITIONS})


@dataclass(frozen=True)
class Scale:
    """Default size of a suite; fields as in `SuiteOptions`."""

    sizes: tuple[int, ...]
    complexities: tuple[float, ...] = ()
    grids: int = 1
    trajectories: int = 1


@dataclass(frozen=True, kw_only=True)
class Suite:
    """A family of grid worlds and the measures that apply to them."""

    name: str  # name on the command line; part of the key of stored walks, so it never changes
    about: str  # short description
    # Generator of the labelled worlds, in the order of the run, from resolved options.
    worlds: Callable[[SuiteOptions], Iterator[LabelledWorld]]
    small: Scale  # default scale
    paper: Scale  # scale with `SuiteOptions.paper`
    known_sizes: tuple[int, ...] | None = None  # valid sizes; None: any odd size
    has_complexity: bool = False  # whether worlds are mazes, with tables by size and complexity
    has_frames: bool = False  # whether each grid comes in changed frames, which are compared
    key: str | None = None  # OPENS_THE_WAY or OPENS_NOTHING; None: worlds without a key
    is_paired: bool = False  # whether each world with a key has a control without it
    paper_cap: int | None = None  # cap with `SuiteOptions.paper`; None: 1.5 x the shortest path
    prompt: str = "plain/1"  # default prompt template
    effort: str = "low"  # the paper's reasoning effort for language models that support it
    references: tuple[str, ...] = REFERENCES  # names of the baseline agents

    def resolve(self, options: SuiteOptions, *, conditions: int = 1) -> SuiteOptions:
        """Validate options and fill in defaults; `conditions` is their number for each world."""
        has_objects = self.key == OPENS_NOTHING
        for names, is_supported, where in (
            (("complexities", *_STRATA), self.has_complexity, "mazes"),
            (("transforms",), self.has_frames, "suites in several frames"),
            (("objects",), has_objects, "suites whose keys open nothing"),
        ):
            if given := [name for name in names if getattr(options, name) and not is_supported]:
                raise InvalidParameterError(f"{self.name!r} has no {given[0]}; only {where} do")
        cap, factor = self.limits(options.cap, options.cap_factor, paper=options.paper)
        usual = vars(self.paper if options.paper else self.small) | {
            "objects": (KEY,) if has_objects else (),
            "distances": (),
            "detours": (),
        }
        values = {name: getattr(options, name) for name in usual}
        chosen = usual | {name: v for name, v in values.items() if v not in (None, ())}
        transforms = options.transforms
        if transforms is None:
            transforms = tuple(TRANSFORMS) if self.has_frames else ()
        for name, most in (("grids", MOST_WORLDS), ("trajectories", MOST_WALKS)):
            chosen[name] = whole(chosen[name], name, least=1, most=most)
        chosen["complexities"] = tuple(
            finite(value, "complexity", least=0, most=1) for value in chosen["complexities"]
        )
        objects = _check_names("object", chosen["objects"], OBJECTS)
        chosen["objects"] = tuple(sorted(objects, key=OBJECTS.index))
        resolved = replace(
            options,
            **chosen,
            paper=False,
            transforms=_check_names("transform", transforms, tuple(TRANSFORMS)),
            cap=cap,
            cap_factor=factor,
            held_out=bool(options.held_out),
            seed=whole(options.seed, "seed", least=0, most=MOST_SEED),
        )
        _check_count(resolved, conditions)
        known = self.known_sizes or chosen["sizes"]
        if unknown := [size for size in chosen["sizes"] if size not in known]:
            raise InvalidParameterError(
                f"{self.name!r} has no grids of size {unknown[0]}, expected "
                f"{' or '.join(map(str, known))}"
            )
        return resolved

    def limits(
        self, cap: int | None, factor: float | None, *, paper: bool
    ) -> tuple[int | None, float | None]:
        """Validate a step limit, `cap` or `factor` of `cap_of`; return the default for neither."""
        if cap is not None and factor is not None:
            raise InvalidParameterError("give either cap or cap_factor, not both")
        if cap is None and factor is None:
            cap = self.paper_cap if paper else None
            factor = PAPER_FACTOR if paper else FACTOR
        if cap is not None:
            return whole(cap, "cap", least=1, most=MOST_STEPS), None
        return None, finite(factor, "cap_factor", least=1, most=MOST_FACTOR)


def _check_names(noun: str, names: Sequence[str], known: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known, quoted=True)
            raise InvalidParameterError(
                f"there is no {noun} {name!r}, expected one of {', '.join(known)}{hint}"
            )
    if len(set(names)) < len(names):
        raise InvalidParameterError(f"{noun}s has duplicates: {', '.join(names)}; name each once")
    return tuple(names)


def _check_count(options: SuiteOptions, conditions: int) -> None:
    """Raise InvalidParameterError for too many worlds or walks, before any world is made."""
    lists = (options.sizes, options.complexities, options.distances, options.detours)
    worlds = prod(len(values or ()) or 1 for values in lists) * (options.grids or 0) * conditions
    worlds *= 1 + len(options.transforms or ())
    walks = worlds * (options.trajectories or 0)
    for most, noun, made in ((MOST_WORLDS, "worlds", worlds), (MOST_WALKS, "walks", walks)):
        if made > most:
            raise InvalidParameterError(
                f"these options make {made} {noun}, expected at most {most}; choose fewer sizes, "
                f"complexities, grids or trajectories"
            )
