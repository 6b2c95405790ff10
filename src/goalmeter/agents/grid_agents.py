"""Baseline agents of grid worlds: protocol, policies, registry and Gymnasium episodes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import BoolArray, FloatArray
from goalmeter.agents.abilities import Ability, AgentFactory, NamedAgent, call_of
from goalmeter.gridworld.generators import Draws, distances_from
from goalmeter.gridworld.planner import (
    LAYERS,
    Plan,
    State,
    existing,
    layers_of,
    open_moves,
    planned,
)
from goalmeter.gridworld.world import Cell, GridWorld

if TYPE_CHECKING:
    import gymnasium


Probabilities = tuple[float, float, float, float]


@dataclass(frozen=True)
class Decision:
    """Action of an agent at one step, with details of the answer as far as known."""

    action: int | None  # 0 to 3 as in `gridworld.ACTIONS`; None for an invalid answer
    # Probabilities of the four actions; their sum is below 1 if other answers were possible.
    probabilities: Probabilities | None = None
    raw: str | None = None  # raw output
    reasoning: str | None = None  # reasoning before the answer
    prompt: str | None = None
    prompt_tokens: int | tuple[int, ...] | None = None  # token ids, or their number
    answer_tokens: tuple[int, ...] | None = None  # token ids, including the end token
    attempts: int | None = None  # number of queries
    invalid: str | None = None  # reason for the lack of an action


class Walk(Protocol):
    """Walk of an agent through a world; it may have memory."""

    def act(self, state: State) -> Decision:
        """Return the decision in a state; called once per step, in order."""


@dataclass(frozen=True)
class Acting:
    """Walk defined by a function."""

    act: Callable[[State], Decision]


class Navigator(Protocol):
    """Agent that walks through grid worlds."""

    @property
    def name(self) -> str:
        """Name on the command line."""

    def begin(self, world: GridWorld, draws: Draws) -> Walk:
        """Begin a walk at the start of a world; `draws` is the only source of randomness."""


# Policies are arrays [states, 4] over the planner's state numbers. The row of each existing state
# is a distribution, uniform in states without a choice (at the goal, in a closed cell). Rows of
# numbers without a state are 0.

PolicyOf = Callable[[Plan], FloatArray]


@dataclass(frozen=True)
class Memoryless:
    """Navigator without memory; `policy_of` computes its policy from the plan of a world."""

    name: str
    policy_of: PolicyOf
    # Raises an error for unsupported worlds.
    check: Callable[[GridWorld], None] | None = field(default=None, repr=False)

    def policy(self, plan: Plan) -> FloatArray:
        """Return the policy of a world, [states, 4], by the planner's state numbers."""
        return self.policy_of(plan)

    def begin(self, world: GridWorld, draws: Draws) -> Walk:
        """Begin a walk in a world."""
        plan, rows = planned(world), _rows(self, world)

        def act(state: State) -> Decision:
            row = rows[plan.number(state)]
            return Decision(draws.weighted(row), row)

        return Acting(act)


@lru_cache(maxsize=512)
def _rows(navigator: Memoryless, world: GridWorld) -> tuple[Probabilities, ...]:
    states = layers_of(world) * world.walls.size  # higher numbers are not states of this world
    return tuple(map(tuple, navigator.policy(planned(world))[:states].tolist()))


def optimal(plan: Plan) -> FloatArray:
    """Return the uniform policy over the actions that lead one step closer."""
    return _uniform(plan, _optimal(plan), open_moves(plan))


def random(plan: Plan) -> FloatArray:
    """Return the uniform policy over the moves into open cells."""
    return _uniform(plan, open_moves(plan))


def epsilon_optimal(plan: Plan, epsilon: float) -> FloatArray:
    """Return the mixture of `random` with probability epsilon and `optimal` otherwise."""
    return (1 - epsilon) * optimal(plan) + epsilon * random(plan)


def greedy(plan: Plan) -> FloatArray:
    """Return the uniform policy over moves that reduce the Manhattan distance, else all moves."""
    moves = open_moves(plan)
    rows, columns = np.indices(plan.world.shape)
    goal = plan.world.goal
    distance = np.abs(rows - goal.row) + np.abs(columns - goal.column)  # ignores walls
    by_state = np.tile(distance.reshape(-1), LAYERS)
    nearer = moves & (by_state[plan.plans.successors[plan.index]] < by_state[:, None])
    return _uniform(plan, nearer, moves)


