"""Playing a plan: here or in worker processes, with or without a store; the trials are the same."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import closing, nullcontext
from pathlib import Path

from goalmeter._errors import InvalidFileError, InvalidParameterError
from goalmeter.agents.histories.user_objects import check_counts, check_installed, check_mind
from goalmeter.reflection.plan import Case, Plan, spelled, trial_arguments
from goalmeter.reflection.stored import trial_of
from goalmeter.reflection.trial import FAILED, OK, Trial, run_trial
from goalmeter.runs import Job, JobResult, RunStore, Workers, made_here
from goalmeter.runs.jobs import REFUSED, said

Progress = Callable[[str], None]
_PLAY = "goalmeter.reflection.named_trial:play"
_CHECK = "goalmeter.reflection.named_trial:check"


def play_all(
    plan: Plan,
    *,
    workers: int,
    timeout: float | None,
    out: str | Path | None,
    progress: Progress | None,
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
    done: dict[str, Trial] = {}
    with _store(plan, out) if out is not None else nullcontext() as store:
        if store is not None:
            done = _kept(plan, store)
        left = [case for case in plan.cases if case.key not in done]
        report = _Reporter(plan, done, progress)
        elsewhere = _is_elsewhere(plan, workers, timeout)
        played = _elsewhere(plan, left, workers, timeout) if elsewhere else _here(plan, left)
        with closing(played):
            for case, trial in played:
                if store is not None:
                    store.add(case.key, trial.to_json())
                done[case.key] = trial
                report(trial)
    return [done[case.key] for case in plan.cases]


def _kept(plan: Plan, store: RunStore) -> dict[str, Trial]:
    """The trials of a plan that a run holds already, by their keys."""
    return {
        case.key: trial_of(
            store.values[case.key],
            spelled(case.environment, case.opposite),
            case.seed,
            plan.steps,
            store.folder,
            store.lines.get(case.key),
        )
        for case in plan.cases
        if case.key in store.values
    }


def check_all(plan: Plan, *, workers: int, timeout: float | None, out: str | Path | None) -> None:
    """Raise what `play_all` would raise before it plays anything."""
    _refuse_objects(plan, workers, timeout, out)
    if _is_elsewhere(plan, workers, timeout):
        with Workers(1, timeout) as pool:
            _check(pool, plan, plan.cases)
    else:
        _check_here(plan, plan.cases)
    with _store(plan, out) if out is not None else nullcontext():
        pass


def _check_here(plan: Plan, cases: list[Case]) -> None:
    player = plan.made(cases[0].seed)
    check_installed(player)
    if not isinstance(plan.agent, str):
        check_mind(player, plan.agent_name)
    for environment, _ in plan.runs:
        check_counts(player, environment.n_actions, environment.n_observations)


def _here(plan: Plan, cases: list[Case]) -> Generator[tuple[Case, Trial]]:
    if cases:
        _check_here(plan, cases)
    for case in cases:
        where = case.environment
        try:
            player = plan.made(case.seed)
        except (Exception, SystemExit) as error:
            yield case, _ended(plan, case, FAILED, said(error), played=0)
            continue
        yield (
            case,
            run_trial(
                player,
                where,
                opposite=case.opposite,
                steps=plan.steps,
                seed=case.seed,
                opposite_reading=plan.opposite_reading,
                step_counting=plan.step_counting,
            ),
        )


def _elsewhere(
    plan: Plan, cases: list[Case], workers: int, timeout: float | None
) -> Generator[tuple[Case, Trial]]:
    if not cases:
        return
    with Workers(min(workers, len(cases)), timeout) as pool:
        _check(pool, plan, cases)
        jobs = [Job(_PLAY, trial_arguments(plan, case)) for case in cases]
        for index, result in pool.run(jobs):
            case = cases[index]
            if result.outcome == OK:
                yield case, Trial.from_json(result.value)
            else:
                outcome = FAILED if result.outcome == REFUSED else result.outcome
                yield case, _ended(plan, case, outcome, result.detail)


def _check(pool: Workers, plan: Plan, cases: list[Case]) -> None:
    names = {"environments": sorted({case.environment.name for case in cases})}
    first = Job(_CHECK, {"agent": plan.agent_name, "seed": cases[0].seed} | names)
    for _, result in pool.run([first]):
        _raise(result, plan.agent_name)


def _is_elsewhere(plan: Plan, workers: int, timeout: float | None) -> bool:
    return workers > 1 or timeout is not None or plan.needs_process()


def _ended(plan: Plan, case: Case, outcome: str, detail: str, played: int | None = None) -> Trial:
    """A trial of which nothing is known but how it ended."""
    name, way = case.environment.name, case.opposite
    return Trial(name, way, case.seed, plan.steps, 0, outcome, detail, played)


def _raise(result: JobResult, agent: str) -> None:
    """Raise the error that making the agent gave, if it did."""
    if result.outcome == OK:
        return
    result.raise_refusal()
    raise InvalidFileError(
        f"{agent} cannot be made: {result.outcome}, {result.detail}; a file is run before each "
        f"trial, so keep what takes long or may fail out of it"
    )


def _store(plan: Plan, out: str | Path) -> RunStore:
    return RunStore(out, plan.what(), grows=("seeds",), made_by=made_here())


def _refuse_objects(
    plan: Plan, workers: int, timeout: float | None, out: str | Path | None
) -> None:
    thing = plan.object_in_it()
    options = {"workers": workers > 1, "timeout": timeout is not None, "out": out is not None}
    asked = [name for name, is_on in options.items() if is_on]
    if not thing or not asked:
        return
    raise InvalidParameterError(
        f"{thing} is an object, and {' and '.join(asked)} cannot be had with it: another process "
        f"cannot find it, nor can a run be continued with it; write it to a file, and name it as "
        f"FILE.py:NAME"
    )


class _Reporter:
    """Tells of the trials that are finished, ever more rarely: every tenth of the time so far."""

    def __init__(self, plan: Plan, done: dict[str, Trial], progress: Progress | None) -> None:
        self._progress = progress
        self._agent = plan.agent_name
        self._all = len(plan.cases)
        self._done = len(done)
        self._failed = sum(trial.outcome != OK for trial in done.values())
        self._begun = self._told = time.monotonic()
        if progress and done:
            progress(f"{self._agent}: {self._done} of {self._all} trials were there already")

    def __call__(self, trial: Trial) -> None:
        self._done += 1
        self._failed += trial.outcome != OK
        now = time.monotonic()
        often_enough = now - self._told < max(1.0, (now - self._begun) / 10)
        if self._progress is None or (often_enough and self._done < self._all):
            return
        self._told = now
        early = f", {self._failed} ended early" if self._failed else ""
        self._progress(f"{self._agent}: {self._done} of {self._all} trials{early}")
