"""Plan a run: its trajectories as plain data, their Inspect samples, and a cost estimate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from goalmeter._errors import MOST_SEED, GoalmeterError, InvalidFileError, InvalidTrajectoryError
from goalmeter.agents.local_models import is_organism
from goalmeter.gridworld.generators import MOST_SIZE
from goalmeter.gridworld.planner import State
from goalmeter.navigation.inspect.budget import Budget
from goalmeter.navigation.inspect.models import Server
from goalmeter.navigation.prompts import (
    HISTORY,
    PROMPT,
    Asking,
    conditions,
    default_prompts,
    template,
)
from goalmeter.navigation.suite_definition import (
    MOST_FACTOR,
    MOST_STEPS,
    MOST_WALKS,
    MOST_WORLDS,
    Suite,
    SuiteOptions,
)
from goalmeter.navigation.suites import suite_named, suite_names
from goalmeter.navigation.trajectories import Episode, Task, TaskSet, Trajectory, tasks_of, walk_key
from goalmeter.runs import HERE
from goalmeter.runs.forecast import Forecast, Span, left_of
from goalmeter.runs.progress import Tell
from goalmeter.runs.reading import (
    RUN,
    Field,
    another_kind,
    check_record,
    is_number,
    is_whole,
    listed,
    text,
    whole,
    word,
)

# --- Options --------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class NavigationOptions(SuiteOptions):
    """Options of `measure`: those of the suite, of a language model, and of the run.

    Attributes:
        beside: names of baseline agents in the same worlds; None for those of the suite.
        prompts: templates for a language model, which are compared; None for the suite's own.
        history: number of past steps that a prompt shows.
        asking: settings of the queries to a language model.
        server: connection to the language model.
        rounds: how often walks that the server failed are repeated.
        budget: limits on the tokens and cost of the run.
        logs: logs of Inspect whose walks are taken over.
        on: where agents walk: "here", in this process; "processes:8", in eight; or another backend,
            such as "ray" or "slurm:partition=cpu". Language models are queried by this process, and
            baseline agents walk in it.
        out: run directory; an existing run of the same measurement is resumed.
        progress: callback for messages on the progress.
    """

    beside: Sequence[str] | None = None
    prompts: Sequence[str] | None = None
    history: int = 0
    asking: Asking | None = None
    server: Server = field(default_factory=Server)
    rounds: int = 2
    budget: Budget = field(default_factory=Budget)
    logs: Sequence[str | Path] = ()
    on: str = HERE
    out: str | Path | None = None
    progress: Tell | None = None

    @property
    def of_models(self) -> dict[str, Any]:
        """Options of language models only, where they differ from the default."""
        names = ("asking", "prompts", "history", "budget", "logs")
        given = {name: getattr(self, name) for name in names}
        return {name: value for name, value in given.items() if value and value != Budget()}

    def plan(self, agent: str, suite: str) -> WalkPlan:
        """Return the plan of an agent in a suite."""
        of_suite = {each.name: getattr(self, each.name) for each in fields(SuiteOptions)}
        asked: dict[str, Any] = {name: getattr(self, name) for name in _ASKED}
        return plan_of(agent, suite, **of_suite, **asked)


_ASKED = ("prompts", "history", "asking")


# --- Plan -----------------------------------------------------------------------------------------
KIND = "navigation"
# Entries of a run that may grow later.
GROWS = ("sizes", "complexities", "grids", "trajectories", "objects", "prompts")


@dataclass(frozen=True)
class WalkPlan:
    """Walks of an agent.

    Attributes:
        agent: name.
        tasks: worlds, with the number of walks through each.
        asking: settings of the queries to a language model, whose prompts and history are
            conditions of the tasks; None for other agents.
    """

    agent: str
    tasks: TaskSet
    asking: Asking | None = None

    @property
    def suite(self) -> Suite:
        """Suite of the tasks."""
        return self.tasks.suite

    @property
    def options(self) -> SuiteOptions:
        """Resolved options of the tasks."""
        return self.tasks.options

    @property
    def what(self) -> dict[str, Any]:
        """Identity of the run, as in run.json; numbers are lists, which may grow."""
        labels = {"kind": KIND, "agent": self.agent, "suite": self.suite.name}
        return labels | self.options.to_json() | self._asked

    @property
    def _asked(self) -> dict[str, Any]:
        """The part of a language model."""
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
        """Identity of the worlds, whatever the agent and its settings."""
        asked = self.asking.to_json() if self.asking is not None else {}
        return {name: v for name, v in self.what.items() if name != "agent" and name not in asked}

    def keys(self) -> dict[str, tuple[Task, int]]:
        """Return the walks by key, in the order of the suite."""
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
    """Plan the walks of an agent in a suite; `options` are fields of `SuiteOptions`.

    Without `held_out`, organisms walk in held-out grids, others in all.
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
    """Return the plan of a stored run; raises InvalidFileError if its run.json is invalid."""
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


