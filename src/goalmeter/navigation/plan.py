"""Plan a run: its trajectories as plain data, their Inspect samples, and a cost estimate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from goalmeter._errors import GoalmeterError, InvalidFileError, InvalidTrajectoryError
from goalmeter.agents.local_models import is_organism
from goalmeter.gridworld.planner import State
from goalmeter.navigation.inspect.models import Budget, Server
from goalmeter.navigation.prompts import (
    HISTORY,
    PROMPT,
    Asking,
    conditions,
    default_prompts,
    template,
)
from goalmeter.navigation.suite_definition import Suite, SuiteOptions
from goalmeter.navigation.suites import suite_named
from goalmeter.navigation.trajectories import PlannedWalk, TaskSet, Trajectory, tasks_of
from goalmeter.navigation.trajectories import made_of as made_of
from goalmeter.runs import HERE
from goalmeter.runs.forecast import Forecast, Span, left_of
from goalmeter.runs.progress import Tell
from goalmeter.runs.reading import another_kind


@dataclass(frozen=True, kw_only=True)
class NavigationOptions(SuiteOptions):
    """Options of `measure`: those of the suite, of a language model, and of the run."""

    beside: Sequence[str] | None = None  # baseline agents in the same worlds; None: the suite's
    # Of a language model: prompt templates, which are compared (None for the suite's own); past
    # steps that a prompt shows; settings of the queries; how often walks that the server failed are
    # repeated; limits on tokens and cost; logs of Inspect whose walks are taken over.
    prompts: Sequence[str] | None = None
    history: int = 0
    asking: Asking | None = None
    server: Server = field(default_factory=Server)
    rounds: int = 2
    budget: Budget = field(default_factory=Budget)
    logs: Sequence[str | Path] = ()
    # Where agents walk: "here", in this process; "processes:8", in eight; or another backend, such
    # as "ray" or "slurm:partition=cpu". Language models are queried here, and baselines walk here.
    on: str = HERE
    out: str | Path | None = None  # run directory; a run of the same measurement is resumed
    progress: Tell | None = None  # callback for messages

    def plan(self, agent: str, suite: str) -> WalkPlan:
        """Return the plan of an agent in a suite."""
        names = [each.name for each in fields(SuiteOptions)] + ["prompts", "history", "asking"]
        return plan_of(agent, suite, **{name: getattr(self, name) for name in names})


KIND = "navigation"
# Entries of a run that may grow later.
GROWS = ("sizes", "complexities", "grids", "trajectories", "objects", "prompts")


@dataclass(frozen=True)
class WalkPlan:
    """Walks of an agent."""

    agent: str
    tasks: TaskSet  # worlds, with the number of walks through each
    # Of a language model, whose prompts and history are conditions of the tasks; else None.
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
        asked = {} if self.asking is None else self.asking.to_json()
        return {"kind": KIND, "agent": self.agent} | self.worlds | asked

    @property
    def worlds(self) -> dict[str, Any]:
        """Identity of the worlds and prompts, whatever the agent and its settings."""
        out: dict[str, Any] = {"kind": KIND, "suite": self.suite.name} | self.options.to_json()
        if self.asking is not None:
            shown = [task.condition for task in self.tasks.tasks]
            out["prompts"] = list(dict.fromkeys(condition[PROMPT] for condition in shown))
            out["history"] = shown[0].get(HISTORY, 0)
        return out

    def keys(self) -> dict[str, PlannedWalk]:
        """Return the walks by key, in the order of the suite."""
        return {walk.name: walk for walk in self.tasks.walks()}


def plan_of(
    agent: str,
    name: str,
    *,
    prompts: Sequence[str] | None = None,
    history: int = 0,
    asking: Asking | None = None,
    **options: Any,
) -> WalkPlan:
    """Plan the walks of an agent in a suite; `options` are fields of `SuiteOptions`."""
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
    if what.get("kind") != KIND:
        raise another_kind(folder, what.get("kind"), KIND)
    try:
        return plan_of(
            str(what["agent"]),
            what["suite"],
            prompts=what.get("prompts"),
            history=what.get("history", 0),
            asking=Asking.from_json(what) if "prompts" in what else None,
            **vars(SuiteOptions.from_json(what)),
        )
    except (LookupError, TypeError, ValueError, AttributeError) as cause:
        raise InvalidFileError(
            f"{folder}: run.json does not say what the run is ({type(cause).__name__}: {cause}); "
            f"restore it, or begin again in another folder"
        ) from cause


# --- Samples --------------------------------------------------------------------------------------
# Entries of the metadata of a sample: the walk without its steps, the number of walks of a task.
WALK, WALKS = "walk", "walks"
NOT_BEGUN = "not begun"


def walk_of(metadata: Mapping[str, Any], epoch: int = 1) -> PlannedWalk:
    """Return the walk that a sample describes; each further epoch is another round of walks."""
    try:
        labels, walks = dict(metadata[WALK]), int(metadata[WALKS])
        read = Trajectory.from_json(labels | {"outcome": NOT_BEGUN, "steps": []})
    except GoalmeterError as cause:
        raise InvalidTrajectoryError(f"the walk in a sample's metadata: {cause}") from cause
    except (KeyError, TypeError, ValueError) as cause:
        raise InvalidTrajectoryError(
            "a sample has no walk in its metadata; it is not one of goalmeter's tasks"
        ) from cause
    task, number = made_of(read)
    return PlannedWalk(task, number + (epoch - 1) * walks)


# --- Forecast -------------------------------------------------------------------------------------
# The lower numbers are for walks along the shortest path, the upper ones for walks to their caps.
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
    """Count the queries and tokens that are left of a language model's plan; prices in US $ / M."""
    asking = plan.asking
    assert asking is not None
    walks = plan.keys()
    left = left_of(walks, out)
    of_task = Counter(id(walks[key].task) for key in left)
    steps = prompts = Span(0, 0)
    caps = 0
    for task in plan.tasks.tasks:
        if times := of_task[id(task)]:
            caps += times * task.cap
            # At temperature 0 each prompt is queried once, so walks may share all queries.
            different = 1 if asking.temperature == 0 else times
            here = Span(different * task.distance, times * task.cap)
            prompt = template(task.condition[PROMPT]).prompt(task.world, State(task.world.start))
            steps, prompts = steps + here, prompts + here * (len(prompt) / CHARACTERS_A_TOKEN)
    output_cap = caps * asking.attempts * asking.max_tokens
    if asking.token_cap is not None:
        output_cap = min(output_cap, len(left) * asking.token_cap)
    assumed = [
        "the lower numbers are for walks by the shortest path, the upper ones for walks to their "
        "caps, with one call a step; an answer that cannot be read is asked for again",
        f"prompt tokens are characters / {CHARACTERS_A_TOKEN}, of the first prompt of a walk",
    ]
    outputs = usd = hours = None
    if answer_tokens is None:
        assumed.append("output tokens are not known: --answer-tokens says what an answer has")
    else:
        assumed.append(f"an answer has {answer_tokens} tokens")
        outputs = steps * answer_tokens
        if price_in is not None and price_out is not None:
            usd = prompts * (price_in / 1e6) + outputs * (price_out / 1e6)
    if call_seconds is None:
        assumed.append("hours are not known: --call-seconds says what a call takes")
    else:
        assumed.append(f"a call takes {call_seconds:g} s, and {connections} are made at once")
        hours = steps * (call_seconds / connections / 3600)
    return Forecast(
        name=plan.agent,
        noun="walk",
        trials=len(walks),
        kept=len(walks) - len(left),
        left=len(left),
        slots=connections,
        hours=hours,
        disk=None,
        calls=steps,
        prompt_tokens=prompts,
        output_tokens=outputs,
        output_cap=output_cap,
        usd=usd,
        assumed=tuple(assumed),
    )
