"""A Gymnasium environment with discrete actions as a simulator."""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError, InvalidUtilityError
from goalmeter._text import in_a_line
from goalmeter._types import FloatArray
from goalmeter.meg.simulator.acting import Actor, FunctionActor, chosen, distribution, information
from goalmeter.meg.simulator.outcomes import END, Outcome
from goalmeter.meg.simulator.protocol import FREE_CHOICE, UNKNOWN, Episodes
from goalmeter.meg.simulator.saving import Saver, can_be_copied, saver_of
from goalmeter.meg.simulator.seeds import CHOICES, EPISODES, seeded
from goalmeter.meg.simulator.utilities import NamedUtilities

OBSERVATION = "observation"
StateOf = Callable[[Any, Any], Hashable]
# Wrappers that only count and check, and are left out of single steps.
_COUNTING = frozenset({"TimeLimit", "OrderEnforcing", "PassiveEnvChecker"})
# Seeds that Gymnasium takes.
_SEEDS = 2**31


class GymnasiumSimulator:
    """One environment, stepped one step at a time.

    Args:
        env: the environment; it is used and left in any state.
        utilities: what its steps are worth.
        seed: of all that is drawn.
        state: which states are the same: None for what the kind of environment knows,
            "observation" if the observation determines all that can follow, or a function of
            (observation, info) with a hashable name of the state.

    Raises:
        InvalidParameterError: its actions are not discrete.
    """

    chunk = 1
    reference = FREE_CHOICE
    why_unbounded = ""

    def __init__(
        self, env: Any, utilities: NamedUtilities, *, seed: int, state: str | StateOf | None = None
    ) -> None:
        self.n_actions = self._count_actions(env.action_space)
        self._env, self._seed, self.utilities = env, seed, utilities
        self.name = world_name(env)
        self._saver, self.why_not = _saving(env, state)
        self._state_of = _state_of(state)
        self._numbers: dict[Hashable, int] = {}
        self._saved: list[Any] = []
        self._observed: list[Any] = []
        self._start_drew = False
        self._least = np.full(len(utilities.names), np.inf)
        self._most = -self._least
        self.walked: set[tuple[int, int, Outcome]] = set()
        self._is_plain = all(type(layer).__name__ in _COUNTING for layer in _layers(env)[:-1])

    def _count_actions(self, space: Any) -> int:
        if not hasattr(space, "n") or int(getattr(space, "start", 0)) != 0:
            raise InvalidParameterError(
                f"the environment takes actions from {space}, expected Discrete(n) or a Box of "
                f"real numbers; wrap it so that it takes one of them"
            )
        return int(space.n)

    def _decide(self, answer: Any, generator: np.random.Generator, name: str) -> tuple[Any, float]:
        """The action to be taken, and the nats by which its choice differs from free choice."""
        action, row = chosen(answer, self.n_actions, generator, name)
        return action, information(row, self.n_actions)

    @property
    def most_information(self) -> float:
        """Nats by which a decision may differ from free choice at most."""
        return math.log(self.n_actions)

    @property
    def n_states(self) -> int:
        """States that were met so far."""
        return len(self._saved)

    @property
    def returns_to_states(self) -> bool:
        """Whether states can be gone back to, and told from each other."""
        return not self.why_not

    def free_choice(self) -> Actor:
        """Every action with the same probability."""
        row = np.full(self.n_actions, 1.0 / self.n_actions)
        return FunctionActor(lambda observation: row, FREE_CHOICE)

    def play(self, actor: Actor, horizon: int, number: int) -> Episodes:
        """One episode: `reset` with a seed of its own, and steps until the end or the horizon."""
        generator = np.random.default_rng(seeded(self._seed, CHOICES, number))
        start_seed = seeded(self._seed, EPISODES, number).generate_state(1)[0] % _SEEDS
        observation, info = self._env.reset(seed=int(start_seed))
        # A start that leaves its fresh generator as it was is the same for every seed.
        self._start_drew |= _drew(self._env, int(start_seed))
        start = here = self._number(observation, info) if self.returns_to_states else UNKNOWN
        answer = actor.begin(generator)
        total, gained, decisions = np.zeros(len(self.utilities.names)), 0.0, 0
        for t in range(horizon):
            action, told = self._decide(answer(observation, t), generator, actor.name)
            observation, reward, terminated, truncated, info = self._env.step(action)
            where = partial(_at_decision, t, number)
            paid = self._pay(reward, observation, info, where)
            total += paid
            gained += told
            decisions += 1
            if self.returns_to_states:
                after = END if terminated else self._number(observation, info)
                self.walked.add((here, action, Outcome(after, paid)))
                here = after
            if terminated:
                break
            if truncated and t + 1 < horizon:
                raise InvalidParameterError(
                    f"the environment cut episode {number} off after {t + 1} decisions without "
                    f"terminating it, but the horizon is {horizon}: what would have followed is "
                    f"not known; measure with horizon={t + 1}, or make the environment without "
                    f"its time limit"
                )
        self._check_total(total, number)
        return Episodes(total[None], np.array([decisions]), np.array([gained]), np.array([start]))

    def _check_total(self, total: FloatArray, number: int) -> None:
        """See that an episode kept to what the caller vouches for."""
        for name, collected in zip(self.utilities.names, total, strict=True):
            told = self.utilities.bounds.get(name)
            if told and not told.least - 1e-6 <= collected <= told.most + 1e-6:
                raise InvalidUtilityError(
                    f"the utility {name!r} added up to {collected:g} in episode {number}, outside "
                    f"of {told.least:g} to {told.most:g} that bounds= allows; give wider bounds="
                )

    @property
    def one_start(self) -> bool:
        """Whether no reset so far has left anything to chance."""
        if self._saver is not None and self._saver.one_start is not None:
            return self._saver.one_start()
        return not self._start_drew

    def policy(self, actor: Actor, horizon: int) -> FloatArray | None:
        """The agent's distribution in each state that was met, [1, S, A]; None if it gives none."""
        if actor.remembers:
            return None
        assert self._saver is not None, "only asked of simulators that return to states"
        times = range(horizon) if actor.timed else range(1)
        rows = np.zeros((len(times), self.n_states, self.n_actions))
        for state, (saved, observation) in enumerate(zip(self._saved, self._observed, strict=True)):
            # A walker of our worlds looks at the state, not at the observation.
            self._env = self._saver.restore(saved) or self._env
            answer = actor.begin(np.random.default_rng(0))
            for t in times:
                row = distribution(answer(observation, t))
                if row is None:
                    return None
                rows[t, state] = row
        return rows

    def seen(self, which: int) -> tuple[float, float]:
        """The extremes of what was paid."""
        return float(self._least[which]), float(self._most[which])

    def _pay(
        self, reward: float, observation: Any, info: Any, where: Callable[[], str]
    ) -> tuple[float, ...]:
        paid = self.utilities.paid(reward, observation, info, where)
        self._least, self._most = np.minimum(self._least, paid), np.maximum(self._most, paid)
        return paid

    def draw(
        self, state: int, action: int, count: int, generator: np.random.Generator
    ) -> tuple[Counter[Outcome], bool]:
        """Steps from a state with a generator of their own in place of the environment's.

        A step that leaves the generator as it was drew nothing from it, and is taken to leave
        nothing to chance: environments of Gymnasium draw from `np_random` alone.
        """
        assert self._saver is not None, "only asked of simulators that return to states"
        seen: Counter[Outcome] = Counter()
        certain = True
        for done in range(count):
            if done >= 2 and certain and len(seen) == 1:
                break
            # A copy takes the place of the environment; other savers change it and give nothing.
            self._env = self._saver.restore(self._saved[state]) or self._env
            bare = self._env.unwrapped
            bare.np_random = generator
            chance = self._saver.chance(action) if self._saver.chance else None
            before = generator.bit_generator.state if chance is None else None
            stepped = bare if self._is_plain else self._env
            observation, reward, terminated, _, info = stepped.step(action)
            drew = chance if chance is not None else generator.bit_generator.state != before
            certain &= not drew and bare.np_random is generator
            where = partial(_from_state, state)
            paid = self._pay(reward, observation, info, where)
            after = END if terminated else self._number(observation, info)
            seen[Outcome(after, paid)] += 1
        return seen, certain and len(seen) == 1

    def _number(self, observation: Any, info: Any) -> int:
        """The number of the present state; it is saved when it is met for the first time."""
        assert self._saver is not None, "only asked of simulators that return to states"
        if self._state_of is not None:
            key = self._state_of(observation, info)
        else:
            assert self._saver.key is not None, "a copy has no key, and then a state is asked for"
            key = self._saver.key()
        number = self._numbers.setdefault(key, len(self._numbers))
        if number == len(self._saved):
            self._saved.append(self._saver.save(self._env))
            self._observed.append(observation)
        return number