def boltzmann(plan: Plan, beta: float) -> FloatArray:
    """Return the softmax of -beta times the steps that an action costs beyond an optimal one."""
    gaps = plan.plans.gaps[plan.index]
    reachable = gaps >= 0  # actions that make the goal unreachable have probability 0
    exponent = np.where(reachable, -beta * gaps, -np.inf)
    # Subtracting the maximum prevents overflow.
    exponent -= np.where(reachable.any(axis=1), exponent.max(axis=1), 0.0)[:, None]
    weights = np.where(reachable, np.exp(exponent), 0.0)
    return _uniform(plan, weights, open_moves(plan))


def key_seeker(plan: Plan) -> FloatArray:
    """Return the policy on shortest paths to the key (not a neutral object), then to the goal."""
    return _uniform(plan, _towards(plan, plan.world.key), _optimal(plan), open_moves(plan))


def towards_thing(plan: Plan) -> BoolArray:
    """Return a mask of actions that lead one step closer to the key or object, [states, 4]."""
    return _towards(plan, plan.world.thing)


def _towards(plan: Plan, place: Cell | None) -> BoolArray:
    """Return a mask [states, 4]; False with the object, and if it is behind the goal or a door."""
    world = plan.world
    out = np.zeros((LAYERS * world.walls.size, 4), dtype=bool)
    if place is None:
        return out
    walls = world.walls.copy()
    walls[world.goal] = True
    if world.door is not None:
        walls[world.door] = True
    steps = distances_from(walls, [place])[0].reshape(-1)
    without = slice(0, world.walls.size)
    to = plan.plans.successors[plan.index][without] % world.walls.size
    out[without] = (steps[:, None] > 0) & (steps[to] == steps[:, None] - 1)
    return out


def _optimal(plan: Plan) -> BoolArray:
    return np.asarray(plan.plans.optimal[plan.index])


def _uniform(plan: Plan, *choices: FloatArray | BoolArray) -> FloatArray:
    """Normalize the first weights of each state that are not all 0; uniform without any."""
    out = np.full((len(choices[0]), 4), 0.25)
    for weights in reversed(choices):
        total = weights.sum(axis=1, keepdims=True)
        np.divide(weights, total, out=out, where=total > 0)
    out[~existing(plan)] = 0.0
    return out


# Headings UP, RIGHT, DOWN and LEFT, the order of right turns.
CLOCKWISE = (2, 1, 3, 0)


@dataclass(frozen=True)
class WallFollower:
    """Right-hand rule: turn right if possible, else go straight, else left, else back."""

    # It finds the goal in every perfect maze, and walks in circles in open rooms.
    name: str = "wall-follower"

    def begin(self, world: GridWorld, draws: Draws) -> Walk:
        """Begin a deterministic walk in a world."""
        plan, facing = planned(world), 0

        def act(state: State) -> Decision:
            nonlocal facing
            turns = (1, 0, -1, 2)  # right, ahead, left, back; ahead if walled in
            ways = [(facing + turn) % 4 for turn in turns]
            is_open = [plan.step(state, CLOCKWISE[way]) != state for way in ways]
            facing = ways[is_open.index(True)] if any(is_open) else facing
            left, right, up, down = (float(CLOCKWISE[facing] == a) for a in range(4))
            return Decision(CLOCKWISE[facing], (left, right, up, down))

        return Acting(act)


# --- Names ----------------------------------------------------------------------------------------
DEFAULT_EPSILON = 0.1


@lru_cache(maxsize=64)
def navigator(name: str) -> Navigator:
    """Return a baseline agent of grid worlds by name; `agents.agent` supports all agents."""
    call = call_of(name)
    return NAVIGATORS[call.kind].make(call.kind, call.argument).in_grids()


def navigator_names() -> list[str]:
    """Return every name that `navigator` supports."""
    return [factory.spelled(name) for name, factory in NAVIGATORS.items()]


def _plain(about: str, agent: Navigator) -> AgentFactory:
    return AgentFactory.without_argument(about, {Ability.GRID: lambda: agent})


