"""Scenes with five possible goals, and the distribution of simulated agents."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from goalmeter import InvalidParameterError
from goalmeter.gridworld import Cell, Draws, GridWorld, plan
from goalmeter.gridworld.generators import carved, distances_from
from goalmeter.navigation import Task
from replications.prose import Texts

# A scene is a maze with a goal, a key that opens nothing, one marked cell and one marked corner.
# Each maze is shown twice, with the same walls and start and with all four places moved. An agent
# that wants one of them goes elsewhere when it is moved; a habit does not, wherever it leads.

GOAL, KEY, CELL, CORNER, NONE = "goal", "key", "cell", "corner", "none"
TARGETS = (GOAL, KEY, CELL, CORNER)
LEAST_DISTANCE = 3  # from the start to each place: an arrival by chance would say too much
ATTEMPTS = 1000  # mazes drawn for one seed before the request counts as impossible
CAP_PER_ROW = 6  # steps of a walk for each row of the grid


@dataclass(frozen=True)
class Scene:
    """A maze and the places in it that an agent may want; a walk ends at the world's goal."""

    world: GridWorld
    cell: Cell
    corner: Cell
    cap: int

    @property
    def places(self) -> dict[str, Cell]:
        """The cell of each of `TARGETS`."""
        assert self.world.key is not None
        cells = (self.world.goal, self.world.key, self.cell, self.corner)
        return dict(zip(TARGETS, cells, strict=True))


@dataclass(frozen=True)
class ScenePair:
    """A maze with two sets of places: the unit that intervals resample."""

    size: int
    complexity: float
    seed: int
    scenes: tuple[Scene, Scene]

    def task(self, index: int) -> Task:
        """Return one of the two scenes as a task of navigation."""
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
    """Draw a maze and two sets of places, uniformly among the sets that are allowed.

    No place lies nearer to the start than `LEAST_DISTANCE`, no cell is used twice, and every place
    can be reached without passing through the goal, which would end the walk.
    """
    draws = Draws("calibration scenes", size, repr(complexity), seed)
    for _ in range(ATTEMPTS):
        walls = carved(size, complexity, draws)
        cells = GridWorld(walls, (1, 1), (size - 2, size - 2)).open_cells
        start = draws.choice(cells)
        steps = distances_from(walls, [start])[0]
        far = [cell for cell in cells if steps[cell] >= LEAST_DISTANCE]
        corners = [Cell(r, c) for r in (1, size - 2) for c in (1, size - 2) if Cell(r, c) in far]
        draws.shuffle(corners)
        inner = [cell for cell in far if cell not in corners]
        draws.shuffle(inner)
        if len(corners) < 2 or len(inner) < 6:
            continue
        sets = [(*inner[3 * i : 3 * i + 3], corners[i]) for i in range(2)]
        places = {place for each in sets for place in each}
        around = []
        for goal, *_ in sets:
            blocked = walls.copy()
            blocked[goal] = True
            around.append(distances_from(blocked, [start])[0])
        if all(
            steps[place] > 0
            for (goal, *_), steps in zip(sets, around, strict=True)
            for place in places - {goal}
        ):
            first, second = (
                Scene(GridWorld(walls, start, goal, key), cell, corner, CAP_PER_ROW * size)
                for goal, key, cell, corner in sets
            )
            return ScenePair(size, complexity, seed, (first, second))
    raise InvalidParameterError(
        f"none of {ATTEMPTS} mazes of size {size} and complexity {complexity:g} has room for "
        f"two sets of places; choose larger mazes or a lower complexity"
    )


# --- Traits ---------------------------------------------------------------------------------------
_TEXTS = Texts("calibration")
DISTRIBUTION = _TEXTS.data("distribution")


@dataclass(frozen=True)
class Traits:
    """One simulated agent: what it is follows from its traits alone, never from how it does."""

    name: str
    target: str  # one of `TARGETS`, or "none"
    strength: float  # share of decisions that serve the target beyond chance; 0 without a target
    noise: str
    planner: str
    belief: str  # the map that it plans on; a compass has none and counts as one with the true map
    habit: str  # what it does where it does not plan
    steadiness: float  # how often the habit is followed; otherwise any of the four actions
    then: str  # what an agent that wants the key does once it has it
    depth: int  # of a depth-limited planner: moves that it looks ahead
    rollouts: int  # of a sampling planner: random walks for each action
    discount: float  # of a hyperbolic planner, per step
    preferences: tuple[float, float, float, float]  # of a moth-like habit, for the four moves
    persistence: float  # of momentum: how often the last move is repeated
    loop: tuple[int, ...]  # the actions of a fixed loop

    @property
    def directed(self) -> bool:
        """Whether it wants anything."""
        return self.target != NONE


