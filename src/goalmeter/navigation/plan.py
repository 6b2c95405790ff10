"""Which walks make a run, and how a run is told from another: plain data, as it is kept on disk."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidFileError, InvalidParameterError
from goalmeter.gridworld.transforms import TRANSFORMS
from goalmeter.navigation.caps import FACTOR, PAPER_FACTOR, PAPER_STEPS_WITH_KEYS
from goalmeter.navigation.suites import Bounds, Suite, Task, suite

KIND = "navigation"
# What of a run may be asked for in greater number later: the walks that are there still count.
GROWS = ("sizes", "complexities", "grids", "trajectories")


@dataclass(frozen=True)
class Plan:
    """An agent and the walks that it is to take.

    Attributes:
        agent: its name.
        suite: the tasks.
        options: of `suites.suite`, those that tell one run from another.
    """

    agent: str
    suite: Suite
    options: Mapping[str, Any]

    @property
    def what(self) -> dict[str, Any]:
        """What tells this run from others, as JSON values; numbers are lists, which may grow."""
        tasks = self.suite.tasks
        return {
            "kind": KIND,
            "agent": self.agent,
            "suite": self.suite.name,
            "sizes": list(dict.fromkeys(task.size for task in tasks)),
            "complexities": list(
                dict.fromkeys(t.complexity for t in tasks if t.complexity is not None)
            ),
            "grids": list(dict.fromkeys(task.grid for task in tasks)),
            "trajectories": list(range(self.suite.trajectories)),
            **self.options,
        }

    def keys(self) -> dict[str, tuple[Task, int]]:
        """What each walk is kept under, in the order of the suite."""
        return {key(task, index): (task, index) for task, index in self.suite.walks()}


def plan_of(
    agent: str,
    name: str,
    *,
    paper: bool = False,
    sizes: Sequence[int] | None = None,
    complexities: Sequence[float] | None = None,
    grids: int | None = None,
    trajectories: int | None = None,
    transforms: Sequence[str] | None = None,
    distances: Sequence[Bounds] | None = None,
    detours: Sequence[Bounds] | None = None,
    cap: int | None = None,
    cap_factor: float | None = None,
    seed: int = 0,
) -> Plan:
    """The plan of an agent in a suite; options as those of `suites.suite`.

    Raises:
        InvalidParameterError: as `suites.suite`; transforms of another suite than "isometries".
    """
    if transforms is not None and name != "isometries":
        raise InvalidParameterError(f"transforms are those of 'isometries'; {name!r} has none")
    mazes = name in ("maze", "isometries")
    if cap is None and cap_factor is None:
        # As numbers, so that a run stays what it is should the defaults change.
        cap = PAPER_STEPS_WITH_KEYS if paper and not mazes else None
        cap_factor = None if cap is not None else (PAPER_FACTOR if paper else FACTOR)
    made = suite(
        name,
        paper=paper,
        sizes=sizes,
        complexities=complexities,
        grids=grids,
        trajectories=trajectories,
        transforms=tuple(TRANSFORMS) if transforms is None else transforms,
        distances=distances,
        detours=detours,
        cap=cap,
        cap_factor=cap_factor,
        seed=seed,
    )
    return Plan(
        agent,
        made,
        {
            "transforms": list(dict.fromkeys(t.transform for t in made.tasks if t.transform)),
            "distances": [list(bounds) for bounds in distances or ()],
            "detours": [list(bounds) for bounds in detours or ()],
            "cap": cap,
            "cap_factor": cap_factor,
            "seed": seed,
        },
    )


def plan_from(what: Mapping[str, Any], folder: str | Path) -> Plan:
    """The plan that a run on disk is of.

    Raises:
        InvalidFileError: it is no navigation run, or its run.json was edited.
    """
    if what.get("kind") != KIND:
        raise InvalidFileError(f"{folder} is a run of {what.get('kind')!r}, expected {KIND!r}")
    try:
        return plan_of(
            str(what["agent"]),
            what["suite"],
            sizes=what["sizes"],
            complexities=what["complexities"] or None,
            grids=_number(what["grids"]),
            trajectories=_number(what["trajectories"]),
            transforms=what["transforms"] if what["suite"] == "isometries" else None,
            distances=[(low, high) for low, high in what["distances"]] or None,
            detours=[(low, high) for low, high in what["detours"]] or None,
            cap=what["cap"],
            cap_factor=what["cap_factor"],
            seed=what["seed"],
        )
    except (KeyError, TypeError, ValueError) as cause:
        raise InvalidFileError(
            f"{folder}: run.json does not say what the run is ({type(cause).__name__}: {cause}); "
            f"restore it, or begin again in another folder"
        ) from cause


def key(task: Task, index: int) -> str:
    """What a walk is kept under."""
    return f"{task.name}, walk {index}"


def command(what: Mapping[str, Any], folder: str | Path) -> str:
    """What to type to continue a run.

    >>> print(command({"agent": "greedy", "suite": "key-door", "sizes": [9], "complexities": [],
    ...     "grids": [0, 1], "trajectories": [0], "transforms": [], "distances": [], "detours": [],
    ...     "cap": 30, "cap_factor": None, "seed": 0}, "run"))
    goalmeter navigate greedy --suite key-door --sizes 9 --grids 2 --trajectories 1 --cap 30 \
--out run
    """
    words: list[Any] = ["goalmeter", "navigate", what["agent"], "--suite", what["suite"]]
    for name in ("sizes", "complexities", "transforms"):
        if what[name]:
            words += [f"--{name}", ",".join(map(str, what[name]))]
    words += ["--grids", len(what["grids"]), "--trajectories", len(what["trajectories"])]
    for name, option in (("distances", "--distance"), ("detours", "--detour")):
        for low, high in what[name]:
            words += [option, f"{low}-{high}"]
    for name in ("cap", "cap_factor"):
        if what[name] is not None:
            words += [f"--{name.replace('_', '-')}", what[name]]
    if what["seed"]:
        words += ["--seed", what["seed"]]
    return shlex.join(map(str, [*words, "--out", folder]))


def _number(indices: Sequence[int]) -> int:
    """How many there are, if they are 0, 1, 2, ..."""
    if list(indices) != list(range(len(indices))):
        raise ValueError(f"{indices} are not counted from 0")
    return len(indices)
