"""Simulator protocol: seeds, guarded calls of a caller's code, episodes; sampled tables."""

from __future__ import annotations

import math
import random
import sys
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goalmeter._errors import (
    GoalmeterError,
    InvalidParameterError,
    InvalidUtilityError,
    MissingExtraError,
    in_a_line,
)
from goalmeter._types import AnyArray, ArrayLike, BoolArray, FloatArray, IntArray
from goalmeter.meg.simulator.agents import FreeChoice, SimulatorAgent, actor_of_rows
from goalmeter.meg.simulator.states import FROM_GENERATOR
from goalmeter.meg.simulator.utilities import REWARD, NamedUtilities, Range
from goalmeter.tabular.arrays import as_floats, wrong_shape
from goalmeter.tabular.mdp import TabularMDP

if TYPE_CHECKING:
    from goalmeter.meg.simulator.environments import Simulator

# --- Seeds ----------------------------------------------------------------------------------------
# No two draws share a generator, so numbers do not depend on the order or process of the draws.

# Purposes of draws.
EPISODES, CHOICES, SUCCESSORS, GLOBAL_GENERATORS, FITTING = range(5)


def seeded(seed: int, purpose: int, *number: int) -> np.random.SeedSequence:
    """Return the seed of the draws for a purpose and a number."""
    return np.random.SeedSequence(entropy=seed, spawn_key=(purpose, *number))


@contextmanager
def seeded_globals(seed: int) -> Iterator[None]:
    """Seed the global generators of Python, NumPy and torch within a context, then restore them."""
    torch = sys.modules.get("torch")
    before = random.getstate(), np.random.get_state(), torch and torch.get_rng_state()  # noqa: NPY002
    word = int(seeded(seed, GLOBAL_GENERATORS).generate_state(1)[0])
    random.seed(word)
    np.random.seed(word)  # noqa: NPY002
    if torch:
        torch.default_generator.manual_seed(word)
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002
        if torch:
            torch.set_rng_state(before[2])


# --- Guarded calls --------------------------------------------------------------------------------
@contextmanager
def caller_guard() -> Iterator[None]:
    """Run a caller's code; convert all its exceptions, including SystemExit, to one error."""
    try:
        # Its calls of np.seterr must not affect other code.
        with np.errstate():
            yield
    except (GoalmeterError, MissingExtraError, KeyboardInterrupt):
        raise
    except BaseException as cause:
        place = traceback.extract_tb(cause.__traceback__)[-1]
        raise InvalidParameterError(
            f"the environment, the agent or a utility raised {in_a_line(cause)}; expected code "
            f"that follows gymnasium.Env and does not exit the process (raised in "
            f"{Path(place.filename).name}, line {place.lineno})"
        ) from cause


# --- Protocol -------------------------------------------------------------------------------------
# A simulator plays episodes of an agent (`play`), and samples single steps from states that it
# reached (`draw`) if these can be restored. Its states are numbered from 0 in the order in which
# they were reached.

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
        visits = self.visits[np.repeat(mask, self.decisions)]
        return Episodes._make([*(each[mask] for each in self[:4]), visits])


