"""Worlds of a sweep: argument grids, named generators, files and user functions."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter, signature
from math import prod
from pathlib import Path
from sys import float_info
from typing import Any

import numpy as np

from goalmeter._errors import (
    MOST_SEED,
    GoalmeterError,
    InvalidFileError,
    InvalidParameterError,
    json_text,
    shown,
    whole,
)
from goalmeter._files import digest, reading
from goalmeter._names import did_you_mean
from goalmeter.agents.user_code import files_of, load, split_name
from goalmeter.gridworld import GridWorld, key_door, key_no_door, maze, tabular_world, two_paths
from goalmeter.gridworld.conversions import GOAL_UTILITY
from goalmeter.runs.jobs import in_a_line
from goalmeter.tabular import TabularMDP, cliff_world


# --- Users ----------------------------------------------------------------------------------------
def function_of(name: str, kind: str) -> Callable[..., Any]:
    """What FILE.py:NAME stands for; the file is run.

    Args:
        name: the file, and behind a colon the function's name in it.
        kind: what it is to give, for the message.
    """
    parts = split_name(name)
    assert parts is not None, "what is of no file has been told apart"
    function = load(*parts, kind=kind)
    if not callable(function):
        raise InvalidFileError(
            f"{name} is {shown(function)}, expected a function that gives a {kind}"
        )
    return function  # type: ignore[no-any-return]  # callable, as was just seen


def contents(names: Collection[str]) -> dict[str, str]:
    """The SHA-256 of the files of some FILE.py:NAME, and of their neighbours that they import."""
    parts = [split_name(name) for name in names]
    paths = sorted({path for pair in parts if pair for path in files_of(pair[0])})
    return {path: digest(path) for path in paths}


def check_arguments(
    function: Callable[..., Any], name: str, arguments: Collection[str], where: str, *, given: int
) -> None:
    """Raises if a function does not take arguments of these names.

    Args:
        function: one of ours, or of a user's.
        name: what it is called in the message.
        arguments: their names.
        where: for the message.
        given: how many arguments it gets besides, before them.
    """
    try:
        parameters = signature(function).parameters
    except (TypeError, ValueError):  # some builtins have no signature
        return
    ours = list(parameters.values())[given:]
    known = [p.name for p in ours if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    if any(p.kind is Parameter.VAR_KEYWORD for p in ours):
        known += [name for name in arguments if name not in known]
    listed = ", ".join(known) or "none"
    for argument in arguments:
        if argument not in known:
            hint = did_you_mean(argument, known, quoted=True) or ";"
            raise InvalidParameterError(
                f"{where}: {name} has no argument {argument!r}{hint} expected {listed}"
            )
    for p in ours:
        if p.name in known and p.default is Parameter.empty and p.name not in arguments:
            raise InvalidParameterError(
                f"{where}: {name} needs the argument {p.name!r}; its arguments are {listed}"
            )


def takes_seed(function: Callable[..., Any]) -> bool:
    """Whether a function has an argument `seed`."""
    try:
        return "seed" in signature(function).parameters
    except (TypeError, ValueError):
        return False


def called(
    function: Callable[..., Any],
    name: str,
    before: Sequence[Any],
    arguments: Mapping[str, Any],
) -> Any:
    """What a user's function gives."""
    try:
        return function(*before, **arguments)
    except (Exception, SystemExit) as cause:
        raise InvalidParameterError(f"{name} raises {in_a_line(cause)}") from cause


# --- Grids ----------------------------------------------------------------------------------------
# Worlds of a sweep; their rows are what a table, and a person, can still hold.
MOST_WORLDS = 10_000_000
FROM, COUNT = "from", "count"
SEED = "seed"