# --- Validation of run.json -----------------------------------------------------------------------
_MOST_NAMES = 100  # of transforms, objects, templates, strata


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _are_bounds(ends: Any) -> bool:
    whole_ends = isinstance(ends, list) and all(is_whole(end, 0, MOST_STEPS) for end in ends)
    return whole_ends and len(ends) == 2


_STRATA = Field(
    "a list of pairs of whole numbers, the least and the greatest",
    lambda v: isinstance(v, list) and len(v) <= _MOST_NAMES and all(map(_are_bounds, v)),
)
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
    "objects": listed("names", _is_text, most=_MOST_NAMES, required=False),
    "distances": _STRATA,
    "detours": _STRATA,
    "cap": whole(1, MOST_STEPS, or_null=True),
    "cap_factor": Field(
        f"a number from 1 to {MOST_FACTOR:g} or null",
        lambda v: v is None or (is_number(v, MOST_FACTOR) and v >= 1),
    ),
    "held_out": Field("true or false", lambda v: isinstance(v, bool), required=False),
    "seed": whole(0, MOST_SEED),
    # Of language models; `Asking` validates the rest.
    "prompts": listed("names of templates", _is_text, least=1, most=_MOST_NAMES, required=False),
    "history": whole(0, MOST_STEPS, required=False),
    "options": Field("an object", lambda v: isinstance(v, dict), required=False),
}


def check_what(what: Mapping[str, Any], folder: str | Path) -> None:
    """Raise InvalidFileError unless this describes a navigation run."""
    if what.get("kind") != KIND:
        raise another_kind(folder, what.get("kind"), KIND)
    fields = _RUN | {"suite": word(*suite_names())}
    check_record(what, fields, f"{Path(folder) / RUN}", others=True)


# --- Samples --------------------------------------------------------------------------------------
_KEY, _ROUND = "walk", "walks"
_NOT_BEGUN = "not begun"


class PlannedWalk(NamedTuple):
    """A task and which of the walks through it."""

    task: Task
    number: int

    @property
    def name(self) -> str:
        """Unique name, the same in every run."""
        return walk_key(self.task, self.number)


def samples(tasks: TaskSet, only: Collection[str] | None = None) -> list[dict[str, Any]]:
    """Return walks as fields of Inspect's samples: id, input (the first prompt), metadata.

    `only` are names of walks in the order in which they begin; None for all. "grid" in the metadata
    is the cluster of standard errors, "walks" the number of walks of each task.
    """
    out = []
    walks = {(walk := PlannedWalk(task, index)).name: walk for task, index in tasks.walks()}
    for walk in walks.values() if only is None else map(walks.__getitem__, only):
        world = walk.task.world
        asked = template(walk.task.condition[PROMPT]).prompt(world, State(world.start))
        grid = f"size {walk.task.size}, complexity {walk.task.complexity}, seed {walk.task.seed}"
        plan = Episode(walk.task).trajectory(walk.number, _NOT_BEGUN).to_json()
        del plan["outcome"], plan["steps"]
        metadata = {"grid": grid, _ROUND: tasks.trajectories, _KEY: plan}
        out.append({"id": walk.name, "input": asked, "metadata": metadata})
    return out


