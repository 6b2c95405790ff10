"""Which walks make a run, and how a run is told from another: plain data, as it is kept on disk."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidFileError, InvalidParameterError
from goalmeter.agents.language_models.names import is_organism
from goalmeter.agents.registry import agent as named_agent
from goalmeter.gridworld.transforms import TRANSFORMS
from goalmeter.navigation.asking.settings import (
    HISTORY,
    PROMPT,
    Asking,
    conditions,
    default_prompts,
)
from goalmeter.navigation.caps import FACTOR, PAPER_FACTOR, PAPER_STEPS_WITH_KEYS
from goalmeter.navigation.stored import KIND as KIND
from goalmeter.navigation.stored import check_what
from goalmeter.navigation.suite_worlds import HAVE_OBJECTS, KEY, Bounds, objects_of
from goalmeter.navigation.suites import Suite, Task, suite

# What of a run may be asked for in greater number later: the walks that are there still count.
GROWS = ("sizes", "complexities", "grids", "trajectories", "objects", "prompts")


@dataclass(frozen=True)
class Plan:
    """An agent and the walks that it is to take.

    Attributes:
        agent: its name.
        suite: the tasks.
        options: of `suites.suite`, those that tell one run from another.
        asking: how a language model is asked; None for a reference agent. Its prompts, and how many
            past steps they show, are conditions of the tasks.
    """

    agent: str
    suite: Suite
    options: Mapping[str, Any]
    asking: Asking | None = None

    @property
    def what(self) -> dict[str, Any]:
        """What tells this run from others, as JSON values; numbers are lists, which may grow.

        Files that the agent consists of are told by their hashes, so that no run goes on with
        another policy under the same name.

        Raises:
            GoalmeterError: a file of the agent cannot be read.
        """
        return self._asked_for | named_agent(self.agent).identity()

    @property
    def _asked_for(self) -> dict[str, Any]:
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
            **self._asked,
        }

    @property
    def _asked(self) -> dict[str, Any]:
        """What tells runs of a language model apart; a reference agent has nothing of it."""
        if self.asking is None:
            return {}
        shown = [task.condition for task in self.suite.tasks]
        return {
            "prompts": list(dict.fromkeys(condition[PROMPT] for condition in shown)),
            "history": shown[0].get(HISTORY, 0),
            **self.asking.to_json(),
        }

    @property
    def worlds(self) -> dict[str, Any]:
        """What tells the worlds of this run from others, whoever walks and is asked how."""
        asked = self.asking.to_json() if self.asking is not None else {}
        here = self._asked_for
        return {name: v for name, v in here.items() if name != "agent" and name not in asked}

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
    objects: Sequence[str] | None = None,
    distances: Sequence[Bounds] | None = None,
    detours: Sequence[Bounds] | None = None,
    cap: int | None = None,
    cap_factor: float | None = None,
    held_out: bool | None = None,
    seed: int = 0,
    prompts: Sequence[str] | None = None,
    history: int = 0,
    asking: Asking | None = None,
) -> Plan:
    """The plan of an agent in a suite; options as those of `suites.suite`.

    A language model has three more: `prompts`, the templates that it is asked in, each of them a
    condition of every task (None for the suite's own); `history`, how many past steps they show;
    and `asking`, the settings of the questions, which is None for a reference agent.

    `held_out` is None for what suits the agent: organisms walk in grids that none of their recipes
    teaches, every other agent in all grids.

    Raises:
        InvalidParameterError: as `suites.suite`; transforms of another suite than "isometries"; no
            such prompt.
    """
    if transforms is not None and name != "isometries":
        raise InvalidParameterError(f"transforms are those of 'isometries'; {name!r} has none")
    mazes = name in ("maze", "isometries")
    if cap is None and cap_factor is None:
        # As numbers, so that a run stays what it is should the defaults change.
        cap = PAPER_STEPS_WITH_KEYS if paper and not mazes else None
        cap_factor = None if cap is not None else (PAPER_FACTOR if paper else FACTOR)
    if held_out is None:
        held_out = is_organism(agent)
    made = suite(
        name,
        paper=paper,
        sizes=sizes,
        complexities=complexities,
        grids=grids,
        trajectories=trajectories,
        transforms=tuple(TRANSFORMS) if transforms is None else transforms,
        objects=objects,
        distances=distances,
        detours=detours,
        conditions=[{}]
        if asking is None
        else conditions(prompts or default_prompts(name, agent), history),
        cap=cap,
        cap_factor=cap_factor,
        held_out=held_out,
        seed=seed,
    )
    return Plan(
        agent,
        made,
        {
            "transforms": list(dict.fromkeys(t.transform for t in made.tasks if t.transform)),
            "objects": list(objects_of(name, objects)) if name in HAVE_OBJECTS else [],
            "distances": [list(bounds) for bounds in distances or ()],
            "detours": [list(bounds) for bounds in detours or ()],
            "cap": cap,
            "cap_factor": cap_factor,
            # Only where it is so: runs of before there was a choice have no such field.
            **({"held_out": True} if held_out else {}),
            "seed": seed,
        },
        asking,
    )


def plan_from(what: Mapping[str, Any], folder: str | Path) -> Plan:
    """The plan that a run on disk is of.

    Raises:
        InvalidFileError: it is no navigation run, or its run.json was edited.
    """
    check_what(what, folder)
    try:
        return plan_of(
            str(what["agent"]),
            what["suite"],
            sizes=what["sizes"],
            complexities=what["complexities"] or None,
            grids=_number(what["grids"]),
            trajectories=_number(what["trajectories"]),
            transforms=what["transforms"] if what["suite"] == "isometries" else None,
            objects=what.get("objects") or None,  # runs of before there was a choice have none
            distances=[(low, high) for low, high in what["distances"]] or None,
            detours=[(low, high) for low, high in what["detours"]] or None,
            cap=what["cap"],
            cap_factor=what["cap_factor"],
            held_out=what.get("held_out", False),
            seed=what["seed"],
            prompts=what.get("prompts"),
            history=what.get("history", 0),
            asking=Asking.from_json(what) if "prompts" in what else None,
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
    if what.get("objects") not in (None, [], [KEY]):
        words += ["--objects", ",".join(what["objects"])]
    words += ["--grids", len(what["grids"]), "--trajectories", len(what["trajectories"])]
    for name, option in (("distances", "--distance"), ("detours", "--detour")):
        for low, high in what[name]:
            words += [option, f"{low}-{high}"]
    for name in ("cap", "cap_factor"):
        if what[name] is not None:
            words += [f"--{name.replace('_', '-')}", what[name]]
    if (held_out := what.get("held_out", False)) != is_organism(what["agent"]):
        words += ["--held-out" if held_out else "--all-grids"]
    if what["seed"]:
        words += ["--seed", what["seed"]]
    if "prompts" in what:
        words += ["--prompt", ",".join(what["prompts"])]
        words += ["--history", what["history"]] if what.get("history") else []
        words += Asking.from_json(what).words()
    return shlex.join(map(str, [*words, "--out", folder]))


def _number(indices: Sequence[int]) -> int:
    """How many there are, if they are 0, 1, 2, ..."""
    if list(indices) != list(range(len(indices))):
        raise ValueError(f"{indices} are not counted from 0")
    return len(indices)
