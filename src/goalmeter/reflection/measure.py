"""Measure self-reflection: the average reward per step over the battery.

A plan lists the trials of a measurement; it runs as a study, in this process or in others, and
can be resumed.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, SupportsIndex

from goalmeter import runs
from goalmeter._errors import MOST_SEED, InvalidFileError, InvalidParameterError, whole
from goalmeter._files import Field, check_record, digest, is_whole
from goalmeter.agents.abilities import Ability, without_checks
from goalmeter.agents.history import Agent, HistoryFunction, as_agent
from goalmeter.agents.registry import agent as named_agent
from goalmeter.agents.registry import history_agent
from goalmeter.agents.user_agents import agent_of
from goalmeter.agents.user_code import files_of, split_name
from goalmeter.reflection.environments.base import READINGS, Run, one_of
from goalmeter.reflection.environments.registry import BATTERY, ENVIRONMENTS, Environment, opposite
from goalmeter.reflection.result import Reflection, reflection_of
from goalmeter.reflection.trial import (
    COUNTINGS,
    MOST_ENVIRONMENTS,
    MOST_SEEDS,
    MOST_STEPS,
    MOST_TRIALS,
    Trial,
    check_confidence,
    check_player,
    check_timeout,
    is_user_code,
    run_trial,
    runs_of,
    seeds_of,
)
from goalmeter.runs.forecast import Forecast, forecast_of
from goalmeter.runs.jobs import FAILED, OK, REFUSED, in_a_line
from goalmeter.runs.progress import Tell
from goalmeter.runs.reading import RUN, another_kind

KIND = "reflection"
# What can be measured: a name, or what stands for an agent.
AgentLike = Agent | HistoryFunction | type[Agent] | str
Place = Environment | type[Run] | str
# Readings of the rules: option -> values, the published one first.
OPTIONS = {"opposite_reading": READINGS, "step_counting": COUNTINGS}
# Agents to compare with, where playing them takes about a second.
BASELINES = ("random", "constant")
_BASELINE_STEPS, _BASELINE_PERCEPTS = 1000, 250_000
# Agents that train. They are played in processes of their own, whose numerics have one thread: with
# more, the last bits of their sums, and so their choices, may differ.
HEAVY = frozenset({"a2c", "dqn", "ppo", "ppo-as-published", "recurrent-dqn"})


class Case(NamedTuple):
    """One trial that is asked for."""

    environment: Environment
    opposite: bool
    seed: int

    @property
    def key(self) -> str:
        """What it is kept under."""
        return key(spelled(self.environment, self.opposite), self.seed)

    def ended(self, steps: int, outcome: str, detail: str, played: int | None = None) -> Trial:
        """Return a trial of which nothing is known but how it ended."""
        name = self.environment.name
        return Trial(name, self.opposite, self.seed, steps, 0, outcome, detail, played)


@dataclass(frozen=True)
class TrialPlan:
    """The trials of a measurement; one by names can be played in any process and kept on disk."""

    agent: Agent | type[Agent] | str  # a class of it is called with a seed
    runs: tuple[tuple[Environment, bool], ...]  # whether the opposites are meant
    steps: int  # percepts of each trial
    seeds: tuple[int, ...]  # all different
    opposite_reading: str = READINGS[0]  # see `Environment.start`
    step_counting: str = COUNTINGS[0]  # see `run_trial`

    def __post_init__(self) -> None:
        for option, values in OPTIONS.items():
            one_of(option, getattr(self, option), values)
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

    @property
    def readings(self) -> dict[str, str]:
        """The readings of the rules."""
        return {name: getattr(self, name) for name in OPTIONS}

    @property
    def common(self) -> dict[str, Any]:
        """The arguments of `trial.play` that all trials share."""
        return {"agent": self.agent_name, "steps": self.steps} | self.readings

    def made(self, seed: int) -> Agent:
        """Return the agent of a trial."""
        if isinstance(self.agent, str):
            return history_agent(self.agent, seed)
        return agent_of(self.agent, seed, f"the agent {self.agent_name}")

    def played(self, case: Case) -> Trial:
        """Play a trial in this process."""
        try:
            player = self.made(case.seed)
        except (Exception, SystemExit) as error:
            return case.ended(self.steps, FAILED, in_a_line(error), played=0)
        asked: dict[str, Any] = case._asdict() | self.readings
        return run_trial(player, asked.pop("environment"), steps=self.steps, **asked)

    def check(self) -> None:
        """Raise what would be wrong with every trial."""
        player, environments = self.made(self.seeds[0]), [run for run, _ in self.runs]
        is_object = not isinstance(self.agent, str)
        check_player(player, self.agent_name, environments, is_users=is_object)

    def object_in_it(self) -> str:
        """Return what has no name by which another process could find it, in words; "" if none."""
        if not isinstance(self.agent, str):
            return f"the agent {self.agent_name}"
        for environment, _ in self.runs:
            # A user's class may have the name of one of ours, and is another environment.
            known = ENVIRONMENTS.get(environment.base)
            if not environment.spelled and (known is None or known.run is not environment.run):
                return f"the environment {environment.name}"
        return ""

    def needs_process(self) -> bool:
        """Return whether it is played in another process even if nothing asks for one."""
        return not self.object_in_it() and (
            is_user_code(self.agent_name)
            or bare(self.agent_name) in HEAVY
            or any(environment.spelled for environment, _ in self.runs)
        )

    def what(self) -> dict[str, Any]:
        """Return the identity of the measurement as JSON values; of names only."""
        identity = {
            "kind": KIND,
            "agent": self.agent_name,
            "steps": self.steps,
            "seeds": list(self.seeds),
            "environments": [spelled(*run) for run in self.runs],
            "opposite_reading": self.opposite_reading,
        }
        digests = {f"content of {p} (sha256)": digest(p) for p in self._environment_files()}
        identity |= readings_of(self.common)
        return identity | named_agent(self.agent_name).identity() | digests

    def files(self) -> dict[str, str]:
        """Return the files that a trial reads, as far as they exist, with their SHA-256."""
        paths = [*named_agent(self.agent_name).all_files(), *self._environment_files()]
        return {path: digest(path) for path in dict.fromkeys(paths) if Path(path).is_file()}

    def _environment_files(self) -> list[str]:
        files = [split_name(environment.spelled) for environment, _ in self.runs]
        return sorted({path for parts in files if parts for path in files_of(parts[0])})


def plan_of(
    agent: AgentLike, steps: object, seeds: object, environments: object, **readings: str
) -> TrialPlan:
    """Return the plan of what `measure` is asked for; files have one spelling in it."""
    if isinstance(agent, str):
        named = named_agent(agent)
        named.require(Ability.HISTORY, asker="self-reflection")
        agent = named.name
    elif not (isinstance(agent, type) and hasattr(agent, "begin")):
        agent = as_agent(agent)
    steps = whole(steps, "steps", least=1, most=MOST_STEPS)
    return TrialPlan(agent, runs_of(environments), steps, seeds_of(seeds), **readings)


def readings_of(what: Mapping[str, Any]) -> dict[str, str]:
    """Return the options of a measurement that are not as published."""
    return {k: what[k] for k, known in OPTIONS.items() if what.get(k, known[0]) != known[0]}


def command_of(what: Mapping[str, Any], folder: str) -> str:
    """Return the command that carries out a stored run, or the call that does."""
    agent, steps, seeds, names = (what[n] for n in ("agent", "steps", "seeds", "environments"))
    first, readings = seeds[0], readings_of(what)
    # An environment that is named is played with its opposite, which is not typed again.
    environments = [n for n in names if not (n[:9] == "opposite(" and n[9:-1] in names)]
    if names == [way for e in BATTERY for way in (e.name, opposite(e.name))]:
        environments = []  # the battery is the default
    if seeds != list(range(first, first + len(seeds))):
        # The command counts seeds from the first one, so only a call can name these.
        options = {"out": folder} | ({"environments": environments} if environments else {})
        named = "".join(f", {name}={value!r}" for name, value in (options | readings).items())
        return f"goalmeter.reflection.measure({agent!r}, {steps}, {seeds}{named})"
    typed = [("environment", name) for name in environments]
    typed += [("steps", steps), ("seeds", len(seeds)), *([("seed", first)] if first else [])]
    typed += [(name.replace("_", "-"), value) for name, value in readings.items()]
    words = [word for name, value in typed for word in (f"--{name}", str(value))]
    return shlex.join(["goalmeter", "reflect", agent, *words, "--out", folder])


def key(name: str, seed: int) -> str:
    """Return what a trial is kept under; an opposite is named as such."""
    return f"{name} seed {seed}"


def spelled(environment: Environment, is_opposite: bool) -> str:
    """Return the name of an environment, or of its opposite."""
    return opposite(environment.name) if is_opposite else environment.name


def bare(name: str) -> str:
    """Return an agent's name without the reality checks around it: naive of rc(rc(naive))."""
    return without_checks(name)[0]


