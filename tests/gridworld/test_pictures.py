"""Grid worlds as MiniGrid shows them: its encoding, its tiles, a window."""

from __future__ import annotations

import pytest
from gridworld.in_gymnasium import WORLDS, made


@pytest.fixture(autouse=True)
def screen_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")


def test_the_image_is_that_of_minigrid_s_own_wrapper() -> None:
    from minigrid.core.grid import Grid
    from minigrid.core.mission import MissionSpace
    from minigrid.core.world_object import Ball, Door, Goal, Key, Wall
    from minigrid.minigrid_env import MiniGridEnv
    from minigrid.wrappers import FullyObsWrapper

    class Literal(MiniGridEnv):  # type: ignore[misc]
        def _gen_grid(self, width: int, height: int) -> None:
            self.grid = Grid(width, height)
            self.agent_dir = 0
            for y, row in enumerate(picture):
                for x, symbol in enumerate(row):
                    if symbol == "A":
                        self.agent_pos = (x, y)
                    elif symbol == "D":
                        self.put_obj(Door("yellow", is_locked=True), x, y)
                    elif symbol != "_":
                        self.put_obj(objects[symbol](), x, y)

    objects = {"#": Wall, "G": Goal, "K": lambda: Key("yellow"), "N": lambda: Ball("blue")}

    for world in WORLDS.values():
        picture = str(world).splitlines()
        space = MissionSpace(lambda: "get to the goal")
        theirs = FullyObsWrapper(Literal(space, width=world.shape[1], height=world.shape[0]))
        env = made("GridWorld", world=world)
        assert (env.reset()[0]["image"] == theirs.reset()[0]["image"]).all()
        assert env.observation_space["image"] == theirs.observation_space["image"]


def test_a_window_shows_the_picture() -> None:
    import pygame

    pictures = made("KeyDoor", seed=0, render_mode="rgb_array", tile_size=4)
    env = made("KeyDoor", seed=0, render_mode="human", tile_size=4)
    for each in (pictures, env):
        each.reset()
        each.step(1)
    shown = pygame.surfarray.array3d(pygame.display.get_surface()).transpose(1, 0, 2)
    assert (shown == pictures.render()).all()
    assert env.render() is None
    env.close()
    assert not pygame.display.get_init()
    env.close()
