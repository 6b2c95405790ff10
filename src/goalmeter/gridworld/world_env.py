"""What the grid worlds of `gymnasium_worlds` have in common: an episode in one of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from operator import index
from typing import TYPE_CHECKING, Any, ClassVar, SupportsIndex, TypedDict

import numpy as np
from numpy.typing import NDArray

from goalmeter._errors import InvalidParameterError, require
from goalmeter._types import FloatArray
from goalmeter.gridworld.minigrid_drawing import FACING, FACING_RIGHT, Window, encoded, picture
from goalmeter.gridworld.planner import Plan, State, plan
from goalmeter.gridworld.tabular_world import tabular_world
from goalmeter.gridworld.world import ACTIONS, GridWorld

if TYPE_CHECKING:
    import gymnasium
else:  # this module is imported when Gymnasium makes an environment, and by nothing else
    gymnasium = require("gymnasium", extra="worlds", feature="A grid world as an environment")

GRID, STATE = "grid", "state"
MINIGRID, SPARSE, STEP = "minigrid", "sparse", "step"
# Seeds of drawn grids are below this, so that they fit in what other programs call an integer.
_SEEDS = 2**31


class Options(TypedDict, total=False):
    """What every one of them takes, see `WorldEnv`."""

    observation: str
    reward: str
    max_steps: int | None
    tile_size: int
    render_mode: str | None


class WorldEnv(gymnasium.Env[Any, Any]):
    """A grid world, one episode from its start to its goal.

    Actions: 0 LEFT, 1 RIGHT, 2 UP, 3 DOWN, as everywhere in goalmeter. Into a wall, or into the
    door without the key, the agent stays and the step counts. The key, or the neutral object, is
    taken by entering its cell, the door is gone once an agent with the key stands beside it.

    Observations: "grid" is a dictionary of `image`, MiniGrid's encoding of the whole grid [columns,
    rows, 3] as FullyObsWrapper has it, agent always facing right; `position`, row and column;
    `has_key`, which a neutral object leaves 0; `door_open`. It determines world and state. "state"
    is the index of the state in `gridworld.tabular_world(world).states`; it needs one fixed world.

    Rewards: "minigrid" gives 1 - 0.9 * steps / max_steps at the goal; "sparse" 1 at the goal;
    "step" -1 at each step. An episode terminates at the goal and is truncated at max_steps.

    Worlds: fixed (a seed or a world was given), or drawn at each reset. Then `reset(seed=s)` gives
    the grid that s names, the same as `make(..., seed=s)`, and each `reset()` after it a new one
    that s determines. `world` is the present one.

    Information at each step: `state`, that index; `optimal_actions`, those that lead one step
    closer to the goal; `distance`, the steps that are left, -1 if there is no way.

    A fixed world whose reward does not depend on the time has a transition table `P` and an
    `initial_state_distrib` as Gymnasium's small environments have them.

    Args:
        source: a world, or what draws one from a seed.
        observation: "grid" or "state".
        reward: "minigrid", "sparse" or "step".
        max_steps: default 4 * rows * columns.
        tile_size: pixels along the side of a cell.
        render_mode: None, "rgb_array" or "human".
    """

    metadata: ClassVar[dict[str, Any]] = {  # type: ignore[misc]
        "render_modes": ["human", "rgb_array"],
        "render_fps": 10,
    }

    def __init__(
        self,
        source: GridWorld | Callable[[int], GridWorld],
        *,
        observation: str = GRID,
        reward: str = MINIGRID,
        max_steps: int | None = None,
        tile_size: int = 32,
        render_mode: str | None = None,
    ) -> None:
        fixed = isinstance(source, GridWorld)
        world = source if isinstance(source, GridWorld) else source(0)
        _one_of("observation", observation, (GRID, STATE))
        _one_of("reward", reward, (MINIGRID, SPARSE, STEP))
        _one_of("render_mode", render_mode, (None, *self.metadata["render_modes"]))
        rows, columns = world.shape
        steps = 4 * rows * columns if max_steps is None else max_steps
        for name, number in (("max_steps", steps), ("tile_size", tile_size)):
            if number < 1:
                raise InvalidParameterError(f"{name} is {number}, expected at least 1")
        if observation == STATE and not fixed:
            raise InvalidParameterError(
                "observation is 'state', but each reset draws another world, with other states; "
                "give seed= to fix it"
            )
        self.render_mode = render_mode
        self.max_steps = steps
        self._draw = None if isinstance(source, GridWorld) else source
        self._observation, self._reward, self._tile_size = observation, reward, tile_size
        self._window = Window(self.metadata["render_fps"])
        self._running = False
        self._enter(world)
        self.action_space = gymnasium.spaces.Discrete(len(ACTIONS))
        self.observation_space = self._space()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; see the class for what the seed does. There are no options."""
        super().reset(seed=seed)
        if self._draw is not None:
            self._enter(self._draw(int(self.np_random.integers(_SEEDS)) if seed is None else seed))
        self.state, self._facing, self._steps = State(self.world.start), FACING_RIGHT, 0
        self._running = True
        if self.render_mode == "human":
            self.render()
        return self.observation(self.state), self._info()

    def step(self, action: SupportsIndex) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take one of the four actions."""
        if not self._running:
            raise gymnasium.error.ResetNeeded(
                "no episode is under way, it is over or has not begun; call reset() first"
            )
        move = index(action)
        self.state = self._plan.step(self.state, move)
        self._facing = FACING[move]
        self._steps += 1
        terminated = self.state.cell == self.world.goal
        truncated = not terminated and self._steps >= self.max_steps
        self._running = not (terminated or truncated)
        if self.render_mode == "human":
            self.render()
        reward = self._rewarded(terminated)
        return self.observation(self.state), reward, terminated, truncated, self._info()

    def render(self) -> NDArray[np.uint8] | None:
        """The picture [height, width, 3] for "rgb_array"; shown in a window for "human"."""
        if self.render_mode is None:
            gymnasium.logger.warn("nothing is drawn; give render_mode= to gymnasium.make")
            return None
        image = picture(self.world, self.state, facing=self._facing, tile_size=self._tile_size)
        if self.render_mode == "rgb_array":
            return image
        self._window.show(image)
        return None

    def close(self) -> None:
        """Close the window, if there is one."""
        self._window.close()

    @property
    def states(self) -> tuple[State, ...]:
        """The state of each index, the start first."""
        return tuple(self._index)

    @cached_property
    def P(self) -> dict[int, dict[int, list[tuple[float, int, float, bool]]]]:
        """Outcomes of each state and action: (probability, next state, reward, terminated)."""
        self._needs_fixed_world()
        if self._reward == MINIGRID:
            raise InvalidParameterError(
                "the reward 'minigrid' depends on how many steps were taken, so no table of "
                "transitions has it; give reward='sparse' or reward='step'"
            )
        return {
            number: {a: [self._outcome(state, a)] for a in range(len(ACTIONS))}
            for state, number in self._index.items()
        }

    @property
    def initial_state_distrib(self) -> FloatArray:
        """All of it on the start, [S]."""
        self._needs_fixed_world()
        distribution = np.zeros(len(self._index))
        distribution[0] = 1.0
        return distribution

    def _enter(self, world: GridWorld) -> None:
        self.world = world
        self.state, self._facing, self._steps = State(world.start), FACING_RIGHT, 0
        self._plan: Plan = plan(world)
        states = tabular_world(world, horizon=1).states
        self._index = {state: number for number, state in enumerate(states)}
        # Encoded once: MiniGrid goes through the grid cell by cell.
        self._images: dict[State, NDArray[np.uint8]] = {}

    def _space(self) -> gymnasium.Space[Any]:
        spaces = gymnasium.spaces
        if self._observation == STATE:
            return spaces.Discrete(len(self._index))
        rows, columns = self.world.shape
        return spaces.Dict(
            {
                "image": spaces.Box(0, 255, (columns, rows, 3), np.uint8),
                "position": spaces.MultiDiscrete([rows, columns]),
                "has_key": spaces.Discrete(2),
                "door_open": spaces.Discrete(2),
            }
        )

    def observation(self, state: State) -> Any:
        """What an agent sees in a state of the present world, as `step` returns it."""
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
        after = self._plan.step(state, action)
        arrived = after.cell == self.world.goal
        over = state.cell == self.world.goal
        return 1.0, self._index[after], 0.0 if over else self._rewarded(arrived), arrived

    def _needs_fixed_world(self) -> None:
        if self._draw is not None:
            raise InvalidParameterError(
                "each reset draws another world, so there is no one table of transitions; "
                "give seed= to fix it"
            )


def _one_of(name: str, value: object, known: tuple[object, ...]) -> None:
    if value not in known:
        listed = ", ".join(map(repr, known))
        raise InvalidParameterError(f"{name} is {value!r}, expected one of {listed}")
