"""How a simulated agent gets to what it wants: five kinds of planner, on maps right and wrong.

Every planner says of each move how many steps it costs beyond the best one, as the planner sees it.
A decisive one takes one of the moves that cost nothing; a soft one takes a move with a weight of
exp(-softness * cost). A move into the goal ends the walk, so who wants something else shuns it.

Source: depth-limited search with a heuristic at its edge, and search that learns its heuristic on
the way, are minimin and LRTA* of Korf, Real-time heuristic search (1990); values that fall as
1 / (1 + k * delay) are those of Mazur, An adjusting procedure for studying delayed reinforcement
(1987).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np

from goalmeter._types import BoolArray, FloatArray, IntArray
from goalmeter.experiments.calibration.population import traits as kinds
from goalmeter.experiments.calibration.population.sampling import chosen_by_samples
from goalmeter.experiments.calibration.population.scenes import Scene
from goalmeter.experiments.calibration.population.traits import BOTH, LAPSES, Traits
from goalmeter.gridworld.draws import Draws
from goalmeter.gridworld.paths import distances_from
from goalmeter.gridworld.world import MOVES, Cell
from goalmeter.organisms.kinds import organism

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
    """A planner that does the same whenever it is in a cell.

    Attributes:
        rows: probabilities of the four moves in each cell.
    """

    rows: tuple[Row, ...]

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
