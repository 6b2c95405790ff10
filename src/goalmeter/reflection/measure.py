"""Measure self-reflection: the average reward per step over the battery.

A plan lists the trials of a measurement. It runs as a study in this process or in others, and can
be resumed.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, SupportsIndex

from goalmeter import runs
from goalmeter._errors import MOST_SEED, InvalidFileError, InvalidParameterError, whole
from goalmeter._files import Field, check_record, digest, is_whole
from goalmeter.agents.abilities import Ability, call_of, without_checks
from goalmeter.agents.history import Agent, HistoryFunction, RealityCheck, as_agent
from goalmeter.agents.local_models import is_model
from goalmeter.agents.registry import agent as named_agent
from goalmeter.agents.registry import history_agent
from goalmeter.agents.text_histories import TEXT_OPTIONS, Messages, ReplyAgent
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
from goalmeter.runs.forecast import Forecast, Span, forecast_of, unmeasured
from goalmeter.runs.jobs import FAILED, OK, REFUSED, in_a_line
from goalmeter.runs.progress import Tell
from goalmeter.runs.reading import RUN, another_kind

KIND = "reflection"
# Names, objects and classes that can be measured as agents.
AgentLike = Agent | HistoryFunction | type[Agent] | str
Place = Environment | type[Run] | str
# Readings of the rules: option -> values, the published one first.
OPTIONS = {"opposite_reading": READINGS, "step_counting": COUNTINGS}
# Agents to compare with, where playing them takes about a second.
BASELINES = ("random", "constant")
_BASELINE_STEPS, _BASELINE_PERCEPTS = 1000, 250_000
# Agents that train. They run in their own processes with one numerical thread: with more threads,
# the last bits of sums, and therefore actions, may differ.
HEAVY = frozenset({"a2c", "dqn", "ppo", "ppo-as-published", "recurrent-dqn"})
_COUNTED_STEPS = 100  # of a trial with a stand-in for a language model


class Case(NamedTuple):
    """Requested trial."""

    environment: Environment
    opposite: bool
    seed: int

    @property
    def key(self) -> str:
        """Key of the trial in the run directory."""
        return key(spelled(self.environment, self.opposite), self.seed)

    def ended(self, steps: int, outcome: str, detail: str, played: int | None = None) -> Trial:
        """Return a trial of which only the outcome is known."""
        name = self.environment.name
        return Trial(name, self.opposite, self.seed, steps, 0, outcome, detail, played)


@dataclass(frozen=True)
class TrialPlan:
    """Trials of a measurement; plans of names can run in any process and be stored on disk."""

    agent: Agent | type[Agent] | str  # a class is called with a seed
    runs: tuple[tuple[Environment, bool], ...]  # environments, and whether opposites are meant
    steps: int  # number of percepts of each trial
    seeds: tuple[int, ...]  # distinct seeds
    opposite_reading: str = READINGS[0]  # see `Environment.start`
    step_counting: str = COUNTINGS[0]  # see `run_trial`

    def __post_init__(self) -> None:
        for option, values in OPTIONS.items():
            one_of(option, getattr(self, option), values)
        if (trials := len(self.runs) * len(self.seeds)) > MOST_TRIALS:
            raise InvalidParameterError(
                f"environments, opposites and seeds give {trials} trials, expected at most "
                f"{MOST_TRIALS}; use fewer seeds"
            )

    @property
    def agent_name(self) -> str:
        """Name of the agent in tables."""
        agent = self.agent
        if isinstance(agent, str):
            return agent
        if isinstance(agent, type):
            return agent.__name__
        plain = type(agent).__repr__ is object.__repr__  # which contains the memory address
        return type(agent).__name__ if plain else repr(agent)

    @property
    def readings(self) -> dict[str, str]:
        """Readings of the rules."""
        return {name: getattr(self, name) for name in OPTIONS}

    @property
    def common(self) -> dict[str, Any]:
        """Arguments of `trial.play` that all trials share."""
        return {"agent": self.agent_name, "steps": self.steps} | self.readings

    def new_agent(self, seed: int) -> Agent:
        """Return a new agent for a trial."""
        if isinstance(self.agent, str):
            return history_agent(self.agent, seed)
        return agent_of(self.agent, seed, f"the agent {self.agent_name}")

    def played(self, case: Case) -> Trial:
        """Run a trial in this process."""
        try:
            player = self.new_agent(case.seed)
        except (Exception, SystemExit) as error:
            return case.ended(self.steps, FAILED, in_a_line(error), played=0)
        arguments: dict[str, Any] = case._asdict() | self.readings
        return run_trial(player, arguments.pop("environment"), steps=self.steps, **arguments)

    def check(self) -> None:
        """Raise errors that would occur in every trial."""
        player, environments = self.new_agent(self.seeds[0]), [run for run, _ in self.runs]
        is_object = not isinstance(self.agent, str)
        check_player(player, self.agent_name, environments, is_users=is_object)

    def object_in_it(self) -> str:
        """Return the part of the plan that other processes cannot find by name; "" if none."""
        if not isinstance(self.agent, str):
            return f"the agent {self.agent_name}"
        for environment, _ in self.runs:
            # A user's class may have the name of a goalmeter environment but differs from it.
            known = ENVIRONMENTS.get(environment.base)
            if not environment.spelled and (known is None or known.run is not environment.run):
                return f"the environment {environment.name}"
        return ""

    def needs_process(self) -> bool:
        """Return whether trials need another process even if none is requested."""
        return not self.object_in_it() and (
            is_user_code(self.agent_name)
            or bare(self.agent_name) in HEAVY
            or any(environment.spelled for environment, _ in self.runs)
        )

    def what(self) -> dict[str, Any]:
        """Return the identity of the measurement as JSON values; for plans of names only."""
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
        """Return the existing files that a trial reads, with their SHA-256."""
        paths = [*named_agent(self.agent_name).all_files(), *self._environment_files()]
        return {path: digest(path) for path in dict.fromkeys(paths) if Path(path).is_file()}

    def _environment_files(self) -> list[str]:
        files = [split_name(environment.spelled) for environment, _ in self.runs]
        return sorted({path for parts in files if parts for path in files_of(parts[0])})


def plan_of(
    agent: AgentLike, steps: object, seeds: object, environments: object, **readings: str
) -> TrialPlan:
    """Return the plan for arguments of `measure`, with canonical file names."""
    if isinstance(agent, str):
        named = named_agent(agent)
        named.require(Ability.HISTORY, asker="self-reflection")
        agent = named.name
    elif not (isinstance(agent, type) and hasattr(agent, "begin")):
        agent = as_agent(agent)
    steps = whole(steps, "steps", least=1, most=MOST_STEPS)
    return TrialPlan(agent, runs_of(environments), steps, seeds_of(seeds), **readings)


def readings_of(what: Mapping[str, Any]) -> dict[str, str]:
    """Return the options of a measurement that differ from the published ones."""
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
    """Return the key of a trial; opposites have their own names."""
    return f"{name} seed {seed}"


def spelled(environment: Environment, is_opposite: bool) -> str:
    """Return the name of an environment, or of its opposite."""
    return opposite(environment.name) if is_opposite else environment.name


def bare(name: str) -> str:
    """Return an agent's name without the reality checks around it: naive of rc(rc(naive))."""
    return without_checks(name)[0]