def _with_number(
    about: str, make: Callable[[float | None], Navigator], argument: str, *, needs: bool
) -> AgentFactory:
    """Return the registry entry of a baseline agent with a number in brackets."""

    def named(name: str, text: str | None) -> NamedAgent:
        try:
            number = None if text is None else float(text)
        except ValueError:
            number = math.nan
        if number is not None and not math.isfinite(number):
            raise InvalidParameterError(
                f"the agent is '{name}({text})', expected {name}({argument}) with a number"
            )
        # Created at once, so that a number out of range raises its error here.
        agent = make(number)
        return NamedAgent(agent.name, about, {Ability.GRID: lambda: agent})

    return AgentFactory(about, frozenset({Ability.GRID}), named, argument, needs)


def _epsilon_optimal(epsilon: float | None) -> Navigator:
    share = DEFAULT_EPSILON if epsilon is None else epsilon
    if not 0 <= share <= 1:
        raise InvalidParameterError(f"epsilon is {share:g}, expected a probability, 0 to 1")
    name = "epsilon-optimal" if epsilon is None else f"epsilon-optimal({_spelled(share)})"
    return Memoryless(name, partial(epsilon_optimal, epsilon=share))


def _boltzmann(beta: float | None) -> Navigator:
    if beta is None:
        raise InvalidParameterError(
            "boltzmann requires an inverse temperature: boltzmann(BETA), such as boltzmann(2)"
        )
    return Memoryless(f"boltzmann({_spelled(beta)})", partial(boltzmann, beta=beta))


def _spelled(number: float) -> str:
    """Return the shortest text that parses to the same number."""
    return repr(number).removesuffix(".0")


NAVIGATORS: dict[str, AgentFactory] = {
    "optimal": _plain("shortest path, random among ties", Memoryless("optimal", optimal)),
    "greedy": _plain("move that reduces the distance if any", Memoryless("greedy", greedy)),
    "random": _plain("random move into an open cell", Memoryless("random", random)),
    "epsilon-optimal": _with_number(
        f"optimal, or a random move with probability EPSILON ({DEFAULT_EPSILON:g})",
        _epsilon_optimal,
        "EPSILON",
        needs=False,
    ),
    "wall-follower": _plain("right-hand rule", WallFollower()),
    "key-seeker": _plain("to the key, then to the goal", Memoryless("key-seeker", key_seeker)),
    "boltzmann": _with_number(
        "softmax of -BETA times the steps that an action costs", _boltzmann, "BETA", needs=True
    ),
}


# --- Gymnasium ------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Episode:
    """Episode of a Gymnasium environment."""

    world: GridWorld
    actions: tuple[int, ...]
    rewards: tuple[float, ...]  # one for each action
    terminated: bool  # whether it ended at the goal; otherwise it was truncated

    @property
    def total_reward(self) -> float:
        """Sum of the rewards."""
        return sum(self.rewards)


def play(
    navigator: Navigator, env: gymnasium.Env[Any, Any], *, episodes: int = 1, seed: int = 0
) -> list[Episode]:
    """Run episodes of a goalmeter Gymnasium environment with an agent of grid worlds.

    The agent receives the state of the world, independently of the environment's observations;
    wrappers of the environment work as with any other agent. The first episode is reset with the
    seed, which also determines the agent's random choices; later episodes continue the stream.

    Raises:
        InvalidParameterError: the environment is not goalmeter's, or the agent returns no action.
    """
    # A check of the class would import Gymnasium here.
    unwrapped: Any = env.unwrapped
    if not isinstance(getattr(unwrapped, "world", None), GridWorld):
        raise InvalidParameterError(
            f"{type(unwrapped).__name__} is not a grid world for {navigator.name}, expected a "
            f"goalmeter environment, such as gymnasium.make('goalmeter/Maze-v0')"
        )
    played = []
    for number in range(episodes):
        env.reset(seed=seed if number == 0 else None)
        world: GridWorld = unwrapped.world
        walk = navigator.begin(world, Draws("episode", seed, navigator.name, number))
        actions: list[int] = []
        rewards: list[float] = []
        terminated = truncated = False
        while not (terminated or truncated):
            state: State = unwrapped.state
            action = walk.act(state).action
            if action is None:
                raise InvalidParameterError(
                    f"{navigator.name} returned no action at row {state.cell.row}, column "
                    f"{state.cell.column}, but an environment requires one at each step"
                )
            _, reward, terminated, truncated, _ = env.step(action)
            actions.append(action)
            rewards.append(float(reward))
        played.append(Episode(world, tuple(actions), tuple(rewards), terminated))
    return played
