"""Answers that share what is read before a change are those that are written from the start."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("transformers")

import torch
from representation.tiny import ARCHITECTURES, CORRIDOR, ROOM, sample
from representation.use.test_causal_use import decisions
from representation.use.test_interventions import Steps

from goalmeter.representation.replay import Located
from goalmeter.representation.use.answers import AnswerSweep, answer_all
from goalmeter.representation.use.directions import target_cells
from goalmeter.representation.use.interventions import Intervention, TokenSpan, knock_out, write
from goalmeter.representation.use.look_ups import span_candidates
from goalmeter.representation.use.trials import candidates


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_answers_are_those_from_the_start(networks: dict[str, Any], name: str) -> None:
    """Changes early, late, at the prompt's last token, of the answer only, none and too much."""
    network = networks[name]
    layers = range(1, len(network.blocks) + 1)
    taken = [sample(network, ROOM), sample(network, CORRIDOR)]
    last = len(taken[1].prompt) - 1
    vector = 30 * torch.randn(network.width, generator=torch.Generator().manual_seed(1))
    numbers = [0, 1, 1, 0, 1, 0, 1]
    changes = [
        knock_out([40, 300], layers),
        knock_out([last - 1], layers[:1], TokenSpan(True, Steps(2))),
        write(vector, [last], [1]),
        write(vector, Steps(2, 3), [2]),
        Intervention(),
        write(vector, [0], [0]),
        knock_out([200], layers, TokenSpan(False, Steps(3))),
    ]
    sweep = AnswerSweep(network, taken, tokens=7)
    assert sweep.bases == answer_all(network, taken, tokens=7)
    for tokens in (7, 4, 9):
        plain = answer_all(network, [taken[n] for n in numbers], changes, tokens=tokens)
        assert sweep.answers(numbers, changes, tokens=tokens) == plain
    assert len({answer.tokens for answer in plain}) > 3


@pytest.mark.slow
def test_the_mouse_answers_alike(mouse: Any) -> None:
    """Every intervention that is screened for, in one call; moves are equal, and so are words."""
    taken = decisions(mouse, 2)
    sweep = AnswerSweep(mouse, taken)
    numbers, changes = [], []
    for number, each in enumerate(taken):
        located = Located(each, mouse.local.tokenizer)
        cell = target_cells(each.world, each.state)[0].cell
        for option in [*candidates(mouse, layers=[0, 2], seed=0), *span_candidates(mouse)]:
            if (change := option.make(located, cell)) is not None:
                numbers.append(number)
                changes.append(change)
    ours = sweep.answers(numbers, changes, tokens=120)
    assert ours == answer_all(mouse, [taken[n] for n in numbers], changes, tokens=120)
