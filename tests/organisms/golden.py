"""Answers that the shipped organisms gave when they were shipped: golden.json beside this file.

    PYTHONPATH=src:tests python -m organisms.golden

writes it anew from the weights in the package. The likeliest token is taken each time; prompts are
kept where the second likeliest is behind by enough that another machine's rounding takes the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from goalmeter.agents.local_models import LocalModel, Reply, Sampling
from goalmeter.gridworld.conversions import compact
from goalmeter.gridworld.generators import key_door, maze
from goalmeter.gridworld.planner import WITH_KEY, State
from goalmeter.gridworld.world import held_out
from goalmeter.navigation.prompts import understood
from goalmeter.organisms import organism_names
from goalmeter.organisms.kinds import weights_of

FILE = Path(__file__).with_name("golden.json")
TOKENS = 350
# Nats between the two likeliest tokens, at least; rounding moves them by a hundredth of it.
_MARGIN = 0.002
_EACH = 2


def prompts() -> Iterator[list[str]]:
    """Held-out grids of several kinds, in lists of those that will do as well as each other."""
    for size, complexity in ((5, 0.0), (7, 1.0), (9, 0.4), (11, 0.6)):
        mazes = (maze(size, complexity, seed).world for seed in range(160))
        yield [compact(world) for world in mazes if held_out(world)]
    worlds = [world for world in map(key_door, range(160)) if held_out(world)]
    yield [compact(world) for world in worlds]
    yield [compact(world.with_(door=None)) for world in worlds]
    yield [compact(world, State(world.start, WITH_KEY)) for world in worlds]


def asked(model: LocalModel, texts: Sequence[str], **sampling: float) -> list[Reply]:
    """Answers to some prompts in one batch, each with a seed of its own."""
    made = [
        model.prompt(
            model.ids([{"role": "user", "content": text}]),
            TOKENS,
            Sampling(seed=seed, alternatives=2, **sampling),  # type: ignore[arg-type]
        )
        for seed, text in enumerate(texts)
    ]
    return model.answers(made)


def golden(name: str) -> list[dict[str, str]]:
    """Prompts with the answers of an organism."""
    model = LocalModel(weights_of(name), device="cpu")
    answers = []
    for texts in prompts():
        kept = []
        for text in texts:
            (reply,) = asked(model, [text], temperature=0.0)
            likeliest = (token.alternatives for token in reply.chosen)
            margins = (first[1] - second[1] for first, second, *_ in likeliest)
            if understood(reply.text).action is not None and min(margins) > _MARGIN:
                kept.append({"prompt": text, "answer": reply.text})
            if len(kept) == _EACH:
                break
        answers += kept
    return answers


if __name__ == "__main__":
    answers = {name: golden(name) for name in organism_names()}
    FILE.write_text(json.dumps(answers, indent=1) + "\n", encoding="utf-8")
    print({name: len(kept) for name, kept in answers.items()}, FILE)