def episodes_until(
    simulator: Simulator,
    actor: SimulatorAgent,
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
    names_states = True
    names_given = False
    chance = FROM_GENERATOR

    def __init__(
        self,
        mdp: TabularMDP,
        *,
        seed: int = 0,
        utilities: Mapping[str, ArrayLike] | None = None,
        bounds: Mapping[str, Range] | None = None,
        restores: bool = True,
    ) -> None:
        named: Mapping[str, ArrayLike] = utilities or {REWARD: REWARD}
        self.n_states, self.n_actions = mdp.n_states, mdp.n_actions
        self.reference = FreeChoice(mdp.n_actions)
        self.one_start = bool((mdp.initial > 0).sum() == 1)
        self.returns_to_states = restores
        self.why_not = "" if restores else "the states of this table are not restored"
        self._initial, self._seed = mdp.initial, seed
        self._after, self._probability = mdp.transition.to_successors()
        self._cumulative = np.cumsum(self._probability, axis=-1)
        self._paid = np.stack([_utility(mdp, *each) for each in named.items()], axis=-1)
        home = np.arange(self.n_states)[:, None, None]
        stays = ((self._after == home) | (self._probability == 0)).all(axis=(1, 2))
        self._ends = stays & (self._paid == 0).all(axis=(1, 2))
        self.walked: Draws = defaultdict(Counter)  # steps of episodes
        ranges = {name: Range(*self.observed_range(i)) for i, name in enumerate(named)}
        for name, known in (bounds or {}).items():
            known.check(name, ranges[name].low)
            known.check(name, ranges[name].high)
        self.utilities = NamedUtilities(dict.fromkeys(named), ranges | dict(bounds or {}))

    def observed_range(self, which: int) -> tuple[float, float]:
        """Return the range of a utility's payoffs."""
        paid = self._paid[..., which]
        return float(paid.min()), float(paid.max())

    def free_choice(self) -> SimulatorAgent:
        """Return the agent that takes every action with the same probability."""
        shape = (1, self.n_states, self.n_actions)
        return actor_of_rows(np.full(shape, 1.0 / self.n_actions), self.reference.name)

    def acts_by_state(self, actor: SimulatorAgent) -> bool:
        """Return whether an agent's decisions depend on the state alone: always."""
        return True

    def policy(self, actor: SimulatorAgent, horizon: int) -> FloatArray | None:
        """Return the agent's table, [T, S, A]."""
        return actor.table

    def remarks(self, actor: SimulatorAgent) -> list[str]:
        """Return no remarks: a table has no unverified assumptions."""
        return []

    def agent_by_state(self, policy: FloatArray) -> SimulatorAgent:
        """Return the agent with a policy [H, S, A]."""
        return actor_of_rows(policy, "planned policy")

    def play(self, actor: SimulatorAgent, horizon: int, number: int, steps: int = 0) -> Episodes:
        """Play a chunk of episodes at once, for any `steps`; the agent must be a table."""
        table = actor.table
        assert table is not None, "agents of tables are tables"
        rng = np.random.default_rng(seeded(self._seed, EPISODES, number))
        state = rng.choice(self.n_states, size=_CHUNK, p=self._initial)
        starts, path = state, []
        for t in range(horizon):
            going = ~self._ends[state]
            if not going.any():
                break
            action = _drawn(np.cumsum(table[min(t, len(table) - 1), state], axis=1), rng)
            place = _drawn(self._cumulative[state, action], rng)
            after = self._after[state, action, place]
            path.append(np.stack([going, state, action, after], axis=1))
            state = after
        # Steps by episode, [N, T, 4], without those after its end.
        taken = np.array(path, dtype=np.int64).reshape(-1, _CHUNK, 4).swapaxes(0, 1)
        going, (state, action) = taken[..., 0], (taken[..., 1], taken[..., 2])
        returns = (going[..., None] * self._paid[state, action]).sum(axis=1)
        chosen = table[np.minimum(np.arange(taken.shape[1]), len(table) - 1), state]
        logs = np.log(chosen, where=chosen > 0, out=np.zeros_like(chosen))
        gained = (going * (np.log(self.n_actions) + (chosen * logs).sum(axis=-1))).sum(axis=1)
        done = taken[going == 1, 1:]
        distinct, times = np.unique(done, axis=0, return_counts=True)
        for step, n in zip(distinct.tolist(), times.tolist(), strict=True):
            self.walked[step[0] * self.n_actions + step[1]][self._outcome(*step)] += n
        return Episodes(returns, going.sum(axis=1), gained, starts, done[:, :2])

    def draw(
        self, state: int, action: int, count: int, generator: np.random.Generator
    ) -> tuple[Counter[StepOutcome], bool]:
        """Sample steps from a state; also return whether the outcome is deterministic."""
        assert self.returns_to_states, self.why_not
        row = self._probability[state, action]
        certain = bool((row > 0).sum() == 1)
        times = generator.multinomial(2 if certain else count, row / row.sum())
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


def _drawn(cumulative: FloatArray, rng: np.random.Generator) -> AnyArray:
    """Draw one index for each row of cumulative probabilities, [N]."""
    points = rng.random(len(cumulative))[:, None] * cumulative[:, -1:]
    return np.asarray((points >= cumulative).sum(axis=1))
