"""A plan as a study: its trials made in this process or in others, kept or not, and read back."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from goalmeter._arguments import MOST_SEED
from goalmeter._errors import InvalidFileError, InvalidParameterError
from goalmeter.reflection.arguments import MOST_ENVIRONMENTS, MOST_SEEDS, MOST_STEPS, MOST_TRIALS
from goalmeter.reflection.environments.opposite import READINGS
from goalmeter.reflection.environments.registry import opposite
from goalmeter.reflection.named_trial import check_player
from goalmeter.reflection.plan import KIND, Case, TrialPlan, key
from goalmeter.reflection.trial import COUNTINGS, FAILED, OK, Trial, run_trial
from goalmeter.runs import HERE, Batch, JobResult, Study, check_place, own_process
from goalmeter.runs.checks import check_record, is_whole, listed, text, whole, word
from goalmeter.runs.jobs import REFUSED, in_a_line
from goalmeter.runs.reading import RUN, another_kind

_MODULE = "goalmeter.reflection.named_trial"
_ADVICE = "a file is run before each trial, so keep what takes long or may fail out of it"
_RUN = {
    "kind": word(KIND),
    "agent": text(empty=False),
    "steps": whole(1, MOST_STEPS),
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
