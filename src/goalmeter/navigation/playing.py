"""Walk a plan: here or in worker processes, with or without a store; the walks are the same."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from goalmeter._errors import GoalmeterError, InvalidFileError, InvalidParameterError
from goalmeter.agents.navigators import navigator
from goalmeter.navigation.plan import GROWS, Plan, command, plan_from
from goalmeter.navigation.record import Trajectory
from goalmeter.navigation.walks import walk
from goalmeter.runs import Job, RunStore, Workers, made_here, read_run
from goalmeter.runs.jobs import OK

Progress = Callable[[str], None]
_PLAY = "goalmeter.navigation.playing:play"
# Walks of one job: enough that the pipe between the processes is not what takes the time.
_A_JOB = 50
_FEW = 5


@dataclass(frozen=True)
class Walked:
    """An agent's walks through a suite.

    Attributes:
        plan: what was asked for.
        trajectories: all of them, in the order of the suite.
    """

    plan: Plan
    trajectories: tuple[Trajectory, ...]


def play_all(
    plan: Plan,
    *,
    out: str | Path | None = None,
    workers: int = 1,
    progress: Progress | None = None,
) -> Walked:
    """Every walk of a plan for a reference agent.

    Args:
        plan: the agent and its walks.
        out: run folder that keeps every finished walk; what it holds already is not walked again.
        workers: processes that walk at once; one walks in this process.
        progress: told now and then how many walks are finished, and what is left.

    Raises:
        InvalidParameterError: no reference agent has that name, fewer than 1 worker, or `out`
            holds another run.
        InvalidFileError: the folder cannot be used.
    """
    if workers < 1:
        raise InvalidParameterError(f"workers is {workers}, expected at least 1")
    navigator(plan.agent)  # for the error, before a folder is made
    wanted = plan.keys()
    done: dict[str, Trajectory] = {}
    with _store(plan, out) if out is not None else nullcontext() as store:
        if store is not None:
            done = _read({k: v for k, v in store.values.items() if k in wanted}, store.folder)
        left = [key for key in wanted if key not in done]
        report = _Reporter(plan, len(done), progress)
        played = _elsewhere(plan, left, workers) if workers > 1 else _here(plan, left)
        with closing(played):
            for key, trajectory in played:
                if store is not None:
                    store.add(key, trajectory.to_json())
                done[key] = trajectory
                report()
    return Walked(plan, tuple(done[key] for key in wanted))


def load(folder: str | Path) -> Walked:
    """The walks that a run folder holds.

    Raises:
        InvalidFileError: it holds no navigation run, not all of its walks, or one that is no
            trajectory; the message says how to mend it.
    """
    run = read_run(folder)
    plan = plan_from(run.what, folder)
    wanted = plan.keys()
    if missing := [key for key in wanted if key not in run.values]:
        raise InvalidFileError(
            f"{folder} lacks {len(missing)} of {len(wanted)} walks; take them with: "
            f"{command(run.what, folder)}"
        )
    found = _read({key: run.values[key] for key in wanted}, folder)
    return Walked(plan, tuple(found.values()))


def play(what: str, keys: Sequence[str]) -> list[dict[str, Any]]:
    """Some walks of a plan, as JSON values: what a worker process does.

    Args:
        what: what the run is, as JSON.
        keys: which walks.
    """
    plan, wanted = _planned(what)
    return [_walk(plan, wanted, key).to_json() for key in keys]


@lru_cache(maxsize=4)
def _planned(what: str) -> tuple[Plan, dict[str, Any]]:
    plan = plan_from(json.loads(what), "this process")
    return plan, plan.keys()


def _here(plan: Plan, keys: list[str]) -> Generator[tuple[str, Trajectory]]:
    wanted = plan.keys()
    for key in keys:
        yield key, _walk(plan, wanted, key)


def _walk(plan: Plan, wanted: dict[str, Any], key: str) -> Trajectory:
    task, index = wanted[key]
    return walk(navigator(plan.agent), task, index, seed=plan.options["seed"])


def _elsewhere(plan: Plan, keys: list[str], workers: int) -> Generator[tuple[str, Trajectory]]:
    parts = [keys[i : i + _A_JOB] for i in range(0, len(keys), _A_JOB)]
    if not parts:
        return
    what = json.dumps(plan.what)
    jobs = [Job(_PLAY, {"what": what, "keys": part}) for part in parts]
    with Workers(min(workers, len(jobs))) as pool:
        for index, result in pool.run(jobs):
            result.raise_refusal()
            if result.outcome != OK:
                raise RuntimeError(f"walks failed in a worker process: {result.detail}")
            for key, value in zip(parts[index], result.value, strict=True):
                yield key, Trajectory.from_json(value)


def _read(values: dict[str, Any], folder: str | Path) -> dict[str, Trajectory]:
    out = {}
    for key, value in values.items():
        try:
            out[key] = Trajectory.from_json(value)
        except GoalmeterError as cause:
            raise InvalidFileError(
                f"{folder}, the walk {key!r}: {cause}; remove its line from trials.jsonl and it "
                f"is taken again"
            ) from cause
    return out


def _store(plan: Plan, out: str | Path) -> RunStore:
    return RunStore(out, plan.what, grows=GROWS, made_by=made_here())


class _Reporter:
    """Tells of the walks that are finished, ever more rarely: every tenth of the time so far."""

    def __init__(self, plan: Plan, done: int, progress: Progress | None) -> None:
        self._progress = progress
        self._agent = plan.agent
        self._all = len(plan.suite)
        self._before = self._done = done
        self._begun = self._told = time.monotonic()
        if progress and done:
            progress(f"{self._agent}: {done} of {self._all} walks were there already")

    def __call__(self) -> None:
        self._done += 1
        now = time.monotonic()
        often_enough = now - self._told < max(1.0, (now - self._begun) / 10)
        if self._progress is None or (often_enough and self._done < self._all):
            return
        self._told = now
        here = self._done - self._before
        left = (now - self._begun) / here * (self._all - self._done)
        # The first walks may have waited for processes to start.
        known = self._done < self._all and here >= _FEW
        time_left = f", {_in_words(left)} left" if known else ""
        self._progress(f"{self._agent}: {self._done} of {self._all} walks{time_left}")


def _in_words(seconds: float) -> str:
    """A time as one says it: 12 s, 3 min, 2.5 h."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
