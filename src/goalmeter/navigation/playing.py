"""Walk a plan: here or in worker processes, with or without a store; the walks are the same.

A walk is kept under its key when it has ended, and then stands. One that its server failed is kept
as a try, so that it can be made again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidParameterError, InvalidTrajectoryError
from goalmeter._files import digest
from goalmeter._text import shown
from goalmeter.agents.navigators import Navigator
from goalmeter.agents.registry import agent as named_agent
from goalmeter.agents.trained.in_grids import check_worlds
from goalmeter.navigation.asking.spending import Budget
from goalmeter.navigation.inspect.failures import FAILURES
from goalmeter.navigation.inspect.ledger import spent_in
from goalmeter.navigation.inspect.samples import made_of
from goalmeter.navigation.plan import GROWS, WalkPlan, plan_from
from goalmeter.navigation.record import Trajectory
from goalmeter.navigation.suites.tasks import Task
from goalmeter.navigation.walks import walk
from goalmeter.runs import HERE, Study, carry_out, check_place, read_run, stored_results
from goalmeter.runs.progress import Tell

_PLAY = "goalmeter.navigation.playing:play"


@dataclass(frozen=True)
class Walked:
    """An agent's walks through a suite.

    Attributes:
        plan: what was asked for.
        trajectories: all of them, in the order of the suite.
        spent: what a language model's run has cost, as JSON values; None for other agents.
    """

    plan: WalkPlan
    trajectories: tuple[Trajectory, ...]
    spent: Mapping[str, Any] | None = None


def play_all(
    plan: WalkPlan,
    *,
    walker: Navigator | None = None,
    out: str | Path | None = None,
    on: str = HERE,
    progress: Tell | None = None,
) -> Walked:
    """Every walk of a plan for a reference agent; options as in `measure`.

    `walker` is the agent itself, which walks in this process; None for the one of the plan's name.
    Raises InvalidParameterError if no agent that walks has that name, or it cannot walk there.
    """
    check_place(on)
    if walker is not None and on != HERE:
        raise InvalidParameterError(
            f"on is {shown(on)}, expected {HERE!r}: other processes only know agents by name"
        )
    # All of this before a folder is made, for the error.
    who = walker or _navigator(plan)
    check_worlds(who, tuple(task.world for task in plan.tasks.tasks))
    identity = named_agent(plan.agent).identity() if walker is None else {}

    def walk_here(task: Task, index: int) -> Trajectory:
        return walk(who, task, index, seed=plan.options.seed)

    walks = plan.keys()
    if on != HERE:
        keys = {key: {"key": key} for key in walks}
        study = study_of(
            plan,
            _PLAY,
            keys,
            common={"what": json.dumps(plan.what)},
            identity=identity,
            files={path: digest(path) for path in named_agent(plan.agent).all_files()},
        )
    else:
        # Here the plan and its worlds are at hand, and are not made once more from their names.
        tasks = {key: {"task": task, "index": index} for key, (task, index) in walks.items()}
        study = study_of(plan, walk_here, tasks, identity=identity)
    done = carry_out(study, on=on, out=out, progress=progress)
    return Walked(plan, tuple(done.values()))


def load(folder: str | Path) -> Walked:
    """The walks that a run folder holds, each as it ended or else as it failed the last time.

    Raises as `navigation.load`.
    """
    run = read_run(folder)
    plan = plan_from(run.what, folder)
    walks = tuple(stored_results(run, study_of(plan)).values())
    spent = None if plan.asking is None else Budget().to_json(spent_in(folder))
    return Walked(plan, walks, spent)


def play(what: str, key: str) -> dict[str, Any]:
    """A walk of a plan that is told as JSON: what a worker process does."""
    plan, who, walks = _planned(what)
    task, index = walks[key]
    return walk(who, task, index, seed=plan.options.seed).to_json()


# Making the worlds of a suite takes longer than walking through them.
@lru_cache(maxsize=4)
def _planned(what: str) -> tuple[WalkPlan, Navigator, dict[str, tuple[Task, int]]]:
    plan = plan_from(json.loads(what), "this process")
    return plan, _navigator(plan), plan.keys()


def _navigator(plan: WalkPlan) -> Navigator:
    return named_agent(plan.agent).in_grids(asker="navigation")


# --- The walks of a plan as a study ---------------------------------------------------------------
def study_of(
    plan: WalkPlan,
    function: str | Callable[..., Trajectory] = "",
    trials: Mapping[str, Mapping[str, Any]] | None = None,
    common: Mapping[str, Any] | None = None,
    identity: Mapping[str, str] | None = None,
    files: Mapping[str, str] | None = None,
) -> Study[Trajectory]:
    """The walks of a plan as a study; the other arguments are those of `Study`.

    Whoever only keeps and reads walks needs no function.
    """
    wanted = plan.keys()

    def from_json(key: str, value: Any) -> Trajectory:
        trajectory = Trajectory.from_json(value)
        # Tables go by its labels, so in an edited file they could file it under another world.
        if made_of(trajectory) != wanted[key]:
            raise InvalidTrajectoryError("its labels, world or cap are those of another walk")
        return trajectory

    return Study(
        plan.agent,
        function,
        {key: {} for key in wanted} if trials is None else trials,
        common=common or {},
        files=files or {},
        noun="walk",
        # So that no run goes on with another policy in a file of the same name.
        what=plan.what | dict(identity or {}),
        grows=GROWS,
        from_json=from_json,
        to_json=Trajectory.to_json,
        is_failure=has_failed,
        tries_again=True,
    )


def has_failed(trajectory: Trajectory) -> bool:
    """Whether a walk was ended by its server, and is to be made again."""
    return trajectory.outcome in FAILURES


def failures(trajectories: Iterable[Trajectory]) -> dict[str, int]:
    """How many walks were ended by their server, by outcome."""
    return dict(Counter(t.outcome for t in trajectories if has_failed(t)))
