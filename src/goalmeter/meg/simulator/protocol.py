"""Simulator protocol: seeds, guarded calls of a caller's code, references of decisions, episodes.

Free choice, the reference of discrete actions, takes all of them with the same probability.
Continuous actions have no such default: the density of an agent without a goal must be specified.
"""

from __future__ import annotations

import math
import random
import re
import sys
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goalmeter._errors import (
    InvalidParameterError,
    InvalidPolicyError,
    InvalidUtilityError,
    finite,
)
from goalmeter._types import AnyArray, ArrayLike, BoolArray, FloatArray, IntArray
from goalmeter.agents.environment_agents import (
    Actor,
    Distribution,
    GaussianAnswer,
    actor_of_rows,
    checked_rows,
    count_of,
    first_of,
    is_box,
)
from goalmeter.agents.stable_baselines import kept_generators
from goalmeter.meg.simulator.states import FROM_GENERATOR
from goalmeter.meg.simulator.utilities import REWARD, Range, Utilities
from goalmeter.tabular.arrays import as_floats, wrong_shape
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.trajectories import draw_from_rows

if TYPE_CHECKING:
    from goalmeter.meg.simulator.environments import Simulator

# --- Seeds ----------------------------------------------------------------------------------------
# No two draws share a generator, so numbers do not depend on the order or process of the draws.
# These are the purposes of draws.
EPISODES, CHOICES, SUCCESSORS, GLOBAL_GENERATORS, FITTING = range(5)


def seeded(seed: int, purpose: int, *number: int) -> np.random.SeedSequence:
    """Return the seed of the draws for a purpose and a number."""
    return np.random.SeedSequence(entropy=seed, spawn_key=(purpose, *number))


@contextmanager
def seeded_globals(seed: int) -> Iterator[None]:
    """Seed the global generators of Python, NumPy and torch within a context, then restore them."""
    word = int(seeded(seed, GLOBAL_GENERATORS).generate_state(1)[0])
    with kept_generators():
        random.seed(word)
        np.random.seed(word)  # noqa: NPY002
        if torch := sys.modules.get("torch"):
            torch.default_generator.manual_seed(word)
        yield


# --- References -----------------------------------------------------------------------------------
class ChosenAction(NamedTuple):
    """Action chosen by an agent, and what is known of the choice."""

    action: Any  # as the environment takes it
    number: int  # from 0; -1 if actions are continuous
    information: float = math.nan  # relative entropy to the reference in nats; NaN if unknown
    row: FloatArray | None = None  # distribution over discrete actions, [A], if known


class FreeChoice:
    """The same probability for each of A discrete actions."""

    name, quantile = "free choice", None

    def __init__(self, n_actions: int, first: int = 0) -> None:
        self.n_actions, self._first = n_actions, first

    def agent(self) -> Actor:
        """Return the reference as an agent."""
        row = Distribution.of(np.full(self.n_actions, 1.0 / self.n_actions))
        table = row.row[None, None]
        return Actor(self.name, lambda rng: lambda seen, t: row, is_function=True, table=table)

    def decide(self, answer: Any, generator: np.random.Generator, name: str) -> ChosenAction:
        """Return the decision of an answer; draw it if necessary."""
        first, count = self._first, self.n_actions
        if not isinstance(answer, Distribution):
            array = np.asarray(answer)
            # An array of one integer is an action too: the answer of a model to one observation.
            if array.size == 1 and array.dtype.kind in "iu":
                taken = int(array.flat[0]) - first
                if 0 <= taken < count:
                    return self.decision(taken)
            if array.shape != (count,) or array.dtype.kind not in "fiu":
                raise InvalidPolicyError(
                    f"{name} answered {answer!r}, expected an action {first}..{first + count - 1} "
                    f"or an array [{count}] of probabilities"
                )
            row = checked_rows(array.astype(np.float64), f"the answer of {name}")
            answer = Distribution.of(row)
        action = answer.action
        if action is None:
            action = min(bisect_right(answer.cumulative, generator.random()), count - 1)
        return ChosenAction(action + first, action, answer.information, answer.row)

    def decision(self, action: int) -> ChosenAction:
        """Return the decision for an action, from 0."""
        return ChosenAction(int(action) + self._first, int(action))


