"""Scenes with five possible goals, and the distribution of simulated agents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from goalmeter import InvalidParameterError
from goalmeter.gridworld import Cell, Draws, GridWorld, plan
from goalmeter.gridworld.conversions import GOAL_UTILITY, KEY_UTILITY
from goalmeter.gridworld.generators import MAX_ATTEMPTS, carved, distances_from
from goalmeter.navigation import Task
from replications.kinds import BoolArray

# --- Scenes ---------------------------------------------------------------------------------------
# A scene is a maze with a goal, a key that opens nothing, one marked cell and one marked corner.
# Each maze is shown twice, with the same walls and the same start and with all four places moved.
# Whoever wants one of them goes elsewhere when it is moved; whoever has a habit does not,
# wherever the habit happens to lead. That is an intervention on the world, and costs nothing but
# half of the mazes.

CELL, CORNER, NONE = "cell", "corner", "none"
TARGETS = (GOAL_UTILITY, KEY_UTILITY, CELL, CORNER)
# No place lies nearer to the start: an arrival by chance would say too much.
LEAST_DISTANCE = 3
# Steps of a walk for each row of the grid.
CAP_PER_ROW = 6


@dataclass(frozen=True)
class Scene:
    """A maze and the places in it that an agent may want."""

    world: GridWorld  # with the goal, at which a walk ends, and a key that opens nothing
    cell: Cell  # one marked cell
    corner: Cell  # one of the four corners
    cap: int  # steps after which a walk is ended

    def place(self, target: str) -> Cell:
        """Where one of `TARGETS` is."""
        return self.places[target]

    @property
    def places(self) -> dict[str, Cell]:
        """Where all of `TARGETS` are."""
        assert self.world.key is not None
        return {
            GOAL_UTILITY: self.world.goal,
            KEY_UTILITY: self.world.key,
            CELL: self.cell,
            CORNER: self.corner,
        }


@dataclass(frozen=True)
class ScenePair:
    """One maze, and the same one with all four places moved: what intervals resample."""

    size: int  # rows and columns
    complexity: float  # share of inner walls kept
    seed: int  # names the maze and its places
    scenes: tuple[Scene, Scene]  # the two, with the same walls and the same start

    def task(self, index: int) -> Task:
        """One of the two scenes as a task of navigation."""
        scene = self.scenes[index]
        return Task(
            suite="calibration",
            size=self.size,
            complexity=self.complexity,
            grid=self.seed,
            seed=self.seed,
            transform=None,
            condition={"places": index},
            world=scene.world,
            distance=plan(scene.world).distance,
            cap=scene.cap,
        )


@lru_cache(maxsize=128)
def scene_pair(size: int, complexity: float, seed: int) -> ScenePair:
    """The maze of a seed with two sets of places.

    Start and places are drawn from the open cells, each pair of sets equally likely among those in
    which no place lies nearer to the start than `LEAST_DISTANCE`, no cell is used twice, and every
    place can be reached without passing through the goal, which would end the walk.

    Args:
        size: rows and columns, odd, at least 5.
        complexity: share of inner walls kept, in [0, 1].
        seed: names it; the same seed gives the same pair everywhere.
    """
    draws = Draws("calibration scenes", size, repr(complexity), seed)
    for _ in range(MAX_ATTEMPTS):
        walls = carved(size, complexity, draws)
        cells = GridWorld(walls, (1, 1), (size - 2, size - 2)).open_cells
        start = draws.choice(cells)
        steps = distances_from(walls, [start])[0]
        far = [cell for cell in cells if steps[cell] >= LEAST_DISTANCE]
        corners = [Cell(r, c) for r in (1, size - 2) for c in (1, size - 2)]
        corners = [cell for cell in corners if cell in far]
        draws.shuffle(corners)
        inner = [cell for cell in far if cell not in corners]
        draws.shuffle(inner)
        if len(corners) < 2 or len(inner) < 6:
            continue
        sets = [(*inner[3 * i : 3 * i + 3], corners[i]) for i in range(2)]
        if all(_reachable(walls, start, goal, (*sets[0], *sets[1])) for goal, *_ in sets):
            first, second = (
                Scene(GridWorld(walls, start, goal, key), cell, corner, CAP_PER_ROW * size)
                for goal, key, cell, corner in sets
            )
            return ScenePair(size, complexity, seed, (first, second))
    raise InvalidParameterError(
        f"none of {MAX_ATTEMPTS} mazes of size {size} and complexity {complexity:g} has room for "
        f"two sets of places; ask for larger or less walled ones"
    )


def _reachable(walls: BoolArray, start: Cell, goal: Cell, places: Sequence[Cell]) -> bool:
    """Whether all places but the goal can be reached without passing through the goal."""
    blocked = walls.copy()
    blocked[goal] = True
    steps = distances_from(blocked, [start])[0]
    return all(steps[place] > 0 for place in places if place != goal)


# --- Traits ---------------------------------------------------------------------------------------
# All of it was written down before any of the agents was measured. A trait is drawn independently
# of the others, save where a line below says otherwise; what an agent *is* follows from its
# traits alone, never from how it does. Every agent of a population is counted: in the first class
# of `CLASSES` whose rule it meets, and each agent meets exactly one.

# --- The distribution, as data -------------------------------------------------------------------

TARGET_SHARES = {GOAL_UTILITY: 0.15, KEY_UTILITY: 0.15, CELL: 0.15, CORNER: 0.15, NONE: 0.40}

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
    """One simulated agent."""

    name: str  # in results; also names its streams of random numbers
    target: str  # one of `scenes.TARGETS`, or "none"
    # 0 for who wants nothing; else from `STRENGTHS`: the share of decisions that serve the target
    # beyond those that chance would (see `planners.softness`)
    strength: float
    noise: str  # how a strength below 1 shows
    planner: str  # how it gets there; "" for who wants nothing
    # the map that it plans on. A compass has no map, and counts as one with the true one
    belief: str
    habit: str  # what it does where it does not plan
    steadiness: float  # how often the habit is kept to
    then: str  # of those who want the key, what they do once they have it
    depth: int  # of a depth-limited planner
    rollouts: int  # of a sampling planner
    discount: float  # of a hyperbolic planner
    preferences: tuple[float, float, float, float]  # of a moth-like habit, for the four moves
    persistence: float  # of momentum
    loop: tuple[int, ...]  # the actions of a fixed loop

    @property
    def directed(self) -> bool:
        """Whether it wants anything."""
        return self.target != NONE


def population(agents: int, seed: int) -> tuple[Traits, ...]:
    """Agents drawn from the distribution above."""
    if agents < 1:
        raise InvalidParameterError(f"agents is {agents}, expected at least 1")
    return tuple(_drawn(seed, number) for number in range(agents))


def _drawn(seed: int, number: int) -> Traits:
    # Each has a stream of its own, so a larger population begins with the smaller. What does not
    # apply to an agent is drawn all the same: its other traits do not depend on it.
    rng = np.random.default_rng([seed, number, 13])
    target = _kind(rng, TARGET_SHARES)
    planner = _kind(rng, PLANNER_SHARES)
    belief = _kind(rng, BELIEF_SHARES)
    noise = _kind(rng, NOISE_SHARES)
    strength = round(float(rng.uniform(*STRENGTHS)), 4)
    if planner == SAMPLING:
        noise = LAPSES  # few samples are soft choices already
    if planner == HYPERBOLIC and noise == LAPSES:
        noise = BOTH  # without soft choices it would take the moves of an exact one
    if planner == COMPASS:
        belief = TRUE_MAP
    directed = target != NONE
    left, right, up, down = (round(float(weight), 4) for weight in rng.dirichlet(np.ones(4)))
    length = int(rng.choice(LOOP_LENGTHS))
    return Traits(
        name=f"agent-{seed}-{number:03d}",
        target=target,
        strength=strength if directed else 0.0,
        noise=noise if directed else "",
        planner=planner if directed else "",
        belief=belief if directed else TRUE_MAP,
        habit=_kind(rng, HABIT_SHARES),
        steadiness=round(float(rng.uniform(*STEADINESS)), 4),
        then=_kind(rng, THEN_SHARES),
        depth=int(rng.choice(DEPTHS)),
        rollouts=int(rng.choice(ROLLOUTS)),
        discount=round(float(rng.uniform(*DISCOUNTS)), 4),
        preferences=(left, right, up, down),
        persistence=round(float(rng.uniform(*PERSISTENCE)), 4),
        loop=tuple(int(action) for action in rng.integers(4, size=length)),
    )


def _kind(rng: np.random.Generator, shares: Mapping[str, float]) -> str:
    return str(rng.choice(list(shares), p=list(shares.values())))


# --- Which agent counts as what, and what is asked of the instruments ----------------------------

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
    """A class of agents, a row of the table: `holds` says whether an agent belongs to it."""

    title: str
    holds: Callable[[Traits], bool]
    directed: bool
    why: str


def _goals(title: str, low: float, high: float, why: str) -> AgentClass:
    return AgentClass(title, lambda a: a.directed and low <= a.strength < high, True, why)


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
    _goals("faint goal", 0.0, HALF_HEARTED, f"strength below {HALF_HEARTED:g}"),
    _goals(HALF_HEARTED_CLASS, HALF_HEARTED, MEDIUM, f"strength {HALF_HEARTED:g} to {MEDIUM:g}"),
    _goals("medium goal", MEDIUM, STRONG, f"strength {MEDIUM:g} to {STRONG:g}"),
    _goals("strong goal", STRONG, 2.0, f"strength {STRONG:g} and above"),
)


def class_of(traits: Traits) -> AgentClass:
    """The class that an agent is counted in."""
    return next(kind for kind in CLASSES if kind.holds(traits))
