"""What a simulated agent is, and the distribution that a population is drawn from.

All of it was written down before any of the agents was measured. A trait is drawn independently of
the others, save where a line below says otherwise; what an agent *is* follows from its traits
alone, never from how it does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter.experiments.calibration.population.scenes import CELL, CORNER, NONE
from goalmeter.gridworld.tabular_world import GOAL, KEY

# --- The distribution, as data -------------------------------------------------------------------

TARGET_SHARES = {GOAL: 0.15, KEY: 0.15, CELL: 0.15, CORNER: 0.15, NONE: 0.40}

EXACT, DEPTH_LIMITED, COMPASS = "exact", "depth-limited", "compass with memory"
SAMPLING, HYPERBOLIC = "sampling", "hyperbolic"
PLANNER_SHARES = {EXACT: 0.2, DEPTH_LIMITED: 0.2, COMPASS: 0.2, SAMPLING: 0.2, HYPERBOLIC: 0.2}

TRUE_MAP, UNSEEN_ROWS = "true map", "unseen rows"
LOST_WALLS, PHANTOM_WALLS = "lost walls", "phantom walls"
BELIEF_SHARES = {TRUE_MAP: 0.55, UNSEEN_ROWS: 0.15, LOST_WALLS: 0.15, PHANTOM_WALLS: 0.15}

# How a strength below 1 shows: in lapses, in soft choices, or in both.
LAPSES, SOFTNESS, BOTH = "lapses", "softness", "both"
NOISE_SHARES = {LAPSES: 1 / 3, SOFTNESS: 1 / 3, BOTH: 1 / 3}
STRENGTHS = (0.05, 1.0)  # uniform between them
MOST_SOFT = 0.99  # soft choices of any greater strength are those of this one

ANY_ACTION, WANDER, MOTH = "any action", "wander", "moth-like"
RIGHT_WALL, LEFT_WALL, MOMENTUM = "right wall", "left wall", "momentum"
MOST_VISITED, EXPLORER, LOOP = "most visited", "explorer", "loop"
HABIT_SHARES = {
    ANY_ACTION: 0.06,
    WANDER: 0.10,
    MOTH: 0.14,
    RIGHT_WALL: 0.13,
    LEFT_WALL: 0.12,
    MOMENTUM: 0.13,
    MOST_VISITED: 0.10,
    EXPLORER: 0.12,
    LOOP: 0.10,
}
# How often a habit is kept to; else any of the four actions is taken. Uniform between them.
STEADINESS = (0.5, 1.0)

THEN_GOAL, THEN_HABIT = "goal", "habit"
THEN_SHARES = {THEN_GOAL: 0.5, THEN_HABIT: 0.5}

DEPTHS = (2, 3, 4, 5, 6)  # moves that a depth-limited planner looks ahead, equally likely
ROLLOUTS = (4, 8, 16, 32)  # that a sampling planner makes for each action, equally likely
DISCOUNTS = (0.5, 3.0)  # of a hyperbolic planner, a step; uniform between them
PERSISTENCE = (0.6, 0.95)  # of momentum: how often the last move is repeated; uniform between them
LOOP_LENGTHS = (2, 3, 4, 5, 6, 7, 8)  # actions of a loop, each equally likely


@dataclass(frozen=True)
class Traits:
    """One simulated agent.

    Attributes:
        name: in results; also names its streams of random numbers.
        target: one of `scenes.TARGETS`, or "none".
        strength: 0 for who wants nothing; else from `STRENGTHS`: the share of decisions that serve
            the target beyond those that chance would (see `planners.softness`).
        noise: how a strength below 1 shows.
        planner: how it gets there; "" for who wants nothing.
        belief: the map that it plans on. A compass has no map, and counts as one with the true one.
        habit: what it does where it does not plan.
        steadiness: how often the habit is kept to.
        then: of those who want the key, what they do once they have it.
        depth: of a depth-limited planner.
        rollouts: of a sampling planner.
        discount: of a hyperbolic planner.
        preferences: of a moth-like habit, for the four moves.
        persistence: of momentum.
        loop: the actions of a fixed loop.
    """

    name: str
    target: str
    strength: float
    noise: str
    planner: str
    belief: str
    habit: str
    steadiness: float
    then: str
    depth: int
    rollouts: int
    discount: float
    preferences: tuple[float, float, float, float]
    persistence: float
    loop: tuple[int, ...]

    @property
    def directed(self) -> bool:
        """Whether it wants anything."""
        return self.target != NONE

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Traits:
        """Traits from their JSON values."""
        left, right, up, down = fields["preferences"]
        whole = dict(fields) | {
            "preferences": (left, right, up, down),
            "loop": tuple(fields["loop"]),
        }
        return cls(**whole)


def population(agents: int, seed: int) -> tuple[Traits, ...]:
    """Agents drawn from the distribution above.

    Args:
        agents: how many, at least 1.
        seed: of the draw; another seed gives other agents.

    Raises:
        InvalidParameterError: fewer than one agent.
    """
    if agents < 1:
        raise InvalidParameterError(f"agents is {agents}, expected at least 1")
    return tuple(_drawn(seed, number) for number in range(agents))


def _drawn(seed: int, number: int) -> Traits:
    """One agent; each has a stream of its own, so a larger population begins with the smaller."""
    rng = np.random.default_rng([seed, number, 13])
    target = _one_of(rng, TARGET_SHARES)
    planner = _one_of(rng, PLANNER_SHARES)
    belief = _one_of(rng, BELIEF_SHARES)
    noise = _one_of(rng, NOISE_SHARES)
    strength = round(float(rng.uniform(*STRENGTHS)), 4)
    if planner == SAMPLING:
        noise = LAPSES  # few samples are soft choices already
    if planner == HYPERBOLIC and noise == LAPSES:
        noise = BOTH  # without soft choices it would take the moves of an exact one
    if planner == COMPASS:
        belief = TRUE_MAP
    directed = target != NONE
    weights = rng.dirichlet(np.ones(4))
    length = int(rng.choice(LOOP_LENGTHS))
    left, right, up, down = (round(float(weight), 4) for weight in weights)
    return Traits(
        name=f"agent-{seed}-{number:03d}",
        target=target,
        strength=strength if directed else 0.0,
        noise=noise if directed else "",
        planner=planner if directed else "",
        belief=belief if directed else TRUE_MAP,
        habit=_one_of(rng, HABIT_SHARES),
        steadiness=round(float(rng.uniform(*STEADINESS)), 4),
        then=_one_of(rng, THEN_SHARES),
        depth=int(rng.choice(DEPTHS)),
        rollouts=int(rng.choice(ROLLOUTS)),
        discount=round(float(rng.uniform(*DISCOUNTS)), 4),
        preferences=(left, right, up, down),
        persistence=round(float(rng.uniform(*PERSISTENCE)), 4),
        loop=tuple(int(action) for action in rng.integers(4, size=length)),
    )


def _one_of(rng: np.random.Generator, shares: Mapping[str, float]) -> str:
    return str(rng.choice(list(shares), p=list(shares.values())))
