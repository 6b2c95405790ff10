"""What an agent does that wants nothing, or that does not think now: nine kinds of habit.

A habit sees which moves are open and remembers its own walk; it never looks where anything lies.
"""

from __future__ import annotations

from collections.abc import Sequence

from goalmeter.agents.navigators.wall_follower import CLOCKWISE, FIRST_HEADING
from goalmeter.experiments.calibration.population.planners import Row
from goalmeter.experiments.calibration.population.traits import (
    ANY_ACTION,
    EXPLORER,
    LEFT_WALL,
    LOOP,
    MOMENTUM,
    MOST_VISITED,
    MOTH,
    RIGHT_WALL,
    Traits,
)

_ACTIONS = range(4)
_EVEN: Row = (0.25, 0.25, 0.25, 0.25)
# The order in which a follower of each hand tries the ways: in quarter turns to the right.
_TURNS = {RIGHT_WALL: (1, 0, -1, 2), LEFT_WALL: (-1, 0, 1, 2)}


class Habit:
    """An agent's habit on one walk.

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
        if traits.habit == ANY_ACTION or not ways:
            return _EVEN
        if traits.habit == LOOP:
            return _shared([traits.loop[self._steps % len(traits.loop)]])
        if traits.habit == MOTH:
            return _weighted([traits.preferences[a] * (a in ways) for a in _ACTIONS], ways)
        if traits.habit in _TURNS:
            facing = CLOCKWISE.index(FIRST_HEADING if self._heading is None else self._heading)
            tried = (CLOCKWISE[(facing + turn) % 4] for turn in _TURNS[traits.habit])
            return _shared([next(action for action in tried if action in ways)])
        if traits.habit == MOMENTUM:
            return self._momentum(ways)
        if traits.habit in (MOST_VISITED, EXPLORER):
            pick = max if traits.habit == MOST_VISITED else min
            visits = {action: self._visits.get(self._after[cell][action], 0) for action in ways}
            most = pick(visits.values())
            return _shared([action for action in ways if visits[action] == most])
        return _shared(ways)  # wander

    def _momentum(self, ways: list[int]) -> Row:
        """On as before, or else another way; back where there is no other."""
        if self._heading is None:
            return _shared(ways)
        back = self._heading ^ 1  # LEFT and RIGHT are 0 and 1, UP and DOWN 2 and 3
        others = [a for a in ways if a not in (self._heading, back)]
        turned = _shared(others or [a for a in ways if a == back] or ways)
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
