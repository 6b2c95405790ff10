"""A simulated agent in a small room, for tests of the calibration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from goalmeter._types import IntArray
from goalmeter.gridworld import GridWorld
from goalmeter.gridworld.conversions import TabularWorld
from goalmeter.gridworld.planner import plan
from goalmeter.gridworld.world import Cell
from goalmeter.navigation.trajectories import Task, Trajectory
from replications.calibration.population.agents import Scene, ScenePair, Traits

LEFT, RIGHT, UP, DOWN = range(4)
# The marked cell lies at the end of a dead end, the marked corner at the bottom right.
ROOM = GridWorld.from_text("""
#######
#A____#
#_###_#
#_#_#_#
#_#K#_#
#___#G#
#######
""")
SCENE = Scene(ROOM, cell=Cell(3, 3), corner=Cell(5, 1), cap=42)


def agent(**changes: object) -> Traits:
    """An agent that goes for the goal by the shortest way, with changes."""
    base = Traits(
        name="agent",
        target="goal",
        strength=1.0,
        noise="lapses",
        planner="exact",
        belief="true map",
        habit="wander",
        steadiness=1.0,
        then="habit",
        depth=2,
        rollouts=4,
        discount=1.0,
        preferences=(0.1, 0.2, 0.3, 0.4),
        persistence=0.8,
        loop=(RIGHT, RIGHT, DOWN),
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def number(cell: tuple[int, int]) -> int:
    return cell[0] * 7 + cell[1]


def task_of(scene: Scene) -> Task:
    pair = ScenePair(7, 0.5, 0, (scene, scene))
    return replace(pair.task(0), distance=plan(scene.world).distance)


def columns_of(walks: Sequence[Trajectory], world: TabularWorld) -> tuple[IntArray, ...]:
    """The states, actions and lengths of walks, as `from_trajectories` takes them."""
    length = np.array([len(walk.steps) for walk in walks])
    states, actions = np.zeros((2, len(walks), length.max()), dtype=int)
    for row, trajectory in enumerate(walks):
        for number, step in enumerate(trajectory.steps):
            states[row, number], actions[row, number] = world.index(step.state), step.action
    return states, actions, length
