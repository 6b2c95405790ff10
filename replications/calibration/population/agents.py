"""Simulated agents: five kinds of planner, and habits that take over when an agent lapses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import comb
from typing import Protocol

import numpy as np

from goalmeter.agents import Decision
from goalmeter.agents.grid_agents import CLOCKWISE, FIRST_HEADING
from goalmeter.gridworld import Cell, Draws, GridWorld, State
from goalmeter.gridworld.conversions import GOAL_UTILITY, KEY_UTILITY
from goalmeter.gridworld.generators import distances_from
from goalmeter.gridworld.world import MOVES
from goalmeter.organisms import organism
from replications.calibration.population import traits as kinds
from replications.calibration.population.traits import BOTH, LAPSES, Scene, Traits
from replications.kinds import BoolArray, FloatArray, IntArray

# --- Sampling -------------------------------------------------------------------------------------
# From the cell after each move it imagines random walks of a fixed length, and takes the move of
# which most of them arrive; ties are broken at random.

IMAGINED_STEPS = 20


def chosen_by_samples(after: IntArray, target: int, rollouts: int) -> FloatArray:
    """How likely each move has the most arrivals, [cells, 4].

    Args:
        after: the cell after each move on the planner's map, [cells, 4].
        target: number of the cell where a walk arrives.
        rollouts: random walks that are imagined for each move.
    """
    return most_arrivals(arrival_chances(after, target, IMAGINED_STEPS)[after], rollouts)


def arrival_chances(after: IntArray, target: int, steps: int) -> FloatArray:
    """The probability that a walk of uniform moves arrives within some steps, [cells]."""
    chance = np.zeros(len(after))
    chance[target] = 1.0
    for _ in range(steps):
        chance = chance[after].mean(axis=1)
        chance[target] = 1.0
    return chance


def most_arrivals(chances: FloatArray, rollouts: int) -> FloatArray:
    """How likely each of four binomial counts is the largest, ties broken evenly, [cells, 4].

    Args:
        chances: of an arrival after each move, [cells, 4].
        rollouts: of which arrivals are counted.

    Example: one rollout each; the first move always arrives and the others never do.
        >>> most_arrivals(np.array([[1.0, 0.0, 0.0, 0.0]]), 1)
        array([[1., 0., 0., 0.]])
    """
    # How many arrive is binomial, so that no walk has to be drawn.
    counts = np.arange(rollouts + 1)
    orders = np.array([comb(rollouts, int(count)) for count in counts], dtype=float)
    once = chances[..., None]
    equal = orders * once**counts * (1 - once) ** (rollouts - counts)  # [cells, 4, counts]
    below = np.cumsum(equal, axis=-1) - equal
    out = np.zeros(chances.shape)
    for move in range(chances.shape[1]):
        # ties[j]: how likely none of the others has more and j of them have as many.
        ties = [np.ones_like(equal[:, 0])]
        for rival in (m for m in range(chances.shape[1]) if m != move):
            level, less = equal[:, rival], below[:, rival]
            pairs = zip([*ties, np.zeros_like(level)], [np.zeros_like(level), *ties], strict=True)
            ties = [less * same + level * fewer for same, fewer in pairs]
        share = sum(part / (j + 1) for j, part in enumerate(ties))
        out[:, move] = (equal[:, move] * share).sum(axis=-1)
    return np.asarray(out / out.sum(axis=1, keepdims=True))


# --- Planners -------------------------------------------------------------------------------------
# Every planner says of each move how many steps it costs beyond the best one, as the planner sees
# it. A decisive one takes one of the moves that cost nothing; a soft one takes a move with a
# weight of exp(-softness * cost). A move into the goal ends the walk, so who wants something else
# shuns it.
#
# Source: depth-limited search with a heuristic at its edge, and search that learns its heuristic on
# the way, are minimin and LRTA* of Korf, Real-time heuristic search (1990); values that fall as
# 1 / (1 + k * delay) are those of Mazur, An adjusting procedure for studying delayed reinforcement
# (1987).

# How likely an inner wall is missing from a map with lost walls, and an open cell is a wall on one
# with phantom walls.
LOST_SHARE, PHANTOM_SHARE = 0.25, 0.15
# Costs of a move after which the target is out of reach, and of one that ends the walk elsewhere.
LOST, ENDED = 999.0, 500.0

Row = tuple[float, float, float, float]


class Course(Protocol):
    """A planner on one walk."""

    def weights(self, cell: int) -> Row:
        """Probabilities of the four moves in a cell, by its number; called once a step."""
        ...


def lapses(traits: Traits) -> float:
    """How often an agent does not plan and follows its habit."""
    share = {LAPSES: traits.strength, BOTH: math.sqrt(traits.strength)}
    return 1.0 - share.get(traits.noise, 1.0)


def softness(traits: Traits) -> float:
    """The b of weights exp(-b * cost); infinite for who is decisive."""
    if traits.noise == LAPSES:
        return math.inf
    strength = math.sqrt(traits.strength) if traits.noise == BOTH else traits.strength
    # Where one move is right and three cost two steps more, chance has a quarter of right moves,
    # and a strength of s has 1/4 + 3/4 s of them: 1 / (1 + 3 exp(-2 b)) is that at this b.
    right = 0.25 + 0.75 * min(strength, kinds.MOST_SOFT)
    return -0.5 * math.log((1.0 / right - 1.0) / 3.0)


def course(traits: Traits, scene: Scene, target: str) -> Course:
    """An agent's planner at the start of a walk towards one of the places of a scene."""
    place = scene.place(target)
    shunned = None if place == scene.world.goal else scene.world.goal
    if traits.planner == kinds.COMPASS:
        return RememberingCompass(scene.world.walls, place, shunned, softness(traits))
    return _planned_table(traits, scene, place, shunned)


