"""A Gymnasium environment with discrete actions as a simulator."""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property, partial
from typing import Any

import numpy as np

from goalmeter._errors import (
    GoalmeterError,
    InvalidParameterError,
    InvalidPolicyError,
    InvalidUtilityError,
)
from goalmeter._text import in_a_line
from goalmeter._types import FloatArray
from goalmeter.meg.simulator.agents.acting import (
    Actor,
    Answer,
    FunctionActor,
    chosen,
    information,
    told,
)
from goalmeter.meg.simulator.seeds import CHOICES, EPISODES, OTHER_GENERATORS, seeded
from goalmeter.meg.simulator.states.copies import can_be_copied, copier
from goalmeter.meg.simulator.states.generators import generators_in, seeded_from, states_of
from goalmeter.meg.simulator.states.naming import StateOf, name_of, state_namer
from goalmeter.meg.simulator.states.own_code import (
    draws_unseen,
    layers,
    start_ignores_seed,
    start_seed_is_fixed,
)
from goalmeter.meg.simulator.states.saver import Saver
from goalmeter.meg.simulator.states.saving import saver_of
from goalmeter.meg.simulator.states.wrappers import check_layers, one_of, why_no_return
from goalmeter.meg.simulator.utilities.named_utilities import NamedUtilities
from goalmeter.meg.simulator.worlds.protocol import END, FREE_CHOICE, UNKNOWN, Episodes, Outcome

