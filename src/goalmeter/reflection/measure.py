"""`measure`: an agent's self-reflection, the average reward per step over the battery."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import SupportsIndex

from goalmeter.reflection.arguments import check_confidence, check_timeout
from goalmeter.reflection.comparison import Comparison as Comparison
from goalmeter.reflection.comparison import compare as compare
from goalmeter.reflection.environments.base import Run
from goalmeter.reflection.environments.record import Environment
from goalmeter.reflection.environments.registry import BATTERY
from goalmeter.reflection.plan import AgentLike, plan_of, readings_of
from goalmeter.reflection.playing import check_what, stored_study, study_of
from goalmeter.reflection.result import Reflection as Reflection
from goalmeter.reflection.result import reflection_of
from goalmeter.runs import HERE, carry_out, read_run, stored_results
from goalmeter.runs import check as check_study
from goalmeter.runs.progress import Tell

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
