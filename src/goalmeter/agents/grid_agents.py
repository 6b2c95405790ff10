"""Reference agents of grid worlds: protocol, policies, registry and Gymnasium episodes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._names import did_you_mean
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
    """What an agent answered, and how that came about, as far as it is known.

    Attributes:
        action: 0 to 3 as in `gridworld.ACTIONS`; None if the answer was no action.
        probabilities: of the four actions; less than 1 together if other answers were possible.
        raw: the output as it came.
        reasoning: what was thought before it.
        prompt: what was asked.
        prompt_tokens: ids of the prompt's tokens, or how many there were.
        answer_tokens: ids of the answer's tokens, the one that ended it included.
        attempts: how often was asked.
        invalid: why there is no action.
    """

    action: int | None
    probabilities: Probabilities | None = None
    raw: str | None = None
    reasoning: str | None = None
    prompt: str | None = None
    prompt_tokens: int | tuple[int, ...] | None = None
    answer_tokens: tuple[int, ...] | None = None
    attempts: int | None = None
    invalid: str | None = None


class Walk(Protocol):
    """One agent on its way through one world. It may remember where it has been."""

    def act(self, state: State) -> Decision:
        """Return what it does in a state; called once a step, in the order of the steps."""


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

    def policy(self, plan: Plan) -> FloatArray:
        """Return what it does everywhere, [states, 4] by the planner's numbers of states."""
        return self.policy_of(plan)

    def begin(self, world: GridWorld, draws: Draws) -> MemorylessWalk:
        """Set out in a world."""
        return MemorylessWalk(planned(world), _rows(self, world), draws)


@dataclass(frozen=True)
class MemorylessWalk:
    """A walk whose moves are drawn from a policy."""

    plan: Plan
    rows: tuple[Probabilities, ...]
    draws: Draws

    def act(self, state: State) -> Decision:
        """Draw a move from the policy."""
        row = self.rows[self.plan.number(state)]
        return Decision(self.draws.weighted(row), row)


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
    """Return the softmax of -beta times the steps that an action costs beyond the best one.

    All four actions have their share, also those that run into a wall, which cost a step. An action
    after which the goal is out of reach has none.
    """
    gaps = plan.plans.gaps[plan.index]
    reachable = gaps >= 0
    exponent = np.where(reachable, -beta * gaps, -np.inf)
    # Less the greatest, so that no exponential overflows.
    exponent -= np.where(reachable.any(axis=1), exponent.max(axis=1), 0.0)[:, None]
    weights = np.where(reachable, np.exp(exponent), 0.0)
    return _uniform(plan, weights, open_moves(plan))


def key_seeker(plan: Plan) -> FloatArray:
    """Return shortest ways to the key (no neutral object) until it is had, then to the goal."""
    return _uniform(plan, _towards(plan, plan.world.key), _optimal(plan), open_moves(plan))


def towards_thing(plan: Plan) -> BoolArray:
    """Return whether an action leads one step closer to the key or the neutral object, [states, 4].

    False once it was picked up, in worlds without one, and where it is out of reach: a locked door
    is a wall, and so is the goal, since the walk ends there.
    """
    return _towards(plan, plan.world.thing)


def _towards(plan: Plan, place: Cell | None) -> BoolArray:
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


@lru_cache(maxsize=512)
def _rows(navigator: Memoryless, world: GridWorld) -> tuple[Probabilities, ...]:
    states = layers_of(world) * world.walls.size  # what comes after are no states of this world
    return tuple(map(tuple, navigator.policy(planned(world))[:states].tolist()))


# Headings UP, RIGHT, DOWN and LEFT, in the order in which one turns right.
CLOCKWISE = (2, 1, 3, 0)
FIRST_HEADING = 2


@dataclass(frozen=True)
class WallFollower:
    """The right-hand rule: turn right if that way is open, else go on, else left, else back.

    The heading is the last move, and up at first. In a perfect maze it finds every goal; in open
    rooms it walks in circles, which is what becomes of the rule there.
    """

    name: str = "wall-follower"

    def begin(self, world: GridWorld, draws: Draws) -> WallFollowerWalk:
        """Set out in a world; nothing is drawn."""
        return WallFollowerWalk(planned(world))