# An agent walks several times through a scene before the next one does.
@lru_cache(maxsize=8)
def _planned_table(traits: Traits, scene: Scene, place: Cell, shunned: Cell | None) -> Table:
    """What a planner without a memory does in every cell."""
    walls = believed_walls(traits, scene)
    if shunned is not None:
        walls = walls.copy()
        walls[shunned] = True
    after = neighbours(walls)
    if traits.planner == kinds.SAMPLING:
        # The samples make the choice: these are its probabilities.
        rows = chosen_by_samples(after, _number(walls, place), traits.rollouts)
        return Table.of(_with_shunned(rows, walls, shunned))
    if traits.planner == kinds.DEPTH_LIMITED:
        ahead = limited_estimates(walls, place, traits.depth)
    else:
        steps = distances_from(walls, [place])[0].reshape(-1).astype(float)
        ahead = np.where(steps < 0, LOST, steps)
    if traits.planner == kinds.HYPERBOLIC:
        # In units in which at a distance of 4, with 3 steps left after the right move and 5 after a
        # wrong one, hyperbolic values are as far apart as steps are.
        unit = (1 / (1 + traits.discount * 3) - 1 / (1 + traits.discount * 5)) / 2
        ahead = -1 / (1 + traits.discount * ahead) / unit
    costs = ahead[after]
    if shunned is not None:
        costs = np.where(_enters(walls.shape, shunned), costs + ENDED, costs)
    return Table.of(soft_choices(costs, softness(traits)))


def neighbours(walls: BoolArray) -> IntArray:
    """The cell after each move, by number, [cells, 4]; a move into a wall leads nowhere."""
    rows, columns = walls.shape
    place = np.arange(rows * columns).reshape(rows, columns)
    out = []
    for down, right in MOVES:
        to = np.roll(place, (-down, -right), axis=(0, 1))
        out.append(np.where(walls.reshape(-1)[to], place, to).reshape(-1))
    return np.stack(out, axis=1)


