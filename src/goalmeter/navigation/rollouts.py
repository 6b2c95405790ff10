"""Run the walks of a plan, in this process or in workers, and store each as it ends."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidTrajectoryError
from goalmeter._files import digest
from goalmeter.agents.grid_agents import Navigator
from goalmeter.agents.registry import agent as named_agent
from goalmeter.navigation.inspect.models import FAILURES
from goalmeter.navigation.plan import GROWS, WalkPlan, plan_from
from goalmeter.navigation.trajectories import PlannedWalk, Trajectory, made_of, walk
from goalmeter.runs import HERE, Study, carry_out, read_run, stored_results
from goalmeter.runs.forecast import Forecast, forecast_of
from goalmeter.runs.progress import Tell


@dataclass(frozen=True)
class Walked:
    """Walks of an agent through a suite."""

    plan: WalkPlan
    trajectories: tuple[Trajectory, ...]  # all walks, in the order of the suite
    # Usage of a language model over all commands of the run, from Inspect's logs: "input_tokens",
    # "output_tokens", "tokens", "usd"; None for other agents and for loaded runs.
    spent: Mapping[str, Any] | None = None


def play_all(
    plan: WalkPlan,
    *,
    walker: Navigator | None = None,
    out: str | Path | None = None,
    on: str = HERE,
    progress: Tell | None = None,
) -> Walked:
    """Run every walk of a plan; `walker` is the agent, None: the agent named in the plan."""
    agent = walker or _navigator(plan)
    if callable(check := getattr(agent, "check", None)):
        for world in dict.fromkeys(task.world for task in plan.tasks.tasks):
            check(world)
    options: dict[str, Any] = {}
    if walker is None:
        options["identity"] = named_agent(plan.agent).identity()
    if on == HERE or walker is not None:
        options["function"] = lambda task, number: walk(agent, task, number, seed=plan.options.seed)
        options["trials"] = {key: planned._asdict() for key, planned in plan.keys().items()}
    else:
        options |= _in_workers(plan)
        options["files"] = {path: digest(path) for path in named_agent(plan.agent).all_files()}
    results = carry_out(study_of(plan, **options), on=on, out=out, progress=progress)
    return Walked(plan, tuple(results.values()))


def _in_workers(plan: WalkPlan) -> dict[str, Any]:
    """The function and the trials of a plan that is carried out in any process."""
    trials = {walk.name: {"key": walk.name} for walk in plan.tasks.walks()}
    common = {"what": json.dumps(plan.what)}
    return {"function": "goalmeter.navigation.rollouts:play", "trials": trials, "common": common}


def forecast(plan: WalkPlan, *, on: str = HERE, out: str | Path | None = None) -> Forecast:
    """Estimate the cost of `play_all`."""
    return forecast_of(study_of(plan, **_in_workers(plan)), on=on, out=out)


def load(folder: str | Path) -> Walked:
    """Load the walks of a run directory; the last result of a repeated walk counts."""
    run = read_run(folder)
    plan = plan_from(run.what, folder)
    return Walked(plan, tuple(stored_results(run, study_of(plan)).values()))


def play(what: str, key: str) -> dict[str, Any]:
    """Run one walk of a plan given as JSON, in a worker process."""
    plan, navigator, walks = _read_plan(what)
    return walk(navigator, *walks[key], seed=plan.options.seed).to_json()


# Generating the worlds of a suite takes longer than walking through them.
@lru_cache(maxsize=4)
def _read_plan(what: str) -> tuple[WalkPlan, Navigator, dict[str, PlannedWalk]]:
    plan = plan_from(json.loads(what), "this process")
    return plan, _navigator(plan), plan.keys()


def _navigator(plan: WalkPlan) -> Navigator:
    return named_agent(plan.agent).in_grids(asker="navigation")


def study_of(
    plan: WalkPlan,
    function: str | Callable[..., Trajectory] = "",
    trials: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    identity: Mapping[str, str] | None = None,
    **options: Any,
) -> Study[Trajectory]:
    """Return the walks of a plan as a study; the other arguments are those of `Study`."""
    walks = plan.keys()

    def from_json(key: str, value: Any) -> Trajectory:
        trajectory = Trajectory.from_json(value)
        if made_of(trajectory) != walks[key]:
            raise InvalidTrajectoryError("its labels, world or cap belong to another walk")
        return trajectory

    return Study(
        plan.agent,
        function,
        {key: {} for key in walks} if trials is None else trials,
        noun="walk",
        # The identity prevents resuming with another policy in a file of the same name.
        what=plan.what | dict(identity or {}),
        grows=GROWS,
        from_json=from_json,
        to_json=Trajectory.to_json,
        is_failure=has_failed,
        tries_again=True,
        **options,
    )


def has_failed(trajectory: Trajectory) -> bool:
    """Return whether a walk ended by a failure of the server; such walks are repeated."""
    return trajectory.outcome in FAILURES


def failures(trajectories: Iterable[Trajectory]) -> dict[str, int]:
    """Return the number of walks that ended by a failure of the server, by outcome."""
    return dict(Counter(t.outcome for t in trajectories if has_failed(t)))
