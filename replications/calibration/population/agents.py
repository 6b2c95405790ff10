"""Scenes with five possible goals; simulated agents: their distribution, planners and habits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import comb
from types import SimpleNamespace
from typing import Any

import numpy as np

from goalmeter.agents import Decision
from goalmeter.gridworld import Cell, Draws, GridWorld, State, carved, distances_from, plan
from goalmeter.navigation import Task
from goalmeter.organisms import organism
from replications.common import BoolArray, FloatArray, IntArray, Texts

# A scene is a maze with a goal, a key that opens nothing, one marked cell and one marked corner.
# Each maze is shown twice, with the same walls and start and with all four places moved. An agent
# that wants one of them goes elsewhere when it is moved; a habit does not, wherever it leads.

GOAL, KEY, CELL, CORNER, NONE = "goal", "key", "cell", "corner", "none"
TARGETS = (GOAL, KEY, CELL, CORNER)
LEAST_DISTANCE = 3  # from the start to each place: an arrival by chance would say too much
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

    def number(self, cell: tuple[int, int]) -> int:
        """Return the number of a cell, row by row."""
        return int(cell[0] * self.world.shape[1] + cell[1])


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
    """Draw a maze and two sets of places, uniformly among the sets that are allowed."""
    # No cell is used twice, and every place is reached without passing through the goal, which
    # would end the walk.
    draws = Draws("calibration scenes", size, repr(complexity), seed)
    while True:
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
        places = [place for each in sets for place in each]
        around = [_steps_around(walls, start, goal) for goal, *_ in sets]
        if all(
            steps[place] > 0
            for (goal, *_), steps in zip(sets, around, strict=True)
            for place in places
            if place != goal
        ):
            first, second = (
                Scene(GridWorld(walls, start, goal, key), cell, corner, CAP_PER_ROW * size)
                for goal, key, cell, corner in sets
            )
            return ScenePair(size, complexity, seed, (first, second))


def _steps_around(walls: BoolArray, start: Cell, goal: Cell) -> IntArray:
    """Steps from the start to each cell that do not lead through the goal; below 0 if none do."""
    blocked = walls.copy()
    blocked[goal] = True
    return np.asarray(distances_from(blocked, [start])[0])


# --- Traits ---------------------------------------------------------------------------------------
_TEXTS = Texts("calibration")
DISTRIBUTION = _TEXTS.declared("distribution")


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


def population(agents: int, seed: int) -> tuple[Traits, ...]:
    """Draw agents; a larger population begins with the smaller one of the same seed."""
    return tuple(_drawn(seed, number) for number in range(agents))


def _drawn(seed: int, number: int) -> Traits:
    # What does not apply to an agent is drawn all the same: its other traits do not depend on it.
    rng = np.random.default_rng([seed, number, 13])

    def value(law: Any) -> Any:
        match law:
            case [str(), *_]:
                return str(rng.choice(law, p=[1 / len(law)] * len(law)))
            case dict():
                return str(rng.choice(list(law), p=list(law.values())))
            case [float(), float()]:
                return round(float(rng.uniform(*law)), 4)
            case [int(), *_]:
                return int(rng.choice(law))
        return tuple(round(float(weight), 4) for weight in rng.dirichlet(np.ones(law)))

    traits = {trait: value(law) for trait, law in DISTRIBUTION.items()}
    loop = tuple(int(action) for action in rng.integers(4, size=traits.pop("loop_length")))
    if traits["planner"] == "sampling":
        traits["noise"] = "lapses"  # few samples are soft choices already
    if traits["planner"] == "hyperbolic" and traits["noise"] == "lapses":
        traits["noise"] = "both"  # without soft choices it would take the moves of an exact one
    if traits["target"] == NONE:
        traits |= {"strength": 0.0, "noise": "", "planner": ""}
    if traits["planner"] in ("", "compass with memory"):
        traits["belief"] = "true map"
    return Traits(name=f"agent-{seed}-{number:03d}", loop=loop, **traits)


# --- Classes and aims -----------------------------------------------------------------------------
# Habits that get about, and so arrive often, without ever looking where anything is.
COMPETENT_HABITS = ("right wall", "left wall", "momentum", "explorer")
STRENGTHS = (0.2, 0.5, 0.8)  # bounds of half-hearted, medium and strong goals
MEDIUM = STRENGTHS[1]

# A test has its level. Of other instruments the threshold is the least at which at most this share
# of the *first* population's competent habits, and of all its aimless agents, raise a false alarm:
# less than required, to leave room for other agents and mazes. Nothing is chosen on the second.
CHOSEN_FALSE_ALARMS = 0.02
SUCCESS_BANDS = (0.2, 0.4, 0.6, 0.8)  # bounds of the bands of equal success

CLASSES: dict[str, str] = _TEXTS.declared("classes")  # title -> description
PLAIN_CLASS, COMPETENT_CLASS, _, HALF_HEARTED_CLASS = list(CLASSES)[:4]


def class_of(traits: Traits) -> str:
    """Return the title of the class that an agent is counted in."""
    if traits.target == NONE:
        return COMPETENT_CLASS if traits.habit in COMPETENT_HABITS else PLAIN_CLASS
    return list(CLASSES)[2 + sum(traits.strength >= bound for bound in STRENGTHS)]


LEFT, RIGHT, UP, DOWN = ACTIONS = range(4)
MOVES = ((0, -1), (0, 1), (-1, 0), (1, 0))  # rows and columns
CLOCKWISE = (UP, RIGHT, DOWN, LEFT)
Row = Sequence[float]  # probabilities of the four moves
# A planner on one walk: a row in a cell, by its number; called once per step.
Course = Callable[[int], Row]

# --- Planners -------------------------------------------------------------------------------------
# Every planner says of each move how many steps it costs beyond the best one, as the planner sees
# it. A decisive one takes a move that costs nothing; a soft one takes a move with a weight of
# exp(-softness * cost). A move into the goal ends the walk: agents with another target shun it.
# Source: depth-limited search with a heuristic at its edge, and search that learns its heuristic on
# the way, are minimin and LRTA* of Korf, Real-time heuristic search (1990); hyperbolic values are
# those of Mazur, An adjusting procedure for studying delayed reinforcement (1987).

# Of inner walls that are missing on a map, and of open cells that are walls there.
SHARES_OF_CELLS = {"lost walls": 0.25, "phantom walls": 0.15}
# Costs of a move after which the target is out of reach, and of one that ends the walk elsewhere.
LOST, ENDED = 999.0, 500.0
MOST_SOFT = 0.99  # soft choices of a greater strength are those of this one
IMAGINED_STEPS = 20  # of each random walk of a sampling planner


def _softness(traits: Traits) -> float:
    """The b of weights exp(-b * cost); infinite for a decisive agent."""
    if traits.noise == "lapses":
        return math.inf
    strength = math.sqrt(traits.strength) if traits.noise == "both" else traits.strength
    # Where one move is right and three cost two steps more, chance has a quarter of right moves,
    # and a strength of s has 1/4 + 3/4 s of them: 1 / (1 + 3 exp(-2 b)) is that at this b.
    right = 0.25 + 0.75 * min(strength, MOST_SOFT)
    return -0.5 * math.log((1.0 / right - 1.0) / 3.0)


def _course(traits: Traits, scene: Scene, target: str) -> Course:
    """An agent's planner at the start of a walk towards one of the places of a scene."""
    if traits.planner == "compass with memory":
        return _remembering_compass(traits, scene, target)
    return _planned_rows(traits, scene, target).__getitem__


