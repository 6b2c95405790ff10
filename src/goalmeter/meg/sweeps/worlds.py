"""Worlds of a sweep: MDP files, named generators, and functions from the user's files."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from inspect import Parameter, signature
from math import inf, prod
from sys import float_info
from typing import Any

import numpy as np

from goalmeter._errors import (
    MOST_SEED,
    GoalmeterError,
    InvalidParameterError,
    json_text,
    shown,
    whole,
)
from goalmeter._files import reading
from goalmeter._names import did_you_mean
from goalmeter.agents.user_code import load, split_name
from goalmeter.gridworld import GridWorld, key_door, key_no_door, maze, tabular_world, two_paths
from goalmeter.gridworld.conversions import GOAL_UTILITY
from goalmeter.runs.jobs import in_a_line
from goalmeter.tabular import TabularMDP, cliff_world
from goalmeter.tabular.arrays import HEADS

SEED, WORLD, FILES, GENERATOR = "seed", "world", "files", "generator"
MOST_WORLDS = 10_000_000


# --- Arguments ------------------------------------------------------------------------------------
def function_of(name: str, kind: str) -> Callable[..., Any]:
    """Run a file and return the function FILE.py:NAME, which should return a `kind`."""
    path, attribute = split_name(name) or ("", name)
    function: Callable[..., Any] = load(path, attribute, kind=kind)
    return function


def call(function: Callable[..., Any], name: str, /, *before: Any, **arguments: Any) -> Any:
    """Call a user's function; an exception of any kind becomes an InvalidParameterError."""
    try:
        return function(*before, **arguments)
    except (Exception, SystemExit) as cause:
        raise InvalidParameterError(f"{name} raises {in_a_line(cause)}") from cause


