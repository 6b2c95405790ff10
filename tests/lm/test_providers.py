"""The names of our agents under Inspect."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

pytest.importorskip("inspect_ai")

from inspect_ai.model import ChatMessageUser, GenerateConfig, get_model

from goalmeter.agents.grid_agents import Memoryless, navigator
from goalmeter.gridworld import State
from goalmeter.gridworld.planner import planned
from goalmeter.navigation import suite
from goalmeter.navigation.prompts import action_probabilities, template, understood


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


@pytest.mark.parametrize("name", ["greedy", "key-seeker", "boltzmann(1.5)", "epsilon-optimal(0.2)"])
def test_a_reference_agent_has_the_same_policy_when_it_reads_prompts(name: str) -> None:
    agent = navigator(name)
    assert isinstance(agent, Memoryless)
    model = get_model(f"goalmeter/{name}")
    task = suite("key-door", grids=1).tasks[0]
    plan = planned(task.world)
    policy = agent.policy(plan)

    async def compare() -> None:
        for number, layer in enumerate((0, 0, 0, 1, 2, 2)):
            cell = task.world.open_cells[5 * number]
            state = State(cell, layer)
            if cell in (task.world.goal, task.world.key) or plan.distance_from(state) < 0:
                continue
            prompt = template("keys/1").prompt(task.world, state)
            config = GenerateConfig(logprobs=True, top_logprobs=4, seed=3)
            output = await model.generate([ChatMessageUser(content=prompt)], config=config)
            measured = action_probabilities(output.choices[0].logprobs.content)
            assert measured == pytest.approx(policy[plan.number(state)], abs=1e-9)
            again = await model.generate([ChatMessageUser(content=prompt)], config=config)
            assert again.completion == output.completion and output.usage.output_tokens == 1
            assert measured[understood(output.completion).action] > 0

    run(compare())
