"""Run the trajectories of a plan, in this process or in workers, and store them as they end.

`Listener` and `Keeper` receive the trajectories of language models while Inspect produces them.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from goalmeter._errors import GoalmeterError, InvalidParameterError, InvalidTrajectoryError, shown
from goalmeter._files import digest
from goalmeter.agents.grid_agents import Navigator
from goalmeter.agents.registry import agent as named_agent
from goalmeter.agents.trained_policies import check_worlds
from goalmeter.navigation.inspect.budget import Budget, spent_in
from goalmeter.navigation.inspect.models import (
    BUDGET,
    ERROR,
    FAILURES,
    Account,
    GivenUpError,
    is_ours_to_mend,
    reason_of,
)
from goalmeter.navigation.plan import GROWS, WalkPlan, made_of, plan_from
from goalmeter.navigation.trajectories import Step, Task, Trajectory, walk
from goalmeter.runs import HERE, Results, Study, carry_out, check_place, read_run, stored_results
from goalmeter.runs.progress import Tell

# --- Playing --------------------------------------------------------------------------------------
# A walk is kept under its key when it has ended, and then stands. One that its server failed is
# kept as a try, so that it can be made again.

_PLAY = "goalmeter.navigation.rollouts:play"


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


# --- Listening ------------------------------------------------------------------------------------
# In a run that is a keeper, which keeps each walk as it ends and stops asking a server that has
# failed them all.

# When so many walks in a row were failed by the server, the others of the round are not begun: each
# would wait for its retries in vain.
ENOUGH = 20


class Listener:
    """Hears of each walk, and may refuse that there is another one; this one lets all pass.

    Attributes:
        account: of what is spent; None where nobody counts.
    """

    account: Account | None = None

    def begins(self, name: str) -> None:
        """The walk of this name is about to begin; an error raised here is its end."""

    def half(self, name: str) -> tuple[Step, ...]:
        """The steps that there are of a walk already."""
        return ()

    def step(self) -> None:
        """A step is about to be asked for; an error raised here is the end of its walk."""

    def failed(self, error: Exception) -> None:
        """Asking failed; the walk ends."""

    def ended(self, trajectory: Trajectory) -> None:
        """A walk has ended, in whatever way."""


# Where a task runs by itself, as under `inspect eval`, nobody listens.
listener: ContextVar[Listener] = ContextVar("listener", default=Listener())  # noqa: B039 (no state)


class Keeper(Listener):
    """Writes each walk into a run.

    Args:
        results: of the run, which are told of too.
        account: of what the run spends.

    Attributes:
        heard: names of the walks that have ended in this round, in whatever way.
        why: the last error of a server.
    """

    def __init__(self, results: Results[Trajectory], account: Account) -> None:
        self.heard: set[str] = set()
        self.why = "no reason known"
        self.account: Account = account
        self._results = results
        self._broken: GoalmeterError | None = None
        self._failed_in_a_row = 0
        self._outcome = ""
        self._under_way: dict[str, None] = {}  # in the order in which they began
        # All are asked for by this process, which waits for as many answers as it may.
        results.watched.at_work = lambda: [(f"process {os.getpid()}", list(self._under_way))]

    def next_round(self) -> None:
        """Walks that failed are made again, and the server has another chance."""
        self.heard.clear()
        self._under_way.clear()
        self._failed_in_a_row = 0

    def raise_broken(self) -> None:
        """Raise here what ended the run, which Inspect would take for the end of walks.

        That is a full disk or the like, or something without which the model cannot be asked.
        """
        if broken := self._broken or self.account.broken:
            raise broken

    def begins(self, name: str) -> None:
        """Ends a walk where it begins if the server is given up, or the budget is reached."""
        self._under_way[name] = None
        self._end_if_broken()
        if self.account.reached:
            raise GivenUpError(BUDGET)
        if self._failed_in_a_row >= ENOUGH:
            raise GivenUpError(self._outcome)

    def half(self, name: str) -> tuple[Step, ...]:
        """What an earlier command left of a walk when its budget was reached."""
        walk = self.account.ledger.half.get(name)
        return () if walk is None else walk.steps

    def step(self) -> None:
        """End a walk that could not be kept, or not be asked for."""
        self._end_if_broken()
        self._results.step()

    def failed(self, error: Exception) -> None:
        """Remember what a server failed of."""
        if not isinstance(error, GivenUpError):
            self.why = reason_of(error)
        if is_ours_to_mend(error):
            self._broken = InvalidParameterError(f"the model cannot be asked: {self.why}")

    def ended(self, trajectory: Trajectory) -> None:
        """Keep a walk."""
        if self._broken is not None or self.account.broken is not None:
            return
        name = made_of(trajectory).name
        self._under_way.pop(name, None)
        try:
            if trajectory.outcome == BUDGET:
                # Not begun, it is no more than it was.
                if trajectory.steps:
                    self.account.ledger.keep_half(trajectory)
                return
            self._results.keep(name, trajectory)
        except GoalmeterError as error:
            self._broken = error
            return
        self.heard.add(name)
        self._failed_in_a_row = self._failed_in_a_row + 1 if has_failed(trajectory) else 0
        self._outcome = trajectory.outcome

    def _end_if_broken(self) -> None:
        if self._broken is not None or self.account.broken is not None:
            # Not the error itself, whose traceback would grow with each walk.
            raise GivenUpError(ERROR)
