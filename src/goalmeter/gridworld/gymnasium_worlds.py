"""Grid worlds as Gymnasium environments, rendered by MiniGrid; the import registers their ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property, partial
from operator import index
from typing import TYPE_CHECKING, Any, ClassVar, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from goalmeter._errors import InvalidParameterError, require
from goalmeter._gymnasium_ids import register
from goalmeter._types import FloatArray
from goalmeter.gridworld.conversions import tabular_world
from goalmeter.gridworld.generators import key_door, key_no_door, maze, two_paths
from goalmeter.gridworld.planner import Plan, State, plan
from goalmeter.gridworld.world import ACTIONS, Cell, GridWorld

if TYPE_CHECKING:
    from minigrid.core.grid import Grid

# A cell (row, column) is MiniGrid's (x, y) = (column, row).
_FEATURE = "Rendering a grid world"
KEY_COLOUR, NEUTRAL_COLOUR = "yellow", "blue"
# MiniGrid's directions (0 right, 1 down, 2 left, 3 up) of LEFT, RIGHT, UP, DOWN.
FACING = (2, 0, 3, 1)
FACING_RIGHT = 0


def minigrid_grid(world: GridWorld, state: State) -> Grid:
    """Return MiniGrid's grid of a state, without the agent; a neutral object is a ball."""
    grids = require("minigrid.core.grid", extra="worlds", feature=_FEATURE)
    objects = require("minigrid.core.world_object", extra="worlds", feature=_FEATURE)
    rows, columns = world.shape
    grid: Grid = grids.Grid(columns, rows)
    for row, column in np.argwhere(world.walls):
        grid.set(int(column), int(row), objects.Wall())
    things: list[tuple[Cell | None, Any]] = [(world.goal, objects.Goal())]
    if not state.has_key:
        things += [(world.key, objects.Key(KEY_COLOUR))]
        things += [(world.neutral, objects.Ball(NEUTRAL_COLOUR))]
    if not state.door_open:
        things += [(world.door, objects.Door(KEY_COLOUR, is_locked=True))]
    for place, thing in things:
        if place is not None:
            grid.set(place.column, place.row, thing)
    return grid


def encoded(world: GridWorld, state: State) -> NDArray[np.uint8]:
    """Return the grid in the encoding of MiniGrid's FullyObsWrapper, [columns, rows, 3]."""
    # The agent always faces right, so the encoding depends on the state only.
    constants = require("minigrid.core.constants", extra="worlds", feature=_FEATURE)
    encoding: NDArray[np.uint8] = minigrid_grid(world, state).encode()
    agent = constants.OBJECT_TO_IDX["agent"], constants.COLOR_TO_IDX["red"], FACING_RIGHT
    encoding[state.cell.column, state.cell.row] = agent
    return encoding


if TYPE_CHECKING:
    import gymnasium
else:  # this module is only imported when Gymnasium creates an environment
    gymnasium = require("gymnasium", extra="worlds", feature="A grid world as an environment")

GRID, STATE = "grid", "state"
MINIGRID, SPARSE, STEP = "minigrid", "sparse", "step"
_SEEDS = 2**31  # number of seeds for randomly drawn grids


