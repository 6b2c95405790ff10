"""A plan as a study: its trials made in this process or in others, kept or not, all the same."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidParameterError
from goalmeter.agents.histories.given import check_installed, check_mind
from goalmeter.reflection.plan import Case, TrialPlan
from goalmeter.reflection.stored import trial_of
from goalmeter.reflection.trial import FAILED, OK, Trial, run_trial
from goalmeter.runs import Batch, JobResult, Study, carry_out, check, workers_as_place
from goalmeter.runs.jobs import REFUSED, in_a_line
from goalmeter.runs.progress import Tell

_PLAY = "goalmeter.reflection.named_trial:play"
_CHECK = "goalmeter.reflection.named_trial:check"
_ADVICE = "a file is run before each trial, so keep what takes long or may fail out of it"


def play_all(
    plan: TrialPlan,
    *,
    workers: int,
    timeout: float | None,
    out: str | Path | None,
    progress: Tell | None,
) -> list[Trial]:
    """Every trial of a plan, in its order.

    Scripted agents and objects are played in this process, unless workers, a limit of time or a
    user's file ask for others.

    Raises:
        InvalidParameterError: workers, a limit of time or a store are asked for, and not all of the
            plan has a name.
        GoalmeterError: the agent cannot be made, or the store not be used.
        MissingExtraError: the agent needs a package that is not installed.
    """
    _refuse_objects(plan, workers, timeout, out)
    study, on = _study(plan, workers, timeout, out)
    return [*carry_out(study, on=on, timeout=timeout, out=out, progress=progress).values()]


def check_all(
    plan: TrialPlan, *, workers: int, timeout: float | None, out: str | Path | None
) -> None:
    """Raise what `play_all` would raise before it plays anything."""
    _refuse_objects(plan, workers, timeout, out)
    study, on = _study(plan, workers, timeout, out)
    check(study, on=on, timeout=timeout, out=out)


def _study(
    plan: TrialPlan, workers: int, timeout: float | None, out: str | Path | None
) -> tuple[Study[Trial], str]:
    """The study of a plan, and where its trials run."""
    # An object cannot cross to another process; users' code could do anything to this one.
    apart = workers > 1 or timeout is not None or plan.needs_process()
    cases = {case.key: case for case in plan.cases}
    names = sorted({case.environment.name for case in cases.values()})
    first = {"agent": plan.agent_name, "environments": names, "seed": plan.seeds[0]}
    study = Study(
        plan.agent_name,
        _PLAY if apart else partial(_played, plan),
        {key: case.arguments if apart else {"case": case} for key, case in cases.items()},
        common=plan.arguments if apart else {},
        # Of an object nothing is kept, so that nothing has to tell its run from others.
        what=plan.what() if out is not None else {},
        grows=("seeds",),
        from_json=partial(trial_of, steps=plan.steps),
        to_json=Trial.to_json,
        is_failure=_ended_early,
        instead=partial(_without_answer, cases, plan.steps),
        check=Batch(_CHECK, [first]) if apart else Batch(partial(_check, plan), [{}]),
        check_advice=_ADVICE,
    )
    return study, workers_as_place(workers, apart=apart)


def _check(plan: TrialPlan) -> None:
    player = plan.made(plan.seeds[0])
    check_installed(player)
    if not isinstance(plan.agent, str):
        check_mind(player, plan.agent_name)


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


def _ended_early(trial: Trial) -> bool:
    return trial.outcome != OK


def _without_answer(cases: dict[str, Case], steps: int, key: str, result: JobResult) -> Trial:
    """What an agent does to its process is an outcome of its trial, and stops nothing else."""
    outcome = FAILED if result.outcome == REFUSED else result.outcome
    return _ended(cases[key], steps, outcome, result.detail)


def _ended(case: Case, steps: int, outcome: str, detail: str, played: int | None = None) -> Trial:
    """A trial of which nothing is known but how it ended."""
    name, way = case.environment.name, case.opposite
    return Trial(name, way, case.seed, steps, 0, outcome, detail, played)


def _refuse_objects(
    plan: TrialPlan, workers: int, timeout: float | None, out: str | Path | None
) -> None:
    thing = plan.object_in_it()
    options: dict[str, Any] = {
        "workers": workers > 1,
        "timeout": timeout is not None,
        "out": out is not None,
    }
    asked = [name for name, is_on in options.items() if is_on]
    if not thing or not asked:
        return
    raise InvalidParameterError(
        f"{thing} is an object, and {' and '.join(asked)} cannot be had with it: another process "
        f"cannot find it, nor can a run be continued with it; write it to a file, and name it as "
        f"FILE.py:NAME"
    )
