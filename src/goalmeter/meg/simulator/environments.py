"""Gymnasium environments as simulators."""

from __future__ import annotations

import copy
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError, in_a_line, require, whole
from goalmeter._types import FloatArray
from goalmeter.agents.environment_agents import Actor, Answer
from goalmeter.agents.user_code import caller_guard
from goalmeter.meg.simulator import protocol
from goalmeter.meg.simulator.protocol import (
    END,
    UNKNOWN,
    ChosenAction,
    Draws,
    Episodes,
    FreeChoice,
    Reference,
    StepOutcome,
    TabularSimulator,
)
from goalmeter.meg.simulator.soft_values import Recorder
from goalmeter.meg.simulator.states import (
    COPIES,
    FROM_GENERATOR,
    NO_CHANCE,
    UNDECLARED,
    StateOf,
    States,
    copied,
    layers,
)
from goalmeter.meg.simulator.utilities import Utilities

# --- Environments -------------------------------------------------------------------------------
# Wrappers of Stable-Baselines3 vectors that do not change the inputs of a model.
_SHOW_THE_SAME = frozenset({"VecMonitor", "VecTransposeImage", "VecCheckNan", "VecVideoRecorder"})


def opened(env: Any, **options: Any) -> Any:
    """Return the environment of an id, a factory, a vector environment or an environment."""
    if isinstance(env, str):
        gymnasium = require("gymnasium", extra="rl", feature="An environment by its id")
        try:
            return gymnasium.make(env, **options)
        # Environments raise various exceptions for options.
        except Exception as cause:
            raise InvalidParameterError(
                f"gymnasium cannot make {env!r}: {in_a_line(cause).rstrip('.')}; check the options "
                f"and the id (MODULE:ID for an environment of another package)"
            ) from cause
    if isinstance(env, type) or (callable(env) and not hasattr(env, "step")):
        return opened(env(**options))
    while type(env).__name__ in _SHOW_THE_SAME:
        env = env.venv
    # Other wrappers give access to copies, too, but alter observations.
    if hasattr(env, "envs") and not hasattr(env, "venv"):
        return opened(env.envs[0])
    if hasattr(env, "num_envs"):
        raise InvalidParameterError(
            f"the copies of the vector environment {type(env).__name__} are not accessible, or do "
            f"not return the agent's observations and rewards; pass one environment with "
            f"equivalent fixed wrappers, such as gymnasium.wrappers.TransformObservation"
        )
    if not all(hasattr(env, name) for name in ("step", "reset", "action_space", "unwrapped")):
        raise InvalidParameterError(
            f"env is {env!r}, expected a Gymnasium environment (derived from gymnasium.Env), its "
            f"id, a function that creates one, or a TabularMDP"
        )
    for layer in layers(env):
        if getattr(layer, "update_running_mean", False) is True:
            raise InvalidParameterError(
                f"the wrapper {type(layer).__name__} keeps updating its scale, so episodes are not "
                f"from one world; set its update_running_mean = False first, or remove it"
            )
    return env


def closed(env: Any) -> None:
    """Close an environment; ignore failures, which do not affect the measurement."""
    with suppress(Exception, SystemExit):
        env.close()


def world_name(env: Any) -> str:
    """Return the id of an environment, or its class name if it has none."""
    spec = getattr(env, "spec", None)
    return str(getattr(spec, "id", None) or type(env.unwrapped).__name__)


def time_limit(env: Any) -> int | None:
    """Return the number of steps after which episodes are truncated; None if unknown."""
    names = ("_max_episode_steps", "max_steps", "max_episode_steps")
    limits = [getattr(layer, name, None) for layer in layers(env) for name in names]
    return min((int(limit) for limit in limits if limit), default=None)


def horizon_of(given: int | None, limit: int | None, world: str) -> int:
    """Return the number of decisions: as given, or the time limit of a world."""
    if given is None and limit is not None:
        return limit
    if given is None:
        raise InvalidParameterError(
            f"{world} has no time limit, so the number of decisions is unknown; give horizon="
        )
    horizon = whole(given, "horizon", least=1, most=10**6)
    if limit is not None and horizon > limit:
        raise InvalidParameterError(
            f"horizon is {horizon}, but {world} truncates episodes after {limit} decisions; use a "
            f"horizon up to {limit}, or create the environment with a longer limit "
            f"(gymnasium.make(..., max_episode_steps={horizon}))"
        )
    return horizon


