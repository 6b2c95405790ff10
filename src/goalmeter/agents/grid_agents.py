"""Reference agents of grid worlds: protocol, policies, registry and Gymnasium episodes."""

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
    """What an agent answered, and how that came about, as far as it is known."""

    action: int | None  # 0 to 3 as in `gridworld.ACTIONS`; None if the answer was no action
    # Of the four actions; less than 1 together if other answers were possible.
    probabilities: Probabilities | None = None
    raw: str | None = None  # the output as it came
    reasoning: str | None = None  # what was thought before it
    prompt: str | None = None
    prompt_tokens: int | tuple[int, ...] | None = None  # ids, or how many there were
    answer_tokens: tuple[int, ...] | None = None  # ids, that of the token that ended it included
    attempts: int | None = None  # how often was asked
    invalid: str | None = None  # why there is no action


class Walk(Protocol):
    """One agent on its way through one world. It may remember where it has been."""

    def act(self, state: State) -> Decision:
        """Return what it does in a state; called once a step, in the order of the steps."""


@dataclass(frozen=True)
class Acting:
    """A walk by a function."""

    act: Callable[[State], Decision]


class Navigator(Protocol):
    """An agent of grid worlds."""

    @property
    def name(self) -> str:
        """As on the command line."""

    def begin(self, world: GridWorld, draws: Draws) -> Walk:
        """Set out from the start of a world; `draws` is the source of everything random."""


# Policies are [states, 4] over the planner's numbers of states. The row of each state that the
# world has is a distribution; where nothing can be done (at the goal, in a closed cell) it is
# uniform. Rows of numbers that stand for no state are 0.

PolicyOf = Callable[[Plan], FloatArray]


@dataclass(frozen=True)
class Memoryless:
    """A navigator without memory; `policy_of` gives its policy from the plan of a world."""

    name: str
    policy_of: PolicyOf
    # Raises if it cannot walk in a world.
    check: Callable[[GridWorld], None] | None = field(default=None, repr=False)

    def policy(self, plan: Plan) -> FloatArray:
        """Return what it does everywhere, [states, 4] by the planner's numbers of states."""
        return self.policy_of(plan)

    def begin(self, world: GridWorld, draws: Draws) -> Walk:
        """Set out in a world."""
        plan, rows = planned(world), _rows(self, world)

        def act(state: State) -> Decision:
            row = rows[plan.number(state)]
            return Decision(draws.weighted(row), row)

        return Acting(act)


@lru_cache(maxsize=512)
def _rows(navigator: Memoryless, world: GridWorld) -> tuple[Probabilities, ...]:
    states = layers_of(world) * world.walls.size  # what comes after are no states of this world
    return tuple(map(tuple, navigator.policy(planned(world))[:states].tolist()))


def optimal(plan: Plan) -> FloatArray:
    """Return the uniform policy over the actions that lead one step closer."""
    return _uniform(plan, _optimal(plan), open_moves(plan))


def random(plan: Plan) -> FloatArray:
    """Return the uniform policy over the moves into open cells."""
    return _uniform(plan, open_moves(plan))


def epsilon_optimal(plan: Plan, epsilon: float) -> FloatArray:
    """Return a random move into an open cell with probability epsilon, else an optimal one."""
    return (1 - epsilon) * optimal(plan) + epsilon * random(plan)


def greedy(plan: Plan) -> FloatArray:
    """Return moves by the compass: nearer to the goal as the crow flies if any is, else any."""
    moves = open_moves(plan)
    rows, columns = np.indices(plan.world.shape)
    goal = plan.world.goal
    distance = np.abs(rows - goal.row) + np.abs(columns - goal.column)  # walls or not
    straight = np.tile(distance.reshape(-1), LAYERS)
    nearer = moves & (straight[plan.plans.successors[plan.index]] < straight[:, None])
    return _uniform(plan, nearer, moves)


def boltzmann(plan: Plan, beta: float) -> FloatArray:
    """Return the softmax of -beta times the steps that an action costs beyond the best one."""
    gaps = plan.plans.gaps[plan.index]
    reachable = gaps >= 0  # running into a wall costs a step, and losing the goal has no share
    exponent = np.where(reachable, -beta * gaps, -np.inf)
    # Less the greatest, so that no exponential overflows.
    exponent -= np.where(reachable.any(axis=1), exponent.max(axis=1), 0.0)[:, None]
    weights = np.where(reachable, np.exp(exponent), 0.0)
    return _uniform(plan, weights, open_moves(plan))


def key_seeker(plan: Plan) -> FloatArray:
    """Return shortest ways to the key (no neutral object) until it is had, then to the goal."""
    return _uniform(plan, _towards(plan, plan.world.key), _optimal(plan), open_moves(plan))


def towards_thing(plan: Plan) -> BoolArray:
    """Return whether an action leads one step closer to the key or neutral object, [states, 4]."""
    return _towards(plan, plan.world.thing)