# --- The study of a plan, and what a run directory holds ------------------------------------------
_MODULE = "goalmeter.reflection.trial"
_ADVICE = "a file is run before each trial, so keep what takes long or may fail out of it"
_RUN = {
    "kind": Field.word(KIND),
    "agent": Field("text that is not empty", lambda name: isinstance(name, str) and name != ""),
    "steps": Field.whole(1, MOST_STEPS),
    "seeds": Field.distinct("seeds", lambda seed: is_whole(seed, 0, MOST_SEED), most=MOST_SEEDS),
    "environments": Field.distinct(
        "names", lambda n: isinstance(n, str), most=2 * MOST_ENVIRONMENTS
    ),
    "opposite_reading": Field.word(*READINGS),
    "step_counting": Field.word(*COUNTINGS, required=False),
}


def study_of(
    plan: TrialPlan, *, on: str, timeout: float | None, out: str | Path | None
) -> tuple[runs.Study[Trial], str]:
    """Return the study of a plan, and where its trials run."""
    runs.check_place(on)
    asked = {"on": on != runs.HERE, "timeout": timeout is not None, "out": out is not None}
    if any(asked.values()) and (subject := plan.object_in_it()):
        options = " and ".join(name for name, is_asked in asked.items() if is_asked)
        raise InvalidParameterError(
            f"{subject} is an object, and {options} cannot be had with it: another process cannot "
            f"find it, nor can a run be continued with it; write it to a file, and name it as "
            f"FILE.py:NAME"
        )
    # Scripted agents and objects are played in this process if that is asked for. What needs a
    # limit of time, trains networks or is of a user's file, which could do anything to this
    # process, has one of its own then; an object cannot cross to another process.
    apart = on != runs.HERE or timeout is not None or plan.needs_process()
    # One seed after the other.
    cases = [Case(*run, seed) for seed in plan.seeds for run in plan.runs]
    by_key = {case.key: case for case in cases}

    def without_answer(kept_as: str, result: runs.JobResult) -> Trial:
        # What an agent does to its process is an outcome of its trial, and stops nothing else.
        outcome = FAILED if result.outcome == REFUSED else result.outcome
        return by_key[kept_as].ended(plan.steps, outcome, result.detail)

    jobs: dict[str, dict[str, Any]] = {kept_as: {"case": case} for kept_as, case in by_key.items()}
    check = runs.Batch(plan.check, [{}])
    if apart:
        jobs = {
            kept_as: case._asdict() | {"environment": case.environment.name}
            for kept_as, case in by_key.items()
        }
        names = sorted({case.environment.name for case in cases})
        first = {"agent": plan.agent_name, "environments": names, "seed": plan.seeds[0]}
        check = runs.Batch(f"{_MODULE}:check", [first])
    study = runs.Study(
        plan.agent_name,
        f"{_MODULE}:play" if apart else plan.played,
        jobs,
        common=plan.common if apart else {},
        files=plan.files() if apart else {},
        # Of an object nothing is kept, so that nothing has to tell its run from others.
        what=plan.what() if out is not None else {},
        grows=("seeds",),
        from_json=partial(trial_of, steps=plan.steps),
        to_json=Trial.to_json,
        is_failure=lambda trial: trial.outcome != OK,
        instead=without_answer,
        check=check,
        check_advice=_ADVICE,
    )
    return study, runs.own_process(on) if apart else on


