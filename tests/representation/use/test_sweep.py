"""Answers that share what is read before a change are those that are written from the start."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("transformers")

import torch
from representation.tiny import ARCHITECTURES, CORRIDOR, ROOM, sample
from representation.use.test_interventions import Steps

from goalmeter.representation.use.interventions import (
    AnswerSweep,
    Intervention,
    answer_all,
    knock_out,
    write,
)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_answers_are_those_from_the_start(networks: dict[str, Any], name: str) -> None:
    """Changes early, late, at the prompt's last token, of the answer only, none and too much."""
    network = networks[name]
    layers = range(1, len(network.blocks) + 1)
    taken = [sample(network, ROOM), sample(network, CORRIDOR)]
    last = len(taken[1].prompt) - 1
    vector = 30 * torch.randn(network.width, generator=torch.Generator().manual_seed(1))
    asked = [taken[n] for n in (0, 1, 1, 0, 1, 0, 1)]
    changes = [
        knock_out([40, 300], layers),
        knock_out([last - 1], layers[:1], written=Steps(2)),
        write(vector, [last], [1]),
        write(vector, Steps(2, 3), [2]),
        Intervention(),
        write(vector, [0], [0]),
        knock_out([200], layers, prompt=False, written=Steps(3)),
    ]
    sweep = AnswerSweep(network, asked, answer_all(network, asked, tokens=7))
    for tokens in (7, 4, 9):
        plain = answer_all(network, asked, changes, tokens=tokens)
        assert list(sweep.answers(dict(enumerate(changes)), tokens=tokens).values()) == plain
    assert len({answer.tokens for answer in plain}) > 3