# An agent walks several times through a scene before the next one does.
@lru_cache(maxsize=8)
def _planned_rows(traits: Traits, scene: Scene, target: str) -> tuple[Row, ...]:
    """What a planner without a memory does in every cell."""
    walls, place, goal = _believed_walls(traits, scene), scene.places[target], scene.world.goal
    enters = np.zeros((walls.size, 4), dtype=bool)
    if target != GOAL:
        walls = walls.copy()
        walls[goal] = True
        for action, (down, right) in enumerate(MOVES):
            enters[scene.number((goal.row - down, goal.column - right)), action] = True
    after = neighbours(walls)
    if traits.planner == "sampling":
        # The samples make the choice: these are its probabilities.
        chances = arrival_chances(after, scene.number(place), IMAGINED_STEPS)
        rows = np.where(enters, 0.0, most_arrivals(chances[after], traits.rollouts))
        if target != GOAL:
            total = rows.sum(axis=1, keepdims=True)
            rows = np.where(total > 0, rows / np.where(total > 0, total, 1.0), 0.25)
    else:
        if traits.planner == "depth-limited":
            ahead = _limited_estimates(walls, place, traits.depth)
        else:
            steps = distances_from(walls, [place])[0].reshape(-1).astype(float)
            ahead = np.where(steps < 0, LOST, steps)
        if traits.planner == "hyperbolic":
            # In units in which at a distance of 4, with 3 steps left after the right move and 5
            # after a wrong one, hyperbolic values are as far apart as steps are.
            unit = (1 / (1 + traits.discount * 3) - 1 / (1 + traits.discount * 5)) / 2
            ahead = -1 / (1 + traits.discount * ahead) / unit
        rows = _soft_choices(ahead[after] + ENDED * enters, _softness(traits))
    return tuple(map(tuple, rows.tolist()))  # Python's own numbers are quicker to read one by one


