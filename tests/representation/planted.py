"""Agents whose map is known because it was planted: what is encoded, how, and whether it is used.

Grids are rooms, the cells with two odd coordinates, and links, each closed independently. In the
believed grid some links are wrong. Activations hold features of the believed map (a wall +1, open
ground -1, and where agent and goal are), rotated at random into D dimensions, plus normal noise, so
the best reader's area under the curve of a wall is Phi(sqrt(2) / noise).

- "linear": the features themselves.
- "xor": each wall times a sign drawn anew in every state, and the sign: nothing linear.
- "none": noise.

The agent walks by the shortest ways of the believed map, by those of the true one, or at random.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import erf, pi, sqrt

import numpy as np

from goalmeter._types import BoolArray, FloatArray, IntArray
from goalmeter.gridworld.generators import distances_from
from goalmeter.gridworld.planner import State, planned
from goalmeter.gridworld.world import ACTIONS, Cell, GridWorld
from goalmeter.representation.probes.protocol import Activations
from goalmeter.representation.scenes import Scenes, link_cells

# How far the features of an object stand out: the agent is seldom anywhere, so it has to be louder
# than a wall to be read as well.
_LOUDNESS = 4.0


@dataclass(frozen=True)
class Plant:
    """What is planted."""

    grids: int = 200  # how many are drawn
    size: int = 7  # rows and columns, odd
    closed: float = 0.4  # probability that a link is a wall
    wrong: float = 0.0  # probability that a link is believed to be what it is not
    encoding: str = "linear"  # "linear", "xor" or "none"
    noise: float = 0.5  # standard deviation, where a wall and open ground are 2 apart
    dimensions: int = 128  # of the activations; at least as many as there are features
    use: str = "believed"  # the map whose shortest ways are walked: "believed", "true" or "nothing"
    slip: float = 0.0  # probability of a random action instead
    cap: int = 12  # most steps of a walk


@dataclass(frozen=True, eq=False)
class Planted:
    """Walks of a planted agent, one a grid, and what it held in each of N states."""

    scenes: Scenes  # the true worlds, the states and what was done
    activations: Activations  # [N, D], float32
    # The map that was planted in each state; its start is where the agent was.
    believed: tuple[GridWorld, ...]
    walks: IntArray  # number of the walk, [N]
    steps: IntArray  # number of the step in its walk, [N]
    cap: int  # most steps of a walk

    @property
    def believed_scenes(self) -> Scenes:
        """The states as the agent believes them, grids numbered as the true ones."""
        states = tuple(State(world.start) for world in self.believed)
        return Scenes(self.believed, states, self.scenes.actions, self.scenes.grids)


def planted(plant: Plant, *, seed: int) -> Planted:
    """Draw grids, plant a map in each, and walk."""
    rng = np.random.default_rng(seed)
    worlds, states, actions, believed, walks, steps = [], [], [], [], [], []
    # One walk a grid: grids are what is drawn at random, and intervals are over them.
    for number in range(plant.grids):
        world = _grid(plant, rng)
        wrong = _mistaken(world, plant.wrong, rng)
        cell = world.start
        for step in range(plant.cap):
            belief = _at(wrong, cell, world.goal)
            action = _action(plant, world, belief, cell, rng)
            worlds.append(world)
            states.append(State(cell))
            actions.append(action)
            believed.append(belief)
            walks.append(number)
            steps.append(step)
            if not world.walls[after := cell.moved(action)]:
                cell = after
            if cell == world.goal:
                break
    return Planted(
        Scenes.of(worlds, states, actions),
        _encoded(plant, believed, rng),
        tuple(believed),
        np.array(walks),
        np.array(steps),
        plant.cap,
    )


def known_auroc(noise: float) -> float:
    """The area under the curve of the best reader of a linearly planted wall."""
    return 0.5 * (1.0 + erf(1.0 / noise))


def known_bits(noise: float, share: float) -> float:
    """What the best reader of a linearly planted wall gains over knowing its share, in bits."""
    nodes, weights = np.polynomial.hermite.hermgauss(200)
    total = 0.0
    for sign, prior in ((1.0, share), (-1.0, 1.0 - share)):
        seen = sign + noise * sqrt(2.0) * nodes
        odds = 2.0 * seen / noise**2 + np.log(share / (1.0 - share))
        posterior = -np.logaddexp(0.0, -sign * odds)
        total += prior * float(weights @ (posterior - np.log(prior))) / sqrt(pi)
    return total / float(np.log(2.0))


def _grid(plant: Plant, rng: np.random.Generator) -> GridWorld:
    """Rooms and links, with a start and a goal between which there is a way."""
    shape = (plant.size, plant.size)
    walls = np.ones(shape, dtype=bool)
    walls[1:-1:2, 1:-1:2] = False
    while True:
        links = link_cells(shape)
        walls[links] = rng.random(int(links.sum())) < plant.closed
        cells = np.argwhere(~walls)
        goal = cells[rng.integers(len(cells))]
        away = distances_from(walls, [goal])[0]
        starts = np.argwhere(away > 0)
        # A room of its own has nowhere to come from.
        if len(starts):
            start = starts[rng.integers(len(starts))]
            return GridWorld(walls, (start[0], start[1]), (goal[0], goal[1]))


def _mistaken(world: GridWorld, wrong: float, rng: np.random.Generator) -> BoolArray:
    """The walls with some links wrong, such that what could reach the goal still can."""
    walls = world.walls.copy()
    reached = distances_from(walls, [world.goal])[0] >= 0
    links = [Cell(int(r), int(c)) for r, c in np.argwhere(link_cells(world.shape))]
    for index in rng.permutation(len(links)):
        cell = links[index]
        if rng.random() >= wrong or cell == world.goal:
            continue
        walls[cell] = not walls[cell]
        # A room that could not reach the goal before is no reason to keep a link open.
        rooms = reached.copy()
        rooms[link_cells(world.shape)] = False
        if (distances_from(walls, [world.goal])[0][rooms] < 0).any():
            walls[cell] = False
    return walls


def _at(walls: BoolArray, cell: Cell, goal: Cell) -> GridWorld:
    """A believed map with the agent in a cell, which it then knows to be open."""
    opened = walls.copy()
    opened[cell] = False
    return GridWorld(opened, cell, goal)


def _action(
    plant: Plant, world: GridWorld, belief: GridWorld, cell: Cell, rng: np.random.Generator
) -> int:
    chosen: tuple[int, ...] = ()
    if plant.use != "nothing" and rng.random() >= plant.slip:
        walked = belief if plant.use == "believed" else world
        chosen = planned(walked).optimal_actions(State(cell))
    return int(rng.choice(chosen or range(len(ACTIONS))))


def _encoded(plant: Plant, believed: list[GridWorld], rng: np.random.Generator) -> Activations:
    """The activations of every state, [N, D]."""
    shape = believed[0].shape
    inner = np.zeros(shape, dtype=bool)
    inner[1:-1, 1:-1] = True
    walls = np.array([np.where(world.walls, 1.0, -1.0)[inner] for world in believed])
    parts: list[FloatArray] = []
    if plant.encoding == "xor":
        # One sign for all walls of a state; with a sign a wall an MLP would need more of them.
        sign = rng.choice([-1.0, 1.0], size=(len(believed), 1))
        parts += [walls * sign, sign]
    elif plant.encoding == "linear":
        parts += [walls]
    if plant.encoding != "none":
        for cells in ([w.start for w in believed], [w.goal for w in believed]):
            there = np.zeros((len(believed), *shape))
            there[np.arange(len(believed)), *np.transpose(cells)] = _LOUDNESS
            parts.append(there[:, inner])
    rows = rng.normal(scale=plant.noise, size=(len(believed), plant.dimensions))
    if parts:
        features = np.concatenate(parts, axis=1)
        turned = np.linalg.qr(rng.normal(size=(plant.dimensions, plant.dimensions)))[0]
        rows += features @ turned[: features.shape[1]]
    return rows.astype(np.float32)
