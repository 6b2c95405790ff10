"""A simulated agent in a scene: plans as often as it does not lapse, and else follows its habit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from goalmeter.agents.navigators import Decision
from goalmeter.experiments.calibration.population.habits import Habit
from goalmeter.experiments.calibration.population.planners import Course, course, lapses, neighbours
from goalmeter.experiments.calibration.population.scenes import Scene
from goalmeter.experiments.calibration.population.traits import THEN_GOAL, Traits
from goalmeter.gridworld.draws import Draws
from goalmeter.gridworld.planner import State
from goalmeter.gridworld.tabular_world import GOAL, KEY
from goalmeter.gridworld.world import GridWorld


@lru_cache(maxsize=64)
def _ways(world: GridWorld) -> tuple[tuple[int, ...], ...]:
    """The cell after each move, by number, in the world as it is."""
    return tuple(map(tuple, neighbours(world.walls).tolist()))


@dataclass(frozen=True)
class Simulated:
    """An agent that knows where the places of one scene are: a navigator of that scene's world."""

    traits: Traits
    scene: Scene

    @property
    def name(self) -> str:
        """The agent's own."""
        return self.traits.name

    def begin(self, world: GridWorld, draws: Draws) -> SimulatedWalk:
        """Set out from the start of the scene's world."""
        assert world == self.scene.world
        return SimulatedWalk(self.traits, self.scene, draws)


class SimulatedWalk:
    """One walk of a simulated agent."""

    def __init__(self, traits: Traits, scene: Scene, draws: Draws) -> None:
        self._traits = traits
        self._columns = scene.world.shape[1]
        self._draws = draws
        self._habit = Habit(traits, _ways(scene.world))
        self._lapses = lapses(traits) if traits.directed else 1.0
        self._course = course(traits, scene, traits.target) if traits.directed else None
        self._then: Course | None = None
        if traits.target == KEY and traits.then == THEN_GOAL:
            self._then = course(traits, scene, GOAL)

    def act(self, state: State) -> Decision:
        """A move drawn from the mixture of plan and habit."""
        cell = state.cell.row * self._columns + state.cell.column
        habit = self._habit.weights(cell)
        has_it = self._traits.target == KEY and state.has_key
        plan = self._then if has_it else self._course
        mixed = habit
        if plan is not None:
            lapse = self._lapses
            left, right, up, down = (
                lapse * usual + (1 - lapse) * meant
                for usual, meant in zip(habit, plan.weights(cell), strict=True)
            )
            mixed = left, right, up, down
        action = self._draws.weighted(mixed)
        self._habit.remember(cell, action)
        return Decision(action, mixed)