@dataclass(frozen=True)
class Grid:
    """Every combination of some arguments, the last one fastest; `seed` always is the last.

    Attributes:
        axes: name -> the values that the argument takes, all different.
    """

    axes: Mapping[str, Sequence[Any]]

    def __len__(self) -> int:
        return prod(map(len, self.axes.values()))

    def at(self, number: int) -> dict[str, Any]:
        """The arguments of one combination, counted from 0."""
        out: dict[str, Any] = {}
        for name, values in reversed(list(self.axes.items())):
            number, place = divmod(number, len(values))
            out[name] = values[place]
        return {name: out[name] for name in self.axes}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return map(self.at, range(len(self)))

    def to_json(self) -> dict[str, Any]:
        """Lists as they are, ranges as {"from": ..., "count": ...}."""
        return {
            name: {FROM: values.start, COUNT: len(values)}
            if isinstance(values, range)
            else list(values)
            for name, values in self.axes.items()
        }


def grid_of(arguments: Mapping[str, Any], where: str) -> Grid:
    """The grid that some arguments stand for, as a file or a call spells them.

    Args:
        arguments: name -> a list of values, {"from": ..., "count": ...}, or a single value.
        where: for the message.
    """
    axes = {name: _axis(value, f"{where}: {name}") for name, value in arguments.items()}
    if SEED in axes:
        axes[SEED] = axes.pop(SEED)
    grid = Grid(axes)
    size = prod(map(len, axes.values()))
    if size > MOST_WORLDS:
        raise InvalidParameterError(
            f"{where}: the arguments have {size} combinations, expected at most {MOST_WORLDS}"
        )
    return grid


def label(name: str, arguments: Mapping[str, Any]) -> str:
    """A name with its arguments, as tables show it.

    >>> print(label("maze", {"size": 7, "utility": "goal"}), label("optimal", {}))
    maze(size=7, utility=goal) optimal
    """
    if not arguments:
        return name
    return f"{name}({', '.join(f'{key}={spelled(value)}' for key, value in arguments.items())})"


def spelled(value: Any) -> str:
    """A value in a label and in a cell of a table: text as it is, all else as JSON."""
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return str(value)
    return value if isinstance(value, str) else json_text(value)


def is_number(value: object) -> bool:
    """Whether a value is a number that a float can hold."""
    if isinstance(value, int) and not isinstance(value, bool):
        return abs(value) <= float_info.max
    return isinstance(value, float)


def _axis(value: Any, where: str) -> Sequence[Any]:
    if isinstance(value, range):
        value = {FROM: value.start, COUNT: len(value)} if value.step == 1 else list(value)
    if isinstance(value, Mapping):
        if set(value) != {FROM, COUNT}:
            raise InvalidParameterError(
                f"{where} is {shown(dict(value))}, expected a value, a list of values, or a range "
                f"of whole numbers such as {{ from = 0, count = 100 }}"
            )
        first = whole(value[FROM], f"{where}, {FROM}", least=-MOST_SEED, most=MOST_SEED)
        count = whole(value[COUNT], f"{where}, {COUNT}", least=1, most=MOST_WORLDS)
        return range(first, first + count)
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    if not values:
        raise InvalidParameterError(f"{where} is an empty list, expected at least one value")
    texts = [_checked(item, where) for item in values]
    for number, text in enumerate(texts):
        if text in texts[:number]:
            raise InvalidParameterError(f"{where} has {text} twice; name each value once")
    return values


def _checked(value: Any, where: str) -> str:
    """The value as JSON, which is how it reaches other processes."""
    try:
        text = json_text(value)
    except (TypeError, ValueError):
        text = "NaN"
    if text == "NaN":
        raise InvalidParameterError(
            f"{where} is {shown(value)}, expected numbers, text, true or false, or lists of these"
        )
    return text


# --- Generators -----------------------------------------------------------------------------------
def gymnasium(id: str, **options: Any) -> TabularMDP:  # as Gymnasium calls it
    """The MDP of a Gymnasium environment; `options` are those of `TabularMDP.from_gymnasium`."""
    return TabularMDP.from_gymnasium(id, **options)