class BoxReference:
    """Density of continuous actions without a goal, the same at every decision."""

    n_actions = 0

    def __init__(
        self,
        space: Any,
        name: str,
        draw: Callable[[np.random.Generator], Any],
        quantile: Callable[[FloatArray], FloatArray] | None = None,
    ) -> None:
        # `quantile` maps the unit cube to actions with this density, [..., k] to [..., k].
        self.name, self.draw, self.quantile = f"reference {name}", draw, quantile
        self._space, self.shape = space, space.shape

    def agent(self) -> Actor:
        """Return the reference as an agent."""
        return Actor(self.name, lambda rng: lambda seen, t: self.draw(rng), is_function=True)

    def decide(self, answer: Any, generator: np.random.Generator, name: str) -> ChosenAction:
        """Return the decision of an answer, clipped to the box; draw it if necessary."""
        if isinstance(answer, ChosenAction):
            return answer
        if isinstance(answer, GaussianAnswer):
            mean, std = np.asarray(answer.mean, float), np.asarray(answer.std, float)
            answer = generator.normal(mean, std, self.shape)
        array = np.asarray(answer, dtype=np.float64)
        if array.shape != self.shape or not np.isfinite(array).all():
            raise InvalidPolicyError(
                f"{name} answered {answer!r}, expected a finite action of shape "
                f"{list(self.shape)} or a GaussianAnswer"
            )
        return self.decision(np.clip(array, self._space.low, self._space.high))

    def decision(self, action: FloatArray) -> ChosenAction:
        """Return the decision for an action of the box, [k], in the order of its entries."""
        return ChosenAction(action.reshape(self.shape).astype(self._space.dtype), -1)


Reference = FreeChoice | BoxReference
_REAL = r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)\s*"
_GAUSSIAN = re.compile(rf"\s*gaussian\({_REAL}(?:,{_REAL})?\)\s*")


def reference_of(given: Any, space: Any) -> Reference:
    """Return the requested reference over a space of actions."""
    if not is_box(space):
        n_actions = count_of(space)
        if n_actions is None:
            raise InvalidParameterError(
                f"the environment has action space {space}, expected Discrete(n) or a Box of real "
                f"numbers; wrap it to have one of them (gymnasium.wrappers.TransformAction)"
            )
        if given is not None:
            raise InvalidParameterError(
                f"reference is {given!r}, but discrete actions are always compared with free "
                f"choice; omit reference="
            )
        return FreeChoice(n_actions, first_of(space))
    low, high = (np.asarray(end, dtype=np.float64).ravel() for end in (space.low, space.high))
    if given == "uniform" and np.isfinite([low, high]).all():
        uniform = partial(np.random.Generator.uniform, low=space.low, high=space.high)
        return BoxReference(space, given, uniform, lambda share: low + (high - low) * share)
    if isinstance(given, str) and (match := _GAUSSIAN.fullmatch(given)):
        from scipy.special import ndtri

        scale = finite(float(match[1]), "SCALE of the reference", least=1e-12, most=1e12)
        centre = finite(float(match[2] or 0), "CENTRE of the reference", least=-1e12, most=1e12)
        normal = partial(np.random.Generator.normal, loc=centre, scale=scale, size=space.shape)
        quantile = lambda share: np.clip(centre + scale * ndtri(share), low, high)  # noqa: E731
        return BoxReference(space, given, normal, quantile)
    if hasattr(given, "draw") and hasattr(given, "name"):
        return BoxReference(space, given.name, given.draw, getattr(given, "quantile", None))
    raise InvalidParameterError(
        f"reference is {given!r}, but the environment has continuous actions, {space}, which need "
        f"a reference for comparison: 'uniform' (over the box), 'gaussian(SCALE)' or "
        f"'gaussian(SCALE,CENTRE)' (independent normals, clipped to the box), or an object with "
        f"draw(generator) and a name; an unbounded box has no uniform density"
    )


