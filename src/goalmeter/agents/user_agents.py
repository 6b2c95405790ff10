"""Agents from a user's file or another package, and validation of their answers."""

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

# What can be asked of a user's agent is seen from how it is called:
#
#     a function (history, n_actions, n_observations) -> int      an action at a history
#     an object with begin(n_actions, n_observations), or a class  the same, as a mind
#     a function (world, state) -> four probabilities              a state of a grid world
#     an object with begin(world, draws), or a class of such       the same, which may remember
FORMS = (
    "a function (world, state) -> probabilities of LEFT, RIGHT, UP and DOWN, or an object with the "
    "method begin(world, draws)"
)
_MIND = ("perceive", "act", "take", "fork")
# Probabilities in single precision add up to 1 only so closely.
_TOLERANCE = 1e-5


def file_agent(spelled: str) -> NamedAgent | None:
    """Return the agent that FILE.py:NAME stands for; None for a name of no file."""
    name = canonical(spelled)
    parts = split_name(name)
    if parts is None:
        return None

    # The file is run when it is first asked for an ability, and anew for each agent of it: what a
    # file does may depend on the seed that its trial has set.
    def at_histories(seed: int = 0) -> Agent:
        candidate = load(*parts, kind="agent")
        try:
            return agent_of(candidate, seed, name)
        except InvalidParameterError as cause:
            raise InvalidFileError(str(cause)) from cause

    def in_grids() -> Navigator:
        candidate = load(*parts, kind="agent")
        if not walks(candidate):
            raise InvalidFileError(f"{name} does not walk in grid worlds; expected {FORMS}")
        return navigator_of(candidate, name)

    makers: Makers = {Ability.HISTORY: at_histories, Ability.GRID: in_grids}
    return NamedAgent(name, "your own", makers, files=parts[:1])


def object_makers(candidate: object, name: str) -> Makers:
    """Return the makers of an agent for which an object stands, with the one ability it has."""
    if walks(candidate):
        navigator = navigator_of(candidate, name)
        return {Ability.GRID: lambda: navigator}
    agent_of(candidate, 0, name)  # whoever registers what is no agent hears of it at once
    return {Ability.HISTORY: lambda seed=0: agent_of(candidate, seed, name)}


def walks(candidate: object) -> bool:
    """Return whether a user's object is an agent of grid worlds, rather than one of a history."""
    # Both kinds have a method `begin` of two arguments; a navigator calls its first one `world`.
    begin = getattr(candidate, "begin", None)
    if callable(begin):
        places = [p.name for p in parameters_of(begin) if p.name != "self"]
        return places[:1] == ["world"]
    if isinstance(candidate, type) or not callable(candidate):
        return False
    # Settings that an environment may ask for are keyword-only, and say nothing about the form.
    named = [p.name for p in parameters_of(candidate) if p.kind is Parameter.KEYWORD_ONLY]
    takes = []
    for count in (2, 3):
        with suppress(TypeError, ValueError):
            signature(candidate).bind(*[None] * count, **dict.fromkeys(named))
            takes.append(count)
    return takes == [2]


# --- Agents of a history --------------------------------------------------------------------------
def agent_of(candidate: object, seed: int, name: str) -> Agent:
    """Return the agent that a user's object stands for: a class is called with the trial's seed."""
    if isinstance(candidate, type) and hasattr(candidate, "begin"):
        advice = "a class of agents is called with the seed alone"
        with _failures(f"{name}({seed}) fails", advice):
            candidate = candidate(seed)
    return as_agent(candidate, name)


def check_installed(agent: Agent) -> None:
    """Import what an agent will need, once and before its first trial."""
    getattr(_inside(agent), "check_installed", lambda: None)()


def check_counts(agent: Agent, n_actions: int, n_observations: int) -> None:
    """Raise if an agent that knows only so many observations does not fit an environment."""
    getattr(_inside(agent), "check_counts", lambda *counts: None)(n_actions, n_observations)


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
    """Return the agent without the reality checks around it."""
    while isinstance(agent, RealityCheck):
        agent = agent.inner
    return agent


# --- Agents of grid worlds ------------------------------------------------------------------------
def navigator_of(written: Any, name: str) -> Navigator:
    """Return the navigator that a user's object in one of the `FORMS`, or a class, stands for."""
    if isinstance(written, type):
        advice = "a class of agents of grid worlds is called without arguments"
        with _failures(f"{name}() fails", advice):
            written = written()
    if callable(getattr(written, "begin", None)):
        return UserNavigator(name, written)
    return Memoryless(name, _PolicyOfFunction(name, written))


@contextmanager
def _failures(what: str, advice: str = "") -> Iterator[None]:
    """Say what failed where a user's code raises an error that is not goalmeter's own."""
    try:
        yield
    except GoalmeterError:  # it says already what is wrong
        raise
    except (Exception, SystemExit) as cause:
        raise InvalidParameterError(
            f"{what}: {type(cause).__name__}: {cause}{advice and '; ' + advice}"
        ) from cause


def _at(state: State) -> str:
    return f"at row {state.cell.row}, column {state.cell.column}"


@dataclass(frozen=True)
class _PolicyOfFunction:
    """The table [states, 4] of a function (world, state), asked once for every state."""

    name: str
    function: Callable[[GridWorld, State], Any]

    def __call__(self, plan: Plan) -> FloatArray:
        exists = existing(plan)
        table = np.zeros((len(exists), len(ACTIONS)))
        places = np.ndindex(LAYERS, *plan.world.shape)
        for number, (layer, row, column) in enumerate(places):
            if exists[number]:
                state = State(Cell(row, column), layer)
                # Nothing is done at the goal, so that nobody need answer for it.
                at_goal = state.cell == plan.world.goal
                table[number] = 0.25 if at_goal else self._row(plan.world, state)
        return table

    def _row(self, world: GridWorld, state: State) -> FloatArray:
        with _failures(f"{self.name} fails {_at(state)}"):
            answer = self.function(world, state)
        try:
            row = np.asarray(answer, dtype=np.float64)
        except (TypeError, ValueError):
            row = np.empty(0)
        fits = row.shape == (len(ACTIONS),) and bool(np.isfinite(row).all() and (row >= 0).all())
        if not fits or abs(row.sum() - 1) > _TOLERANCE:
            raise InvalidPolicyError(
                f"{self.name} gives {shown(answer)} {_at(state)}, expected the probabilities of "
                f"{', '.join(ACTIONS)}, four numbers that add up to 1"
            )
        return np.asarray(row / row.sum())


@dataclass(frozen=True)
class UserNavigator:
    """A user's object whose method `begin(world, draws)` begins walks, drawn by `name`."""

    name: str
    inner: Any

    def begin(self, world: GridWorld, draws: Draws) -> Walk:
        """Set out in a world."""
        with _failures(f"{self.name} fails when it begins a walk"):
            walk = self.inner.begin(world, draws)
        if not callable(getattr(walk, "act", None)):
            raise InvalidParameterError(
                f"the method 'begin' of {self.name} gives {shown(walk)}, expected an object with "
                f"the method act(state) -> Decision"
            )

        def act(state: State) -> Decision:
            with _failures(f"{self.name} fails {_at(state)}"):
                decision = walk.act(state)
            if not isinstance(decision, Decision):
                raise InvalidParameterError(
                    f"{self.name} gives {shown(decision)} {_at(state)}, expected a "
                    f"goalmeter.agents.Decision, such as Decision(action=0)"
                )
            return decision

        return Acting(act)
