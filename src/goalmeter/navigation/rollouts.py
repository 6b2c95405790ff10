"""Run the walks of a plan, in this process or in workers, and store them as they end."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from time import monotonic
from typing import Any

from goalmeter._errors import GoalmeterError, InvalidParameterError, InvalidTrajectoryError, shown
from goalmeter._files import digest
from goalmeter.agents.grid_agents import Navigator
from goalmeter.agents.registry import agent as named_agent
from goalmeter.agents.trained_policies import check_worlds
from goalmeter.navigation.inspect.models import (
    BUDGET,
    BUDGET_LIMITS,
    ERROR,
    FAILURES,
    GivenUpError,
    is_ours_to_mend,
    reason_of,
)
from goalmeter.navigation.plan import GROWS, WalkPlan, made_of, plan_from
from goalmeter.navigation.trajectories import Task, Trajectory, walk
from goalmeter.runs import HERE, Results, Study, carry_out, check_place, read_run, stored_results
from goalmeter.runs.progress import Tell

# --- Rollouts -------------------------------------------------------------------------------------
_PLAY = "goalmeter.navigation.rollouts:play"


@dataclass(frozen=True)
class Walked:
    """An agent's walks through a suite.

    Attributes:
        plan: the plan.
        trajectories: all walks, in the order of the suite.
        spent: usage of a language model over all commands, from Inspect's logs: "input_tokens",
            "output_tokens", "tokens", "usd"; None for other agents and for stored runs.
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
    """Run every walk of a plan; `walker` is the agent, None for the one that the plan names."""
    check_place(on)
    if walker is not None and on != HERE:
        raise InvalidParameterError(
            f"on is {shown(on)}, expected {HERE!r}: other processes only know agents by name"
        )
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
        tasks = {key: {"task": task, "index": index} for key, (task, index) in walks.items()}
        study = study_of(plan, walk_here, tasks, identity=identity)
    done = carry_out(study, on=on, out=out, progress=progress)
    return Walked(plan, tuple(done.values()))


def load(folder: str | Path) -> Walked:
    """Load the walks of a run directory, each as it ended or failed last."""
    run = read_run(folder)
    plan = plan_from(run.what, folder)
    return Walked(plan, tuple(stored_results(run, study_of(plan)).values()))


def play(what: str, key: str) -> dict[str, Any]:
    """Run one walk of a plan given as JSON, in a worker process."""
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


# --- Study ----------------------------------------------------------------------------------------
def study_of(
    plan: WalkPlan,
    function: str | Callable[..., Trajectory] = "",
    trials: Mapping[str, Mapping[str, Any]] | None = None,
    common: Mapping[str, Any] | None = None,
    identity: Mapping[str, str] | None = None,
    files: Mapping[str, str] | None = None,
) -> Study[Trajectory]:
    """Return the walks of a plan as a study; the other arguments are those of `Study`."""
    wanted = plan.keys()

    def from_json(key: str, value: Any) -> Trajectory:
        trajectory = Trajectory.from_json(value)
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
        # A run does not continue with another policy in a file of the same name.
        what=plan.what | dict(identity or {}),
        grows=GROWS,
        from_json=from_json,
        to_json=Trajectory.to_json,
        is_failure=has_failed,
        tries_again=True,
    )


def has_failed(trajectory: Trajectory) -> bool:
    """Return whether the server failed a walk, which is then repeated."""
    return trajectory.outcome in FAILURES


def failures(trajectories: Iterable[Trajectory]) -> dict[str, int]:
    """Return the number of walks that a server failed, by outcome."""
    return dict(Counter(t.outcome for t in trajectories if has_failed(t)))


# --- Listening ------------------------------------------------------------------------------------
# After so many failures in a row the other walks of a round are not begun: each would wait for its
# retries in vain.
ENOUGH = 20


class Listener:
    """Receiver of the walks that Inspect produces; this one ignores them."""

    def begins(self, name: str) -> None:
        """A walk is about to begin; an exception ends it."""

    def step(self) -> None:
        """A step is about to be queried; an exception ends its walk."""

    def failed(self, error: Exception) -> None:
        """A query failed; the walk ends."""

    def ended(self, trajectory: Trajectory) -> None:
        """A walk has ended, in whatever way."""


# Under `inspect eval` nobody listens.
listener: ContextVar[Listener] = ContextVar("listener", default=Listener())  # noqa: B039 (no state)


class Keeper(Listener):
    """Store each walk in a run as it ends, and stop when the server fails or the budget is reached.

    Args:
        results: of the run.

    Attributes:
        heard: names of the walks that have ended in this round.
        why: the last error of the server.
        reached: whether a limit of the budget ended a walk.
    """

    def __init__(self, results: Results[Trajectory]) -> None:
        self.heard: set[str] = set()
        self.why = "no reason known"
        self.reached = False
        self._results = results
        self._broken: GoalmeterError | None = None
        self._failed_in_a_row = 0
        self._outcome = ""
        self._under_way: list[str] = []  # in the order in which they began
        results.progress.working = {f"process {os.getpid()}": (monotonic(), self._under_way)}

    def next_round(self) -> None:
        """Give the server another chance with the walks that failed."""
        self.heard.clear()
        self._under_way.clear()
        self._failed_in_a_row = 0

    def raise_broken(self) -> None:
        """Raise the error that ended the run, which Inspect would take for the end of walks."""
        if self._broken is not None:
            raise self._broken

    def begins(self, name: str) -> None:
        """End a walk at once if the budget is reached or the server given up."""
        self._under_way.append(name)
        self._end_if_broken()
        if self.reached:
            raise GivenUpError(BUDGET)
        if self._failed_in_a_row >= ENOUGH:
            raise GivenUpError(self._outcome)

    def step(self) -> None:
        """Report progress; end a walk that could not be stored."""
        self._end_if_broken()
        self._results.progress.step()

    def failed(self, error: Exception) -> None:
        """Remember why a query failed."""
        if not isinstance(error, GivenUpError):
            self.why = reason_of(error)
        if is_ours_to_mend(error):
            self._broken = InvalidParameterError(f"the model cannot be asked: {self.why}")

    def ended(self, trajectory: Trajectory) -> None:
        """Store a walk, unless the budget ended it."""
        if self._broken is not None:
            return
        name = made_of(trajectory).name
        if name in self._under_way:
            self._under_way.remove(name)
        if trajectory.outcome in (BUDGET, *BUDGET_LIMITS):
            self.reached = True
            return
        try:
            self._results.keep(name, trajectory)
        except GoalmeterError as error:
            self._broken = error
            return
        self.heard.add(name)
        self._failed_in_a_row = self._failed_in_a_row + 1 if has_failed(trajectory) else 0
        self._outcome = trajectory.outcome

    def _end_if_broken(self) -> None:
        if self._broken is not None:
            # Not the error itself, whose traceback would grow with each walk.
            raise GivenUpError(ERROR)