def _towards(plan: Plan, place: Cell | None) -> BoolArray:
    """False once it was picked up, and where it is out of reach: the goal and a door are walls."""
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
    """Normalize the first weights that a state has; uniform if it has none."""
    out = np.full((len(choices[0]), 4), 0.25)
    for weights in reversed(choices):
        total = weights.sum(axis=1, keepdims=True)
        np.divide(weights, total, out=out, where=total > 0)
    out[~existing(plan)] = 0.0
    return out


# Headings UP, RIGHT, DOWN and LEFT, in the order in which one turns right; the first one is UP.
CLOCKWISE = (2, 1, 3, 0)


@dataclass(frozen=True)
class WallFollower:
    """The right-hand rule: turn right if that way is open, else go on, else left, else back."""

    # In a perfect maze it finds every goal; in open rooms it walks in circles.
    name: str = "wall-follower"

    def begin(self, world: GridWorld, draws: Draws) -> Walk:
        """Set out in a world; nothing is drawn."""
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
    """Return a reference agent of grid worlds; `agents.agent` knows all other agents too."""
    call = call_of(name)
    return NAVIGATORS[call.kind].make(call.kind, call.argument).in_grids()


def navigator_names() -> list[str]:
    """Return every name that `navigator` knows."""
    return [factory.spelled(name) for name, factory in NAVIGATORS.items()]


def _plain(about: str, agent: Navigator) -> AgentFactory:
    return AgentFactory.without_argument(about, {Ability.GRID: lambda: agent})


def _with_number(
    about: str, make: Callable[[float | None], Navigator], argument: str, *, needs: bool
) -> AgentFactory:
    """Return the entry of a reference agent that takes a number in brackets."""

    def named(name: str, text: str | None) -> NamedAgent:
        try:
            number = None if text is None else float(text)
        except ValueError:
            number = math.nan
        if number is not None and not math.isfinite(number):
            raise InvalidParameterError(
                f"the agent is '{name}({text})', expected {name}({argument}) with a number"
            )
        # Made at once, for the error if the number is out of range; it costs nothing.
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
            "boltzmann needs its inverse temperature: boltzmann(BETA), such as boltzmann(2)"
        )
    return Memoryless(f"boltzmann({_spelled(beta)})", partial(boltzmann, beta=beta))


def _spelled(number: float) -> str:
    """Return the shortest spelling that reads back as the same number."""
    return repr(number).removesuffix(".0")


NAVIGATORS: dict[str, AgentFactory] = {
    "optimal": _plain("any shortest way, ties broken at random", Memoryless("optimal", optimal)),
    "greedy": _plain("by the compass: nearer to the goal if it can", Memoryless("greedy", greedy)),
    "random": _plain("any move into an open cell", Memoryless("random", random)),
    "epsilon-optimal": _with_number(
        f"optimal, but a random move with probability EPSILON ({DEFAULT_EPSILON:g})",
        _epsilon_optimal,
        "EPSILON",
        needs=False,
    ),
    "wall-follower": _plain("the right-hand rule", WallFollower()),
    "key-seeker": _plain(
        "to the key first, then to the goal", Memoryless("key-seeker", key_seeker)
    ),
    "boltzmann": _with_number(
        "softmax of -BETA times the steps that an action costs", _boltzmann, "BETA", needs=True
    ),
}


# --- Gymnasium ------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Episode:
    """One episode that was played."""

    world: GridWorld
    actions: tuple[int, ...]
    rewards: tuple[float, ...]  # one for each action
    terminated: bool  # at the goal, rather than out of steps

    @property
    def total_reward(self) -> float:
        """The sum of the rewards."""
        return sum(self.rewards)


def play(
    navigator: Navigator, env: gymnasium.Env[Any, Any], *, episodes: int = 1, seed: int = 0
) -> list[Episode]:
    """Play episodes of a Gymnasium environment of ours with an agent of grid worlds.

    The agent is told the state of the world, whatever the environment's observations are; wrappers
    around the environment see and change what they would for any other agent. The first episode is
    reset with the seed, which also names the agent's draws; the others go on from there.

    Raises:
        InvalidParameterError: the environment is none of ours, or the agent gives no action.
    """
    # Only an environment of ours has these; to ask for its class would import Gymnasium here.
    unwrapped: Any = env.unwrapped
    if not isinstance(getattr(unwrapped, "world", None), GridWorld):
        raise InvalidParameterError(
            f"{type(unwrapped).__name__} is no grid world, so {navigator.name} cannot play it; "
            f"expected gymnasium.make('goalmeter/Maze-v0') or another of goalmeter's environments"
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
                    f"{navigator.name} gives no action at row {state.cell.row}, column "
                    f"{state.cell.column}, and an environment needs one at each step"
                )
            _, reward, terminated, truncated, _ = env.step(action)
            actions.append(action)
            rewards.append(float(reward))
        played.append(Episode(world, tuple(actions), tuple(rewards), terminated))
    return played