# --- Study of a plan, and content of a run directory ----------------------------------------------
_MODULE = "goalmeter.reflection.trial"
_ADVICE = "a file is run before each trial, so it should not contain slow or unreliable code"
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
    """Return the study of a plan and the place of its trials."""
    runs.check_place(on)
    given = {"on": on != runs.HERE, "timeout": timeout is not None, "out": out is not None}
    if any(given.values()) and (subject := plan.object_in_it()):
        options = " and ".join(name for name, is_given in given.items() if is_given)
        raise InvalidParameterError(
            f"{subject} is an object, which does not support {options}: other processes cannot "
            f"find it, and its run cannot be resumed; write it to a file and name it as "
            f"FILE.py:NAME"
        )
    # By default, scripted agents and objects run in this process. Trials with a timeout, agents
    # that train networks and code of users, which could affect this process, run in another one;
    # objects cannot be sent to another process.
    apart = on != runs.HERE or timeout is not None or plan.needs_process()
    # All environments of a seed come before the next seed.
    cases = [Case(*run, seed) for seed in plan.seeds for run in plan.runs]
    by_key = {case.key: case for case in cases}

    def without_answer(kept_as: str, result: runs.JobResult) -> Trial:
        # A crash of the agent's process is an outcome of its trial and affects no other trial.
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
        # Runs of objects are not stored and need no identity.
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
    """Read a trial from a line of a run, and validate its key and number of steps."""
    trial = Trial.from_json(value)
    named = key(opposite(trial.environment) if trial.opposite else trial.environment, trial.seed)
    if (named, trial.steps) != (kept_as, steps):
        raise InvalidFileError(
            f"the trial is {named}, {trial.steps} steps, expected {kept_as}, {steps} steps, from "
            f"its key"
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
    """Return the plan for arguments of `measure`, its study, and the options of its execution."""
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

    The results do not depend on where trials run, or on interruptions and resumptions.

    Args:
        agent: its name as on the command line, "rc(naive)" or "my_agent.py:agent"; a function
            (history, n_actions, n_observations) -> int; an object with the method `begin`; or a
            class of such objects. A name or class gives a new agent from the seed for each trial; a
            function or an object is used as it is, and only the environments differ.
        steps: number of percepts of each trial, the first included; see also `step_counting`.
        seeds: number of repetitions, or the seed of each.
        environments: one or more environments, each with its opposite; default: the paper's
            battery. A name may be "opposite(IgnoreRewards)", for the opposite alone, or
            "my_world.py:MyWorld"; a custom environment is a class derived from `Run`.
        confidence: nominal coverage of the interval.
        opposite_reading: "literal" or "unnegated"; see `Environment.start`.
        step_counting: "percepts", or "actions" to count actions and their rewards; see `run_trial`.
        on: where trials run: "here" in this process, "processes:8" in eight processes of this
            machine, or another backend such as "ray" or "slurm:partition=cpu". Agents that train,
            users' files, and trials with a timeout run in their own process.
        timeout: maximum seconds of a trial; exceeding it is an outcome of the trial.
        out: run directory that stores every finished trial. If it contains trials of this
            measurement, possibly with other seeds, only the missing ones run.
        progress: callback for the number of finished trials.

    Example: the gains of an agent that ignores everything equal its losses in the opposites.
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
    """Validate the options of `measure` without running any trial."""
    # A user's file is executed once, and a missing run directory is created.
    _, study, how = _prepared(agent, **options)
    runs.check(study, **how)


def forecast(agent: AgentLike, **options: Any) -> Forecast:
    """Estimate the cost of `measure` with these options by running some of its trials.

    Trials of a language model on a server are not run; its calls are counted with stand-ins.
    """
    plan, study, how = _prepared(agent, **options)
    model = bare(plan.agent_name)
    if not isinstance(plan.agent, str) or not is_model(model):
        return forecast_of(study, **how)
    if Ability.HIDDEN in named_agent(call_of(model).kind).abilities:
        forecast = forecast_of(study, **how)
    else:
        why = "a call sends the whole history, so tokens grow with the square of the steps"
        forecast = unmeasured(study, why, on=how["on"], out=how["out"])
    calls = _calls(plan) * (forecast.left / forecast.trials)
    counted = "calls are those of agents that act at random, always 0 or always 1"
    return replace(forecast, calls=calls, assumed=(*forecast.assumed, counted))


def _always(reply: str, messages: Messages, seed: int) -> str:
    return reply


def _calls(plan: TrialPlan) -> Span:
    """Count the calls of a language model, with stand-ins whose replies are always the same."""
    steps, counts = min(plan.steps, _COUNTED_STEPS), []
    for reply in ("", "0", "1"):
        calls = 0
        for run in plan.runs:
            player: Agent = ReplyAgent(0, TEXT_OPTIONS[0], partial(_always, reply))
            for _ in range(without_checks(plan.agent_name)[1]):
                player = RealityCheck(player)
            case = Case(*run, plan.seeds[0])._asdict() | plan.readings
            calls += run_trial(player, steps=steps, **case).calls or 0
        counts.append(calls * len(plan.seeds) * plan.steps / steps)
    return Span(min(counts), max(counts))


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
    """Read the measurement in a run directory.

    The folder is the `out` argument of `measure`; `confidence` is the coverage of the interval.

    Raises:
        IncompleteRunError: some trials are missing.
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
            f"{where}: seeds and environments give {trials} trials, expected at most {MOST_TRIALS}"
        )
    # Names are not looked up, since users' files may no longer exist.
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