def maze_world(
    size: int,
    complexity: float = 1.0,
    seed: int = 0,
    *,
    horizon: int | None = None,
    discount: float = 1.0,
) -> TabularMDP:
    """The MDP of `gridworld.maze`, which pays 1 in the goal."""
    return _mdp(maze(size, complexity, seed).world, horizon, discount, GOAL_UTILITY)


def key_door_world(
    seed: int,
    *,
    rooms: int = 2,
    horizon: int | None = None,
    discount: float = 1.0,
    utility: str = GOAL_UTILITY,
) -> TabularMDP:
    """The MDP of `gridworld.key_door`; `utility` is "goal" or "key"."""
    return _mdp(key_door(seed, rooms=rooms), horizon, discount, utility)


def key_no_door_world(
    seed: int,
    *,
    rooms: int = 2,
    horizon: int | None = None,
    discount: float = 1.0,
    utility: str = GOAL_UTILITY,
) -> TabularMDP:
    """The MDP of `gridworld.key_no_door`; `utility` is "goal" or "key"."""
    return _mdp(key_no_door(seed, rooms=rooms), horizon, discount, utility)


def two_paths_world(
    seed: int, *, horizon: int | None = None, discount: float = 1.0, utility: str = GOAL_UTILITY
) -> TabularMDP:
    """The MDP of `gridworld.two_paths`, with its key; `utility` is "goal" or "key"."""
    return _mdp(two_paths(seed).world, horizon, discount, utility)


def _mdp(world: GridWorld, horizon: int | None, discount: float, utility: str) -> TabularMDP:
    return tabular_world(world, horizon=horizon, utility=utility, discount=discount).mdp


GENERATORS: dict[str, Callable[..., TabularMDP]] = {
    "cliff_world": cliff_world,
    "maze": maze_world,
    "key_door": key_door_world,
    "key_no_door": key_no_door_world,
    "two_paths": two_paths_world,
    "gymnasium": gymnasium,
}


def generator_names() -> Collection[str]:
    """The names of worlds that are made, in the order in which they are shown."""
    return GENERATORS.keys()


# --- Sources --------------------------------------------------------------------------------------
# A world is a number in its source. It is made when it is asked for, in whatever process, from the
# path of its file or from the arguments of its function; no world is kept.

WORLD = "world"
# The array of an MDP file whose first axis is its states, whichever form its transition has.
_REWARD = "reward.npy"
# Worlds of a generator that are made beforehand, to see how large they are.
SAMPLES = 64


@dataclass(frozen=True)
class Files:
    """MDP files.

    Attributes:
        paths: as they are shown.
    """

    paths: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.paths)

    def label(self, number: int) -> str:
        """What a world is called."""
        return self.paths[number]

    def arguments(self, number: int) -> dict[str, Any]:
        """What a world was made of, by the names of arguments: nothing."""
        return {}

    def fields(self, number: int) -> dict[str, Any]:
        """What {names} in the path of a policy stand for."""
        return {WORLD: Path(self.paths[number]).stem}

    def maker(self) -> Callable[[int], TabularMDP]:
        """The function that makes the world of a number."""
        return lambda number: TabularMDP.from_npz(self.paths[number])

    def states(self) -> list[int | None]:
        """How many states each world has; None of a file that does not say so."""
        return [states_in(path) for path in self.paths]

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {"files": list(self.paths)}


