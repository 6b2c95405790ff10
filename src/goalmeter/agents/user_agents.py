"""Agents from a user's file or a plugin package, and validation of their answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
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
from goalmeter.agents.abilities import Ability, Makers, NamedAgent
from goalmeter.agents.grid_agents import Acting, Decision, Memoryless, Navigator, Walk
from goalmeter.agents.history import Agent, RealityCheck, as_agent, parameters_of
from goalmeter.agents.user_code import canonical, load, split_name
from goalmeter.gridworld.generators import Draws
from goalmeter.gridworld.planner import LAYERS, Plan, State, existing
from goalmeter.gridworld.world import ACTIONS, Cell, GridWorld

# The signature of a user's agent determines its ability:
#
#     a function (history, n_actions, n_observations) -> int       HISTORY
#     an object with begin(n_actions, n_observations), or a class  HISTORY, as a mind
#     a function (world, state) -> four probabilities              GRID
#     an object with begin(world, draws), or its class             GRID, with memory
FORMS = (
    "a function (world, state) -> probabilities of LEFT, RIGHT, UP and DOWN, or an object with the "
    "method begin(world, draws)"
)
_MIND = ("perceive", "act", "take", "fork")
# Tolerance for the sum of probabilities in single precision.
_TOLERANCE = 1e-5


def file_agent(spelled: str) -> NamedAgent | None:
    """Return the agent named FILE.py:NAME; None for any other name."""
    name = canonical(spelled)
    parts = split_name(name)
    if parts is None:
        return None

    # The file is run when an ability is first used, and again for each agent, since its code may
    # depend on the random seed of the trial.
    def at_histories(seed: int = 0) -> Agent:
        candidate = load(*parts, kind="agent")
        try:
            return agent_of(candidate, seed, name)
        except InvalidParameterError as cause:
            raise InvalidFileError(str(cause)) from cause

    def in_grids() -> Navigator:
        candidate = load(*parts, kind="agent")
        if not walks(candidate):
            raise InvalidFileError(f"{name} is not an agent of grid worlds, expected {FORMS}")
        return navigator_of(candidate, name)

    makers: Makers = {Ability.HISTORY: at_histories, Ability.GRID: in_grids}
    return NamedAgent(name, "your own", makers, files=parts[:1])


def object_makers(candidate: object, name: str) -> Makers:
    """Return the factory of an object's ability."""
    if walks(candidate):
        navigator = navigator_of(candidate, name)
        return {Ability.GRID: lambda: navigator}
    agent_of(candidate, 0, name)  # an invalid agent raises its error at registration
    return {Ability.HISTORY: lambda seed=0: agent_of(candidate, seed, name)}


def walks(candidate: object) -> bool:
    """Return whether a user's object is an agent of grid worlds, not of histories."""
    # Both kinds have a method `begin` of two arguments; a navigator's first one is `world`.
    begin = getattr(candidate, "begin", None)
    if callable(begin):
        places = [p.name for p in parameters_of(begin) if p.name != "self"]
        return places[:1] == ["world"]
    if isinstance(candidate, type) or not callable(candidate):
        return False
    # Keyword-only parameters are settings, and do not determine the form.
    settings = [p.name for p in parameters_of(candidate) if p.kind is Parameter.KEYWORD_ONLY]
    accepted = []
    for count in (2, 3):
        with suppress(TypeError, ValueError):
            signature(candidate).bind(*[None] * count, **dict.fromkeys(settings))
            accepted.append(count)
    return accepted == [2]


# --- Agents of a history --------------------------------------------------------------------------
def agent_of(candidate: object, seed: int, name: str) -> Agent:
    """Return a user's object as an agent; a class is instantiated with the trial's seed."""
    if isinstance(candidate, type) and hasattr(candidate, "begin"):
        advice = "a class of agents is called with the seed only"
        with _wrap_errors(f"{name}({seed}) fails", advice):
            candidate = candidate(seed)
    return as_agent(candidate, name)


def check_installed(agent: Agent) -> None:
    """Import the packages that an agent needs, before its first trial."""
    getattr(inner_agent(agent), "check_installed", lambda: None)()


def check_counts(agent: Agent, n_actions: int, n_observations: int) -> None:
    """Raise if an agent with fixed numbers of actions and observations does not fit."""
    getattr(inner_agent(agent), "check_counts", lambda *counts: None)(n_actions, n_observations)


