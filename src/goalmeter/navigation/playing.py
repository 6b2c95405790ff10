"""Walk a plan: here or in worker processes, with or without a store; the walks are the same."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from goalmeter._arguments import MOST_WORKERS, whole
from goalmeter._errors import InvalidParameterError
from goalmeter.agents.navigators import Navigator, navigator
from goalmeter.navigation.kept import study_of
from goalmeter.navigation.plan import WalkPlan, plan_from
from goalmeter.navigation.record import Trajectory
from goalmeter.navigation.suites.tasks import Task
from goalmeter.navigation.walks import walk
from goalmeter.runs import carry_out, read_run, stored_results, workers_as_place
from goalmeter.runs.progress import Tell

_PLAY = "goalmeter.navigation.playing:play"


@dataclass(frozen=True)
class Walked:
    """An agent's walks through a suite.

    Attributes:
        plan: what was asked for.
        trajectories: all of them, in the order of the suite.
    """

    plan: WalkPlan
    trajectories: tuple[Trajectory, ...]


def play_all(
    plan: WalkPlan,
    *,
    walker: Navigator | None = None,
    out: str | Path | None = None,
    workers: int = 1,
    progress: Tell | None = None,
) -> Walked:
    """Every walk of a plan for a reference agent.

    Args:
        plan: the agent and its walks.
        walker: the agent itself, which walks in this process; None for the one of the plan's name.
        out: run folder that keeps every finished walk; what it holds already is not walked again.
        workers: processes that walk at once; one walks in this process.
        progress: told now and then how many walks are finished, and what is left.

    Raises:
        InvalidParameterError: no reference agent has that name, fewer than 1 worker, or `out`
            holds another run.
        InvalidFileError: the folder cannot be used.
    """
    whole(workers, "workers", least=1, most=MOST_WORKERS)
    if walker is not None and workers > 1:
        raise InvalidParameterError(
            f"workers is {workers}, expected 1: other processes only know agents by name"
        )
    who = walker or navigator(plan.agent)  # for the error, before a folder is made

    def walk_here(task: Task, index: int) -> Trajectory:
        return walk(who, task, index, seed=plan.options.seed)

    walks = plan.keys()
    if workers > 1:
        keys = {key: {"key": key} for key in walks}
        study = study_of(plan, _PLAY, keys, common={"what": json.dumps(plan.what)})
    else:
        # Here the plan and its worlds are at hand, and are not made once more from their names.
        tasks = {key: {"task": task, "index": index} for key, (task, index) in walks.items()}
        study = study_of(plan, walk_here, tasks)
    done = carry_out(study, on=workers_as_place(workers), out=out, progress=progress)
    return Walked(plan, tuple(done.values()))


def load(folder: str | Path) -> Walked:
    """The walks that a run folder holds, each as it ended or else as it failed the last time.

    Raises:
        InvalidFileError: it holds no navigation run, or a walk that is no trajectory.
        IncompleteRunError: it holds not all of its walks.
    """
    run = read_run(folder)
    plan = plan_from(run.what, folder)
    return Walked(plan, tuple(stored_results(run, study_of(plan)).values()))


def play(what: str, key: str) -> dict[str, Any]:
    """A walk of a plan, as JSON values: what a worker process does.

    Args:
        what: what the run is, as JSON.
        key: which walk.
    """
    plan, walks = _planned(what)
    task, index = walks[key]
    return walk(navigator(plan.agent), task, index, seed=plan.options.seed).to_json()


# Making the worlds of a suite takes longer than walking through them.
@lru_cache(maxsize=4)
def _planned(what: str) -> tuple[WalkPlan, dict[str, tuple[Task, int]]]:
    plan = plan_from(json.loads(what), "this process")
    return plan, plan.keys()
