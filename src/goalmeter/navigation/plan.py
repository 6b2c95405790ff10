"""Which walks make a run, and how a run is told from another: plain data, as it is kept on disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalmeter._arguments import MOST_SEED
from goalmeter._errors import InvalidFileError
from goalmeter.agents.language_models.names import is_organism
from goalmeter.gridworld.maze import MOST_SIZE
from goalmeter.navigation.asking.settings import (
    HISTORY,
    PROMPT,
    Asking,
    conditions,
    default_prompts,
)
from goalmeter.navigation.suites.options import MOST_FACTOR, MOST_STEPS, SuiteOptions
from goalmeter.navigation.suites.record import MOST_WALKS, MOST_WORLDS, Suite
from goalmeter.navigation.suites.registry import suite_named, suite_names
from goalmeter.navigation.suites.tasks import Task, TaskSet, tasks_of, walk_key
from goalmeter.runs.checks import (
    Field,
    check_record,
    is_number,
    is_whole,
    listed,
    text,
    whole,
    word,
)
from goalmeter.runs.reading import RUN, another_kind

KIND = "navigation"
# What of a run may be asked for in greater number later: the walks that are there still count.
GROWS = ("sizes", "complexities", "grids", "trajectories", "objects", "prompts")


@dataclass(frozen=True)
class WalkPlan:
    """An agent and the walks that it is to take.

    Attributes:
        agent: its name.
        tasks: the worlds, and how often each is walked through.
        asking: how a language model is asked; None for a reference agent. Its prompts, and how many
            past steps they show, are conditions of the tasks.
    """

    agent: str
    tasks: TaskSet
    asking: Asking | None = None

    @property
    def suite(self) -> Suite:
        """The suite of the tasks."""
        return self.tasks.suite

    @property
    def options(self) -> SuiteOptions:
        """What the tasks were made of, resolved."""
        return self.tasks.options

    @property
    def what(self) -> dict[str, Any]:
        """What tells this run from others, as JSON values; numbers are lists, which may grow."""
        labels = {"kind": KIND, "agent": self.agent, "suite": self.suite.name}
        return labels | self.options.to_json() | self._asked

    @property
    def _asked(self) -> dict[str, Any]:
        """What tells runs of a language model apart; a reference agent has nothing of it."""
        if self.asking is None:
            return {}
        shown = [task.condition for task in self.tasks.tasks]
        return {
            "prompts": list(dict.fromkeys(condition[PROMPT] for condition in shown)),
            "history": shown[0].get(HISTORY, 0),
            **self.asking.to_json(),
        }

    @property
    def worlds(self) -> dict[str, Any]:
        """What tells the worlds of this run from others, whoever walks and is asked how."""
        asked = self.asking.to_json() if self.asking is not None else {}
        return {name: v for name, v in self.what.items() if name != "agent" and name not in asked}

    def keys(self) -> dict[str, tuple[Task, int]]:
        """What each walk is kept under, in the order of the suite."""
        return {walk_key(task, index): (task, index) for task, index in self.tasks.walks()}


def plan_of(
    agent: str,
    name: str,
    *,
    prompts: Sequence[str] | None = None,
    history: int = 0,
    asking: Asking | None = None,
    **options: Any,
) -> WalkPlan:
    """The plan of an agent in a suite.

    Args:
        agent: its name.
        name: of the suite.
        prompts: templates that a language model is asked in; None for the suite's own.
        history: how many past steps the prompts show.
        asking: how a language model is asked; None for a reference agent.
        options: as in `SuiteOptions`. `held_out` is None for what suits the agent: organisms walk
            in grids that none of their recipes teaches, every other agent in all grids.
    """
    suite = suite_named(name)
    # An organism would otherwise be measured on grids that it was taught.
    if options.get("held_out") is None:
        options["held_out"] = is_organism(agent)
    shown: Sequence[Mapping[str, Any]] = ({},)
    if asking is not None:
        shown = conditions(prompts or default_prompts(suite, agent), history)
    return WalkPlan(agent, tasks_of(suite, SuiteOptions(**options), shown), asking)


def plan_from(what: Mapping[str, Any], folder: str | Path) -> WalkPlan:
    """The plan of a run on disk; raises InvalidFileError if its run.json was edited."""
    check_what(what, folder)
    try:
        return plan_of(
            str(what["agent"]),
            what["suite"],
            prompts=what.get("prompts"),
            history=what.get("history", 0),
            asking=Asking.from_json(what) if "prompts" in what else None,
            **vars(SuiteOptions.from_json(what)),
        )
    except (KeyError, TypeError, ValueError) as cause:
        raise InvalidFileError(
            f"{folder}: run.json does not say what the run is ({type(cause).__name__}: {cause}); "
            f"restore it, or begin again in another folder"
        ) from cause


# --- What run.json says, checked field by field when it is read -----------------------------------
_MOST_NAMES = 100  # of transforms, objects, templates, strata


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _are_strata(value: Any) -> bool:
    def are_bounds(ends: Any) -> bool:
        whole_ends = isinstance(ends, list) and all(is_whole(end, 0, MOST_STEPS) for end in ends)
        return whole_ends and len(ends) == 2

    return isinstance(value, list) and len(value) <= _MOST_NAMES and all(map(are_bounds, value))


_STRATA = Field("a list of pairs of whole numbers, the least and the greatest", _are_strata)


_RUN = {
    "kind": word(KIND),
    "agent": text(empty=False),
    "suite": text(empty=False),
    "sizes": listed("sizes of grids", lambda n: is_whole(n, 1, MOST_SIZE), least=1, most=MOST_SIZE),
    "complexities": listed(
        "numbers from 0 to 1", lambda c: is_number(c, 1.0) and c >= 0, most=MOST_WORLDS
    ),
    "grids": listed("numbers of grids", lambda n: is_whole(n, 0, MOST_WORLDS), most=MOST_WORLDS),
    "trajectories": listed(
        "numbers of walks", lambda n: is_whole(n, 0, MOST_WALKS), most=MOST_WALKS
    ),
    "transforms": listed("names", _is_text, most=_MOST_NAMES),
    # Runs of before there was a choice have none.
    "objects": listed("names", _is_text, most=_MOST_NAMES, required=False),
    "distances": _STRATA,
    "detours": _STRATA,
    "cap": whole(1, MOST_STEPS, or_null=True),
    "cap_factor": Field(
        f"a number from 1 to {MOST_FACTOR:g} or null",
        lambda v: v is None or (is_number(v, MOST_FACTOR) and v >= 1),
    ),
    # Only where it is so.
    "held_out": Field("true or false", lambda v: isinstance(v, bool), required=False),
    "seed": whole(0, MOST_SEED),
    # Of language models only. How they are asked besides is checked by `Asking`.
    "prompts": listed("names of templates", _is_text, least=1, most=_MOST_NAMES, required=False),
    "history": whole(0, MOST_STEPS, required=False),
    "options": Field("an object", lambda v: isinstance(v, dict), required=False),
}


def check_what(what: Mapping[str, Any], folder: str | Path) -> None:
    """Raises InvalidFileError unless this describes a navigation run."""
    if what.get("kind") != KIND:
        raise another_kind(folder, what.get("kind"), KIND)
    # Suites of other packages may be registered at any time.
    fields = _RUN | {"suite": word(*suite_names())}
    check_record(what, fields, f"{Path(folder) / RUN}", others=True)
