"""The arguments of `measure`, made plain or refused before anything is played."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import islice
from numbers import Real
from typing import Any, cast

from goalmeter._arguments import MOST_SECONDS, MOST_SEED, finite, whole
from goalmeter._errors import InvalidParameterError
from goalmeter._text import shown
from goalmeter.reflection.environments.base import Run
from goalmeter.reflection.environments.record import Environment
from goalmeter.reflection.environments.registry import find

# A trial of so many percepts takes hours, and a run of so many trials days, with the fastest agent.
MOST_STEPS = 10_000_000
MOST_SEEDS = 100_000
MOST_ENVIRONMENTS = 1000
MOST_TRIALS = 1_000_000


def seeds_of(seeds: object) -> tuple[int, ...]:
    """The seeds themselves, from how many there are to be or from a list of them."""
    listed = isinstance(seeds, Iterable) and not isinstance(seeds, str | bytes)
    if not listed or getattr(seeds, "ndim", 1) == 0:  # an array of no dimension is a number
        return tuple(range(whole(seeds, "seeds", least=1, most=MOST_SEEDS)))
    # Of an iterator without end no more is taken than what is too many.
    listed_seeds = tuple(islice(seeds, MOST_SEEDS + 1))  # type: ignore[call-overload]
    if not listed_seeds:
        raise InvalidParameterError("seeds is empty, expected at least one seed")
    if len(listed_seeds) > MOST_SEEDS:
        raise InvalidParameterError(
            f"there are more than {MOST_SEEDS} seeds, expected at most so many"
        )
    chosen = tuple(whole(seed, "a seed", least=0, most=MOST_SEED) for seed in listed_seeds)
    if twice := [seed for seed, count in Counter(chosen).items() if count > 1]:
        raise InvalidParameterError(f"seed {min(twice)} is given twice; give each once")
    return chosen


def runs_of(environments: object) -> tuple[tuple[Environment, bool], ...]:
    """Environments, and whether their opposites are meant.

    An environment, or its name, stands for itself and its opposite; the name of an opposite for the
    opposite alone. What is named twice is played once.

    Args:
        environments: a name, an `Environment` or a class derived from `Run`, or several of them.
    """
    is_single = isinstance(environments, str | Environment | type)
    if not is_single and not isinstance(environments, Iterable):
        raise _no_environment(environments)
    listed: Any = [environments] if is_single else environments
    runs: dict[tuple[str, bool], tuple[Environment, bool]] = {}
    for item in listed:
        if isinstance(item, str):
            environment, is_opposite = find(item)
        elif isinstance(item, Environment):
            environment, is_opposite = item, False
        elif isinstance(item, type) and issubclass(item, Run):
            environment, is_opposite = Environment(item), False
        else:
            raise _no_environment(item)
        # The first mention counts, so that naming an environment twice weighs it once.
        for way in (True,) if is_opposite else (False, True):
            runs.setdefault((environment.name, way), (environment, way))
    if len(runs) > 2 * MOST_ENVIRONMENTS:
        raise InvalidParameterError(
            f"there are {len(runs)} environments and opposites, expected at most "
            f"{2 * MOST_ENVIRONMENTS}"
        )
    if not runs:
        raise InvalidParameterError("environments is empty, expected at least one environment")
    return tuple(runs.values())


def check_timeout(timeout: object) -> float | None:
    """A limit of time in seconds, or None for no limit."""
    if timeout is None:
        return None
    if not isinstance(timeout, Real) or not cast(float, timeout) > 0:
        raise InvalidParameterError(
            f"timeout is {shown(timeout)}, expected a number of seconds above 0, or None for no "
            f"limit"
        )
    return finite(timeout, "timeout", least=0.0, most=MOST_SECONDS)


def check_confidence(confidence: object) -> float:
    """The nominal coverage of an interval."""
    if not isinstance(confidence, Real) or not 0 < cast(float, confidence) < 1:
        raise InvalidParameterError(
            f"confidence is {shown(confidence)}, expected a number between 0 and 1, such as 0.95"
        )
    return float(confidence)


def _no_environment(value: object) -> InvalidParameterError:
    return InvalidParameterError(
        f"{shown(value)} is no environment, expected a name, an Environment, a class derived from "
        f"goalmeter.reflection.environments.Run, or several of them"
    )