# Wrappers that only count and check, and are left out of single steps.
_COUNTING = frozenset({"TimeLimit", "OrderEnforcing", "PassiveEnvChecker"})
# Seeds that Gymnasium takes.
_SEEDS = 2**31
# How often a caller's function is asked about each state, and by how much its answers may differ.
_ASKED, _ALIKE = 3, 1e-6
# A state and the action that was taken in it; None for a start.
Came = tuple[int, int] | None


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
        # Actions are counted from 0 here, whatever the environment and its agents call the first.
        self._first = int(getattr(env.action_space, "start", 0))
        self.name = world_name(env)
        self._saver, self.why_not = _saving(env, state)
        self._is_sealed = self._saver is not None and self._saver.sealed
        if not self._is_sealed:
            # Spaces take a seed from the operating system when they are first drawn from.
            for each in (env, env.unwrapped):
                each.action_space.seed(seed % _SEEDS)
                each.observation_space.seed(seed % _SEEDS)
        self._state_of = state_namer(state)
        self._numbers: dict[Hashable, int] = {}
        self._saved: list[Any] = []
        self._observed: list[Any] = []
        # Out of which decision each state was first met, and copies that were made after another.
        self._came: list[Came] = []
        self._met_again: dict[int, Any] = {}
        self._start_drew = False
        self._starts: set[int] = set()
        # Rows that a caller's function gave in each state, and the table that is made of them.
        self._answered: dict[int, FloatArray] = {}
        self._table: FloatArray | None = None
        self._answers_differ = self._observations_differ = False
        self._least = np.full(len(utilities.names), np.inf)
        self._most = -self._least
        self.walked: Counter[tuple[int, int, Outcome]] = Counter()
        self._is_plain = all(type(layer).__name__ in _COUNTING for layer in layers(env)[:-1])

    def _count_actions(self, space: Any) -> int:
        if not hasattr(space, "n"):
            raise InvalidParameterError(
                f"the environment takes actions from {space}, expected Discrete(n) or a Box of "
                f"real numbers; wrap it so that it takes one of them "
                f"(gymnasium.wrappers.TransformAction)"
            )
        return int(space.n)

    def _decide(
        self, answer: Any, generator: np.random.Generator, name: str
    ) -> tuple[Any, float, FloatArray | None]:
        """The action to be taken, the nats by which its choice differs from free choice, its row.

        The row is the distribution that was told, [A]; None without one.
        """
        action, row = chosen(answer, self.n_actions, generator, name, self._first)
        return action, information(row, self.n_actions), row

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
        return FunctionActor(lambda observation: row, FREE_CHOICE, is_function=True)

    def play(self, actor: Actor, horizon: int, number: int) -> Episodes:
        """One episode: `reset` with a seed of its own, and steps until the end or the horizon."""
        with self._seeded(seeded(self._seed, OTHER_GENERATORS, number), actor.is_function):
            return self._episode(actor, horizon, number)

    def _seeded(
        self, sequence: np.random.SeedSequence, sealed: bool
    ) -> AbstractContextManager[None]:
        """Seeds for all generators but Gymnasium's, where anything may draw from them."""
        # Without states nothing is drawn twice, so all generators just go on.
        if (self._is_sealed and sealed) or not self.returns_to_states:
            return nullcontext()
        return seeded_from(sequence, [] if self._is_sealed else generators_in(self._env))

    def _episode(self, actor: Actor, horizon: int, number: int) -> Episodes:
        generator = np.random.default_rng(seeded(self._seed, CHOICES, number))
        observation, info = self._reset(number)
        start = here = self._number(observation, info) if self.returns_to_states else UNKNOWN
        self._starts.add(start)
        answer = actor.begin(generator)
        total, gained, decisions = np.zeros(len(self.utilities.names)), 0.0, 0
        for t in range(horizon):
            where = partial(_at_decision, t, number)
            answered = _asked(answer, observation, t, actor.name, where)
            action, differs, row = self._decide(answered, generator, actor.name)
            if row is not None and self.returns_to_states and not actor.is_function:
                self._compare(here, row)
            observation, reward, terminated, truncated, info = self._step(self._env, action, where)
            paid = self._pay(reward, observation, info, where)
            total += paid
            gained += differs
            decisions += 1
            if self.returns_to_states:
                came = None if truncated else (here, action)
                after = END if terminated else self._number(observation, info, came)
                self.walked[here, action, Outcome(after, paid)] += 1
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

    def _reset(self, number: int) -> tuple[Any, Any]:
        """Begin an episode; note whether anything was drawn for it."""
        seed = int(seeded(self._seed, EPISODES, number).generate_state(1)[0] % _SEEDS)
        before = self._others() if self._watches_starts else None
        where = partial(_at_reset, number)
        out = _guarded(partial(self._env.reset, seed=seed), "the environment", where)
        if not isinstance(out, tuple) or len(out) != 2:
            raise InvalidParameterError(
                f"the environment's reset gave {out!r}, expected a pair "
                f"(observation, info), as Gymnasium has it since version 0.26"
            )
        if not self._start_drew:
            drew = not self._seed_is_fixed and _drew(self._env, seed)
            self._start_drew = drew or (before is not None and before != self._others())
        if self._seed_is_fixed:
            # One seed for every start, or all episodes would meet the same chance on their way.
            self._env.unwrapped.np_random = np.random.default_rng(seed)
        return out

    @property
    def _watches_starts(self) -> bool:
        return self.returns_to_states and not self._start_drew and not self._is_sealed

    def _others(self) -> dict[int, Any]:
        """The states of all generators but Gymnasium's own, which `reset` makes anew."""
        gymnasiums = getattr(self._env.unwrapped, "_np_random", None)
        every = states_of(self._env)
        return {place: each for place, each in every.items() if each[0] is not gymnasiums}

    def _step(self, env: Any, action: int, where: Callable[[], str]) -> Any:
        out = _guarded(partial(env.step, action + self._first), "the environment", where)
        if not isinstance(out, tuple) or len(out) != 5:
            raise InvalidParameterError(
                f"the environment's step gave {out!r} {where()}, expected "
                f"(observation, reward, terminated, truncated, info), as Gymnasium has it since "
                f"version 0.26"
            )
        return out

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
        """Whether every episode begins in the same state, with certainty.

        Where the kind of environment does not know it: if no reset drew from any generator, and
        `reset` is seen to make nothing of its seed but Gymnasium's generator; or if a wrapper
        resets with one and the same seed. However many resets gave the same start, a rarer one
        could stand beside it; this excludes it.
        """
        if self._saver is not None and self._saver.one_start is not None:
            return self._saver.one_start()
        if self._start_drew or len(self._starts) > 1:
            return False
        return self._is_sealed or self._seed_is_fixed or self._ignores_seed

    @cached_property
    def _seed_is_fixed(self) -> bool:
        return not self._is_sealed and start_seed_is_fixed(self._env)

    @cached_property
    def _ignores_seed(self) -> bool:
        return start_ignores_seed(self._env)

    @cached_property
    def _draws_unseen(self) -> bool:
        return not self._is_sealed and draws_unseen(self._env)

    def policy(self, actor: Actor, horizon: int) -> FloatArray | None:
        """The agent's distribution in each state that was met, [1, S, A].

        None if it gives none, or if it or a state was seen to contradict that it depends on the
        state alone.
        """
        if actor.remembers or self._answers_differ or self._observations_differ:
            return None
        # An observation that a caller's function makes may differ from visit to visit.
        if any(type(layer).__name__ == "TransformObservation" for layer in layers(self._env)):
            return None
        if self._table is None or self._table.shape[1] != self.n_states:
            with self._seeded(np.random.SeedSequence(self._seed), actor.is_function):
                self._table = self._asked_everywhere(actor, horizon)
        return self._table

    def _asked_everywhere(self, actor: Actor, horizon: int) -> FloatArray | None:
        assert self._saver is not None, "only asked of simulators that return to states"
        times = range(horizon) if actor.timed else range(1)
        rows = np.zeros((len(times), self.n_states, self.n_actions))
        for state, (saved, observation) in enumerate(zip(self._saved, self._observed, strict=True)):
            # A walker of our worlds looks at the state, not at the observation.
            if self._saver.renew is None:
                self._saver.restore(saved)
            answer = actor.begin(np.random.default_rng(0))
            where = partial(_in_state, state)
            for t in times:
                for _ in range(1 if actor.is_function else _ASKED):
                    seen = copy.deepcopy(observation)
                    answered = _asked(answer, seen, t, actor.name, where)
                    row = told(answered, self.n_actions, actor.name, self._first)[1]
                    if row is None:
                        return None
                    if not actor.is_function:
                        self._compare(state, row)
                if self._answers_differ:
                    return None
                rows[t, state] = row
        return rows

    def _compare(self, state: int, row: FloatArray) -> None:
        """Note if a caller's function gave another distribution in the same state before."""
        first = self._answered.setdefault(state, row)
        self._answers_differ |= bool((np.abs(first - row) > _ALIKE).any())

    def remarks(self, actor: Actor) -> list[str]:
        """What a reader of a measurement by states has to know of the agent and the starts."""
        out = []
        if self._answers_differ:
            out.append(
                f"{actor.name} answered the same state with different distributions, so what it "
                f"collects is bounded by its episodes and not computed"
            )
        elif self._observations_differ:
            out.append(
                "the same state showed different observations, so what the agent collects is "
                "bounded by its episodes and not computed"
            )
        elif self._table is not None and not actor.is_function:
            out.append(
                f"what {actor.name} collects was computed from its answers: this rests on its "
                f"answering an observation always alike, as it did whenever it was asked"
            )
        if self._saver is not None and len(self._starts) == 1 and not self.one_start:
            out.append(
                "all episodes began in one state, but others may be drawn, so starts count as "
                "drawn, which costs width"
            )
        return out

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

        A step leaves nothing to chance if it leaves every generator that can be seen as it was:
        Gymnasium's, and for kinds of environments that are not known all others too.
        """
        return self._from(self._saved[state], state, action, count, generator)

    def draw_again(
        self, state: int, action: int, count: int, generator: np.random.Generator
    ) -> Counter[Outcome]:
        """Steps from a copy that was made when the state was met after another decision.

        What differs between the two, and the state's name leaves out, may show here.
        """
        saved = self._met_again.get(state)
        if saved is None:
            return Counter()
        return self._from(saved, state, action, count, generator)[0]

    def _from(
        self, saved: Any, state: int, action: int, count: int, generator: np.random.Generator
    ) -> tuple[Counter[Outcome], bool]:
        if self._is_sealed:
            return self._drawn(saved, state, action, count, generator)
        sequence = np.random.SeedSequence(int(generator.integers(_SEEDS)))
        with self._seeded(sequence, False):
            return self._drawn(saved, state, action, count, generator)

    def _drawn(
        self, saved: Any, state: int, action: int, count: int, generator: np.random.Generator
    ) -> tuple[Counter[Outcome], bool]:
        assert self._saver is not None, "only asked of simulators that return to states"
        seen: Counter[Outcome] = Counter()
        certain = not self._draws_unseen
        where = partial(_in_state, state)
        for done in range(count):
            if done >= 2 and certain and len(seen) == 1:
                break
            # A copy takes the place of the environment; other savers change it and give nothing.
            if self._saver.renew is not None:
                self._env = self._saver.renew(saved, generator)
            else:
                self._env = self._saver.restore(saved) or self._env
            bare = self._env.unwrapped
            bare.np_random = generator
            chance = self._saver.chance(action) if self._saver.chance else None
            # Once something was drawn nothing more is asked of the generators.
            asks = certain and not (chance is not None and self._is_sealed)
            before = self._generators(chance) if asks else None
            stepped = bare if self._is_plain else self._env
            observation, reward, terminated, cut, info = self._step(stepped, action, where)
            paid = self._pay(reward, observation, info, where)
            came = None if cut else (state, action)
            after = END if terminated else self._number(observation, info, came)
            drew = bool(chance) or (asks and before != self._generators(chance))
            certain &= not drew and bare.np_random is generator
            seen[Outcome(after, paid)] += 1
        return seen, certain and len(seen) == 1

    def _generators(self, chance: bool | None) -> Any:
        """What is equal before and after a step that draws nothing."""
        if self._is_sealed:
            return self._env.unwrapped.np_random.bit_generator.state
        return states_of(self._env) if chance is None else self._others()

    def _number(self, observation: Any, info: Any, came: Came = None) -> int:
        """The number of the present state; it is saved when it is met for the first time.

        Args:
            observation: what is observed in it.
            info: what came with it.
            came: the state and the action that led here; None at a start or where it was cut off.
        """
        assert self._saver is not None, "only asked of simulators that return to states"
        if self._state_of is not None:
            key = self._state_of(observation, info)
        else:
            assert self._saver.key is not None, "a copy has no key, and then a state is asked for"
            key = self._saver.key()
        number = self._numbers.get(key, len(self._saved))
        if number == len(self._saved):
            # Environments may change in place what they show.
            saved, shown = self._saver.save(self._env), copy.deepcopy(observation)
            self._saved.append(saved)
            self._observed.append(shown)
            self._came.append(came)
            self._numbers[key] = number
            return number
        if not self._is_sealed and not self._observations_differ:
            self._observations_differ = name_of(observation) != name_of(self._observed[number])
        another = came is not None and came != self._came[number]
        if another and self._saver.renew is not None and number not in self._met_again:
            self._met_again[number] = self._saver.save(self._env)
        return number


def _asked(
    answer: Answer, observation: Any, decision: int, name: str, where: Callable[[], str]
) -> Any:
    """What an agent answers; its own errors say who raised them."""
    try:
        return answer(observation, decision)
    except GoalmeterError:
        raise
    except Exception as cause:
        raise InvalidPolicyError(
            f"{name} raised {in_a_line(cause)} {where()}, expected an action or a "
            f"distribution over actions"
        ) from cause


def _guarded(function: Callable[[], Any], who: str, where: Callable[[], str]) -> Any:
    try:
        return function()
    except GoalmeterError:
        raise
    except Exception as cause:
        raise InvalidParameterError(
            f"{who} raised {in_a_line(cause)} {where()}; mend it, or choose actions and a "
            f"horizon that it allows"
        ) from cause


def _drew(env: Any, seed: int) -> bool:
    """Whether a reset with this seed has drawn from the environment's generator."""
    if not hasattr(env.unwrapped, "np_random"):
        return True
    fresh = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))
    return bool(env.unwrapped.np_random.bit_generator.state != fresh.bit_generator.state)


