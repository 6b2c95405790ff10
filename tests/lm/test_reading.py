"""A world that is read back from a prompt is the world that was shown."""

from __future__ import annotations

from typing import Any

import pytest

from goalmeter._errors import InvalidParameterError
from goalmeter.agents.inspect_providers import read_back
from goalmeter.gridworld import State
from goalmeter.gridworld.planner import layers_of, planned
from goalmeter.navigation import suite
from goalmeter.navigation.distractors import factors
from goalmeter.navigation.prompts import template


@pytest.mark.parametrize("name", ["maze", "key-door", "key-no-door", "two-path"])
@pytest.mark.parametrize("asked", ["plain/1", "keys/1", "compact/2"])
def test_it_is_the_same_world_in_every_state(name: str, asked: str) -> None:
    for task in suite(name, grids=2).tasks[:4]:
        plan = planned(task.world)
        seen = 0
        for layer in range(layers_of(task.world)):
            for cell in task.world.open_cells:
                state = State(cell, layer)
                if cell == task.world.goal or plan.distance_from(state) < 0:
                    continue
                if layer == 0 and cell == task.world.key:
                    continue  # there is no standing on the key without having it
                seen += 1
                past = [(cell, 0), (cell, None)]
                world, read = read_back(template(asked).prompt(task.world, state, past))
                assert read.cell == cell and world.goal == task.world.goal
                assert (world.walls == task.world.walls).all()
                # What matters of keys and doors is what there is to do.
                assert planned(world).optimal_actions(read) == plan.optimal_actions(state)
                assert planned(world).distance_from(read) == plan.distance_from(state)
        assert seen > 10


def test_an_agent_that_reads_prompts_tells_a_key_from_a_neutral_object() -> None:
    pytest.importorskip("inspect_ai")
    from inspect_ai import eval

    from goalmeter.navigation.inspect.eval_log import trajectories
    from goalmeter.navigation.inspect.task import navigation

    options: dict[str, Any] = {"prompt": ["plain/1", "keys/1"], "objects": ["key", "neutral"]}
    task = navigation("key-no-door", grids=3, **options)
    (log,) = eval(task, model="goalmeter/key-seeker", display="none", log_realtime=False)
    measured = factors(trajectories(log.location))
    assert measured.levels == (("plain/1", "keys/1"), ("neutral", "key")) and measured.grids == 3
    (plain, plain_key), (words, words_key) = measured.cells
    assert plain_key == words_key == 1 > max(plain, words)
    # From a shell a single object comes bare.
    alone = navigation("key-no-door", grids=1, objects="neutral")
    (sample,) = alone.dataset
    assert sample.metadata["walk"]["condition"] == {"object": "neutral", "prompt": "keys/1"}
    assert "N  an object without a use" in sample.input


@pytest.mark.parametrize("text", ["", "no grid", "0 1 2\n", "0 1 2 3 4\n1 # # # # #\n"])
def test_without_a_grid(text: str) -> None:
    with pytest.raises(InvalidParameterError, match="shows no grid"):
        read_back(text)
