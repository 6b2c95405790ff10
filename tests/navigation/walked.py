"""Trajectories for tests: agents that answer badly, and small suites walked through."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

from goalmeter.agents.grid_agents import Decision, navigator
from goalmeter.gridworld import GridWorld, State
from goalmeter.gridworld.generators import Draws
from goalmeter.navigation import Episode, Task, Trajectory, suite, walk


class Unreliable:
    """Drops every fifth answer or so, and says how sure it is only of some."""

    name = "unreliable"

    def begin(self, world: GridWorld, draws: Draws) -> Unreliable:
        self.draws = draws
        self.walking = navigator("boltzmann(1)").begin(world, draws)
        return self

    def act(self, state: State) -> Decision:
        decision = self.walking.act(state)
        if self.draws.below(5) == 0:
            return Decision(None, invalid="no action")
        if self.draws.below(3) == 0:
            return replace(decision, probabilities=None)
        return decision


@lru_cache
def walked(agent: str, name: str = "maze", seed: int = 0, **options: Any) -> list[Trajectory]:
    """Every walk of an agent through a suite."""
    made = suite(name, **{k: list(v) if isinstance(v, tuple) else v for k, v in options.items()})
    who = Unreliable() if agent == "unreliable" else navigator(agent)
    return [walk(who, task, index, seed=seed) for task, index in made.walks()]


def ended(task: Task, failure: str, index: int = 0) -> Trajectory:
    """A walk that failed before its first step."""
    return Episode(task).trajectory(index, failure)


def task(picture: list[str], *, seed: int = 0, cap: int = 10, **labels: Any) -> Task:
    """A task in a world of one's own."""
    from goalmeter.gridworld import plan

    world = GridWorld.from_text(picture)
    values: dict[str, Any] = {
        "suite": "maze",
        "size": world.size,
        "complexity": 1.0,
        "grid": seed,
        "seed": seed,
        "transform": None,
        "condition": {},
    }
    return Task(**(values | labels), world=world, distance=plan(world).distance, cap=cap)


def taken(task_: Task, *actions: int | None, index: int = 0) -> Trajectory:
    """A walk with given actions; None is an answer that was none."""
    episode = Episode(task_)
    for action in actions:
        episode.take(Decision(action, invalid=None if action is not None else "no action"))
    return episode.trajectory(index, None if episode.over else "timeout")
