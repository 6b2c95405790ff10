"""Networks with random weights in folders, of the architectures that users have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lm.tiny_models import gpt_oss, llama, saved, tokenizer

from goalmeter.gridworld import GridWorld, State
from goalmeter.navigation.prompts import template
from goalmeter.representation.network import Network
from goalmeter.representation.replay import Sample

# The others have blocks that are called in other ways, and take as long again.
ARCHITECTURES = [
    "llama",
    "gpt-oss",
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("gpt2", "qwen")),
]
ROOM = ["######", "#A__##", "#_#_G#", "######"]
CORRIDOR = ["#####", "#A_G#", "#####"]
REASONING = "I see a wall. plan RIGHT, RIGHT, DOWN</think>"
ANSWER = '{"action": "RIGHT"}'


def saved_networks(folder: Path) -> dict[str, Network]:
    """A network of each architecture, by its name."""
    made = {
        "llama": llama(folder / "llama", speaks=False),
        "gpt-oss": gpt_oss(folder / "gpt-oss", speaks=False),
        "gpt2": _gpt2(folder / "gpt2"),
        "qwen": _qwen(folder / "qwen"),
    }
    return {name: Network.open(f"goalmeter-local/{path}") for name, path in made.items()}


def sample(
    network: Network,
    picture: list[str] = ROOM,
    *,
    prompt: str = "plain/1",
    answer: str = REASONING + ANSWER,
    walk: str = "a walk",
    step: int = 0,
) -> Sample:
    """A decision at the start of a world, as the tokens of the network's own tokenizer."""
    world = GridWorld.from_text(picture)
    state = State(world.start)
    question = template(prompt).prompt(world, state)
    return Sample(
        walk=walk,
        step=step,
        world=world,
        state=state,
        action=1,
        optimal=(1,),
        question=question,
        prompt=network.local.ids([{"role": "user", "content": question}]),
        answer=tuple(network.local.tokenizer(answer)["input_ids"]),
    )


def _gpt2(folder: Path) -> Path:
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes = {"n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 2048}
    return _random(folder, GPT2LMHeadModel, GPT2Config, sizes)


def _qwen(folder: Path) -> Path:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    sizes = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "max_position_embeddings": 2048,
    }
    return _random(folder, Qwen3ForCausalLM, Qwen3Config, sizes)


def _random(folder: Path, network: Any, config: Any, sizes: dict[str, int]) -> Path:
    """A network of an architecture and some sizes, with weights from one seed."""
    import torch

    words = tokenizer()
    torch.manual_seed(0)
    options = {"vocab_size": len(words), "eos_token_id": words.eos_token_id, "bos_token_id": None}
    return saved(folder, network(config(**options, **sizes, initializer_range=0.2)), words)