def walk_of(metadata: Mapping[str, Any], epoch: int = 1) -> PlannedWalk:
    """Return the walk that a sample describes; each further epoch is another round of walks."""
    try:
        labels, walks = dict(metadata[_KEY]), int(metadata[_ROUND])
    except (KeyError, TypeError, ValueError) as cause:
        raise InvalidTrajectoryError(
            "a sample has no walk in its metadata; it is not one of goalmeter's tasks"
        ) from cause
    try:
        read = Trajectory.from_json(labels | {"outcome": _NOT_BEGUN, "steps": []})
    except GoalmeterError as cause:
        raise InvalidTrajectoryError(f"the walk in a sample's metadata: {cause}") from cause
    made = made_of(read)
    return PlannedWalk(made.task, made.number + (epoch - 1) * walks)


def made_of(read: Trajectory) -> PlannedWalk:
    """Return the task and the number of the walk of a trajectory."""
    task = Task(**{label.name: getattr(read, label.name) for label in fields(Task)})
    return PlannedWalk(task, read.trajectory)


# --- Forecast -------------------------------------------------------------------------------------
# Texts that are half prose and half grid have about three characters a token.
CHARACTERS_A_TOKEN = 3


def forecast(
    plan: WalkPlan,
    *,
    out: str | Path | None = None,
    connections: int = 10,
    answer_tokens: int | None = None,
    call_seconds: float | None = None,
    price_in: float | None = None,
    price_out: float | None = None,
) -> Forecast:
    """Count the queries and tokens that are left of a language model's plan.

    The lower numbers are for walks along the shortest path, the upper ones for walks to their caps.

    Args:
        plan: of a language model.
        out: run directory that may hold some of the walks.
        connections: concurrent queries.
        answer_tokens: tokens of an answer with its reasoning; None leaves output tokens unknown.
        call_seconds: seconds of a query; None leaves the hours unknown.
        price_in: US dollars for a million prompt tokens; None leaves the cost unknown.
        price_out: US dollars for a million output tokens.
    """
    asking = plan.asking
    assert asking is not None
    walks = plan.keys()
    left = left_of(walks, out)
    of_task = Counter(id(walks[key][0]) for key in left)
    steps = prompts = Span(0, 0)
    caps = 0
    for task in plan.tasks.tasks:
        if not (times := of_task[id(task)]):
            continue
        caps += times * task.cap
        # At temperature 0 each prompt is queried once, so walks may share all queries.
        different = 1 if asking.temperature == 0 else times
        of_task_steps = Span(different * task.distance, times * task.cap)
        prompt = template(task.condition[PROMPT]).prompt(task.world, Episode(task).state)
        steps = steps + of_task_steps
        prompts = prompts + of_task_steps * (len(prompt) / CHARACTERS_A_TOKEN)
    outputs = None if answer_tokens is None else steps * answer_tokens
    output_cap = caps * asking.attempts * asking.max_tokens
    if asking.token_cap is not None:
        output_cap = min(output_cap, len(left) * asking.token_cap)
    usd = None
    if price_in is not None and price_out is not None and outputs is not None:
        usd = prompts * (price_in / 1e6) + outputs * (price_out / 1e6)
    return Forecast(
        name=plan.agent,
        noun="walk",
        trials=len(walks),
        kept=len(walks) - len(left),
        left=len(left),
        slots=connections,
        hours=None if call_seconds is None else steps * (call_seconds / connections / 3600),
        disk=None,
        calls=steps,
        prompt_tokens=prompts,
        output_tokens=outputs,
        output_cap=output_cap,
        usd=usd,
        assumed=(
            "the lower numbers are for walks by the shortest path, the upper ones for walks to "
            "their caps, with one call a step; an answer that cannot be read is asked for again",
            f"prompt tokens are characters / {CHARACTERS_A_TOKEN}, of the first prompt of a walk",
            "output tokens are not known: --answer-tokens says what an answer has"
            if answer_tokens is None
            else f"an answer has {answer_tokens} tokens",
            "hours are not known: --call-seconds says what a call takes"
            if call_seconds is None
            else f"a call takes {call_seconds:g} s, and {connections} are made at once",
        ),
    )