@dataclass(frozen=True)
class Made:
    """Worlds that a function makes, one for each combination of its arguments.

    Attributes:
        generator: a name of `GENERATORS`, or FILE.py:NAME.
        grid: the arguments.
    """

    generator: str
    grid: Grid

    def __len__(self) -> int:
        return len(self.grid)

    def label(self, number: int) -> str:
        """What a world is called."""
        return label(self.generator, self.grid.at(number))

    def arguments(self, number: int) -> dict[str, Any]:
        """What a world was made of, by the names of arguments."""
        return self.grid.at(number)

    def fields(self, number: int) -> dict[str, Any]:
        """What {names} in the path of a policy stand for."""
        return self.grid.at(number)

    @property
    def is_users(self) -> bool:
        """Whether the function is of a user's file."""
        return split_name(self.generator) is not None

    def maker(self) -> Callable[[int], TabularMDP]:
        """The function that makes the world of a number."""
        function = function_of(self.generator, "world") if self.is_users else None

        def make(number: int) -> TabularMDP:
            arguments = self.grid.at(number)
            if function is None:
                try:
                    return GENERATORS[self.generator](**arguments)
                except (TypeError, ValueError, OverflowError) as cause:
                    raise InvalidParameterError(str(cause)) from cause
            # Its arguments stand beside it in the table, so that sentences can be counted.
            world = called(function, self.generator, (), arguments)
            if not isinstance(world, TabularMDP):
                raise InvalidParameterError(
                    f"{self.generator} gives {shown(world)}, of type {type(world).__name__}, "
                    f"expected one TabularMDP; a sweep calls it once for each combination of its "
                    f"arguments"
                )
            return world

        return make

    def states(self) -> list[int | None]:
        """Return the number of states per world, estimated from a few; None as in Files."""
        make = self.maker()
        if self.is_users:
            _check_repeatable(make, self.label(0))
        stride = -(-len(self) // SAMPLES)
        out: list[int | None] = []
        for number in range(0, len(self), stride):
            try:
                size: int | None = make(number).n_states
            # The row of the world says what is wrong, wherever and whenever it is made.
            except Exception:
                size = None
            out += [size] * min(stride, len(self) - number)
        return out

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {"generator": self.generator, "arguments": self.grid.to_json()}


Source = Files | Made


def source_of(value: Mapping[str, Any]) -> Source:
    """The source that `to_json` was of."""
    if "files" in value:
        return Files(tuple(map(str, value["files"])))
    generator = str(value["generator"])
    return Made(generator, grid_of(value["arguments"], generator))


def world_digest(world: TabularMDP) -> str:
    """The first 16 hexadecimal digits of the SHA-256 of a world's arrays and numbers."""
    import hashlib

    total = hashlib.sha256(
        repr((world.n_states, world.n_actions, world.horizon, world.discount)).encode()
    )
    for array in (*world.transition.to_successors(), world.reward, world.initial):
        total.update(repr(array.shape).encode())
        total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()[:16]


def states_in(path: str | Path) -> int | None:
    """The number of states of an MDP file, from the head of its reward alone; None if unknown."""
    heads = {(1, 0): np.lib.format.read_array_header_1_0}
    heads[2, 0] = np.lib.format.read_array_header_2_0
    try:
        with (
            reading(path) as file,
            zipfile.ZipFile(file) as archive,
            archive.open(_REWARD) as member,
        ):
            shape, _, _ = heads[np.lib.format.read_magic(member)](member)
    # Whatever is wrong with the file is said by whoever reads all of it.
    except Exception:
        return None
    return int(shape[0]) if shape else None


def may_be_world(path: str) -> bool:
    """Whether a file may be an MDP file: it has a reward, or is no archive, which reading it says.

    Policies, features, utilities and trajectories have none.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            return _REWARD in archive.namelist()
    except Exception:  # a damaged archive raises more than BadZipFile
        return True


def _check_repeatable(make: Callable[[int], TabularMDP], name: str) -> None:
    try:
        first, second = make(0), make(0)
    except GoalmeterError as cause:
        raise InvalidParameterError(f"the first world, {name}: {cause}") from cause
    if world_digest(first) != world_digest(second):
        raise InvalidParameterError(
            f"{name} gives another world when it is called again; a world is made wherever its "
            f"rows are, so it has to depend on the arguments alone: draw from "
            f"numpy.random.default_rng(seed), with seed an argument"
        )
