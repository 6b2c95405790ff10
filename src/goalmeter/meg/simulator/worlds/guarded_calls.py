"""Calls of a caller's code: its errors say who raised them, and where in a measurement."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from goalmeter._errors import (
    GoalmeterError,
    InvalidParameterError,
    InvalidPolicyError,
    MissingExtraError,
)
from goalmeter._text import in_a_line
from goalmeter.meg.simulator.agents.acting import Actor, Answer


@contextmanager
def caller_guard() -> Iterator[None]:
    """Run a caller's code: whatever it raises, an exit of the process too, is one error."""
    try:
        with np.errstate():
            yield
    except (GoalmeterError, MissingExtraError, KeyboardInterrupt):
        raise
    except BaseException as cause:
        raise InvalidParameterError(
            f"the environment, the agent or a utility raised {in_a_line(cause)}; expected code "
            f"that keeps to gymnasium.Env and does not end the process"
        ) from cause


def begin_of(actor: Actor, generator: np.random.Generator, where: Callable[[], str]) -> Answer:
    """An agent's answers during one episode."""
    try:
        return actor.begin(generator)
    except GoalmeterError:
        raise
    except Exception as cause:
        raise InvalidPolicyError(
            f"{actor.name} raised {in_a_line(cause)} {where()}, expected begin(generator) to give "
            f"a function of the observation"
        ) from cause


def answer_of(
    answer: Answer, observation: Any, decision: int, name: str, where: Callable[[], str]
) -> Any:
    """What an agent answers to an observation at a decision, numbered from 0."""
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
    """The observation and the info of a reset with a seed."""
    out = _of_environment(partial(env.reset, seed=seed), where)
    if not isinstance(out, tuple) or len(out) != 2:
        raise InvalidParameterError(
            f"the environment's reset gave {out!r}, expected a pair "
            f"(observation, info), as Gymnasium has it since version 0.26"
        )
    return out


def step_of(env: Any, action: Any, where: Callable[[], str]) -> tuple[Any, Any, bool, bool, Any]:
    """Observation, reward, whether terminated, whether truncated, and info of a step."""
    out = _of_environment(partial(env.step, action), where)
    if not isinstance(out, tuple) or len(out) != 5:
        raise InvalidParameterError(
            f"the environment's step gave {out!r} {where()}, expected "
            f"(observation, reward, terminated, truncated, info), as Gymnasium has it since "
            f"version 0.26"
        )
    observation, reward, terminated, truncated, info = out
    ended, cut = _as_bool(terminated), _as_bool(truncated)
    if ended is None or cut is None:
        raise InvalidParameterError(
            f"the environment's step gave terminated {terminated!r} and truncated {truncated!r} "
            f"{where()}, expected True or False for each"
        )
    return observation, reward, ended, cut, info


def at_decision(decision: int, episode: int) -> str:
    """A place for errors."""
    return f"at decision {decision} of episode {episode}"


def at_reset(episode: int) -> str:
    """A place for errors."""
    return f"when episode {episode} was begun"


def in_state(state: int) -> str:
    """A place for errors."""
    return f"at a step from state {state}"


def _as_bool(value: Any) -> bool | None:
    """A single truth value, of any library or as 0 or 1; None for anything else."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    try:
        array = np.asarray(value)
    # Lists of unequal length, and what is on another device.
    except (TypeError, ValueError, RuntimeError):
        return None
    return bool(array) if array.size == 1 and array.ravel()[0] in (0, 1) else None


def _of_environment(function: Callable[[], Any], where: Callable[[], str]) -> Any:
    try:
        # What it sets by np.seterr is for its own code.
        with np.errstate():
            return function()
    except GoalmeterError:
        raise
    except Exception as cause:
        raise InvalidParameterError(
            f"the environment raised {in_a_line(cause)} {where()}; mend it, or choose actions "
            f"and a horizon that it allows"
        ) from cause