def neighbours(walls: BoolArray) -> IntArray:
    """Return the cell after each move, by number, [cells, 4]; a move into a wall leads nowhere."""
    place = np.arange(walls.size).reshape(walls.shape)
    out = []
    for down, right in MOVES:
        to = np.roll(place, (-down, -right), axis=(0, 1))
        out.append(np.where(walls.reshape(-1)[to], place, to).reshape(-1))
    return np.stack(out, axis=1)


def _soft_choices(costs: FloatArray, softness: float) -> FloatArray:
    """Probabilities in proportion to exp(-softness * cost), [cells, 4] or [4]."""
    gaps = costs - costs.min(axis=-1, keepdims=True)
    weights = (gaps < 1e-9).astype(float) if math.isinf(softness) else np.exp(-softness * gaps)
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def _limited_estimates(walls: BoolArray, target: Cell, depth: int) -> FloatArray:
    """Steps to the target as a search to a depth estimates them after a move, [cells]."""
    # The least, over the cells that the rest of the search reaches, of the steps to the cell and
    # the steps from there as the crow flies.
    cells = np.argwhere(~walls)
    numbers = cells[:, 0] * walls.shape[1] + cells[:, 1]
    steps = distances_from(walls, cells).reshape(len(cells), -1)[:, numbers]
    straight = np.abs(cells - np.array(target)).sum(axis=1)
    seen = (steps >= 0) & (steps <= depth - 1)
    out = np.full(walls.size, LOST)
    out[numbers] = np.where(seen, steps + straight, LOST).min(axis=1)
    return out


def arrival_chances(after: IntArray, target: int, steps: int) -> FloatArray:
    """Return the probability that a walk of uniform moves arrives within some steps, [cells]."""
    chance = np.zeros(len(after))
    chance[target] = 1.0
    for _ in range(steps):
        chance = chance[after].mean(axis=1)
        chance[target] = 1.0
    return chance