def soft_choices(costs: FloatArray, softness: float) -> FloatArray:
    """Probabilities in proportion to exp(-softness * cost), [cells, 4] or [4].

    Example: the best move and three that cost two steps more, at the softness of strength 0.5.
        >>> soft_choices(np.array([3.0, 5.0, 5.0, 5.0]), 0.5 * math.log(5)).round(3)
        array([0.625, 0.125, 0.125, 0.125])
    """
    gaps = costs - costs.min(axis=-1, keepdims=True)
    weights = (gaps < 1e-9).astype(float) if math.isinf(softness) else np.exp(-softness * gaps)
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def limited_estimates(walls: BoolArray, target: Cell, depth: int) -> FloatArray:
    """Steps to the target as a search to a depth estimates them after a move, [cells].

    The least, over the cells that the rest of the search reaches, of the steps to the cell and the
    steps from there as the crow flies.
    """
    rows, columns = walls.shape
    cells = np.argwhere(~walls)
    numbers = cells[:, 0] * columns + cells[:, 1]
    steps = distances_from(walls, cells).reshape(len(cells), -1)[:, numbers]
    straight = np.abs(cells - np.array(target)).sum(axis=1)
    seen = (steps >= 0) & (steps <= depth - 1)
    out = np.full(rows * columns, LOST)
    out[numbers] = np.where(seen, steps + straight, LOST).min(axis=1)
    return out


@dataclass(frozen=True)
class Table:
    """A planner that does the same whenever it is in a cell."""

    rows: tuple[Row, ...]  # probabilities of the four moves in each cell

    @classmethod
    def of(cls, rows: FloatArray) -> Table:
        """The table of an array [cells, 4]."""
        # Python's own numbers are quicker to read one by one.
        return cls(tuple(map(tuple, rows.tolist())))

    def weights(self, cell: int) -> Row:
        """Probabilities of the four moves."""
        return self.rows[cell]


class RememberingCompass:
    """A compass that learns on its way which cells are farther than they look.

    It has no map. It sees which neighbours are open, estimates each as the crow flies, and raises
    the estimate of a cell that turned out to lie behind a wall (LRTA*), so that it leaves every
    dead end in time. On the target it stays, by walking into a wall if there is one.
    """

    def __init__(
        self, walls: BoolArray, target: Cell, shunned: Cell | None, softness: float
    ) -> None:
        rows, columns = np.indices(walls.shape)
        away = np.abs(rows - target.row) + np.abs(columns - target.column)
        self._estimate = away.reshape(-1).astype(float)
        self._after = neighbours(walls)
        self._target = _number(walls, target)
        self._shunned = -1 if shunned is None else _number(walls, shunned)
        self._softness = softness

    def weights(self, cell: int) -> Row:
        """Probabilities of the four moves; the estimate of the cell is brought up to date."""
        after = self._after[cell]
        costs = 1.0 + self._estimate[after]
        if cell != self._target:
            costs = np.where(after == cell, LOST, costs)
        costs = np.where(after == self._shunned, ENDED, costs)
        self._estimate[cell] = max(self._estimate[cell], min(costs.min(), ENDED))
        if cell == self._target:
            self._estimate[cell] = 0.0
        left, right, up, down = soft_choices(costs, self._softness).tolist()
        return left, right, up, down


def _number(walls: BoolArray, cell: Cell) -> int:
    return int(cell.row * walls.shape[1] + cell.column)


def _enters(shape: Sequence[int], cell: Cell) -> BoolArray:
    """Whether a move from each cell aims at a cell, [cells, 4]."""
    out = np.zeros((shape[0], shape[1], len(MOVES)), dtype=bool)
    for action, (down, right) in enumerate(MOVES):
        out[cell.row - down, cell.column - right, action] = True
    return out.reshape(-1, len(MOVES))