class WorldEnv(gymnasium.Env[Any, Any]):
    """Grid world whose episodes lead from its start to its goal.

    Actions: 0 LEFT, 1 RIGHT, 2 UP, 3 DOWN, as everywhere in goalmeter. The rules are those of
    `GridWorld`; a step into a wall counts as a step.

    Observations (`observation`): "grid" is a dictionary with `image`, the whole grid in the
    encoding of MiniGrid's FullyObsWrapper [columns, rows, 3], agent always facing right;
    `position`, row and column; `has_key`, which is 0 for a neutral object; `door_open`. "state" is
    the index of the state in `gridworld.tabular_world(world).states`; it requires a fixed world.

    Rewards (`reward`): "minigrid" is 1 - 0.9 * steps / max_steps at the goal; "sparse" is 1 at the
    goal; "step" is -1 at each step. An episode terminates at the goal and is truncated at
    `max_steps`, by default 4 * rows * columns.

    Worlds: fixed (given a seed or a world), or drawn at each reset. In the second case
    `reset(seed=s)` draws the grid of `make(..., seed=s)`, and each further `reset()` a new grid
    determined by s. A fixed world whose reward does not depend on time has a transition table `P`
    and an `initial_state_distrib`, as Gymnasium's small environments do.

    Info of each step: `state`, the index of the state; `optimal_actions`, the actions that lead one
    step closer to the goal; `distance`, the steps to the goal, -1 if it cannot be reached.

    Rendering: `render_mode="rgb_array"` draws each cell as `tile_size` x `tile_size` pixels.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"], "render_fps": 10}  # type: ignore[misc]

    def __init__(
        self,
        source: GridWorld | Callable[[int], GridWorld],
        *,
        seed: int | None = None,
        observation: str = GRID,
        reward: str = MINIGRID,
        max_steps: int | None = None,
        tile_size: int = 32,
        render_mode: str | None = None,
    ) -> None:
        self._draw = source if callable(source) and seed is None else None
        world = source(seed or 0) if callable(source) else source
        for name, value, known in (
            ("observation", observation, (GRID, STATE)),
            ("reward", reward, (MINIGRID, SPARSE, STEP)),
            ("render_mode", render_mode, (None, *self.metadata["render_modes"])),
        ):
            if value not in known:
                listed = ", ".join(map(repr, known))
                raise InvalidParameterError(f"{name} is {value!r}, expected one of {listed}")
        steps = 4 * world.walls.size if max_steps is None else max_steps
        for name, number in (("max_steps", steps), ("tile_size", tile_size)):
            if number < 1:
                raise InvalidParameterError(f"{name} is {number}, expected at least 1")
        self.render_mode, self.max_steps = render_mode, steps
        self._observation, self._reward, self._tile_size = observation, reward, tile_size
        self._running = False
        self._enter(world)
        spaces, (rows, columns) = gymnasium.spaces, world.shape
        self.action_space = spaces.Discrete(len(ACTIONS))
        if observation == STATE:
            self._needs_fixed_world()
            self.observation_space = spaces.Discrete(len(self._index))
        else:
            self.observation_space = spaces.Dict(
                image=spaces.Box(0, 255, (columns, rows, 3), np.uint8),
                position=spaces.MultiDiscrete([rows, columns]),
                has_key=spaces.Discrete(2),
                door_open=spaces.Discrete(2),
            )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode; the class documents the effect of the seed. There are no options."""
        super().reset(seed=seed)
        if self._draw is not None:
            self._enter(self._draw(int(self.np_random.integers(_SEEDS)) if seed is None else seed))
        self.state, self._facing, self._steps = State(self.world.start), FACING_RIGHT, 0
        self._running = True
        return self.observation(self.state), self._info()

    def step(self, action: SupportsIndex) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take one of the four actions."""
        if not self._running:
            raise gymnasium.error.ResetNeeded("no episode is running; call reset() first")
        move = index(action)
        self.state = self._plan.step(self.state, move)
        self._facing = FACING[move]
        self._steps += 1
        terminated = self.state.cell == self.world.goal
        truncated = not terminated and self._steps >= self.max_steps
        self._running = not (terminated or truncated)
        reward = self._rewarded(terminated)
        return self.observation(self.state), reward, terminated, truncated, self._info()

    def render(self) -> NDArray[np.uint8] | None:
        """Return the rendered image [height, width, 3]."""
        if self.render_mode is None:
            gymnasium.logger.warn("render_mode is None; pass render_mode= to gymnasium.make")
            return None
        grid, cell = minigrid_grid(self.world, self.state), self.state.cell
        image: NDArray[np.uint8] = grid.render(
            self._tile_size, agent_pos=(cell.column, cell.row), agent_dir=self._facing
        )
        return image

    @property
    def states(self) -> tuple[State, ...]:
        """State of each index, the start first."""
        return tuple(self._index)

    @cached_property
    def P(self) -> dict[int, dict[int, list[tuple[float, int, float, bool]]]]:
        """Outcomes of each state and action: (probability, next state, reward, terminated)."""
        self._needs_fixed_world()
        if self._reward == MINIGRID:
            raise InvalidParameterError(
                "the reward 'minigrid' depends on the number of steps, so it has no transition "
                "table; choose reward='sparse' or reward='step'"
            )
        return {
            number: {a: [self._outcome(state, a)] for a in range(len(ACTIONS))}
            for state, number in self._index.items()
        }

    @property
    def initial_state_distrib(self) -> FloatArray:
        """Distribution of the initial state, [S], with probability 1 at the start."""
        self._needs_fixed_world()
        return np.asarray(np.eye(len(self._index))[0])

    def _enter(self, world: GridWorld) -> None:
        self.world = world
        self.state, self._facing, self._steps = State(world.start), FACING_RIGHT, 0
        self._plan: Plan = plan(world)
        states = tabular_world(world, horizon=1).states
        self._index = {state: number for number, state in enumerate(states)}
        # Images are cached, since MiniGrid encodes a grid cell by cell.
        self._images: dict[State, NDArray[np.uint8]] = {}

    def observation(self, state: State) -> Any:
        """Return the observation in a state of the current world, as in `step`."""
        if self._observation == STATE:
            return self._index[state]
        if state not in self._images:
            self._images[state] = encoded(self.world, state)
        return {
            "image": self._images[state].copy(),
            "position": np.array(state.cell),
            "has_key": int(self.world.key is not None and state.has_key),
            "door_open": int(state.door_open),
        }

    def _info(self) -> dict[str, Any]:
        return {
            "state": self._index[self.state],
            "optimal_actions": self._plan.optimal_actions(self.state),
            "distance": self._plan.distance_from(self.state),
        }

    def _rewarded(self, arrived: bool) -> float:
        if self._reward == STEP:
            return -1.0
        if not arrived:
            return 0.0
        return 1.0 if self._reward == SPARSE else 1 - 0.9 * self._steps / self.max_steps

    def _outcome(self, state: State, action: int) -> tuple[float, int, float, bool]:
        after, goal = self._plan.step(state, action), self.world.goal
        reward = 0.0 if state.cell == goal else self._rewarded(after.cell == goal)
        return 1.0, self._index[after], reward, after.cell == goal

    def _needs_fixed_world(self) -> None:
        if self._draw is not None:
            raise InvalidParameterError(
                "each reset draws another world, with other states and transitions; pass seed= for "
                "a fixed world"
            )


# `options` are those of `WorldEnv`; `seed` determines the grid.
class GridWorldEnv(WorldEnv):
    """`goalmeter/GridWorld-v0`: any grid world, or its drawing for `GridWorld.from_text`."""

    def __init__(self, *, world: GridWorld | str | Iterable[str], **options: Any) -> None:
        known = world if isinstance(world, GridWorld) else GridWorld.from_text(world)
        super().__init__(known, **options)


class MazeEnv(WorldEnv):
    """`goalmeter/Maze-v0`: a maze; the arguments are those of `gridworld.maze`."""

    def __init__(
        self,
        *,
        size: int = 9,
        complexity: float = 0.8,
        distance: tuple[int, int] | None = None,
        detour: tuple[int, int] | None = None,
        **options: Any,
    ) -> None:
        draw = partial(_maze, size, complexity, distance=distance, detour=detour)
        super().__init__(draw, **options)


class KeyDoorEnv(WorldEnv):
    """`goalmeter/KeyDoor-v0`: rooms with a locked door; see `gridworld.key_door`."""

    _world = staticmethod(key_door)

    def __init__(self, *, rooms: int = 2, **options: Any) -> None:
        super().__init__(partial(self._world, rooms=rooms), **options)


class KeyNoDoorEnv(KeyDoorEnv):
    """`goalmeter/KeyNoDoor-v0`: the same rooms with a key that opens nothing."""

    _world = staticmethod(key_no_door)


class TwoPathKeyEnv(WorldEnv):
    """`goalmeter/TwoPathKey-v0`: two equal paths (`gridworld.two_paths`), or their control."""

    def __init__(self, *, key: bool = True, **options: Any) -> None:
        super().__init__(partial(_two_paths, key), **options)


def _maze(size: int, complexity: float, seed: int, **bounds: Any) -> GridWorld:
    return maze(size, complexity, seed, **bounds).world


def _two_paths(key: bool, seed: int) -> GridWorld:
    paths = two_paths(seed)
    return paths.world if key else paths.control


register()
