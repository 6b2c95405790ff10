"""Walk a plan: here or in worker processes, with or without a store; the walks are the same."""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from goalmeter._arguments import MOST_WORKERS, whole
from goalmeter._errors import GoalmeterError, InvalidFileError
from goalmeter.agents.navigators import Navigator
from goalmeter.agents.registry import agent as named_agent
from goalmeter.agents.trained.in_grids import check_worlds
from goalmeter.navigation.kept import ended_walks, failed_walks
from goalmeter.navigation.plan import GROWS, Plan, command, plan_from
from goalmeter.navigation.progress import Progress, Reporter
from goalmeter.navigation.record import Trajectory
from goalmeter.navigation.walks import walk
from goalmeter.runs import Job, RunStore, Workers, made_here, read_run
from goalmeter.runs.jobs import OK

_PLAY = "goalmeter.navigation.playing:play"
# Walks of one job: enough that the pipe between the processes is not what takes the time.
_A_JOB = 50


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
    """Every walk of a plan for an agent that walks by itself.

    Args:
        plan: the agent and its walks.
        out: run folder that keeps every finished walk; what it holds already is not walked again.
        workers: processes that walk at once; one walks in this process.
        progress: told now and then how many walks are finished, and what is left.

    Raises:
        InvalidParameterError: no agent that walks has that name, it cannot walk in these worlds,
            fewer than 1 worker, or `out` holds another run.
        InvalidFileError: the folder cannot be used.
    """
    whole(workers, "workers", least=1, most=MOST_WORKERS)
    navigator = _navigator(plan)  # before a folder is made, for the error
    wanted = plan.keys()
    done: dict[str, Trajectory] = {}
    with store_of(plan, out) if out is not None else nullcontext() as store:
        if store is not None:
            done = ended_walks(store.values, wanted, store.folder, store.lines)
        left = [key for key in wanted if key not in done]
        report = Reporter(plan.agent, len(wanted), len(done), progress)
        played = _elsewhere(plan, left, workers) if workers > 1 else _here(plan, navigator, left)
        with closing(played):
            for key, trajectory in played:
                if store is not None:
                    store.add(key, trajectory.to_json())
                done[key] = trajectory
                report.ended()
    return Walked(plan, tuple(done[key] for key in wanted))


def load(folder: str | Path) -> Walked:
    """The walks that a run folder holds, each as it ended or else as it failed the last time.

    Raises:
        InvalidFileError: it holds no navigation run, not all of its walks, or one that is no
            trajectory; the message says how to mend it.
    """
    run = read_run(folder)
    plan = plan_from(run.what, folder)
    wanted = plan.keys()
    found = ended_walks(run.values, wanted, folder, run.lines)
    found |= failed_walks(run.values, wanted, folder, run.lines)
    if missing := [key for key in wanted if key not in found]:
        raise InvalidFileError(
            f"{folder} lacks {len(missing)} of {len(wanted)} walks; take them with: "
            f"{command(run.what, folder)}"
        )
    return Walked(plan, tuple(found[key] for key in wanted))


def play(what: str, keys: Sequence[str]) -> list[dict[str, Any]]:
    """Some walks of a plan, as JSON values: what a worker process does.

    Args:
        what: what the run is, as JSON.
        keys: which walks.
    """
    plan, navigator, wanted = _planned(what)
    return [_walk(plan, navigator, wanted, key).to_json() for key in keys]


@lru_cache(maxsize=4)
def _planned(what: str) -> tuple[Plan, Navigator, dict[str, Any]]:
    plan = plan_from(json.loads(what), "this process")
    return plan, _navigator(plan), plan.keys()


def _navigator(plan: Plan) -> Navigator:
    """Who walks, if it can walk in every world of the plan."""
    navigator = named_agent(plan.agent).in_grids(asker="navigation")
    check_worlds(navigator, tuple(task.world for task in plan.suite.tasks))
    return navigator


def _here(plan: Plan, navigator: Navigator, keys: list[str]) -> Generator[tuple[str, Trajectory]]:
    wanted = plan.keys()
    for key in keys:
        yield key, _walk(plan, navigator, wanted, key)


def _walk(plan: Plan, navigator: Navigator, wanted: dict[str, Any], key: str) -> Trajectory:
    task, index = wanted[key]
    return walk(navigator, task, index, seed=plan.options["seed"])


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
                raise GoalmeterError(
                    f"walks failed in a worker process: {result.detail}; what is finished is kept "
                    f"where --out names a folder, and the same command goes on from there"
                )
            for key, value in zip(parts[index], result.value, strict=True):
                yield key, Trajectory.from_json(value)


def store_of(plan: Plan, out: str | Path) -> RunStore:
    """The run that keeps the walks of a plan."""
    return RunStore(out, plan.what, grows=GROWS, made_by=made_here())
