"""What is read: worlds from prompts, probabilities from tokens, outcomes from errors."""

from __future__ import annotations

import asyncio
from math import log
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("inspect_ai")

from inspect_ai.model import ChatMessageUser, GenerateConfig, get_model

from goalmeter.agents.grid_agents import Memoryless, navigator
from goalmeter.agents.inspect_providers import read_back
from goalmeter.gridworld import State
from goalmeter.gridworld.planner import layers_of, planned
from goalmeter.navigation import suite
from goalmeter.navigation.inspect.models import failure_of
from goalmeter.navigation.prompts import action_probabilities, template, understood


@pytest.mark.parametrize("name", ["maze", "key-door", "two-path"])
@pytest.mark.parametrize("asked", ["plain/1", "keys/1", "compact/2"])
def test_a_world_that_is_read_back_is_the_world_that_was_shown(name: str, asked: str) -> None:
    objects = {"objects": ["key", "neutral"]} if name == "two-path" else {}
    seen = 0
    for task in suite(name, grids=1, **objects).tasks[:3]:
        plan = planned(task.world)
        for layer in range(layers_of(task.world)):
            for cell in task.world.open_cells:
                state = State(cell, layer)
                if cell == task.world.goal or plan.distance_from(state) < 0:
                    continue
                if layer == 0 and cell == task.world.thing:
                    continue  # there is no standing on the object without having it
                seen += 1
                past = [(cell, 0), (cell, None)]
                world, read = read_back(template(asked).prompt(task.world, state, past))
                assert read.cell == cell and world.goal == task.world.goal
                assert (world.walls == task.world.walls).all()
                # What matters of objects and doors is what there is to do.
                assert planned(world).optimal_actions(read) == plan.optimal_actions(state)
                assert planned(world).distance_from(read) == plan.distance_from(state)
    assert seen > 10


@pytest.mark.parametrize("name", ["key-seeker", "boltzmann(1.5)"])
def test_a_reference_agent_has_the_same_policy_when_it_reads_prompts(name: str) -> None:
    agent = navigator(name)
    assert isinstance(agent, Memoryless)
    model = get_model(f"goalmeter/{name}")
    task = suite("key-door", grids=1).tasks[0]
    plan = planned(task.world)
    policy = agent.policy(plan)

    async def compare() -> None:
        for number, layer in enumerate((0, 0, 0, 1, 2, 2)):
            state = State(task.world.open_cells[5 * number], layer)
            if state.cell in (task.world.goal, task.world.key) or plan.distance_from(state) < 0:
                continue
            prompt = ChatMessageUser(content=template("keys/1").prompt(task.world, state))
            config = GenerateConfig(logprobs=True, top_logprobs=4, seed=3)
            output = await model.generate([prompt], config=config)
            measured = action_probabilities(output.choices[0].logprobs.content)
            assert measured == pytest.approx(policy[plan.number(state)], abs=1e-9)
            again = await model.generate([prompt], config=config)
            assert again.completion == output.completion and output.usage.output_tokens == 1
            assert measured[understood(output.completion).action] > 0

    asyncio.run(compare())


def token(text: str, probability: float = 1.0, **references: float) -> Any:
    """A token with its alternatives."""
    tops = [SimpleNamespace(token=text, logprob=log(probability))]
    tops += [SimpleNamespace(token=t, logprob=log(p)) for t, p in references.items()]
    return SimpleNamespace(token=text, logprob=log(probability), top_logprobs=tops)


def lead(text: str) -> Any:
    return SimpleNamespace(token=text, logprob=0.0, top_logprobs=[])


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (
            [lead('{"action":"'), token("D", 0.5, DO=0.125, L=0.25, R=0.0625)],
            (0.25, 0.0625, 0, 0.625),
        ),
        # The last answer counts.
        (
            [
                token('{"action": "UP', 0.9),
                lead('"} or {"action": "'),
                token("LEFT", 0.75, UP=0.25),
            ],
            (0.75, 0, 0.25, 0),
        ),
        ([], None),
        ([lead("UP")], None),
        ([lead('{"action": "'), lead("UP")], None),
        ([lead('{"action": "')], None),
    ],
)
def test_probabilities_of_actions(tokens: list[Any], expected: Any) -> None:
    assert action_probabilities(tokens) == (expected and pytest.approx(expected))


def error(name: str, status: int | None = None, message: str = "", **fields: Any) -> Exception:
    """An error as a client's library has it."""
    known = fields if status is None else {"status_code": status}
    made: Exception = type(name, (Exception,), known)(message)
    return made


TOO_LONG = (
    "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens",
    "the request exceeds the available context size. try increasing the context size",
    "prompt is too long: 210000 tokens > 200000 maximum",
)


@pytest.mark.parametrize(
    ("cause", "name"),
    [
        (TimeoutError(), "timeout"),
        (error("APITimeoutError"), "timeout"),
        (error("APIStatusError", 504), "timeout"),
        (error("APIConnectionError"), "server unreachable"),
        (ConnectionRefusedError(), "server unreachable"),
        (error("RemoteProtocolError"), "server unreachable"),
        (error("APIStatusError", 500), "server error"),
        (error("APIStatusError", 429), "rate limit"),
        (error("BadRequestError", 400, "no such model"), "request refused"),
        (error("LimitExceededError", type="token"), "token limit"),
        (RuntimeError("odd"), "model error"),
        *((error("BadRequestError", 400, message), "context overflow") for message in TOO_LONG),
    ],
)
def test_every_way_in_which_asking_can_fail_has_a_name(cause: Exception, name: str) -> None:
    assert failure_of(cause) == name
    wrapped = RuntimeError("retried in vain")
    wrapped.__cause__, cause.__cause__ = cause, wrapped  # in a circle
    assert name == "token limit" or failure_of(wrapped) == name