class WallFollowerWalk:
    """A walk along the wall."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._heading = FIRST_HEADING

    def act(self, state: State) -> Decision:
        """Take the first open way from the right."""
        facing = CLOCKWISE.index(self._heading)
        for turn in (1, 0, -1, 2):  # right, ahead, left, back
            action = CLOCKWISE[(facing + turn) % 4]
            if self._plan.step(state, action) != state:
                self._heading = action
                break
        else:
            action = self._heading  # walled in
        left, right, up, down = (float(action == a) for a in range(4))
        return Decision(action, (left, right, up, down))


DEFAULT_EPSILON = 0.1


@lru_cache(maxsize=64)
def navigator(name: str) -> Navigator:
    """Return a reference agent of grid worlds; `agents.agent` knows all other agents too.

    Args:
        name: one of `navigator_names`; `epsilon-optimal(0.2)` takes a random move that often,
            `boltzmann(1.5)` has that inverse temperature.

    Example: what it is called.
        >>> navigator("epsilon-optimal( 0.20 )").name
        'epsilon-optimal(0.2)'
    """
    call = call_of(name)
    if not call.closed or call.kind not in NAVIGATORS:
        meant = did_you_mean(call.kind, NAVIGATORS, quoted=True)
        raise InvalidParameterError(
            f"there is no reference agent {name!r}{meant + ' Known' if meant else '; known'} are "
            f"{', '.join(navigator_names())}"
        )
    return NAVIGATORS[call.kind].make(call.kind, call.argument).in_grids()


def navigator_names() -> dict[str, str]:
    """Return every name that `navigator` knows, with a line about the agent."""
    return {factory.spelled(name): factory.about for name, factory in NAVIGATORS.items()}


def _entry(
    make: Callable[[float | None], Navigator],
    about: str,
    argument: str = "",
    *,
    needs: bool = False,
) -> AgentFactory:
    """Return the entry of a reference agent, which may take a number in brackets."""

    def named(name: str, text: str | None) -> NamedAgent:
        if text is not None and not argument:
            raise InvalidParameterError(
                f"{name} takes no number, but the agent is '{name}({text})'"
            )
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
    "optimal": _entry(
        lambda _: Memoryless("optimal", optimal), "any shortest way, ties broken at random"
    ),
    "greedy": _entry(
        lambda _: Memoryless("greedy", greedy), "by the compass: nearer to the goal if it can"
    ),
    "random": _entry(lambda _: Memoryless("random", random), "any move into an open cell"),
    "epsilon-optimal": _entry(
        _epsilon_optimal,
        f"optimal, but a random move with probability EPSILON ({DEFAULT_EPSILON:g})",
        "EPSILON",
    ),
    "wall-follower": _entry(lambda _: WallFollower(), "the right-hand rule"),
    "key-seeker": _entry(
        lambda _: Memoryless("key-seeker", key_seeker), "to the key first, then to the goal"
    ),
    "boltzmann": _entry(
        _boltzmann, "softmax of -BETA times the steps that an action costs", "BETA", needs=True
    ),
}


@dataclass(frozen=True)
class Episode:
    """One episode that was played.

    Attributes:
        world: the grid that it was played in.
        actions: taken, in order.
        rewards: one for each action.
        terminated: whether the agent arrived at the goal, rather than ran out of steps.
    """

    world: GridWorld
    actions: tuple[int, ...]
    rewards: tuple[float, ...]
    terminated: bool

    @property
    def total_reward(self) -> float:
        """The sum of the rewards."""
        return sum(self.rewards)


def play(
    navigator: Navigator, env: gymnasium.Env[Any, Any], *, episodes: int = 1, seed: int = 0
) -> list[Episode]:
    """Play episodes of a Gymnasium environment of ours with an agent of grid worlds.

    The agent is told the state of the world, whatever the environment's observations are; wrappers
    around the environment see and change what they would for any other agent.

    Args:
        navigator: who plays, such as `agent("greedy").in_grids()`.
        env: made by `gymnasium.make("goalmeter/...")`, in any wrappers; it is left open.
        episodes: how many; the first is reset with the seed, the others go on from there.
        seed: of the worlds and of the agent's draws.

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
    episodes_played = []
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
        episodes_played.append(Episode(world, tuple(actions), tuple(rewards), terminated))
    return episodes_played
