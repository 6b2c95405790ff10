"""What may be chosen of a suite: one object for the command line, Inspect's tasks and run.json."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

Bounds = tuple[int, int]
# Grids of one run's seed lie this far from those of the next.
GRIDS_A_SEED = 1_000_000


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
        """The options that `to_json` was of, among other entries.

        Runs that were made before objects could be chosen have no field for them; they are then
        left to the suite.

        Raises:
            KeyError: an entry is missing.
            ValueError: grids or walks are not counted from 0.
        """
        given = {each.name: value[each.name] for each in fields(cls) if each.name not in _ABSENT}
        return cls(
            **given
            | {name: _count(value[name]) for name in ("grids", "trajectories")}
            | {
                name: [(low, high) for low, high in value[name]]
                for name in ("distances", "detours")
            },
            objects=value.get("objects"),
            held_out=value.get("held_out", False),
        )


# What run.json need not say, or does not.
_ABSENT = ("paper", "objects", "held_out")


def _count(indices: Sequence[int]) -> int:
    """How many there are, if they are 0, 1, 2, ..."""
    if list(indices) != list(range(len(indices))):
        raise ValueError(f"{indices} are not counted from 0")
    return len(indices)