def most_arrivals(chances: FloatArray, rollouts: int) -> FloatArray:
    """Return how likely each of four binomial counts, [cells, 4], is the largest, ties shared."""
    counts = np.arange(rollouts + 1)
    orders = np.array([comb(rollouts, int(count)) for count in counts], dtype=float)
    once = chances[..., None]
    equal = orders * once**counts * (1 - once) ** (rollouts - counts)  # [cells, 4, counts]
    below = np.cumsum(equal, axis=-1) - equal
    out = np.zeros(chances.shape)
    for move in ACTIONS:
        # ties[j]: how likely none of the others has more and j of them have as many.
        ties = [np.ones_like(equal[:, 0])]
        for rival in (m for m in ACTIONS if m != move):
            level, less = equal[:, rival], below[:, rival]
            pairs = zip([*ties, np.zeros_like(level)], [np.zeros_like(level), *ties], strict=True)
            ties = [less * same + level * fewer for same, fewer in pairs]
        share = sum(part / (j + 1) for j, part in enumerate(ties))
        out[:, move] = (equal[:, move] * share).sum(axis=-1)
    return np.asarray(out / out.sum(axis=1, keepdims=True))


def _remembering_compass(traits: Traits, scene: Scene, target: str) -> Course:
    # It has no map. It sees which neighbours are open, estimates each as the crow flies, and raises
    # the estimate of a cell that turned out to lie behind a wall (LRTA*), so that it leaves every
    # dead end in time. On the target it stays, by walking into a wall if there is one.
    walls, place, softness = scene.world.walls, scene.places[target], _softness(traits)
    away = np.abs(np.argwhere(np.ones_like(walls)) - np.array(place)).sum(axis=1)
    estimate, ways = away.astype(float), neighbours(walls)
    aim, goal = scene.number(place), scene.number(scene.world.goal)

    def act(cell: int) -> Row:
        after = ways[cell]
        costs = 1.0 + estimate[after]
        if cell != aim:
            costs = np.where(after == cell, LOST, costs)
        if aim != goal:
            costs = np.where(after == goal, ENDED, costs)
        raised = max(estimate[cell], min(costs.min(), ENDED))
        estimate[cell] = 0.0 if cell == aim else raised
        row: list[float] = _soft_choices(costs, softness).tolist()
        return row

    return act


def _believed_walls(traits: Traits, scene: Scene) -> BoolArray:
    """The walls on an agent's map; every place can be reached from the start on it."""
    # A map belongs to the agent and the walls, not to the places: in both scenes of a pair an agent
    # is wrong about the same cells, except that it never takes a place of the scene for a wall.
    world = scene.world
    if traits.belief == "unseen rows":
        return organism("mole").walls(world)
    walls = world.walls.copy()
    draws = Draws("believed walls", traits.name, walls.tobytes().hex())
    places = [place for place in scene.places.values() if place != world.goal]
    phantom = traits.belief == "phantom walls"
    share = SHARES_OF_CELLS.get(traits.belief, 0.0)
    for row, column in np.ndindex(walls.shape[0] - 2, walls.shape[1] - 2):
        cell = Cell(row + 1, column + 1)
        # Drawn for every cell, so that what is drawn for one does not depend on the others.
        chosen = draws.below(1000) / 1000 < share
        if chosen and walls[cell] != phantom and cell not in (world.start, world.goal, *places):
            walls[cell] = phantom
            # The goal has to be in reach, and every other place without passing through it.
            around = _steps_around(walls, world.start, world.goal)
            through = distances_from(walls, [world.start])[0]
            if through[world.goal] < 0 or any(around[place] < 0 for place in places):
                walls[cell] = False
    return walls


# --- Habits and walks -----------------------------------------------------------------------------
# The order in which a follower of each hand tries the ways: in quarter turns to the right.
_TURNS = {"right wall": (1, 0, -1, 2), "left wall": (-1, 0, 1, 2)}