def _generator_of(env: Any) -> Any:
    return env.unwrapped.np_random.bit_generator


# --- Simulator ----------------------------------------------------------------------------------
# Maximum number of episodes that are played together; and of those with equal starts.
_TOGETHER, _PARTICLES = 32, 256
_ALIKE = 1e-6  # tolerance of the answers of an agent in one state


@dataclass
class RunningEpisode:
    """Episode in progress."""

    env: Any
    generator: np.random.Generator  # of the agent's choices
    answer: Answer
    observation: Any
    state: int
    total: list[float]
    visits: list[tuple[int, int]] = field(default_factory=list)
    answers: list[FloatArray] = field(default_factory=list)  # as in `Episodes`
    information: float = 0.0
    ended: bool = False

    def copied(self) -> RunningEpisode:
        """Return a copy in the same state."""
        return replace(self, env=copied(self.env), visits=[*self.visits], answers=[*self.answers])


class GymnasiumSimulator:
    """Simulator of one environment."""

    def __init__(
        self,
        env: Any,
        reference: Reference,
        utilities: Utilities,
        *,
        seed: int,
        state: str | StateOf | None = None,
        chance: str = UNDECLARED,
    ) -> None:
        self.environment, self._seed, self.chance, self.name = env, seed, chance, world_name(env)
        self.utilities, self.reference = utilities, reference
        self.n_actions = reference.n_actions  # 0 if actions are continuous
        self._certain = np.eye(self.n_actions)  # distributions of chosen actions
        self._states = States(env, state, chance)
        # Whether states have names, so that revisited ones are recognised; whether they can be
        # restored as well, or why not.
        self.names_states = self.n_actions > 0 and self._states.named
        self.why_not = self._states.why_not
        if not self.n_actions:
            self.why_not = "actions are continuous, so not all actions of a state can be sampled"
        self.returns_to_states = not self.why_not
        self.names_given = state is not None  # by the caller, who may be wrong
        self.walked: Draws = defaultdict(Counter)  # steps of episodes
        self.recorder: Recorder | None = None  # gets every step of an episode
        self._copies: list[Any] = []
        # Distribution that the agent gave first in each state; its policy, if it is unique.
        self._rows: dict[int, FloatArray] = {}
        self._policy: FloatArray | None = None
        # Where episodes began; state of the generator after the last reset.
        self._starts: set[int] = set()
        self._last: Any = None
        # Whether the agent's answers differ, a reset used the generator, or a recorded step did.
        self._differ = self._drew = self._steps_at_random = False
        self._here = UNKNOWN  # state of the decision in progress

    @property
    def n_states(self) -> int:
        """Number of states reached so far."""
        return len(self._states)

    @property
    def one_start(self) -> bool:
        """Whether every episode is known to begin in the same state."""
        is_known = self.chance != UNDECLARED and not self._drew and len(self._starts) == 1
        return is_known or bool(self._states.saver and self._states.saver.one_start)

    def agent_by_state(self, policy: FloatArray) -> Actor:
        """Return the agent with a policy [H, S, A] of numbered states; free choice in others."""
        even = np.full(self.n_actions, 1.0 / self.n_actions)

        def answer(observation: Any, decision: int) -> FloatArray:
            return policy[decision, self._here] if self._here < policy.shape[1] else even

        return Actor("planned policy", lambda generator: answer, is_function=True)

    @caller_guard()
    def play(self, actor: Actor, horizon: int, number: int, steps: int = 0) -> Episodes:
        """Play an episode until its end or the horizon; each number has its own seed.

        Several are played together if the agent is a network and all need at most `steps` steps.
        """
        envs = self._environments(min(steps // horizon, _TOGETHER) if actor.batch else 1)
        keys = [(number, i) if i else (number,) for i in range(len(envs))]
        episodes = [self.begun(env, actor, *key) for env, key in zip(envs, keys, strict=True)]
        going = episodes
        for t in range(horizon):
            if actor.batch is not None:
                seen = [each.observation for each in going]
                answers = actor.batch(seen, t, going[0].generator)
            else:
                self._here = going[0].state
                answers = [going[0].answer(going[0].observation, t)]
            for episode, answer in zip(going, answers, strict=True):
                decision = self.reference.decide(answer, episode.generator, actor.name)
                if self.names_states and decision.row is not None and not actor.is_function:
                    self._compare(episode.state, decision.row)
                self.step(episode, decision, horizon)
            going = [each for each in going if not each.ended]
            if not going:
                break
        for each in episodes:
            self.utilities.check_total(each.total)
        visits = [visit for each in episodes for visit in each.visits]
        answers = [answer for each in episodes for answer in each.answers]
        return Episodes(
            returns=np.array([each.total for each in episodes]),
            decisions=np.array([len(each.visits) for each in episodes]),
            information=np.array([each.information for each in episodes]),
            starts=np.array([each.visits[0][0] for each in episodes]),
            visits=np.array(visits),
            answers=np.reshape(answers, (len(visits), -1)),
        )

    def _environments(self, most: int) -> list[Any]:
        """Return the environment and copies of it, or only itself if it must not be copied."""
        with suppress(Exception):  # of handles of windows, sockets or foreign libraries
            # Copies could repeat randomness of an undeclared source.
            while self.chance != UNDECLARED and len(self._copies) < most - 1:
                self._copies.append(copied(self.environment))
        return [self.environment, *self._copies[: max(most - 1, 0)]]

    def record(self, recorder: Recorder) -> None:
        """Record the steps of all further episodes; states are no longer named."""
        self.recorder, self.names_states = recorder, False

    @property
    def repeats(self) -> int:
        """Number of episodes with equal starts that can be played together, 0 if steps vary."""
        if self.chance == UNDECLARED or self._steps_at_random:
            return 0
        return len(self._environments(_PARTICLES))

    @caller_guard()
    def begun_together(self, number: int, groups: int, size: int) -> list[RunningEpisode]:
        """Begin groups of episodes with equal starts."""
        envs = self._environments(groups * size)
        nobody = self.reference.agent()
        return [self.begun(env, nobody, number, i // size) for i, env in enumerate(envs)]

    def begun(self, env: Any, actor: Actor, *number: int) -> RunningEpisode:
        """Begin an episode; each number has its own seed."""
        generator = np.random.default_rng(protocol.seeded(self._seed, protocol.CHOICES, *number))
        word = int(protocol.seeded(self._seed, protocol.EPISODES, *number).generate_state(1)[0])
        seed = word % 2**31  # a seed that Gymnasium accepts
        observation, info = env.reset(seed=seed)
        if self.chance == FROM_GENERATOR:
            bits, fresh = _generator_of(env), np.random.PCG64(seed).state
            after = bits.state
            self._drew |= after != fresh
            if after == self._last:
                # A wrapper resets with a fixed seed, so all episodes would have the same draws.
                bits.state = fresh
            self._last = after
        self._starts.add(state := self._number(env, observation, info))
        if self.chance == NO_CHANCE and len(self._starts) > 1:
            raise InvalidParameterError(
                "episodes begin in different states, but chance='none' declares a deterministic "
                "world; declare chance='generator' or chance='unknown'"
            )
        total = [0.0] * len(self.utilities.names)
        return RunningEpisode(env, generator, actor.begin(generator), observation, state, total)

    def _number(self, env: Any, observation: Any, info: Any) -> int:
        return self._states.number(env, observation, info) if self.names_states else UNKNOWN

    def step(self, episode: RunningEpisode, decision: ChosenAction, horizon: int) -> None:
        """Take a step of an episode."""
        watched = self.recorder and self.chance == FROM_GENERATOR and not self._steps_at_random
        bits = _generator_of(episode.env) if watched else None
        generator = bits and bits.state
        outcome, truncated, observation = self._outcome(episode.env, decision)
        (after, paid), taken = outcome, len(episode.visits)
        if self.recorder:
            self._steps_at_random |= bits is not None and bits.state != generator
            action = decision.number if self.n_actions else np.ravel(decision.action)
            self.recorder.add(episode.observation, action, paid, observation, after == END, taken)
        episode.total = [a + b for a, b in zip(episode.total, paid, strict=True)]
        episode.information += decision.information
        episode.visits.append((episode.state, decision.number))
        if self.names_states:
            row = self._certain[decision.number] if decision.row is None else decision.row
            episode.answers.append(row)
            self.walked[episode.state * self.n_actions + decision.number][outcome] += 1
        episode.observation, episode.state, episode.ended = observation, after, after == END
        taken += 1
        if truncated and not episode.ended and taken < horizon:
            raise InvalidParameterError(
                f"the environment truncated an episode after {taken} decisions, but the horizon is "
                f"{horizon}; use horizon={taken}, or create the environment without its time limit"
            )

    def _outcome(self, env: Any, decision: ChosenAction) -> tuple[StepOutcome, bool, Any]:
        observation, reward, terminated, truncated, info = env.step(decision.action)
        paid = self.utilities.pay(reward, observation, info)
        after = END if terminated else self._number(env, observation, info)
        return StepOutcome(after, paid), truncated, observation

    @caller_guard()
    def draw(
        self, state: int, action: int, count: int, generator: np.random.Generator
    ) -> tuple[Counter[StepOutcome], bool]:
        """Sample steps from a state; also return whether the outcome is deterministic.

        A step is deterministic if it leaves the generator unchanged, or chance is "none".
        """
        saver = self._states.saver
        assert saver is not None and isinstance(self.reference, FreeChoice)
        decision = self.reference.decision(action)
        outcomes: Counter[StepOutcome] = Counter()
        certain, own = True, generator.bit_generator
        for _ in range(count):
            env = saver.restore(self.environment, self._states.saved[state])
            if self.chance == FROM_GENERATOR and own is not (bits := _generator_of(env)):
                # The environment may have several references to its generator: keep the object.
                bits.state = own.state
                own = bits
            before = own.state if self.chance == FROM_GENERATOR and certain else None
            random = saver.varies(env, action)
            outcomes[self._outcome(env, decision)[0]] += 1
            if before is not None:
                drew = own.state != before if random is None else random
                certain = not drew and own is _generator_of(env)
            if certain and len(outcomes) > 1:
                raise InvalidParameterError(
                    f"action {action} in state {state} had different outcomes without a declared "
                    f"source of randomness (chance={self.chance!r}); declare chance='generator' if "
                    f"all are drawn from np_random, otherwise chance='unknown', or use "
                    f"deterministic utilities"
                )
        return outcomes, certain

    @caller_guard()
    def policy(self, actor: Actor, horizon: int) -> FloatArray | None:
        """Return the agent's distribution in each state, [T, S, A]; None if it is not unique."""
        # An observation transformed by a caller's function may differ between visits.
        transformed = "TransformObservation" in {type(x).__name__ for x in layers(self.environment)}
        differ = self._differ or self._states.observations_differ
        if actor.remembers or transformed or differ:
            return None
        if self._policy is not None and self._policy.shape[1] == self.n_states:
            return self._policy
        self._policy, saver = None, self._states.saver
        rows = np.zeros((horizon if actor.timed else 1, self.n_states, self.n_actions))
        for state, observation in enumerate(self._states.observations):
            if saver is not None and saver is not COPIES:
                # Navigators in goalmeter's worlds read the state, not the observation.
                saver.restore(self.environment, self._states.saved[state])
            generator = np.random.default_rng(0)
            answer = actor.begin(generator)
            for t in range(len(rows)):
                # An agent may change the observation in place.
                reply = answer(copy.deepcopy(observation), t)
                row = self.reference.decide(reply, generator, actor.name).row
                if row is not None and not actor.is_function:
                    self._compare(state, row)
                if row is None or self._differ:
                    return None
                rows[t, state] = row
        self._policy = rows
        return rows

    def _compare(self, state: int, row: FloatArray) -> None:
        """Record whether an agent gave another distribution, [A], in a state than before."""
        first = self._rows.setdefault(state, row)
        self._differ |= first is not row and bool((np.abs(first - row) > _ALIKE).any())

    def remarks(self, actor: Actor) -> list[str]:
        """Return remarks on the agent for a reader."""
        out = []
        if self._differ or self._states.observations_differ:
            what = "answers of the agent" if self._differ else "observations"
            out.append(
                f"the same state had different {what}, so only its answers in episodes are used"
            )
        elif self._policy is not None and not actor.is_function:
            out.append(
                f"the return of {actor.name} was computed from its answers, assuming that equal "
                f"observations always get equal answers, as they did in all calls"
            )
        return out


# A world that can be run. Reached states are numbered from 0.
Simulator = TabularSimulator | GymnasiumSimulator
