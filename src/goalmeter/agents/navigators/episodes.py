"""Navigators in Gymnasium: an agent of grid worlds plays episodes of one of our environments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from goalmeter._errors import InvalidParameterError
from goalmeter.agents.navigators.protocol import Navigator
from goalmeter.gridworld.draws import Draws
from goalmeter.gridworld.world import GridWorld

if TYPE_CHECKING:
    import gymnasium


@dataclass(frozen=True)
class Episode:
    """What came of one episode.

    Attributes:
        world: the grid that it was played in.
        actions: taken, in order.
        rewards: one for each action.
        terminated: whether the agent arrived at the goal, rather than ran out of steps.
    """

    world: GridWorld
    actions: tuple[int, ...]
    rewards: tuple[float, ...]
    terminated: bool

    @property
    def total_reward(self) -> float:
        """The sum of the rewards."""
        return sum(self.rewards)


def play(
    navigator: Navigator, env: gymnasium.Env[Any, Any], *, episodes: int = 1, seed: int = 0
) -> list[Episode]:
    """Let an agent of grid worlds play episodes of a Gymnasium environment of ours.

    The agent is told the state of the world, whatever the environment's observations are; wrappers
    around the environment see and change what they would for any other agent.

    Args:
        navigator: who plays, such as `agent("greedy").in_grids()`.
        env: made by `gymnasium.make("goalmeter/...")`, in any wrappers; it is left open.
        episodes: how many; the first is reset with the seed, the others go on from there.
        seed: of the worlds and of the agent's draws.

    Raises:
        InvalidParameterError: the environment is none of ours, or the agent gives no action.
    """
    # Only an environment of ours has these; to ask for its class would import Gymnasium here.
    unwrapped: Any = env.unwrapped
    if not isinstance(getattr(unwrapped, "world", None), GridWorld):
        raise InvalidParameterError(
            f"{type(unwrapped).__name__} is no grid world, so {navigator.name} cannot play it; "
            f"expected gymnasium.make('goalmeter/Maze-v0') or another of goalmeter's environments"
        )
    return [_episode(navigator, env, seed, number) for number in range(episodes)]


def _episode(navigator: Navigator, env: gymnasium.Env[Any, Any], seed: int, number: int) -> Episode:
    unwrapped: Any = env.unwrapped
    env.reset(seed=seed if number == 0 else None)
    world: GridWorld = unwrapped.world
    walk = navigator.begin(world, Draws("episode", seed, navigator.name, number))
    actions: list[int] = []
    rewards: list[float] = []
    terminated = truncated = False
    while not (terminated or truncated):
        action = walk.act(unwrapped.state).action
        if action is None:
            raise InvalidParameterError(
                f"{navigator.name} gives no action at row {unwrapped.state.cell.row}, column "
                f"{unwrapped.state.cell.column}, and an environment needs one at each step"
            )
        _, reward, terminated, truncated, _ = env.step(action)
        actions.append(action)
        rewards.append(float(reward))
    return Episode(world, tuple(actions), tuple(rewards), terminated)
