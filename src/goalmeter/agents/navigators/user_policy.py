"""Agents of grid worlds as users write them, held to what a navigator must give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from goalmeter._errors import GoalmeterError, InvalidParameterError, InvalidPolicyError
from goalmeter._text import shown
from goalmeter._types import FloatArray
from goalmeter.agents.navigators.memoryless import Memoryless
from goalmeter.agents.navigators.protocol import Decision, Navigator, Walk
from goalmeter.gridworld.draws import Draws
from goalmeter.gridworld.planner import Plan, State, existing
from goalmeter.gridworld.world import ACTIONS, Cell, GridWorld

FORMS = (
    "a function (world, state) -> probabilities of LEFT, RIGHT, UP and DOWN, or an object with the "
    "method begin(world, draws)"
)
# Probabilities in single precision add up to 1 only so closely.
_TOLERANCE = 1e-5


def navigator_of(written: Any, name: str) -> Navigator:
    """The navigator that a user's function, object or class stands for.

    Args:
        written: in one of the `FORMS`; a class is called without arguments.
        name: what it is called, also in errors.
    """
    if isinstance(written, type):
        try:
            written = written()
        except (Exception, SystemExit) as cause:
            raise InvalidParameterError(
                f"{name}() fails: {type(cause).__name__}: {cause}; a class of agents of grid "
                f"worlds is called without arguments"
            ) from cause
    if callable(getattr(written, "begin", None)):
        return UserNavigator(name, written)
    return Memoryless(name, _PolicyOfFunction(name, written))


@dataclass(frozen=True)
class _PolicyOfFunction:
    """The table [states, 4] of a function (world, state), asked once for every state."""

    name: str
    function: Callable[[GridWorld, State], Any]

    def __call__(self, plan: Plan) -> FloatArray:
        exists = existing(plan)
        rows, columns = plan.world.shape
        table = np.zeros((len(exists), len(ACTIONS)))
        for number in np.flatnonzero(exists).tolist():
            layer, place = divmod(number, rows * columns)
            state = State(Cell(*divmod(place, columns)), layer)
            # Nothing is done at the goal, so that nobody need answer for it.
            at_goal = state.cell == plan.world.goal
            table[number] = 0.25 if at_goal else self._row(plan.world, state)
        return table

    def _row(self, world: GridWorld, state: State) -> FloatArray:
        where = f"at row {state.cell.row}, column {state.cell.column}"
        try:
            answer = self.function(world, state)
        except (Exception, SystemExit) as cause:
            raise _failed(self.name, where, cause) from cause
        try:
            row = np.asarray(answer, dtype=np.float64)
        except (TypeError, ValueError):
            row = np.empty(0)
        fits = row.shape == (len(ACTIONS),) and bool(np.isfinite(row).all() and (row >= 0).all())
        if not fits or abs(row.sum() - 1) > _TOLERANCE:
            raise InvalidPolicyError(
                f"{self.name} gives {shown(answer)} {where}, expected the probabilities of "
                f"{', '.join(ACTIONS)}, four numbers that add up to 1"
            )
        return np.asarray(row / row.sum())


@dataclass(frozen=True)
class UserNavigator:
    """A user's object whose method `begin(world, draws)` begins walks.

    Attributes:
        name: as on the command line, whatever the object calls itself: walks are drawn by it.
        inner: the user's object.
    """

    name: str
    inner: Any

    def begin(self, world: GridWorld, draws: Draws) -> Walk:
        """Set out in a world."""
        try:
            walk = self.inner.begin(world, draws)
        except (Exception, SystemExit) as cause:
            raise _failed(self.name, "when it begins a walk", cause) from cause
        if not callable(getattr(walk, "act", None)):
            raise InvalidParameterError(
                f"the method 'begin' of {self.name} gives {shown(walk)}, expected an object with "
                f"the method act(state) -> Decision"
            )
        return _UserWalk(self.name, walk)


@dataclass(frozen=True)
class _UserWalk:
    name: str
    inner: Walk

    def act(self, state: State) -> Decision:
        where = f"at row {state.cell.row}, column {state.cell.column}"
        try:
            decision = self.inner.act(state)
        except (Exception, SystemExit) as cause:
            raise _failed(self.name, where, cause) from cause
        if not isinstance(decision, Decision):
            raise InvalidParameterError(
                f"{self.name} gives {shown(decision)} {where}, expected a "
                f"goalmeter.agents.Decision, such as Decision(action=0)"
            )
        return decision


def _failed(name: str, where: str, cause: BaseException) -> GoalmeterError:
    if isinstance(cause, GoalmeterError):  # it says already what is wrong
        return cause
    return InvalidParameterError(f"{name} fails {where}: {type(cause).__name__}: {cause}")
