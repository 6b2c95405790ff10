"""Agents from a user's file or another package, and validation of their answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Any

import numpy as np

from goalmeter._errors import (
    GoalmeterError,
    InvalidFileError,
    InvalidParameterError,
    InvalidPolicyError,
    shown,
)
from goalmeter._types import FloatArray
from goalmeter.agents.abilities import Ability, NamedAgent
from goalmeter.agents.grid_agents import Decision, Memoryless, Navigator, Walk
from goalmeter.agents.history import Agent, RealityCheck, as_agent
from goalmeter.agents.user_code import canonical, load, split_name
from goalmeter.gridworld.generators import Draws
from goalmeter.gridworld.planner import Plan, State, existing
from goalmeter.gridworld.world import ACTIONS, Cell, GridWorld

# --- User policy ----------------------------------------------------------------------------------
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


# --- User agents ----------------------------------------------------------------------------------
# What can be asked of one is seen from how it is called:
#
#     a function (history, n_actions, n_observations) -> int      an action at a history
#     an object with begin(n_actions, n_observations), or a class  the same, as a mind
#     a function (world, state) -> four probabilities              a state of a grid world
#     an object with begin(world, draws), or a class of such       the same, which may remember

_MIND = ("perceive", "act", "take", "fork")


def file_agent(spelled: str) -> NamedAgent | None:
    """The agent that FILE.py:NAME stands for; None for a name of no file.

    The file is run when it is first asked for an ability, not here, and anew for each agent of
    it: what a file does may depend on the seed that its trial has set.
    """
    name = canonical(spelled)
    parts = split_name(name)
    if parts is None:
        return None
    path, attribute = parts

    def at_histories(seed: int = 0) -> Agent:
        candidate = load(path, attribute, kind="agent")
        try:
            return agent_of(candidate, seed, name)
        except InvalidParameterError as cause:
            raise InvalidFileError(str(cause)) from cause

    def in_grids() -> Navigator:
        candidate = load(path, attribute, kind="agent")
        if not walks(candidate):
            raise InvalidFileError(f"{name} does not walk in grid worlds; expected {FORMS}")
        return navigator_of(candidate, name)

    return NamedAgent(
        name,
        "your own",
        {Ability.HISTORY: at_histories, Ability.GRID: in_grids},
        files=(path,),
    )


def object_agent(candidate: object, name: str, about: str) -> NamedAgent:
    """The agent of a name for which an object stands, with the one ability that it has."""
    if walks(candidate):
        navigator = navigator_of(candidate, name)
        return NamedAgent(name, about, {Ability.GRID: lambda: navigator})
    agent_of(candidate, 0, name)  # whoever registers what is no agent hears of it at once
    return NamedAgent(
        name, about, {Ability.HISTORY: lambda seed=0: agent_of(candidate, seed, name)}
    )


def walks(candidate: object) -> bool:
    """Whether a user's object is an agent of grid worlds, rather than one of a history.

    Both kinds of objects have a method `begin` of two arguments; that of a navigator calls its
    first one `world`.
    """
    begin = getattr(candidate, "begin", None)
    if callable(begin):
        places = [name for name in _parameters(begin) if name != "self"]
        return places[:1] == ["world"]
    if isinstance(candidate, type) or not callable(candidate):
        return False
    return _takes(candidate, 2) and not _takes(candidate, 3)


def _parameters(function: Callable[..., Any]) -> list[str]:
    try:
        return list(signature(function).parameters)
    except (TypeError, ValueError):  # some builtins have no signature
        return []


def _takes(function: Callable[..., Any], count: int) -> bool:
    try:
        parameters = signature(function)
    except (TypeError, ValueError):
        return False
    # Settings that an environment may ask for are keyword-only, and say nothing about the form.
    named = [p for p in parameters.parameters.values() if p.kind is Parameter.KEYWORD_ONLY]
    try:
        parameters.bind(*[None] * count, **{p.name: None for p in named})
    except TypeError:
        return False
    return True


def agent_of(candidate: object, seed: int, name: str) -> Agent:
    """The agent that a user's object stands for: a class of agents is called with the seed.

    Args:
        candidate: a function of the history, an object with the method `begin`, or a class of such.
        seed: of the trial.
        name: what it is called in an error.
    """
    if isinstance(candidate, type) and hasattr(candidate, "begin"):
        try:
            candidate = candidate(seed)
        except (Exception, SystemExit) as cause:
            raise InvalidParameterError(
                f"{name}({seed}) fails: {type(cause).__name__}: {cause}; a class of agents is "
                f"called with the seed alone"
            ) from cause
    return as_agent(candidate, name)


def check_installed(agent: Agent) -> None:
    """Import what an agent will need, once and before its first trial."""
    check = getattr(_inside(agent), "check_installed", None)
    if callable(check):
        check()


def check_counts(agent: Agent, n_actions: int, n_observations: int) -> None:
    """See that an agent which knows only so many observations fits an environment."""
    check = getattr(_inside(agent), "check_counts", None)
    if callable(check):
        check(n_actions, n_observations)


def check_mind(agent: Agent, name: str) -> None:
    """Refuse an agent whose minds lack a method; one that fails to begin is left to its trials."""
    try:
        mind = _inside(agent).begin(2, 1)
    except (Exception, SystemExit):
        return
    if lacks := [method for method in _MIND if not callable(getattr(mind, method, None))]:
        raise InvalidParameterError(
            f"the method 'begin' of {name} gives {shown(mind)}, which lacks {', '.join(lacks)}; "
            f"expected a mind, an object with the methods {', '.join(_MIND)}"
        )


def _inside(agent: Agent) -> Agent:
    """The agent without the reality checks around it."""
    while isinstance(agent, RealityCheck):
        agent = agent.inner
    return agent
