"""Where the worlds of a sweep come from: files, or a function of plain arguments.

A world is a number in its source. It is made when it is asked for, in whatever process, from the
path of its file or from the arguments of its function; no world is kept.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from goalmeter._errors import GoalmeterError, InvalidParameterError
from goalmeter._files import reading
from goalmeter._text import shown
from goalmeter.agents.user_code import split_name
from goalmeter.meg.sweeps.generators import GENERATORS
from goalmeter.meg.sweeps.grids import Grid, grid_of, label
from goalmeter.meg.sweeps.users import called, function_of
from goalmeter.tabular import TabularMDP

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