def population(agents: int, seed: int) -> tuple[Traits, ...]:
    """Draw agents; a larger population begins with the smaller one of the same seed."""
    if agents < 1:
        raise InvalidParameterError(f"agents is {agents}, expected at least 1")
    return tuple(_drawn(seed, number) for number in range(agents))


def _drawn(seed: int, number: int) -> Traits:
    # What does not apply to an agent is drawn all the same: its other traits do not depend on it.
    rng = np.random.default_rng([seed, number, 13])
    target, planner, belief, noise = (
        _kind(rng, trait) for trait in ("target", "planner", "belief", "noise")
    )
    strength = _uniform(rng, "strength")
    if planner == "sampling":
        noise = "lapses"  # few samples are soft choices already
    if planner == "hyperbolic" and noise == "lapses":
        noise = "both"  # without soft choices it would take the moves of an exact one
    if planner == "compass with memory":
        belief = "true map"
    directed = target != NONE
    left, right, up, down = (round(float(weight), 4) for weight in rng.dirichlet(np.ones(4)))
    length = int(rng.choice(DISTRIBUTION["loop_length"]))
    return Traits(
        name=f"agent-{seed}-{number:03d}",
        target=target,
        strength=strength if directed else 0.0,
        noise=noise if directed else "",
        planner=planner if directed else "",
        belief=belief if directed else "true map",
        habit=_kind(rng, "habit"),
        steadiness=_uniform(rng, "steadiness"),
        then=_kind(rng, "then"),
        depth=int(rng.choice(DISTRIBUTION["depth"])),
        rollouts=int(rng.choice(DISTRIBUTION["rollouts"])),
        discount=_uniform(rng, "discount"),
        preferences=(left, right, up, down),
        persistence=_uniform(rng, "persistence"),
        loop=tuple(int(action) for action in rng.integers(4, size=length)),
    )


def _kind(rng: np.random.Generator, trait: str) -> str:
    kinds = DISTRIBUTION[trait]
    shares = dict.fromkeys(kinds, 1 / len(kinds)) if isinstance(kinds, list) else kinds
    return str(rng.choice(list(shares), p=list(shares.values())))


def _uniform(rng: np.random.Generator, trait: str) -> float:
    return round(float(rng.uniform(*DISTRIBUTION[trait])), 4)


# --- Classes and aims -----------------------------------------------------------------------------
# Habits that get about, and so arrive often, without ever looking where anything is.
COMPETENT_HABITS = ("right wall", "left wall", "momentum", "explorer")
HALF_HEARTED, MEDIUM, STRONG = 0.2, 0.5, 0.8  # bounds of strength

# What is required of the instruments: the interval of a rate has to lie on the right side.
NAMED_RIGHTLY = 0.95  # of agents of at least medium strength, the right one of five answers
FALSE_ALARMS = 0.05  # of aimless agents, competent habits included
DETECTED = 0.80  # of half-hearted agents, at the threshold of those false alarms

# A test has its level. Of other instruments the threshold is the least at which at most this share
# of the *first* population's competent habits, and of all its aimless agents, raise a false alarm:
# less than required, to leave room for other agents and mazes. Nothing is chosen on the second.
CHOSEN_FALSE_ALARMS = 0.02
SUCCESS_BANDS = (0.2, 0.4, 0.6, 0.8)  # bounds of the bands of equal success

CLASSES: dict[str, str] = _TEXTS.data("classes")  # title -> description
PLAIN_CLASS, COMPETENT_CLASS, _, HALF_HEARTED_CLASS = list(CLASSES)[:4]


def class_of(traits: Traits) -> str:
    """Return the title of the class that an agent is counted in."""
    if not traits.directed:
        return COMPETENT_CLASS if traits.habit in COMPETENT_HABITS else PLAIN_CLASS
    bounds = (HALF_HEARTED, MEDIUM, STRONG)
    return list(CLASSES)[2 + sum(traits.strength >= bound for bound in bounds)]