def trial_of(kept_as: str, value: Any, *, steps: int) -> Trial:
    """Return the trial that a line of a run holds, under a key, in a run of so many steps."""
    trial = Trial.from_json(value)
    named = key(opposite(trial.environment) if trial.opposite else trial.environment, trial.seed)
    if (named, trial.steps) != (kept_as, steps):
        raise InvalidFileError(
            f"it is of {named}, {trial.steps} steps, expected {kept_as}, {steps} steps, as its key "
            f"has it"
        )
    return trial


def _prepared(
    agent: AgentLike,
    steps: object = 500,
    seeds: object = 10,
    *,
    environments: object = BATTERY,
    timeout: object = None,
    on: str = runs.HERE,
    out: str | Path | None = None,
    **readings: str,
) -> tuple[TrialPlan, runs.Study[Trial], dict[str, Any]]:
    """The plan of these arguments of `measure`, its study, and how that is carried out."""
    seconds = check_timeout(timeout)
    plan = plan_of(agent, steps, seeds, environments, **readings)
    study, place = study_of(plan, on=on, timeout=seconds, out=out)
    return plan, study, {"on": place, "timeout": seconds, "out": out}


def measure(
    agent: AgentLike,
    steps: SupportsIndex = 500,
    seeds: SupportsIndex | Iterable[SupportsIndex] = 10,
    *,
    environments: Place | Iterable[Place] = BATTERY,
    confidence: float = 0.95,
    opposite_reading: str = "literal",
    step_counting: str = "percepts",
    on: str = runs.HERE,
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
            users' files, and trials with a limit of time have a process of their own.
        timeout: seconds that a trial may take before it is ended, which is then its outcome.
        out: folder that keeps every finished trial. If it holds some of this measurement, also with
            other seeds, only the others are played.
        progress: told now and then how many trials are finished.

    Example: an agent that ignores everything gains in the opposites what it loses.
        >>> measure("constant", steps=50, seeds=2).measure
        0.0
    """
    confidence = check_confidence(confidence)
    options = {"opposite_reading": opposite_reading, "step_counting": step_counting}
    where: dict[str, Any] = {"on": on, "timeout": timeout, "out": out}
    plan, study, how = _prepared(agent, steps, seeds, environments=environments, **options, **where)
    trials = runs.carry_out(study, **how, progress=progress)
    return reflection_of(
        plan.agent_name,
        plan.steps,
        [*trials.values()],
        runs=len(plan.runs),
        confidence=confidence,
        readings=readings_of(plan.common),
    )


def check(agent: AgentLike, **options: Any) -> None:
    """Raise what `measure` would raise with these options before it plays anything."""
    # A user's file is run once, and a run directory that is missing is made.
    _, study, how = _prepared(agent, **options)
    runs.check(study, **how)


def forecast(agent: AgentLike, **options: Any) -> Forecast:
    """Estimate the cost of `measure` with these options; some of its trials are played for it."""
    _, study, how = _prepared(agent, **options)
    return forecast_of(study, **how)


def baselines(
    without: Collection[str], steps: int, seeds: Sequence[int], *, progress: Tell, **options: Any
) -> dict[str, Reflection]:
    """Measure baseline agents on the first of some trials, where that takes about a second."""
    few = seeds[: _BASELINE_PERCEPTS // (2 * len(options["environments"]) * steps)]
    names = [name for name in BASELINES if name not in without]
    if steps > _BASELINE_STEPS or not few or not names:
        return {}
    progress(f"baselines: {', '.join(names)}")
    return {name: measure(name, steps, few, **options) for name in names}


def load(folder: str | Path, *, confidence: float = 0.95) -> Reflection:
    """Return the measurement that a run directory holds.

    The folder is what `measure` was given as `out`; `confidence` is the coverage of the interval.

    Raises:
        IncompleteRunError: it holds not all of its trials.
    """
    confidence = check_confidence(confidence)
    run = runs.read_run(folder)
    what = run.what
    if what.get("kind") != KIND:
        raise another_kind(folder, what.get("kind"), KIND)
    where = f"{Path(folder) / RUN}"
    check_record(what, _RUN, where, others=True)  # others: digests of users' files
    trials = len(what["seeds"]) * len(what["environments"])
    if trials > MOST_TRIALS:
        raise InvalidFileError(
            f"{where}: seeds and environments make {trials} trials, expected at most {MOST_TRIALS}"
        )
    # Nothing is looked up by the names in it, since users' files may be gone.
    study = runs.Study(
        what["agent"],
        f"{_MODULE}:play",
        {key(name, seed): {} for seed in what["seeds"] for name in what["environments"]},
        what=what,
        from_json=partial(trial_of, steps=what["steps"]),
    )
    return reflection_of(
        what["agent"],
        what["steps"],
        [*runs.stored_results(run, study).values()],
        runs=len(what["environments"]),
        confidence=confidence,
        readings=readings_of(what),
    )