def _drew(env: Any, seed: int) -> bool:
    """Whether a reset with this seed has drawn from the environment's generator."""
    fresh = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))
    return bool(env.unwrapped.np_random.bit_generator.state != fresh.bit_generator.state)


def _at_decision(decision: int, episode: int) -> str:
    return f"at decision {decision} of episode {episode}"


def _from_state(state: int) -> str:
    return f"at a step from state {state}"


def _state_of(state: str | StateOf | None) -> StateOf | None:
    if state is None or callable(state):
        return state
    if state != OBSERVATION:
        raise InvalidParameterError(
            f"state is {state!r}, expected None, 'observation' or a function of (observation, info)"
        )
    return lambda observation, info: name_of(observation)


def name_of(observation: Any) -> Hashable:
    """A hashable name of an observation: its content."""
    if isinstance(observation, dict):
        return tuple((key, name_of(observation[key])) for key in sorted(observation))
    if isinstance(observation, (tuple, list)):
        return tuple(map(name_of, observation))
    if isinstance(observation, (str, bytes)):
        return observation
    array = np.asarray(observation)
    return array.tobytes(), array.shape, array.dtype.str


def _saving(env: Any, state: str | StateOf | None) -> tuple[Saver | None, str]:
    """The way back to a state, or why there is none."""
    if saver := saver_of(env):
        return saver, ""
    if not can_be_copied(env):
        return None, "the simulator cannot be put back into a state: no copy of it can be made"
    if state is None:
        return None, (
            "which of its states are the same is not known; give state='observation' if what is "
            "observed determines what can follow, or a function that names the state"
        )
    return _copier(env), ""


