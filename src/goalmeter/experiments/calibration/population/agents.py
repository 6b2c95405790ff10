"""A simulated agent in a scene: plans as often as it does not lapse, and else follows its habit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from goalmeter.agents.navigators import Decision
from goalmeter.agents.navigators.wall_follower import CLOCKWISE, FIRST_HEADING
from goalmeter.experiments.calibration.population import traits as kinds
from goalmeter.experiments.calibration.population.planners import (
    Course,
    Row,
    course,
    lapses,
    neighbours,
)
from goalmeter.experiments.calibration.population.scenes import Scene
from goalmeter.experiments.calibration.population.traits import Traits
from goalmeter.gridworld.draws import Draws
from goalmeter.gridworld.planner import State
from goalmeter.gridworld.tabular_world import GOAL, KEY
from goalmeter.gridworld.world import GridWorld

_ACTIONS = range(4)
_EVEN: Row = (0.25, 0.25, 0.25, 0.25)
# The order in which a follower of each hand tries the ways: in quarter turns to the right.
_TURNS = {kinds.RIGHT_WALL: (1, 0, -1, 2), kinds.LEFT_WALL: (-1, 0, 1, 2)}


class Habit:
    """An agent's habit on one walk: what it does that wants nothing, or that does not think now.

    It sees which moves are open and remembers its own walk; it never looks where anything lies.

    Args:
        traits: of the agent.
        after: the cell after each move in the world as it is, by number, four for each cell.
    """

    def __init__(self, traits: Traits, after: Sequence[Sequence[int]]) -> None:
        self._traits = traits
        self._after = after
        self._steps = 0
        self._heading: int | None = None  # the last move that led somewhere
        self._visits: dict[int, int] = {}

    def weights(self, cell: int) -> Row:
        """Probabilities of the four moves in a cell."""
        kept = self._kept(cell)
        steady = self._traits.steadiness
        left, right, up, down = (steady * share + (1 - steady) / 4 for share in kept)
        return left, right, up, down

    def remember(self, cell: int, action: int) -> None:
        """What was done, whoever decided it."""
        if not self._steps:
            self._visits[cell] = 1
        to = self._after[cell][action]
        if to != cell:
            self._heading = action
            self._visits[to] = self._visits.get(to, 0) + 1
        self._steps += 1

    def _kept(self, cell: int) -> Row:
        """Probabilities of the four moves where the habit is kept to."""
        traits = self._traits
        ways = [action for action in _ACTIONS if self._after[cell][action] != cell]
        if traits.habit == kinds.ANY_ACTION or not ways:
            return _EVEN
        if traits.habit == kinds.LOOP:
            return _shared([traits.loop[self._steps % len(traits.loop)]])
        if traits.habit == kinds.MOTH:
            return _weighted([traits.preferences[a] * (a in ways) for a in _ACTIONS], ways)
        if traits.habit in _TURNS:
            facing = CLOCKWISE.index(FIRST_HEADING if self._heading is None else self._heading)
            turns = (CLOCKWISE[(facing + turn) % 4] for turn in _TURNS[traits.habit])
            return _shared([next(action for action in turns if action in ways)])
        if traits.habit == kinds.MOMENTUM:
            return self._momentum(ways)
        if traits.habit in (kinds.MOST_VISITED, kinds.EXPLORER):
            pick = max if traits.habit == kinds.MOST_VISITED else min
            visits = {action: self._visits.get(self._after[cell][action], 0) for action in ways}
            most = pick(visits.values())
            return _shared([action for action in ways if visits[action] == most])
        return _shared(ways)  # wander

    def _momentum(self, ways: list[int]) -> Row:
        """On as before, or else another way; back where there is no other."""
        if self._heading is None:
            return _shared(ways)
        back = self._heading ^ 1  # LEFT and RIGHT are 0 and 1, UP and DOWN 2 and 3
        aside = [a for a in ways if a not in (self._heading, back)]
        turned = _shared(aside or [a for a in ways if a == back] or ways)
        if self._heading not in ways:
            return turned
        on = self._traits.persistence
        left, right, up, down = (
            on * (action == self._heading) + (1 - on) * share
            for action, share in zip(_ACTIONS, turned, strict=True)
        )
        return left, right, up, down


def _shared(actions: list[int]) -> Row:
    return _weighted([float(action in actions) for action in _ACTIONS], actions)


def _weighted(weights: list[float], ways: list[int]) -> Row:
    """Probabilities in proportion to weights; evenly among some ways if all are 0."""
    total = sum(weights)
    if not total:
        return _shared(ways)
    left, right, up, down = (weight / total for weight in weights)
    return left, right, up, down


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
        """The name of the agent, whatever the scene."""
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
        if traits.target == KEY and traits.then == kinds.THEN_GOAL:
            self._then = course(traits, scene, GOAL)

    def act(self, state: State) -> Decision:
        """A move drawn from the mixture of plan and habit."""
        cell = state.cell.row * self._columns + state.cell.column
        habit = self._habit.weights(cell)
        # Who wants something else does not care that it has come by the key.
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
