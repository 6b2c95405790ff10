"""Models that answer as a function says."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from inspect_ai.model import ModelOutput, ModelUsage, get_model

from goalmeter.agents.inspect_providers import read_back
from goalmeter.gridworld.planner import planned
from goalmeter.gridworld.world import ACTIONS


def output(content: Any, stop: str = "stop", tokens: int = 5) -> ModelOutput:
    made = ModelOutput.from_content("mockllm/model", content, stop_reason=stop)  # type: ignore[arg-type]
    made.usage = ModelUsage(input_tokens=10, output_tokens=tokens, total_tokens=10 + tokens)
    return made


def best(prompt: str) -> str:
    """The right answer to a prompt."""
    world, state = read_back(prompt)
    return json.dumps({"action": ACTIONS[planned(world).optimal_actions(state)[0]]})


def mock(answer: Callable[[str, Any], Any]) -> Any:
    """A model that answers a prompt and the configuration of the call."""

    async def generate(input: Any, tools: Any, choice: Any, config: Any) -> ModelOutput:
        message = answer(input[-1].text, config)
        if hasattr(message, "__await__"):
            message = await message
        return message if isinstance(message, ModelOutput) else output(message)

    return get_model("mockllm/model", custom_outputs=generate, memoize=False)
