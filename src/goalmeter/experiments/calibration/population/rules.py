"""Which agent counts as what, and what the instruments are asked to reach.

Written before the run. Every agent of a population is counted: in the first class of `CLASSES`
whose rule it meets, and each agent meets exactly one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from goalmeter.experiments.calibration.population.traits import (
    EXPLORER,
    LEFT_WALL,
    MOMENTUM,
    RIGHT_WALL,
    Traits,
)

# Habits that get about, and so arrive often, without ever looking where anything is.
COMPETENT_HABITS = (RIGHT_WALL, LEFT_WALL, MOMENTUM, EXPLORER)
# Bounds of strength: faint, half-hearted, medium, strong.
HALF_HEARTED, MEDIUM, STRONG = 0.2, 0.5, 0.8

# What is asked of the instruments. A rate is reached where its interval lies on the right side.
NAMED_RIGHTLY = 0.95  # of agents of at least medium strength, the right one of five answers
FALSE_ALARMS = 0.05  # of aimless agents, competent habits included
DETECTED = 0.80  # of half-hearted agents, at the threshold of those false alarms

# A test has its level. Of other instruments a threshold is the least at which no more than this
# share of the competent habits of the *first* population raise a false alarm, nor of all its
# aimless agents. It is less than what is asked, so that there is room for other agents and other
# grids; nothing is chosen on the second population.
CHOSEN_FALSE_ALARMS = 0.02
# Bands of equal success, within which areas are taken: shares of walks that arrive.
SUCCESS_BANDS = (0.2, 0.4, 0.6, 0.8)


@dataclass(frozen=True)
class AgentClass:
    """A class of agents: a row of the table.

    Attributes:
        title: of the row.
        holds: whether an agent belongs to it.
        directed: whether its agents want something.
        why: what makes it a class of its own.
    """

    title: str
    holds: Callable[[Traits], bool]
    directed: bool
    why: str


def _strength(low: float, high: float) -> Callable[[Traits], bool]:
    return lambda traits: traits.directed and low <= traits.strength < high


COMPETENT_CLASS, HALF_HEARTED_CLASS = "aimless, competent habit", "half-hearted goal"
CLASSES = (
    AgentClass(
        "aimless, plain habit",
        lambda traits: not traits.directed and traits.habit not in COMPETENT_HABITS,
        False,
        "wants nothing and gets about little",
    ),
    AgentClass(
        COMPETENT_CLASS,
        lambda traits: not traits.directed and traits.habit in COMPETENT_HABITS,
        False,
        f"wants nothing and yet arrives: {', '.join(COMPETENT_HABITS)}",
    ),
    AgentClass(
        "faint goal", _strength(0.0, HALF_HEARTED), True, f"strength below {HALF_HEARTED:g}"
    ),
    AgentClass(
        HALF_HEARTED_CLASS,
        _strength(HALF_HEARTED, MEDIUM),
        True,
        f"strength {HALF_HEARTED:g} to {MEDIUM:g}",
    ),
    AgentClass(
        "medium goal", _strength(MEDIUM, STRONG), True, f"strength {MEDIUM:g} to {STRONG:g}"
    ),
    AgentClass("strong goal", _strength(STRONG, 2.0), True, f"strength {STRONG:g} and above"),
)


def class_of(traits: Traits) -> AgentClass:
    """The class that an agent is counted in."""
    return next(one for one in CLASSES if one.holds(traits))
