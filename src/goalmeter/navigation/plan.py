"""Plan a run: its walks, their Inspect samples, and a cost estimate."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidFileError, InvalidTrajectoryError
from goalmeter._options import option, words
from goalmeter.agents.local_models import is_organism
from goalmeter.gridworld.planner import UNREACHABLE, State
from goalmeter.navigation.inspect.models import Budget, Server, reached, read_limits
from goalmeter.navigation.prompts import (
    HISTORY,
    PROMPT,
    Asking,
    asked,
    conditions,
    default_prompts,
    template,
)
from goalmeter.navigation.suite_definition import Suite, SuiteOptions
from goalmeter.navigation.suites import suite_named
from goalmeter.navigation.trajectories import (
    Episode,
    PlannedWalk,
    Task,
    TaskSet,
    Trajectory,
    tasks_of,
)
from goalmeter.navigation.trajectories import made_of as made_of
from goalmeter.runs import HERE
from goalmeter.runs.forecast import Forecast, Span, left_of
from goalmeter.runs.progress import Tell
from goalmeter.runs.reading import another_kind


@dataclass(frozen=True, kw_only=True)
class NavigationOptions(SuiteOptions):
    """Options of `measure`: for the suite, for a language model, and for the run."""

    beside: Sequence[str] | None = None  # baseline agents in the same worlds; None: the suite's
    # The others are of a language model.
    prompts: Sequence[str] | None = asked(
        "--prompt plain/1,keys/1  Prompt templates; several are compared. Default keys/1 where "
        "there are keys.",
        commas=True,
    )
    history: int = asked("Past steps that a prompt shows.", default=0, least=0, most=10_000)
    asking: Asking | None = None
    server: Server = field(default_factory=Server)
    rounds: int = reached(
        "Retries of trajectories that the server failed.", default=2, least=0, most=1000
    )
    budget: Budget = option(
        "tokens=N,usd=X  Inspect's limits on tokens and cost over all commands of a resumable run.",
        factory=Budget,
        kind=str,
        read=read_limits,
        group="What it may cost",
    )
    logs: Sequence[str | Path] = reached(
        "--from-log FILE.eval  Take over trajectories of `inspect eval goalmeter/...`: a log, or a "
        "folder of logs.",
        kind=list[Path],
        default=(),
    )
    # Where agents walk: "here", in this process; "processes:8", in eight; or another backend, such
    # as "ray" or "slurm:partition=cpu". Language models are queried here, and baselines walk here.
    on: str = HERE
    out: str | Path | None = None  # run directory; an existing run of the measurement is resumed
    progress: Tell | None = None  # callback for messages

    def plan(self, agent: str, suite: str) -> WalkPlan:
        """Plan the walks of an agent in a suite."""
        names = [each.name for each in fields(SuiteOptions)] + ["prompts", "history", "asking"]
        return plan_of(agent, suite, **{name: getattr(self, name) for name in names})


KIND = "navigation"
RECORDED = "recorded"  # entry of run.json with the tasks of walks that another tool recorded
# Entries of run.json that may grow when a run is resumed.
GROWS = ("sizes", "complexities", "grids", "trajectories", "objects", "prompts")


@dataclass(frozen=True)
class WalkPlan:
    """Planned walks of an agent."""

    agent: str
    tasks: TaskSet  # worlds, with the number of walks through each
    # Query settings of a language model, else None; prompts and history are conditions of tasks.
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
        """Identity of the run, as in run.json; counts are lists, which may grow."""
        settings = {} if self.asking is None else self.asking.to_json()
        return {"kind": KIND, "agent": self.agent} | self.worlds | settings

    @property
    def worlds(self) -> dict[str, Any]:
        """Identity of the worlds and prompts, independent of the agent and its settings."""
        out: dict[str, Any] = {"kind": KIND, "suite": self.suite.name}
        if self.tasks.counts is not None:
            pairs = zip(self.tasks.tasks, self.tasks.counts, strict=True)
            return out | {RECORDED: [described(PlannedWalk(task, 0), n) for task, n in pairs]}
        out |= self.options.to_json()
        if self.asking is not None:
            used = [task.condition for task in self.tasks.tasks]
            out["prompts"] = list(dict.fromkeys(condition[PROMPT] for condition in used))
            out["history"] = used[0].get(HISTORY, 0)
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
    # Organisms are measured on grids that they were not trained on.
    if options.get("held_out") is None:
        options["held_out"] = is_organism(agent)
    used: Sequence[Mapping[str, Any]] = ({},)
    if asking is not None:
        used = conditions(prompts or default_prompts(suite, agent), history)
    return WalkPlan(agent, tasks_of(suite, SuiteOptions(**options), used), asking)


def recorded_plan(agent: str, name: str, walks: Sequence[tuple[Task, int]]) -> WalkPlan:
    """Plan walks that another tool recorded: tasks of a suite, with the number of their walks.

    Measures of the suite that need labels or worlds which the tasks lack are left out.
    """
    suite = suite_named(name)
    tasks, counts = zip(*walks, strict=True)
    suite = replace(
        suite,
        has_complexity=all(task.complexity is not None for task in tasks),
        has_frames=suite.has_frames and len({task.transform is None for task in tasks}) == 2,
        is_paired=suite.is_paired and len({task.world.thing is None for task in tasks}) == 2,
    )
    return WalkPlan(agent, TaskSet(suite, tasks, max(counts), SuiteOptions(), counts))


def plan_from(what: Mapping[str, Any], folder: str | Path) -> WalkPlan:
    """Return the plan of a stored run; raises InvalidFileError if its run.json is invalid."""
    if what.get("kind") != KIND:
        raise another_kind(folder, what.get("kind"), KIND)
    try:
        if RECORDED in what:
            walks = [(walk_of(each).task, int(each[WALKS])) for each in what[RECORDED]]
            return recorded_plan(str(what["agent"]), what["suite"], walks)
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
            f"{folder}: run.json does not describe a valid run ({type(cause).__name__}: {cause}); "
            f"restore it, or start a new run in another directory"
        ) from cause


def command_of(what: Mapping[str, Any], folder: str) -> str:
    """Return the command that carries out a stored run, as a user would type it."""
    agent, values = what["agent"], dict[str, Any]()
    typed = ["goalmeter", "navigate", agent, "--suite", what["suite"]]
    if RECORDED in what:
        return shlex.join([*typed, "--walks", "FILE.jsonl", "--out", folder])
    for name in [each.name for each in fields(SuiteOptions)] + ["prompts", "history"]:
        value = what.get(name)
        if name in ("grids", "trajectories"):  # run.json lists their indices
            value = len(value or ())
        if name == "held_out":  # by default where organisms walk
            values |= {} if bool(value) == is_organism(agent) else {name: bool(value)}
        elif value not in (None, 0, [], ["key"]):  # a key is placed by default
            values[name] = value
    typed += words(NavigationOptions, values)
    if "prompts" in what:
        usual, asking = Asking().to_json(), Asking.from_json(what).to_json()
        changed = {name: value for name, value in asking.items() if value != usual[name]}
        typed += words(Asking, changed)
    return shlex.join([*typed, "--out", folder])


# --- Samples --------------------------------------------------------------------------------------
# Keys of a sample's metadata: the walk without its steps, and the number of walks of its task.
WALK, WALKS = "walk", "walks"
NOT_BEGUN = "not begun"


def described(walk: PlannedWalk, walks: int) -> dict[str, Any]:
    """Return the metadata of a sample: a walk without its steps, and the walks of its task."""
    labels = Episode(walk.task).trajectory(walk.number, NOT_BEGUN).to_json()
    del labels["outcome"], labels["steps"]
    return {WALKS: walks, WALK: labels}


def walk_of(metadata: Mapping[str, Any], epoch: int = 1) -> PlannedWalk:
    """Return the walk that a sample describes; each epoch adds a round of walks."""
    if WALK not in metadata:
        raise InvalidTrajectoryError(
            "a sample has no walk in its metadata; expected a sample of a goalmeter task"
        )
    walk = {**metadata[WALK], "outcome": NOT_BEGUN, "steps": []}
    task, number = made_of(Trajectory.from_json(walk))
    return PlannedWalk(task, number + (epoch - 1) * int(metadata[WALKS]))


# --- Forecast -------------------------------------------------------------------------------------
# Lower numbers assume walks along the shortest path, upper numbers walks to their caps.
# Prompts, which are half prose and half grid, have about three characters per token.
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
    """Estimate the remaining calls and tokens of a plan; prices in US dollars per million."""
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
            distinct = 1 if asking.temperature == 0 else times
            shortest = task.cap if task.distance == UNREACHABLE else task.distance
            calls = Span(distinct * shortest, times * task.cap)
            prompt = template(task.condition[PROMPT]).prompt(task.world, State(task.world.start))
            steps, prompts = steps + calls, prompts + calls * (len(prompt) / CHARACTERS_A_TOKEN)
    output_cap = caps * asking.attempts * asking.max_tokens
    if asking.token_cap is not None:
        output_cap = min(output_cap, len(left) * asking.token_cap)
    tokens = "output tokens are unknown; give the tokens per answer as --answer-tokens"
    seconds = "hours are unknown; give the seconds per call as --call-seconds"
    outputs = usd = hours = None
    if answer_tokens is not None:
        tokens, outputs = f"an answer has {answer_tokens} tokens", steps * answer_tokens
        if price_in is not None and price_out is not None:
            usd = prompts * (price_in / 1e6) + outputs * (price_out / 1e6)
    if call_seconds is not None:
        seconds = f"a call takes {call_seconds:g} s, and {connections} calls run at once"
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
        assumed=(
            "lower numbers assume walks along the shortest path, upper numbers walks to their "
            "caps, with one call per step; a call is repeated if its answer cannot be parsed",
            f"prompt tokens are the characters of the first prompt of a walk / "
            f"{CHARACTERS_A_TOKEN}",
            tokens,
            seconds,
        ),
    )