def _with_shunned(rows: FloatArray, walls: BoolArray, shunned: Cell | None) -> FloatArray:
    """Probabilities without the moves into a cell, in proportion; uniform if none is left."""
    if shunned is None:
        return rows
    out = np.where(_enters(walls.shape, shunned), 0.0, rows)
    total = out.sum(axis=1, keepdims=True)
    return np.where(total > 0, out / np.where(total > 0, total, 1.0), 0.25)


# --- The map that an agent plans on: the true one, or one that is wrong in a known way -----------


def believed_walls(traits: Traits, scene: Scene) -> BoolArray:
    """The walls on an agent's map, [rows, columns]: every place can be reached from the start."""
    # A map belongs to the agent and to the walls, not to the places in them: in both scenes of a
    # pair the agent is wrong about the same cells, save that it never takes a place of the scene
    # for a wall.
    world = scene.world
    walls = world.walls.copy()
    if traits.belief == kinds.UNSEEN_ROWS:
        return organism("mole").walls(world)
    draws = Draws("believed walls", traits.name, walls.tobytes().hex())
    rows, columns = world.shape
    for row in range(1, rows - 1):
        for column in range(1, columns - 1):
            cell = Cell(row, column)
            # Drawn for every cell, so that what is drawn for one does not depend on the others.
            chance = draws.below(1000) / 1000
            if traits.belief == kinds.LOST_WALLS and walls[cell] and chance < LOST_SHARE:
                walls[cell] = False
            if traits.belief == kinds.PHANTOM_WALLS and not walls[cell] and chance < PHANTOM_SHARE:
                _close(walls, cell, scene)
    return walls


def _close(walls: BoolArray, cell: Cell, scene: Scene) -> None:
    """Put a wall into a cell, if every place can still be reached without passing the goal."""
    start, goal = scene.world.start, scene.world.goal
    places = [place for place in scene.places.values() if place != goal]
    if cell in (start, goal, *places):
        return
    walls[cell] = True
    goal_too = walls.copy()
    goal_too[goal] = True
    without, through = (distances_from(grid, [start])[0] for grid in (goal_too, walls))
    if through[goal] < 0 or any(without[place] < 0 for place in places):
        walls[cell] = False


# --- Agents ---------------------------------------------------------------------------------------
_ACTIONS = range(4)
_EVEN: Row = (0.25, 0.25, 0.25, 0.25)
# The order in which a follower of each hand tries the ways: in quarter turns to the right.
_TURNS = {kinds.RIGHT_WALL: (1, 0, -1, 2), kinds.LEFT_WALL: (-1, 0, 1, 2)}


class Habit:
    """An agent's habit on one walk: what it does that wants nothing, or that does not think now.

    It sees which moves are open and remembers its own walk; it never looks where anything lies.
    """

    def __init__(self, traits: Traits, after: Sequence[Sequence[int]]) -> None:
        self._traits = traits
        self._after = after
        self._steps = 0
        self._heading: int | None = None  # the last move that led somewhere
        self._visits: dict[int, int] = {}

    def weights(self, cell: int) -> Row:
        """Probabilities of the four moves in a cell."""
        kept = self._kept(cell)
        steady = self._traits.steadiness
        left, right, up, down = (steady * share + (1 - steady) / 4 for share in kept)
        return left, right, up, down

    def remember(self, cell: int, action: int) -> None:
        """What was done, whoever decided it."""
        if not self._steps:
            self._visits[cell] = 1
        to = self._after[cell][action]
        if to != cell:
            self._heading = action
            self._visits[to] = self._visits.get(to, 0) + 1
        self._steps += 1

    def _kept(self, cell: int) -> Row:
        """Probabilities of the four moves where the habit is kept to."""
        traits = self._traits
        ways = [action for action in _ACTIONS if self._after[cell][action] != cell]
        if traits.habit == kinds.ANY_ACTION or not ways:
            return _EVEN
        if traits.habit == kinds.LOOP:
            return _shared([traits.loop[self._steps % len(traits.loop)]])
        if traits.habit == kinds.MOTH:
            return _weighted([traits.preferences[a] * (a in ways) for a in _ACTIONS], ways)
        if traits.habit in _TURNS:
            facing = CLOCKWISE.index(FIRST_HEADING if self._heading is None else self._heading)
            turns = (CLOCKWISE[(facing + turn) % 4] for turn in _TURNS[traits.habit])
            return _shared([next(action for action in turns if action in ways)])
        if traits.habit == kinds.MOMENTUM:
            return self._momentum(ways)
        if traits.habit in (kinds.MOST_VISITED, kinds.EXPLORER):
            pick = max if traits.habit == kinds.MOST_VISITED else min
            visits = {action: self._visits.get(self._after[cell][action], 0) for action in ways}
            most = pick(visits.values())
            return _shared([action for action in ways if visits[action] == most])
        return _shared(ways)  # wander

    def _momentum(self, ways: list[int]) -> Row:
        """On as before, or else another way; back where there is no other."""
        if self._heading is None:
            return _shared(ways)
        back = self._heading ^ 1  # LEFT and RIGHT are 0 and 1, UP and DOWN 2 and 3
        aside = [a for a in ways if a not in (self._heading, back)]
        turned = _shared(aside or [a for a in ways if a == back] or ways)
        if self._heading not in ways:
            return turned
        on = self._traits.persistence
        left, right, up, down = (
            on * (action == self._heading) + (1 - on) * share
            for action, share in zip(_ACTIONS, turned, strict=True)
        )
        return left, right, up, down