def check_mind(agent: Agent, name: str) -> None:
    """Raise if an agent's minds lack a method; an agent that cannot begin fails in its trials."""
    try:
        mind = inner_agent(agent).begin(2, 1)
    except (Exception, SystemExit):
        return
    if lacks := [method for method in _MIND if not callable(getattr(mind, method, None))]:
        raise InvalidParameterError(
            f"the method 'begin' of {name} returned {shown(mind)}, without {', '.join(lacks)}; "
            f"expected a mind, an object with the methods {', '.join(_MIND)}"
        )


def inner_agent(agent: Agent) -> Agent:
    """Return the agent without its reality checks."""
    while isinstance(agent, RealityCheck):
        agent = agent.inner
    return agent


# --- Agents of grid worlds ------------------------------------------------------------------------
def navigator_of(candidate: Any, name: str) -> Navigator:
    """Return a user's object in one of the `FORMS`, or an instance of its class, as navigator."""
    if isinstance(candidate, type):
        advice = "a class of agents of grid worlds is called without arguments"
        with _wrap_errors(f"{name}() fails", advice):
            candidate = candidate()
    if callable(getattr(candidate, "begin", None)):
        return UserNavigator(name, candidate)
    return Memoryless(name, _PolicyOfFunction(name, candidate))


@contextmanager
def _wrap_errors(what: str, advice: str = "") -> Iterator[None]:
    """Raise errors of user code as InvalidParameterError that states what failed."""
    try:
        yield
    except GoalmeterError:
        raise
    except (Exception, SystemExit) as cause:
        raise InvalidParameterError(
            f"{what}: {type(cause).__name__}: {cause}{advice and '; ' + advice}"
        ) from cause


def _at(state: State) -> str:
    return f"at row {state.cell.row}, column {state.cell.column}"


@dataclass(frozen=True)
class _PolicyOfFunction:
    """Policy [states, 4] of a function (world, state), called once for every state."""

    name: str
    function: Callable[[GridWorld, State], Any]

    def __call__(self, plan: Plan) -> FloatArray:
        exists = existing(plan)
        table = np.zeros((len(exists), len(ACTIONS)))
        places = np.ndindex(LAYERS, *plan.world.shape)
        for number, (layer, row, column) in enumerate(places):
            if exists[number]:
                state = State(Cell(row, column), layer)
                # There is no decision at the goal, so the function is not called.
                at_goal = state.cell == plan.world.goal
                table[number] = 0.25 if at_goal else self._row(plan.world, state)
        return table

    def _row(self, world: GridWorld, state: State) -> FloatArray:
        with _wrap_errors(f"{self.name} fails {_at(state)}"):
            answer = self.function(world, state)
        try:
            row = np.asarray(answer, dtype=np.float64)
        except (TypeError, ValueError):
            row = np.empty(0)
        fits = row.shape == (len(ACTIONS),) and bool(np.isfinite(row).all() and (row >= 0).all())
        if not fits or abs(row.sum() - 1) > _TOLERANCE:
            raise InvalidPolicyError(
                f"{self.name} returned {shown(answer)} {_at(state)}, expected the probabilities of "
                f"{', '.join(ACTIONS)}, four numbers that add up to 1"
            )
        return np.asarray(row / row.sum())


@dataclass(frozen=True)
class UserNavigator:
    """Navigator from a user's object with the method `begin(world, draws)`."""

    name: str
    inner: Any

    def begin(self, world: GridWorld, draws: Draws) -> Walk:
        """Begin a walk in a world."""
        with _wrap_errors(f"{self.name} fails when it begins a walk"):
            walk = self.inner.begin(world, draws)
        if not callable(getattr(walk, "act", None)):
            raise InvalidParameterError(
                f"the method 'begin' of {self.name} returned {shown(walk)}, expected an object "
                f"with the method act(state) -> Decision"
            )

        def act(state: State) -> Decision:
            with _wrap_errors(f"{self.name} fails {_at(state)}"):
                decision = walk.act(state)
            if not isinstance(decision, Decision):
                raise InvalidParameterError(
                    f"{self.name} returned {shown(decision)} {_at(state)}, expected a "
                    f"goalmeter.agents.Decision, such as Decision(action=0)"
                )
            return decision

        return Acting(act)