def _at_decision(decision: int, episode: int) -> str:
    return f"at decision {decision} of episode {episode}"


def _at_reset(episode: int) -> str:
    return f"when episode {episode} was begun"


def _in_state(state: int) -> str:
    return f"at a step from state {state}"


def _saving(env: Any, state: str | StateOf | None) -> tuple[Saver | None, str]:
    """The way back to a state, or why there is none."""
    if saver := saver_of(env):
        return saver, ""
    if why := why_no_return(env):
        return None, why
    if not can_be_copied(env):
        return None, "the simulator cannot be put back into a state: no copy of it can be made"
    if state is None:
        return None, (
            "which of its states are the same is not known; give state='observation' if what is "
            "observed determines what can follow, or a function that names the state"
        )
    return copier(), ""


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
                f"gymnasium cannot make {env!r}: {in_a_line(cause).rstrip('.')}; check the options "
                f"and the id, which is MODULE:ID for an environment of another package"
            ) from cause
    if isinstance(env, type):
        return opened(env(), **options)
    if hasattr(env, "step") and (hasattr(env, "envs") or hasattr(env, "num_envs")):
        return opened(one_of(env))
    if hasattr(env, "step") and hasattr(env, "reset"):
        if hasattr(env, "unwrapped") and hasattr(env, "action_space"):
            check_layers(env)
            return env
        raise InvalidParameterError(
            f"env is {env!r}, which has no action_space or is not derived from gymnasium.Env; "
            f"derive it from gymnasium.Env"
        )
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
    limits = [getattr(layer, "_max_episode_steps", None) for layer in layers(env)]
    limits += [getattr(env.unwrapped, name, None) for name in ("max_steps", "max_episode_steps")]
    known = [int(limit) for limit in limits if limit]
    return min(known) if known else None