def complete_arguments(
    function: Callable[..., Any], name: str, arguments: Mapping[str, Any], seed: int
) -> dict[str, Any]:
    """Return the checked keyword arguments of a function, with the seed where it takes one."""
    out = dict(arguments)
    try:
        parameters = signature(function).parameters.values()
    except (TypeError, ValueError):  # some builtins have no signature
        return out
    named = [p for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    known = [p.name for p in named]
    if SEED in known:
        out.setdefault(SEED, seed)
    if any(p.kind is Parameter.VAR_KEYWORD for p in parameters):
        known += out
    check_arguments(name, out, known, [p.name for p in named if p.default is Parameter.empty])
    return out


def check_arguments(
    name: str, given: Collection[str], known: Sequence[str] = (), required: Sequence[str] = ()
) -> None:
    """Raise for the first argument that is unknown or missing."""
    for argument in given:
        if argument not in known:
            hint = did_you_mean(argument, known, quoted=True) or ";"
            raise InvalidParameterError(
                f"{name} has no argument {argument!r}{hint} expected {', '.join(known) or 'none'}"
            )
    for argument in required:
        if argument not in given:
            raise InvalidParameterError(
                f"{name} needs the argument {argument!r}; its arguments are {', '.join(known)}"
            )


# The axes of a grid of arguments hold the different values of each, the last one fastest.
Axes = dict[str, Sequence[Any]]


def axes_of(arguments: Mapping[str, Any]) -> Axes:
    """Parse a grid: each argument is a value, a list, or {"from": ..., "count": ...}."""
    axes = {name: _axis(name, value) for name, value in arguments.items()}
    if SEED in axes:
        axes[SEED] = axes.pop(SEED)  # always the last
    size = prod(map(len, axes.values()))
    if size > MOST_WORLDS:
        raise InvalidParameterError(
            f"the arguments have {size} combinations, expected at most {MOST_WORLDS}"
        )
    return axes


def _axis(name: str, value: Any) -> Sequence[Any]:
    if isinstance(value, range) and value.step == 1:
        value = {"from": value.start, "count": len(value)}
    if isinstance(value, Mapping):
        if set(value) != {"from", "count"}:
            raise InvalidParameterError(
                f"{name} is {shown(dict(value))}, expected a value, a list of values, or a range "
                f"of whole numbers such as {{ from = 0, count = 100 }}"
            )
        first = whole(value["from"], f"{name}, from", least=-MOST_SEED, most=MOST_SEED)
        count = whole(value["count"], f"{name}, count", least=1, most=MOST_WORLDS)
        return range(first, first + count)
    values = list(value) if isinstance(value, (list, tuple, range)) else [value]
    if not values:
        raise InvalidParameterError(f"{name} is an empty list, expected at least one value")
    texts: set[str] = set()
    for item in values:
        text = "NaN"
        with suppress(TypeError, ValueError):  # arguments reach other processes as JSON
            text = json_text(item)
        if text == "NaN":
            raise InvalidParameterError(
                f"{name} is {shown(item)}, expected numbers, text, true or false, or lists of these"
            )
        if text in texts:
            raise InvalidParameterError(f"{name} has {text} twice; name each value once")
        texts.add(text)
    return values


def label(name: str, arguments: Mapping[str, Any]) -> str:
    """Return a name with its arguments, as tables show it: "maze(size=7, utility=goal)"."""
    if not arguments:
        return name
    return f"{name}({', '.join(f'{key}={spelled(value)}' for key, value in arguments.items())})"


def spelled(value: Any) -> str:
    """Return a value as a label shows it: text as it is, everything else as JSON."""
    return str(value) if value in (inf, -inf) or isinstance(value, str) else json_text(value)


def is_number(value: object) -> bool:
    """Return whether a value is a number that a float can represent."""
    if isinstance(value, int) and not isinstance(value, bool):
        return abs(value) <= float_info.max
    return isinstance(value, float)


# --- Generators -----------------------------------------------------------------------------------
def maze_world(
    size: int,
    complexity: float = 1.0,
    seed: int = 0,
    *,
    horizon: int | None = None,
    discount: float = 1.0,
) -> TabularMDP:
    """Return the MDP of `gridworld.maze`, with reward 1 in the goal."""
    world = maze(size, complexity, seed).world
    return tabular_world(world, horizon=horizon, discount=discount, utility=GOAL_UTILITY).mdp


def rooms_world(
    make: Callable[..., GridWorld],
    seed: int,
    *,
    rooms: int = 2,
    horizon: int | None = None,
    discount: float = 1.0,
    utility: str = GOAL_UTILITY,
) -> TabularMDP:
    """Return the MDP of `gridworld.key_door` or `key_no_door`; `utility` is "goal" or "key"."""
    world = make(seed, rooms=rooms)
    return tabular_world(world, horizon=horizon, discount=discount, utility=utility).mdp


def two_paths_world(
    seed: int, *, horizon: int | None = None, discount: float = 1.0, utility: str = GOAL_UTILITY
) -> TabularMDP:
    """Return the MDP of `gridworld.two_paths`; `utility` is "goal" or "key"."""
    world = two_paths(seed).world
    return tabular_world(world, horizon=horizon, discount=discount, utility=utility).mdp


def gymnasium_world(id: str, **options: Any) -> TabularMDP:  # the name that Gymnasium uses
    """Return the MDP of a Gymnasium environment."""
    return TabularMDP.from_gymnasium(id, **options)


GENERATORS: dict[str, Callable[..., TabularMDP]] = {
    "cliff_world": cliff_world,
    "maze": maze_world,
    "key_door": partial(rooms_world, key_door),
    "key_no_door": partial(rooms_world, key_no_door),
    "two_paths": two_paths_world,
    "gymnasium": gymnasium_world,
}


# --- Sources --------------------------------------------------------------------------------------
_REWARD = "reward.npy"  # the array of an MDP file whose first axis is the states in every form
SAMPLES = 64  # worlds of a generator that are made to estimate how many states they have


@dataclass(frozen=True)
class WorldSource:
    """Worlds by number: MDP files, or what a function returns for each of its arguments."""

    generator: str | None  # a name of `GENERATORS`, or FILE.py:NAME; None for files
    axes: Axes  # of the generator's arguments; of files, one axis "files" of paths

    def __len__(self) -> int:
        return prod(map(len, self.axes.values()))

    @property
    def paths(self) -> Sequence[str]:
        """The MDP files."""
        return () if self.generator else self.axes[FILES]

    def label(self, number: int) -> str:
        """Return the name of a world in tables."""
        return label(self.generator or self.paths[number], self.arguments(number))

    def arguments(self, number: int) -> dict[str, Any]:
        """Return the arguments of a world: files have none."""
        axes = self.axes if self.generator else {}
        places = np.unravel_index(number, [len(values) for values in axes.values()]) if axes else ()
        items = zip(axes.items(), places, strict=True)
        return {name: values[int(place)] for (name, values), place in items}

    @cached_property
    def _function(self) -> Callable[..., TabularMDP]:
        name = self.generator or ""
        return GENERATORS.get(name) or function_of(name, WORLD)

    def make(self, number: int) -> TabularMDP:
        """Return the world of a number."""
        if self.generator is None:
            return TabularMDP.from_npz(self.paths[number])
        # The table shows the arguments, so the message omits them and can be counted.
        arguments, function = self.arguments(number), self._function
        if self.generator in GENERATORS:
            try:
                return function(**arguments)
            except (TypeError, ValueError, OverflowError) as cause:
                raise InvalidParameterError(str(cause)) from cause
        world = call(function, self.generator, **arguments)
        if not isinstance(world, TabularMDP):
            raise InvalidParameterError(
                f"{self.generator} gives {shown(world)}, of type {type(world).__name__}, expected "
                f"one TabularMDP; a sweep calls it once for each combination of its arguments"
            )
        return world

    def states(self) -> list[int]:
        """Return the number of states of each world, 1 where unknown; a file's header has it."""
        if self.generator is None:
            return [_states_in(path) for path in self.paths]
        if self.generator not in GENERATORS:
            name = self.label(0)
            try:
                first, second = world_digest(self.make(0)), world_digest(self.make(0))
            except GoalmeterError as cause:
                raise InvalidParameterError(f"the first world, {name}: {cause}") from cause
            if first != second:
                raise InvalidParameterError(
                    f"{name} gives another world when it is called again; a world is made wherever "
                    f"its rows are, so it has to depend on the arguments alone: draw from "
                    f"numpy.random.default_rng(seed), with seed an argument"
                )
        stride = -(-len(self) // SAMPLES)
        out: list[int] = []
        for number in range(0, len(self), stride):
            try:
                size = self.make(number).n_states
            except Exception:  # the row of this world will have the message
                size = 1
            out += [size] * min(stride, len(self) - number)
        return out


def world_digest(world: TabularMDP) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of a world's arrays and numbers."""
    numbers = (world.n_states, world.n_actions, world.horizon, world.discount)
    total = hashlib.sha256(repr(numbers).encode())
    for array in (*world.transition.to_successors(), world.reward, world.initial):
        total.update(repr(array.shape).encode())
        total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()[:16]


def _states_in(path: str) -> int:
    """Read the number of states from the header of an MDP file's reward; 1 if impossible."""
    try:
        with reading(path) as file, zipfile.ZipFile(file).open(_REWARD) as member:
            version = np.lib.format.read_magic(member)
            return int(HEADS[version](member)[0][0]) or 1
    except Exception:  # reading all of the file will say what is wrong
        return 1


def may_be_world(path: str) -> bool:
    """Return whether a file has a reward, as MDP files do; True if it cannot be read."""
    try:
        with zipfile.ZipFile(path) as archive:
            return _REWARD in archive.namelist()
    except Exception:  # a damaged archive raises more than BadZipFile
        return True
