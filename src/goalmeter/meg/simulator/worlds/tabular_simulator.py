"""A table run as a simulator, so that sampling can be judged by what is exact."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping
from functools import cached_property

import numpy as np

from goalmeter._errors import InvalidParameterError, InvalidUtilityError
from goalmeter._text import shown
from goalmeter._types import AnyArray, ArrayLike, BoolArray, FloatArray
from goalmeter.meg.simulator.agents.acting import Actor, TableActor
from goalmeter.meg.simulator.seeds import EPISODES, seeded
from goalmeter.meg.simulator.states.chance import FROM_GENERATOR
from goalmeter.meg.simulator.utilities.named_utilities import (
    NO_UTILITY,
    REWARD,
    NamedUtilities,
    Range,
)
from goalmeter.meg.simulator.worlds.protocol import END, FREE_CHOICE, Episodes, Outcome
from goalmeter.tabular.mdp import TabularMDP

_CHUNK = 64


class TabularSimulator:
    """A `TabularMDP` that can only be run: its states are what is observed, its numbers are hidden.

    An absorbing state in which no utility pays anything is an end: an episode is over there.

    Args:
        mdp: the world; its horizon is not used.
        seed: of all that is drawn.
        utilities: arrays [S] or [S, A] by name; default the reward.
        bounds: of what a decision may pay, by name; default what the arrays hold.
    """

    name = "tabular world"
    chunk = _CHUNK
    returns_to_states = True
    why_not = ""
    reference = FREE_CHOICE
    why_unbounded = ""
    chance = FROM_GENERATOR
    # A table's states are what they are, however they were met.
    met_again: Collection[int] = ()

    def __init__(
        self,
        mdp: TabularMDP,
        *,
        seed: int = 0,
        utilities: Mapping[str, ArrayLike] | None = None,
        bounds: Mapping[str, Range] | None = None,
    ) -> None:
        named = {REWARD: mdp.reward} if utilities is None else dict(utilities)
        if not named:
            raise InvalidParameterError(NO_UTILITY)
        self._mdp, self._seed = mdp, seed
        # A table has no more to its states than their numbers: there is nothing to compare.
        self.walked: Counter[tuple[int, int, Outcome]] = Counter()
        self._after, self._probability = mdp.transition.to_successors()
        self._paid = np.stack([self._array(name, array) for name, array in named.items()], axis=-1)
        low, high = self._paid.min(axis=(0, 1)), self._paid.max(axis=(0, 1))
        ranges = {name: Range(low[i], high[i]) for i, name in enumerate(named)}
        if unknown := [name for name in bounds or {} if name not in named]:
            raise InvalidParameterError(
                f"bounds are given for {unknown[0]!r}, expected one of {', '.join(named)}"
            )
        for name, told in (bounds or {}).items():
            if not (told.low <= ranges[name].low and ranges[name].high <= told.high):
                raise InvalidUtilityError(
                    f"the utility {name!r} pays {ranges[name].low:g} to {ranges[name].high:g}, "
                    f"outside of the bounds ({told.low:g}, {told.high:g}) that were given; give "
                    f"wider bounds="
                )
        self.utilities = NamedUtilities(dict.fromkeys(named), ranges | dict(bounds or {}))

    @property
    def n_actions(self) -> int:
        """A."""
        return self._mdp.n_actions

    @property
    def most_information(self) -> float:
        """Nats by which a decision may differ from free choice at most."""
        return math.log(self.n_actions)

    @property
    def n_states(self) -> int:
        """S: a table has numbers for its states before they are met."""
        return self._mdp.n_states

    def free_choice(self) -> TableActor:
        """Every action with the same probability."""
        shape = (1, self.n_states, self.n_actions)
        return TableActor(np.full(shape, 1.0 / self.n_actions), FREE_CHOICE)

    def play(self, actor: Actor, horizon: int, number: int) -> Episodes:
        """Episodes, all of a chunk at once for an agent that is a table."""
        if not isinstance(actor, TableActor):
            raise InvalidParameterError(
                f"a tabular world measures a policy as a table, got {actor.name}"
            )
        rng = np.random.default_rng(seeded(self._seed, EPISODES, number))
        state = rng.choice(self.n_states, size=_CHUNK, p=self._mdp.initial)
        returns = np.zeros((_CHUNK, self._paid.shape[-1]))
        decisions, gained = np.zeros(_CHUNK, dtype=np.int64), np.zeros(_CHUNK)
        starts, going = state.copy(), ~self._ends[state]
        for t in range(horizon):
            rows = actor.table[min(t, len(actor.table) - 1), state]
            action = _drawn(np.cumsum(rows, axis=1), rng)
            returns += going[:, None] * self._paid[state, action]
            decisions += going
            gained += going * _information(rows)
            place = _drawn(self._cumulative[state, action], rng)
            state = self._after[state, action, place]
            going &= ~self._ends[state]
            if not going.any():
                break
        return Episodes(returns, decisions, gained, starts)

    @property
    def one_start(self) -> bool:
        """Whether every episode begins in the same state."""
        return bool((self._mdp.initial > 0).sum() == 1)

    def policy(self, actor: Actor, horizon: int) -> FloatArray | None:
        """The agent's table, [T, S, A]."""
        return actor.table if isinstance(actor, TableActor) else None

    def remarks(self, actor: Actor) -> list[str]:
        """Nothing: a table promises what it is."""
        return []

    def seen(self, which: int) -> tuple[float, float]:
        """What the array holds."""
        paid = self._paid[..., which]
        return float(paid.min()), float(paid.max())

    def draw(
        self, state: int, action: int, count: int, generator: np.random.Generator
    ) -> tuple[Counter[Outcome], bool]:
        """Steps from a state; a row with one successor leaves nothing to chance."""
        row = self._probability[state, action]
        certain = bool((row > 0).sum() == 1)
        times = generator.multinomial(2 if certain else count, row / row.sum())
        paid = tuple(self._paid[state, action].tolist())
        seen: Counter[Outcome] = Counter()
        for after, n in zip(self._after[state, action], times, strict=True):
            if n:
                seen[Outcome(END if self._ends[after] else int(after), paid)] += int(n)
        return seen, certain

    def draw_again(
        self, state: int, action: int, count: int, generator: np.random.Generator
    ) -> Counter[Outcome]:
        """Never asked for, since `met_again` is empty."""
        raise NotImplementedError

    @cached_property
    def _cumulative(self) -> FloatArray:
        return np.asarray(np.cumsum(self._probability, axis=-1))

    @cached_property
    def _ends(self) -> BoolArray:
        """States that no action leaves, and that pay nothing: [S]."""
        home = np.arange(self.n_states)[:, None, None]
        stays = ((self._after == home) | (self._probability == 0)).all(axis=(1, 2))
        return np.asarray(stays & (self._paid == 0).all(axis=(1, 2)))

    def _array(self, name: str, array: ArrayLike) -> FloatArray:
        try:
            values = np.asarray(array, dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidUtilityError(
                f"the utility {name!r} is {shown(array)}, expected {REWARD!r} or an array of "
                f"numbers for each state, or for each state and action"
            ) from None
        shape = (self._mdp.n_states, self._mdp.n_actions)
        if values.shape not in (shape, shape[:1]) or not np.isfinite(values).all():
            raise InvalidUtilityError(
                f"the utility {name!r} has shape {list(values.shape)}, expected finite numbers "
                f"[{shape[0]}] or [{shape[0]}, {shape[1]}]"
            )
        return np.broadcast_to(values if values.ndim == 2 else values[:, None], shape)


def _drawn(cumulative: FloatArray, rng: np.random.Generator) -> AnyArray:
    """One place for each row of cumulative probabilities, [N]."""
    points = rng.random(len(cumulative))[:, None] * cumulative[:, -1:]
    return np.asarray((points >= cumulative).sum(axis=1))


def _information(rows: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = np.where(rows > 0, rows * np.log(rows), 0.0)
    return np.asarray(np.log(rows.shape[1]) + parts.sum(axis=1))
