"""The walks of a plan as a study: how they are kept in a run folder, and read from it.

A walk is kept under its key when it has ended, and then stands. One that its server failed is kept
as a try, so that it can be made again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from goalmeter._errors import InvalidTrajectoryError
from goalmeter.navigation.inspect.failures import FAILURES
from goalmeter.navigation.inspect.samples import made_of
from goalmeter.navigation.plan import GROWS, WalkPlan
from goalmeter.navigation.record import Trajectory
from goalmeter.runs import Study


def study_of(
    plan: WalkPlan,
    function: str | Callable[..., Trajectory] = "",
    trials: Mapping[str, Mapping[str, Any]] | None = None,
    common: Mapping[str, Any] | None = None,
) -> Study[Trajectory]:
    """The study that the walks of a plan are.

    Args:
        plan: the agent and its walks.
        function: takes a walk; see `Study`. Whoever only keeps and reads walks needs none.
        trials: its arguments for each walk, by the walk's key.
        common: those that all walks share.
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
        noun="walk",
        what=plan.what,
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