class Habit:
    """What an agent does that wants nothing, or that does not think now."""

    # It sees which moves are open and remembers its own walk; it never looks where anything lies.
    def __init__(self, traits: Traits, after: Sequence[Sequence[int]]) -> None:
        self._traits, self._after, self._steps = traits, after, 0
        self._heading: int | None = None  # the last move that led somewhere
        self._visits: dict[int, int] = {}

    def weights(self, cell: int) -> Row:
        """Return the probabilities of the four moves in a cell."""
        steady = self._traits.steadiness
        return [steady * share + (1 - steady) / 4 for share in self._followed(cell)]

    def remember(self, cell: int, action: int) -> None:
        """Record a step, whoever decided it."""
        if not self._steps:
            self._visits[cell] = 1
        to = self._after[cell][action]
        if to != cell:
            self._heading = action
            self._visits[to] = self._visits.get(to, 0) + 1
        self._steps += 1

    def _followed(self, cell: int) -> Row:
        traits, heading = self._traits, self._heading
        ways = [action for action in ACTIONS if self._after[cell][action] != cell]
        match traits.habit:
            case _ if traits.habit == "any action" or not ways:
                return _shared(ACTIONS)
            case "loop":
                return _shared([traits.loop[self._steps % len(traits.loop)]])
            case "moth-like":
                weights = [traits.preferences[a] * (a in ways) for a in ACTIONS]
                return _normalised(weights) if any(weights) else _shared(ways)
            case "right wall" | "left wall":
                facing = CLOCKWISE.index(UP if heading is None else heading)
                turns = (CLOCKWISE[(facing + turn) % 4] for turn in _TURNS[traits.habit])
                return _shared([next(action for action in turns if action in ways)])
            case "momentum" if heading is not None:
                back = heading ^ 1  # LEFT and RIGHT are 0 and 1, UP and DOWN 2 and 3
                aside = [a for a in ways if a not in (heading, back)]
                turned = _shared(aside or [a for a in ways if a == back] or ways)
                on = traits.persistence if heading in ways else 0.0
                return [on * (a == heading) + (1 - on) * share for a, share in enumerate(turned)]
            case "most visited" | "explorer":
                visits = {a: self._visits.get(self._after[cell][a], 0) for a in ways}
                most = (max if traits.habit == "most visited" else min)(visits.values())
                return _shared([action for action in ways if visits[action] == most])
            case _:
                return _shared(ways)


def _shared(actions: Sequence[int]) -> Row:
    return _normalised([float(action in actions) for action in ACTIONS])


def _normalised(weights: Row) -> Row:
    total = sum(weights)
    return [weight / total for weight in weights]


_ways = lru_cache(maxsize=64)(lambda world: neighbours(world.walls).tolist())


@dataclass(frozen=True)
class Simulated:
    """An agent that knows where the places of one scene are: a navigator of that scene's world."""

    traits: Traits
    scene: Scene

    @property
    def name(self) -> str:
        """The name of the agent, whatever the scene."""
        return self.traits.name

    def begin(self, world: GridWorld, draws: Draws) -> Any:
        """Set out from the start of the scene's world, with moves drawn from plan and habit."""
        traits, scene = self.traits, self.scene
        assert world == scene.world
        habit = Habit(traits, _ways(world))
        served = {"lapses": traits.strength, "both": math.sqrt(traits.strength)}
        lapses = 1.0 - served.get(traits.noise, 1.0)  # how often it follows its habit instead
        course = _course(traits, scene, traits.target) if traits.target != NONE else None
        goes_on = traits.target == KEY and traits.then == "goal"
        then = _course(traits, scene, GOAL) if goes_on else None

        def act(state: State) -> Decision:
            cell = scene.number(state.cell)
            mixed = habit.weights(cell)
            # An agent that wants something else does not care that it has come by the key.
            plan = then if traits.target == KEY and state.has_key else course
            if plan is not None:
                pairs = zip(mixed, plan(cell), strict=True)
                mixed = [lapses * usual + (1 - lapses) * meant for usual, meant in pairs]
            left, right, up, down = mixed
            action = draws.weighted(mixed)
            habit.remember(cell, action)
            return Decision(action, (left, right, up, down))

        return SimpleNamespace(act=act)