# --- Protocol -------------------------------------------------------------------------------------
# A simulator plays episodes of an agent (`play`), and samples single steps from states that it
# reached (`draw`) if these can be restored. States are numbered from 0 as they are reached.
END = -1  # number of the state in which an episode has ended
UNKNOWN = -2  # number of a state if states have no names


class StepOutcome(NamedTuple):
    """Outcome of a decision: number of the next state or `END`, and payoffs, [U]."""

    after: int
    paid: tuple[float, ...]


# Numbers of steps by outcome of pairs of a state and an action (pair s * A + a).
Draws = dict[int, Counter[StepOutcome]]


class Episodes(NamedTuple):
    """N episodes of one agent, with U utilities."""

    returns: FloatArray  # total payoff of each utility, [N, U]
    decisions: IntArray  # number of decisions before the end or the horizon, [N]
    # Summed relative entropy of the choices to the reference, [N] nats; NaN if unknown.
    information: FloatArray
    starts: IntArray  # state in which each began, [N]; `UNKNOWN` if states have no names
    # State and action of every decision in order, [steps, 2]; action -1 if actions are continuous.
    visits: IntArray
    # Distribution over actions of every decision, or 1 for the chosen one if it is unknown,
    # [steps, A]; [steps, 0] where it is not needed.
    answers: AnyArray

    @property
    def steps(self) -> int:
        """Total number of steps."""
        return int(self.decisions.sum())

    @classmethod
    def of(cls, parts: Sequence[Episodes]) -> Episodes:
        """Concatenate the episodes of all parts in order."""
        return cls(*map(np.concatenate, zip(*parts, strict=True)))

    def subset(self, mask: BoolArray) -> Episodes:
        """Return the episodes of a mask, [N]."""
        steps = np.repeat(mask, self.decisions)
        return Episodes._make([*(each[mask] for each in self[:4]), *(x[steps] for x in self[4:])])


def episodes_until(
    simulator: Simulator,
    actor: Actor,
    horizon: int,
    steps: float,
    number: int = 0,
    least: int = 1,
) -> Iterator[Episodes]:
    """Yield episodes from a number on until so many steps, and at least so many."""
    taken = 0
    while taken < max(steps, least):
        # The first episode is played alone if one is enough.
        together = 0 if least and not taken else math.ceil(steps - taken)
        played = simulator.play(actor, horizon, number, together)
        yield played
        taken += max(played.steps, 1)  # an episode may have no steps
        number += len(played.starts)


# --- Tables ---------------------------------------------------------------------------------------
_CHUNK = 64  # number of episodes of a call of `play`


