"""Measure self-reflection: the average reward per step over the battery.

A plan lists the trials of a measurement; it runs as a study, in this process or in others, and
can be resumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, SupportsIndex

from goalmeter._errors import MOST_SEED, InvalidFileError, InvalidParameterError, whole
from goalmeter._files import digest
from goalmeter.agents.abilities import Ability, without_checks
from goalmeter.agents.history import Agent, HistoryFunction, as_agent
from goalmeter.agents.registry import agent as named_agent
from goalmeter.agents.registry import history_agent
from goalmeter.agents.user_agents import agent_of
from goalmeter.agents.user_code import files_of, split_name
from goalmeter.reflection.environments.base import READINGS, Run, check_reading
from goalmeter.reflection.environments.registry import BATTERY, ENVIRONMENTS, Environment, opposite
from goalmeter.reflection.result import Reflection as Reflection
from goalmeter.reflection.result import reflection_of
from goalmeter.reflection.trial import (
    COUNTINGS,
    MOST_ENVIRONMENTS,
    MOST_SEEDS,
    MOST_STEPS,
    MOST_TRIALS,
    Trial,
    check_confidence,
    check_counting,
    check_player,
    check_timeout,
    is_user_code,
    run_trial,
    runs_of,
    seeds_of,
)
from goalmeter.runs import (
    HERE,
    Batch,
    JobResult,
    Study,
    carry_out,
    check_place,
    own_process,
    read_run,
    stored_results,
)
from goalmeter.runs import check as check_study
from goalmeter.runs.forecast import Forecast, forecast_of
from goalmeter.runs.jobs import FAILED, OK, REFUSED, in_a_line
from goalmeter.runs.progress import Tell
from goalmeter.runs.reading import RUN, another_kind, check_record, is_whole, listed, text, word
from goalmeter.runs.reading import whole as reading_whole

# --- Plan -----------------------------------------------------------------------------------------
# A plan by names can be played in any process and kept on disk; one with objects only here and now.

KIND = "reflection"
# What can be measured: a name, or what stands for an agent.
AgentLike = Agent | HistoryFunction | type[Agent] | str
# Ways to read the rules, and what is published.
OPTIONS = ("opposite_reading", "step_counting")
DEFAULTS = (READINGS[0], COUNTINGS[0])
# Agents that train. They are played in processes of their own, whose numerics have one thread: with
# more, the last bits of their sums, and so their choices, may differ.
HEAVY = frozenset({"a2c", "dqn", "ppo", "ppo-as-published", "recurrent-dqn"})


@dataclass(frozen=True)
class Case:
    """One trial that is asked for."""

    environment: Environment
    opposite: bool
    seed: int

    @property
    def key(self) -> str:
        """What it is kept under."""
        return key(spelled(self.environment, self.opposite), self.seed)

    @property
    def arguments(self) -> dict[str, Any]:
        """Of `named_trial.play`, those that differ from trial to trial."""
        return vars(self) | {"environment": self.environment.name}


@dataclass(frozen=True)
class TrialPlan:
    """What is to be measured.

    Attributes:
        agent: it, a class of it that is called with a seed, or its name.
        runs: environments, and whether their opposites are meant.
        steps: percepts of each trial.
        seeds: all different.
        opposite_reading: see `Environment.start`.
        step_counting: see `run_trial`.
    """

    agent: Agent | type[Agent] | str
    runs: tuple[tuple[Environment, bool], ...]
    steps: int
    seeds: tuple[int, ...]
    opposite_reading: str = READINGS[0]
    step_counting: str = COUNTINGS[0]

    def __post_init__(self) -> None:
        check_reading(self.opposite_reading)
        check_counting(self.step_counting)
        if (trials := len(self.runs) * len(self.seeds)) > MOST_TRIALS:
            raise InvalidParameterError(
                f"environments, opposites and seeds make {trials} trials, expected at most "
                f"{MOST_TRIALS}; ask for fewer seeds"
            )

    @property
    def agent_name(self) -> str:
        """As in tables."""
        agent = self.agent
        if isinstance(agent, str):
            return agent
        if isinstance(agent, type):
            return agent.__name__
        plain = type(agent).__repr__ is object.__repr__  # which gives its place in memory
        return type(agent).__name__ if plain else repr(agent)

    def made(self, seed: int) -> Agent:
        """The agent of a trial."""
        agent = self.agent
        if isinstance(agent, str):
            return history_agent(agent, seed)
        return agent_of(agent, seed, f"the agent {self.agent_name}")

    @property
    def cases(self) -> list[Case]:
        """Every trial, one seed after the other."""
        return [
            Case(environment, is_opposite, seed)
            for seed in self.seeds
            for environment, is_opposite in self.runs
        ]

    @property
    def arguments(self) -> dict[str, Any]:
        """Of `named_trial.play`, those that all trials share."""
        readings = {name: getattr(self, name) for name in OPTIONS}
        return {"agent": self.agent_name, "steps": self.steps} | readings

    @property
    def readings(self) -> dict[str, str]:
        """What is not read as published: the name of the option, and its value."""
        return readings_of(self.arguments)

    def object_in_it(self) -> str:
        """What of it has no name by which another process could find it, in words; "" if all has.

        The words are the subject of a sentence.
        """
        if not isinstance(self.agent, str):
            return f"the agent {self.agent_name}"
        for environment, _ in self.runs:
            # A user's class may have the name of one of ours, and is another environment.
            known = ENVIRONMENTS.get(environment.base)
            if not environment.spelled and (known is None or known.run is not environment.run):
                return f"the environment {environment.name}"
        return ""

    def needs_process(self) -> bool:
        """Whether it is played in another process even if nothing asks for one."""
        return not self.object_in_it() and (
            is_user_code(self.agent_name)
            or bare(self.agent_name) in HEAVY
            or any(environment.spelled for environment, _ in self.runs)
        )

    def as_json(self) -> dict[str, Any]:
        """What tells this measurement from others, as JSON values; of names only."""
        return (
            {
                "kind": KIND,
                "agent": self.agent_name,
                "steps": self.steps,
                "seeds": list(self.seeds),
                "environments": [
                    spelled(environment, is_opposite) for environment, is_opposite in self.runs
                ],
                "opposite_reading": self.opposite_reading,
            }
            | self.readings
            | named_agent(self.agent_name).identity()
            | {f"content of {path} (sha256)": digest(path) for path in self._of_environments()}
        )

    def files(self) -> dict[str, str]:
        """The files that a trial reads, agents' and environments', with their SHA-256.

        One that is not there is left to whoever runs it, who says what it should be.
        """
        paths = [*named_agent(self.agent_name).all_files(), *self._of_environments()]
        return {path: digest(path) for path in dict.fromkeys(paths) if Path(path).is_file()}

    def _of_environments(self) -> list[str]:
        files = [split_name(environment.spelled) for environment, _ in self.runs]
        return sorted({path for parts in files if parts for path in files_of(parts[0])})


def plan_of(
    agent: AgentLike, steps: object, seeds: object, environments: object, *readings: str
) -> TrialPlan:
    """The plan of what `measure` is asked for; files have one spelling in it.

    `readings` are the values of `OPTIONS`.
    """
    if isinstance(agent, str):
        named = named_agent(agent)
        named.require(Ability.HISTORY, asker="self-reflection")
        agent = named.name
    elif not (isinstance(agent, type) and hasattr(agent, "begin")):
        agent = as_agent(agent)
    steps = whole(steps, "steps", least=1, most=MOST_STEPS)
    return TrialPlan(agent, runs_of(environments), steps, seeds_of(seeds), *readings)


def readings_of(what: Mapping[str, Any]) -> dict[str, str]:
    """What of a measurement is not read as published; an option that is not there is."""
    return {k: what[k] for k in OPTIONS if k in what and what[k] not in DEFAULTS}


def key(name: str, seed: int) -> str:
    """What a trial is kept under; an opposite is named as such."""
    return f"{name} seed {seed}"


def spelled(environment: Environment, is_opposite: bool) -> str:
    """The name of an environment, or of its opposite."""
    return opposite(environment.name) if is_opposite else environment.name


def bare(name: str) -> str:
    """An agent's name without the reality checks around it.

    >>> bare("rc(rc(naive))")
    'naive'
    """
    return without_checks(name)[0]


# --- Playing --------------------------------------------------------------------------------------
_MODULE = "goalmeter.reflection.trial"
_ADVICE = "a file is run before each trial, so keep what takes long or may fail out of it"
_RUN = {
    "kind": word(KIND),
    "agent": text(empty=False),
    "steps": reading_whole(1, MOST_STEPS),
    "seeds": listed("seeds", lambda seed: is_whole(seed, 0, MOST_SEED), least=1, most=MOST_SEEDS),
    "environments": listed(
        "names", lambda name: isinstance(name, str), least=1, most=2 * MOST_ENVIRONMENTS
    ),
    "opposite_reading": word(*READINGS),
    "step_counting": word(*COUNTINGS, required=False),
}


def study_of(
    plan: TrialPlan, *, on: str, timeout: float | None, out: str | Path | None
) -> tuple[Study[Trial], str]:
    """The study of a plan, and where its trials run.

    Scripted agents and objects are played in this process if that is asked for. What needs a limit
    of time, trains networks or is of a user's file has a process of its own then.
    """
    check_place(on)
    _refuse_objects(plan, on=on != HERE, timeout=timeout is not None, out=out is not None)
    # An object cannot cross to another process; users' code could do anything to this one.
    apart = on != HERE or timeout is not None or plan.needs_process()
    cases = {case.key: case for case in plan.cases}
    names = sorted({case.environment.name for case in cases.values()})
    first = {"agent": plan.agent_name, "environments": names, "seed": plan.seeds[0]}
    study = Study(
        plan.agent_name,
        f"{_MODULE}:play" if apart else partial(_played, plan),
        {key: case.arguments if apart else {"case": case} for key, case in cases.items()},
        common=plan.arguments if apart else {},
        files=plan.files() if apart else {},
        # Of an object nothing is kept, so that nothing has to tell its run from others.
        what=plan.as_json() if out is not None else {},
        grows=("seeds",),
        from_json=partial(trial_of, steps=plan.steps),
        to_json=Trial.to_json,
        is_failure=lambda trial: trial.outcome != OK,
        instead=partial(_without_answer, cases, plan.steps),
        check=Batch(f"{_MODULE}:check", [first]) if apart else Batch(partial(_check, plan), [{}]),
        check_advice=_ADVICE,
    )
    return study, own_process(on) if apart else on


def _check(plan: TrialPlan) -> None:
    environments, is_object = [run for run, _ in plan.runs], not isinstance(plan.agent, str)
    check_player(plan.made(plan.seeds[0]), plan.agent_name, environments, is_users=is_object)


def _played(plan: TrialPlan, case: Case) -> Trial:
    try:
        player = plan.made(case.seed)
    except (Exception, SystemExit) as error:
        return _ended(case, plan.steps, FAILED, in_a_line(error), played=0)
    return run_trial(
        player,
        case.environment,
        opposite=case.opposite,
        steps=plan.steps,
        seed=case.seed,
        opposite_reading=plan.opposite_reading,
        step_counting=plan.step_counting,
    )


def _without_answer(cases: dict[str, Case], steps: int, key: str, result: JobResult) -> Trial:
    """What an agent does to its process is an outcome of its trial, and stops nothing else."""
    outcome = FAILED if result.outcome == REFUSED else result.outcome
    return _ended(cases[key], steps, outcome, result.detail)


def _ended(case: Case, steps: int, outcome: str, detail: str, played: int | None = None) -> Trial:
    """A trial of which nothing is known but how it ended."""
    name = case.environment.name
    return Trial(name, case.opposite, case.seed, steps, 0, outcome, detail, played)


def _refuse_objects(plan: TrialPlan, **options: bool) -> None:
    subject = plan.object_in_it()
    asked = [name for name, is_asked in options.items() if is_asked]
    if subject and asked:
        raise InvalidParameterError(
            f"{subject} is an object, and {' and '.join(asked)} cannot be had with it: another "
            f"process cannot find it, nor can a run be continued with it; write it to a file, and "
            f"name it as FILE.py:NAME"
        )


# --- What a run folder holds, checked field by field when it is read ------------------------------
def check_what(what: Mapping[str, Any], folder: str | Path) -> None:
    """Raises if a run is not described as one of reflection."""
    if what.get("kind") != KIND:
        raise another_kind(folder, what.get("kind"), KIND)
    where = f"{Path(folder) / RUN}"
    check_record(what, _RUN, where, others=True)  # others: digests of users' files
    trials = len(what["seeds"]) * len(what["environments"])
    if trials > MOST_TRIALS:
        raise InvalidFileError(
            f"{where}: seeds and environments make {trials} trials, expected at most {MOST_TRIALS}"
        )


def stored_study(what: Mapping[str, Any]) -> Study[Trial]:
    """The study that a run is of, as far as its trials can be read.

    Nothing is looked up by the names in it, since users' files may be gone.
    """
    keys = [key(name, seed) for seed in what["seeds"] for name in what["environments"]]
    return Study(
        what["agent"],
        f"{_MODULE}:play",
        {kept_as: {} for kept_as in keys},
        what=what,
        from_json=partial(trial_of, steps=what["steps"]),
    )


def trial_of(kept_as: str, value: Any, *, steps: int) -> Trial:
    """The trial that a line of a run holds, under a key, in a run of so many steps."""
    trial = Trial.from_json(value)
    named = key(opposite(trial.environment) if trial.opposite else trial.environment, trial.seed)
    if (named, trial.steps) != (kept_as, steps):
        raise InvalidFileError(
            f"it is of {named}, {trial.steps} steps, expected {kept_as}, {steps} steps, as its key "
            f"has it"
        )
    return trial


# --- Forecast -------------------------------------------------------------------------------------
def forecast(
    agent: AgentLike,
    *,
    steps: SupportsIndex,
    seeds: SupportsIndex | Iterable[SupportsIndex],
    environments: Any,
    opposite_reading: str = "literal",
    step_counting: str = "percepts",
    on: str = HERE,
    timeout: float | None = None,
    out: str | Path | None = None,
) -> Forecast:
    """What `measure` with these arguments will cost; some of its trials are played to see it."""
    plan = plan_of(agent, steps, seeds, environments, opposite_reading, step_counting)
    study, place = study_of(plan, on=on, timeout=timeout, out=out)
    return forecast_of(study, on=place, timeout=timeout, out=out)


# --- Measure --------------------------------------------------------------------------------------
Place = Environment | type[Run] | str


def measure(
    agent: AgentLike,
    steps: SupportsIndex = 500,
    seeds: SupportsIndex | Iterable[SupportsIndex] = 10,
    *,
    environments: Place | Iterable[Place] = BATTERY,
    confidence: float = 0.95,
    opposite_reading: str = "literal",
    step_counting: str = "percepts",
    on: str = HERE,
    timeout: float | None = None,
    out: str | Path | None = None,
    progress: Tell | None = None,
) -> Reflection:
    """Measure the self-reflection of an agent.

    The numbers are the same wherever trials are played, and however often it is interrupted
    and continued.

    Args:
        agent: its name as on the command line, "rc(naive)" or "my_agent.py:agent"; a function
            (history, n_actions, n_observations) -> int; an object with the method `begin`; or a
            class of such objects. One given by name or as a class is made anew, from the seed,
            for each trial; a function or an object is as it is, and only the environments differ.
        steps: percepts of each trial, the first included; or see `step_counting`.
        seeds: how many repetitions, or the seed of each.
        environments: one or more to play, each with its opposite; default the paper's battery. A
            name may be "opposite(IgnoreRewards)", for that alone, or "my_world.py:MyWorld"; a class
            derived from `Run` is one of your own.
        confidence: nominal coverage of the interval.
        opposite_reading: "literal" or "unnegated"; see `Environment.start`.
        step_counting: "percepts", or "actions" to count actions and the rewards that they bring;
            see `run_trial`.
        on: where trials are played: "here", in this process; "processes:8", in eight of this
            machine; or any other place, such as "ray" or "slurm:partition=cpu". Agents that train,
            users' files, and trials with a limit of time have a process of their own instead of
            this one.
        timeout: seconds that a trial may take before it is ended, which is then its outcome;
            default None, no limit.
        out: folder that keeps every finished trial. If it holds some of this measurement, also with
            other seeds, only the others are played.
        progress: told now and then how many trials are finished.

    Raises:
        InvalidParameterError: what is given is no agent, no environments, no seeds, or out of its
            range; no such place; or a place, timeout or out for
            what has no name.
        InvalidFileError: a user's file has no such agent, or `out` holds something else.
        MissingExtraError: the agent needs a package that is not installed.

    Example: an agent that ignores everything gains in the opposites what it loses.
        >>> measure("constant", steps=50, seeds=2).measure
        0.0
    """
    timeout = check_timeout(timeout)
    confidence = check_confidence(confidence)
    plan = plan_of(agent, steps, seeds, environments, opposite_reading, step_counting)
    study, place = study_of(plan, on=on, timeout=timeout, out=out)
    trials = carry_out(study, on=place, timeout=timeout, out=out, progress=progress)
    return reflection_of(
        plan.agent_name,
        plan.steps,
        [*trials.values()],
        runs=len(plan.runs),
        confidence=confidence,
        readings=plan.readings,
    )


def check(
    agent: AgentLike,
    steps: SupportsIndex = 500,
    seeds: SupportsIndex | Iterable[SupportsIndex] = 10,
    *,
    environments: Place | Iterable[Place] = BATTERY,
    opposite_reading: str = "literal",
    step_counting: str = "percepts",
    on: str = HERE,
    timeout: float | None = None,
    out: str | Path | None = None,
) -> None:
    """Raise what `measure` would raise with these before it plays anything.

    A user's file is run once, and a run folder that is not there is made.

    Raises:
        GoalmeterError: see `measure`.
        MissingExtraError: the agent needs a package that is not installed.
    """
    timeout = check_timeout(timeout)
    plan = plan_of(agent, steps, seeds, environments, opposite_reading, step_counting)
    study, place = study_of(plan, on=on, timeout=timeout, out=out)
    check_study(study, on=place, timeout=timeout, out=out)


def load(folder: str | Path, *, confidence: float = 0.95) -> Reflection:
    """The measurement that a run folder holds.

    Args:
        folder: what `measure` was given as `out`.
        confidence: nominal coverage of the interval.

    Raises:
        InvalidFileError: it holds no reflection run.
        IncompleteRunError: it holds not all of its trials.
    """
    confidence = check_confidence(confidence)
    run = read_run(folder)
    described = run.what
    check_what(described, folder)
    trials = stored_results(run, stored_study(described))
    return reflection_of(
        described["agent"],
        described["steps"],
        [*trials.values()],
        runs=len(described["environments"]),
        confidence=confidence,
        readings=readings_of(described),
    )
