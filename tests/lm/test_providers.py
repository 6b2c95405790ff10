"""The names of our agents under Inspect."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from math import exp
from typing import Any

import pytest

pytest.importorskip("inspect_ai")

from inspect_ai.model import ChatMessageUser, GenerateConfig, get_model
from lm.tiny_models import Models

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


def test_a_local_model_answers_together(models: Models) -> None:
    pytest.importorskip("transformers")
    folder = str(models / "speaking-llama")
    model = get_model(f"goalmeter-local/{folder}", device="cpu", batch=8, memoize=False)
    sizes: list[int] = []
    answers = model.api._model.answers
    model.api._batcher._answer = lambda batch: (sizes.append(len(batch)), answers(batch))[1]

    async def many() -> list[Any]:
        config = GenerateConfig(
            temperature=1.0, max_tokens=9, logprobs=True, top_logprobs=4, max_connections=8
        )
        asked = (
            model.generate(
                [ChatMessageUser(content="Which way?")], config=config.merge({"seed": s})
            )
            for s in range(24)
        )
        return await asyncio.gather(*asked)

    outputs = run(many())
    assert sum(sizes) == 24 and max(sizes) == 8 and len(sizes) <= 6
    for output in outputs:
        assert output.stop_reason == "stop" and output.usage.input_tokens > 3
        assert len(output.metadata["prompt_ids"]) == output.usage.input_tokens
        assert len(output.metadata["output_ids"]) == output.usage.output_tokens == 4
        measured = action_probabilities(output.choices[0].logprobs.content)
        assert measured == pytest.approx((0.1, 0.4, 0.2, 0.3), abs=1e-5)
        decides = output.choices[0].logprobs.content[1]
        assert exp(decides.logprob) == pytest.approx(measured[understood(output.completion).action])
    # A seed names an answer, whatever is asked beside it.
    texts = [output.completion for output in outputs]
    assert len(set(texts)) == 4 and [o.completion for o in run(many())] == texts
