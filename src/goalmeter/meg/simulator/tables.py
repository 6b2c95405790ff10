"""Tables as simulators, to compare sampled results with exact ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from goalmeter._errors import InvalidParameterError, InvalidUtilityError
from goalmeter._types import AnyArray, ArrayLike, FloatArray
from goalmeter.meg.simulator import protocol
from goalmeter.meg.simulator.agents import SimulatorAgent, actor_of_rows
from goalmeter.meg.simulator.protocol import Episodes, StepOutcome
from goalmeter.meg.simulator.references import FreeChoice
from goalmeter.meg.simulator.states import FROM_GENERATOR
from goalmeter.meg.simulator.utilities import NO_UTILITY, REWARD, NamedUtilities, Range
from goalmeter.tabular.arrays import as_floats, wrong_shape
from goalmeter.tabular.mdp import TabularMDP

_CHUNK = 64  # number of episodes of a call of `play`


class TabularSimulator:
    """Simulator of a `TabularMDP`: states are observed, transitions and payoffs are not.

    An absorbing state without payoffs of any utility ends an episode.
    """

    name = "tabular world"
    names_states = True
    names_given = False
    reference = protocol.FREE_CHOICE
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
        named: dict[str, ArrayLike] = {REWARD: REWARD} if utilities is None else dict(utilities)
        if not named:
            raise InvalidParameterError(NO_UTILITY)
        self.n_states, self.n_actions = mdp.n_states, mdp.n_actions
        self.reference_density = FreeChoice(mdp.n_actions, 0)
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
        # Number of steps of episodes by state, action and outcome.
        self.walked: Counter[tuple[int, int, StepOutcome]] = Counter()
        ranges = {name: Range(*self.observed_range(i)) for i, name in enumerate(named)}
        for name, given in (bounds or {}).items():
            if not (given.low <= ranges[name].low and ranges[name].high <= given.high):
                raise InvalidUtilityError(
                    f"the utility {name!r} pays {ranges[name].low:g} to {ranges[name].high:g}, "
                    f"outside its bounds ({given.low:g}, {given.high:g}); widen bounds="
                )
        self.utilities = NamedUtilities(dict.fromkeys(named), ranges | dict(bounds or {}))

    def observed_range(self, which: int) -> tuple[float, float]:
        """Return the range of a utility's payoffs."""
        paid = self._paid[..., which]
        return float(paid.min()), float(paid.max())

    def free_choice(self) -> SimulatorAgent:
        """Return the agent that takes every action with the same probability."""
        shape = (1, self.n_states, self.n_actions)
        return actor_of_rows(np.full(shape, 1.0 / self.n_actions), protocol.FREE_CHOICE)

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
        rng = np.random.default_rng(protocol.seeded(self._seed, protocol.EPISODES, number))
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
            self.walked[step[0], step[1], self._outcome(*step)] += n
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
        return StepOutcome(protocol.END if self._ends[after] else int(after), paid)


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