def _copier(env: Any) -> Saver:
    """Copies of all that the environment holds, wrappers included."""
    return Saver("a copy of the environment", copy.deepcopy, copy.deepcopy)


def _layers(env: Any) -> list[Any]:
    layers = [env]
    while layers[-1] is not env.unwrapped:
        layers.append(layers[-1].env)
    return layers


def opened(env: Any, **options: Any) -> Any:
    """An environment from what a caller gives: itself, an id, a factory, or a vector environment.

    Raises:
        InvalidParameterError: none of these, or an id that Gymnasium does not know.
        MissingExtraError: Gymnasium is not installed.
    """
    if isinstance(env, str):
        from goalmeter._errors import require

        gymnasium = require("gymnasium", extra="rl", feature="An environment by its id")
        try:
            return gymnasium.make(env, **options)
        except (gymnasium.error.Error, ImportError, TypeError) as cause:
            raise InvalidParameterError(
                f"gymnasium cannot make {env!r}: {in_a_line(cause)}; check the id and the options"
            ) from cause
    if hasattr(env, "step") and hasattr(env, "envs"):
        # A vector of environments runs copies of one; a single one is enough here.
        return env.envs[0]
    if hasattr(env, "step") and hasattr(env, "reset"):
        return env
    if callable(env):
        return opened(env(), **options)
    raise InvalidParameterError(
        f"env is {env!r}, expected a Gymnasium environment, its id, a function that makes one, or "
        f"a TabularMDP"
    )


def world_name(env: Any) -> str:
    """The id of an environment, or its class where it has none."""
    spec = getattr(env, "spec", None)
    return str(getattr(spec, "id", None) or type(env.unwrapped).__name__)


def time_limit(env: Any) -> int | None:
    """After how many steps an environment cuts episodes off; None where nothing says so."""
    limits = [getattr(layer, "_max_episode_steps", None) for layer in _layers(env)]
    limits += [getattr(env.unwrapped, name, None) for name in ("max_steps", "max_episode_steps")]
    known = [int(limit) for limit in limits if limit]
    return min(known) if known else None
