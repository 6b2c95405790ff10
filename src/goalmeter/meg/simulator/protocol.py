"""Simulator protocol: seeds, guarded calls of a caller's code, outcomes of steps, episodes."""

from __future__ import annotations

import math
import random
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goalmeter._errors import GoalmeterError, InvalidParameterError, MissingExtraError, in_a_line
from goalmeter._types import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from goalmeter.meg.simulator.agents import SimulatorAgent
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
FREE_CHOICE = "free choice"  # reference of discrete actions: each with the same probability


class StepOutcome(NamedTuple):
    """Outcome of a decision: number of the next state or `END`, and payoffs, [U]."""

    after: int
    paid: tuple[float, ...]


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
        return Episodes(
            self.returns[mask],
            self.decisions[mask],
            self.information[mask],
            self.starts[mask],
            self.visits[np.repeat(mask, self.decisions)],
        )


def episodes_until(
    simulator: Simulator, actor: SimulatorAgent, horizon: int, steps: float, number: int = 0
) -> Iterator[Episodes]:
    """Yield at least one episode, and more until a number of steps."""
    taken = 0
    while True:
        played = simulator.play(actor, horizon, number, math.ceil(steps - taken) if taken else 0)
        yield played
        taken += max(played.steps, 1)
        number += len(played.starts)
        if taken >= steps:
            return