class TabularSimulator:
    """Simulator of a `TabularMDP`: states are observed, transitions and payoffs are not.

    An absorbing state without payoffs of any utility ends an episode.
    """

    name = "tabular world"
    names_states, names_given = True, False
    returns_to_states, why_not = True, ""
    chance = FROM_GENERATOR

    def __init__(
        self,
        mdp: TabularMDP,
        *,
        seed: int = 0,
        utilities: Mapping[str, ArrayLike] | None = None,
        bounds: Any = None,
    ) -> None:
        named: Mapping[str, ArrayLike] = utilities or {REWARD: REWARD}
        self.n_states, self.n_actions = mdp.n_states, mdp.n_actions
        self.reference = FreeChoice(mdp.n_actions)
        self.one_start = bool((mdp.initial > 0).sum() == 1)
        self._initial, self._seed = mdp.initial, seed
        self._after, self._probability = mdp.transition.to_successors()
        self._cumulative = np.cumsum(self._probability, axis=-1)
        self._paid = np.stack([_utility(mdp, *each) for each in named.items()], axis=-1)
        home = np.arange(self.n_states)[:, None, None]
        stays = ((self._after == home) | (self._probability == 0)).all(axis=(1, 2))
        self._ends = stays & (self._paid == 0).all(axis=(1, 2))
        self.walked: Draws = defaultdict(Counter)  # steps of episodes
        low, high = self._paid.min(axis=(0, 1)).tolist(), self._paid.max(axis=(0, 1)).tolist()
        self.utilities = Utilities(dict.fromkeys(named), bounds)
        self.utilities.check(low)
        self.utilities.check(high)
        for name, *ends in zip(named, low, high, strict=True):
            self.utilities.bounds.setdefault(name, Range(*ends))

    def policy(self, actor: Actor, horizon: int) -> FloatArray | None:
        """Return the agent's table, [T, S, A]."""
        return actor.table

    def remarks(self, actor: Actor) -> list[str]:
        """Return no remarks: a table has no unverified assumptions."""
        return []

    def agent_by_state(self, policy: FloatArray) -> Actor:
        """Return the agent with a policy [H, S, A]."""
        return actor_of_rows(policy, "planned policy")

    def play(self, actor: Actor, horizon: int, number: int, steps: int = 0) -> Episodes:
        """Play a chunk of episodes at once, for any `steps`; the agent must be a table."""
        from scipy.special import xlogy

        table = actor.table
        assert table is not None, "agents of tables are tables"
        table = np.broadcast_to(table, (len(table), self.n_states, self.n_actions))
        rng = np.random.default_rng(seeded(self._seed, EPISODES, number))
        starts = state = rng.choice(self.n_states, size=_CHUNK, p=self._initial)
        returns, information = np.zeros((_CHUNK, self._paid.shape[2])), np.zeros(_CHUNK)
        path, rows, every = list[IntArray](), list[FloatArray](), np.arange(_CHUNK)
        for t in range(horizon):
            going = ~self._ends[state]
            if not going.any():
                break
            chosen = table[min(t, len(table) - 1), state]
            action = draw_from_rows(np.cumsum(chosen, axis=1), every, rng)
            place = draw_from_rows(self._cumulative[state, action], every, rng)
            after = self._after[state, action, place]
            path.append(np.stack([going, state, action, after], axis=1))
            rows.append(chosen)
            returns += going[:, None] * self._paid[state, action]
            information += going * (np.log(self.n_actions) + xlogy(chosen, chosen).sum(axis=1))
            state = after
        # Steps by episode, [N, T, 4], without those after its end.
        taken = np.array(path, dtype=np.int64).reshape(-1, _CHUNK, 4).swapaxes(0, 1)
        going = taken[..., 0]
        done = taken[going == 1, 1:]
        distinct, times = np.unique(done, axis=0, return_counts=True)
        for step, n in zip(distinct.tolist(), times.tolist(), strict=True):
            self.walked[step[0] * self.n_actions + step[1]][self._outcome(*step)] += n
        answers = np.reshape(rows, (-1, _CHUNK, self.n_actions)).swapaxes(0, 1)[going == 1]
        return Episodes(returns, going.sum(axis=1), information, starts, done[:, :2], answers)

    def draw(
        self, state: int, action: int, count: int, generator: np.random.Generator
    ) -> tuple[Counter[StepOutcome], bool]:
        """Sample steps from a state; also return whether the outcome is deterministic."""
        row = self._probability[state, action]
        certain = bool((row > 0).sum() == 1)
        times = generator.multinomial(count, row / row.sum())
        draws: Counter[StepOutcome] = Counter()
        for after, n in zip(self._after[state, action], times, strict=True):
            if n:
                draws[self._outcome(state, action, after)] += int(n)
        return draws, certain

    def _outcome(self, state: int, action: int, after: int) -> StepOutcome:
        paid = tuple(self._paid[state, action].tolist())
        return StepOutcome(END if self._ends[after] else int(after), paid)


def _utility(mdp: TabularMDP, name: str, given: ArrayLike) -> FloatArray:
    """Return a utility, `REWARD` or an array [S] or [S, A], as [S, A]."""
    shape, what = (mdp.n_states, mdp.n_actions), f"the utility {name!r} (an array or {REWARD!r})"
    is_reward = isinstance(given, str) and given == REWARD
    values = as_floats(mdp.reward if is_reward else given, what, InvalidUtilityError)
    if values.shape not in (shape, shape[:1]):
        expected = f"[{shape[0]}] or [{shape[0]}, {shape[1]}] (states, actions)"
        raise wrong_shape(what, values.shape, expected, InvalidUtilityError)
    return np.broadcast_to(values if values.ndim == 2 else values[:, None], shape)