def _shared(actions: list[int]) -> Row:
    return _weighted([float(action in actions) for action in _ACTIONS], actions)


def _weighted(weights: list[float], ways: list[int]) -> Row:
    """Probabilities in proportion to weights; evenly among some ways if all are 0."""
    total = sum(weights)
    if not total:
        return _shared(ways)
    left, right, up, down = (weight / total for weight in weights)
    return left, right, up, down


@lru_cache(maxsize=64)
def _ways(world: GridWorld) -> tuple[tuple[int, ...], ...]:
    """The cell after each move, by number, in the world as it is."""
    return tuple(map(tuple, neighbours(world.walls).tolist()))


@dataclass(frozen=True)
class Simulated:
    """An agent that knows where the places of one scene are: a navigator of that scene's world."""

    traits: Traits
    scene: Scene

    @property
    def name(self) -> str:
        """The name of the agent, whatever the scene."""
        return self.traits.name

    def begin(self, world: GridWorld, draws: Draws) -> SimulatedWalk:
        """Set out from the start of the scene's world."""
        assert world == self.scene.world
        return SimulatedWalk(self.traits, self.scene, draws)


class SimulatedWalk:
    """One walk of a simulated agent."""

    def __init__(self, traits: Traits, scene: Scene, draws: Draws) -> None:
        self._traits = traits
        self._columns = scene.world.shape[1]
        self._draws = draws
        self._habit = Habit(traits, _ways(scene.world))
        self._lapses = lapses(traits) if traits.directed else 1.0
        self._course = course(traits, scene, traits.target) if traits.directed else None
        self._then: Course | None = None
        if traits.target == KEY_UTILITY and traits.then == kinds.THEN_GOAL:
            self._then = course(traits, scene, GOAL_UTILITY)

    def act(self, state: State) -> Decision:
        """A move drawn from the mixture of plan and habit."""
        cell = state.cell.row * self._columns + state.cell.column
        habit = self._habit.weights(cell)
        # Who wants something else does not care that it has come by the key.
        has_it = self._traits.target == KEY_UTILITY and state.has_key
        plan = self._then if has_it else self._course
        mixed = habit
        if plan is not None:
            lapse = self._lapses
            left, right, up, down = (
                lapse * usual + (1 - lapse) * meant
                for usual, meant in zip(habit, plan.weights(cell), strict=True)
            )
            mixed = left, right, up, down
        action = self._draws.weighted(mixed)
        self._habit.remember(cell, action)
        return Decision(action, mixed)
