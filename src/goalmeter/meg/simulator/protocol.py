"""Simulator protocol: episodes of an agent, steps from known states, seeds, guarded calls."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from goalmeter._errors import (
    GoalmeterError,
    InvalidParameterError,
    InvalidPolicyError,
    MissingExtraError,
    in_a_line,
)
from goalmeter._types import FloatArray, IntArray
from goalmeter.meg.simulator.agents import Answer, SimulatorAgent

# --- Seeds ----------------------------------------------------------------------------------------
# No two draws share a generator, so numbers do not depend on the order or process of the draws.

# Purposes of draws.
EPISODES, CHOICES, SUCCESSORS, FREE, FREE_CHOICES, GLOBAL_GENERATORS, AGAIN = range(7)


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
        with np.errstate():
            yield
    except (GoalmeterError, MissingExtraError, KeyboardInterrupt):
        raise
    except BaseException as cause:
        raise InvalidParameterError(
            f"the environment, the agent or a utility raised {in_a_line(cause)}; expected code "
            f"that follows gymnasium.Env and does not exit the process"
        ) from cause


def begin_of(
    actor: SimulatorAgent, generator: np.random.Generator, where: Callable[[], str]
) -> Answer:
    """Begin an episode of an agent and return its answer function."""
    try:
        return actor.begin(generator)
    except GoalmeterError:
        raise
    except Exception as cause:
        raise InvalidPolicyError(
            f"{actor.name} raised {in_a_line(cause)} {where()}, expected begin(generator) to "
            f"return a function of the observation"
        ) from cause


def answer_of(
    answer: Answer, observation: Any, decision: int, name: str, where: Callable[[], str]
) -> Any:
    """Return an agent's answer to an observation at a decision, numbered from 0."""
    try:
        return answer(observation, decision)
    except GoalmeterError:
        raise
    except Exception as cause:
        raise InvalidPolicyError(
            f"{name} raised {in_a_line(cause)} {where()}, expected an action or a "
            f"distribution over actions"
        ) from cause


def reset_of(env: Any, seed: int, where: Callable[[], str]) -> tuple[Any, Any]:
    """Reset with a seed and return the observation and the info."""
    out = _of_environment(partial(env.reset, seed=seed), where)
    if not isinstance(out, tuple) or len(out) != 2:
        raise InvalidParameterError(
            f"the environment's reset returned {out!r}, expected a pair "
            f"(observation, info), as in Gymnasium since version 0.26"
        )
    return out


def step_of(env: Any, action: Any, where: Callable[[], str]) -> tuple[Any, Any, bool, bool, Any]:
    """Take a step and return observation, reward, terminated, truncated and info."""
    out = _of_environment(partial(env.step, action), where)
    if not isinstance(out, tuple) or len(out) != 5:
        raise InvalidParameterError(
            f"the environment's step returned {out!r} {where()}, expected "
            f"(observation, reward, terminated, truncated, info), as in Gymnasium since version "
            f"0.26"
        )
    observation, reward, terminated, truncated, info = out
    ended, cut = _as_bool(terminated), _as_bool(truncated)
    if ended is None or cut is None:
        raise InvalidParameterError(
            f"the environment's step returned terminated {terminated!r} and truncated "
            f"{truncated!r} {where()}, expected True or False for each"
        )
    return observation, reward, ended, cut, info


# Contexts of error messages: a decision of an episode, its start, and a state.
at_decision = "at decision {} of episode {}".format
at_reset = "at the start of episode {}".format
in_state = "at a step from state {}".format


def _as_bool(value: Any) -> bool | None:
    """Convert a single truth value of any library, or 0 or 1; None for anything else."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    try:
        array = np.asarray(value)
    # Raised for ragged lists and for tensors on another device.
    except (TypeError, ValueError, RuntimeError):
        return None
    return bool(array) if array.size == 1 and array.ravel()[0] in (0, 1) else None


def _of_environment(function: Callable[[], Any], where: Callable[[], str]) -> Any:
    try:
        # Its calls of np.seterr must not affect other code.
        with np.errstate():
            return function()
    except GoalmeterError:
        raise
    except Exception as cause:
        raise InvalidParameterError(
            f"the environment raised {in_a_line(cause)} {where()}; fix it, or choose actions and "
            f"a horizon that it supports"
        ) from cause


# --- Protocol -------------------------------------------------------------------------------------
# Number of the state in which an episode has ended.
END = -1
UNKNOWN = -2  # start of an episode if states have no names
# Reference of discrete actions: each with the same probability.
FREE_CHOICE = "free choice"


class StepOutcome(NamedTuple):
    """Outcome of a decision: number of the next state or `END`, and payoffs, [U]."""

    after: int
    paid: tuple[float, ...]


@dataclass(frozen=True)
class Episodes:
    """N episodes of one agent, with U utilities."""

    returns: FloatArray  # total payoff of each utility, [N, U]
    decisions: IntArray  # number of decisions before the end or the horizon, [N]
    # Summed relative entropy of the choices to the reference, [N] nats; NaN if unknown.
    information: FloatArray
    starts: IntArray  # state in which each began, [N]; `UNKNOWN` if states have no names

    @property
    def steps(self) -> int:
        """Total number of steps."""
        return int(self.decisions.sum())

    @classmethod
    def of(cls, parts: Sequence[Episodes]) -> Episodes:
        """Concatenate the episodes of all parts in order."""
        return cls(
            np.concatenate([part.returns for part in parts]),
            np.concatenate([part.decisions for part in parts]),
            np.concatenate([part.information for part in parts]),
            np.concatenate([part.starts for part in parts]),
        )

    def subset(self, chosen: IntArray) -> Episodes:
        """Return a subset of the episodes."""
        return Episodes(
            self.returns[chosen],
            self.decisions[chosen],
            self.information[chosen],
            self.starts[chosen],
        )
