"""The same question with one more wall, as long as before, token for token.

Activations of one prompt can take the place of another's only where their tokens stand at the same
places. A drawing has a symbol a cell, so a wall is as long as an open cell. A prompt that lists the
open cells would lose two words: there the cell stays listed, with no way from it and none to it.
"""

from __future__ import annotations

import re

from goalmeter.gridworld.world import ACTIONS, WALL, Cell
from goalmeter.representation.network import Network
from goalmeter.representation.positions import span_of_cell
from goalmeter.representation.replay import Sample

_NO_WAY = "-"
# The letters of the moves that undo LEFT, RIGHT, UP and DOWN.
_BACK = "RLDU"


def closed_prompt(network: Network, sample: Sample, cell: Cell) -> tuple[int, ...] | None:
    """The tokens of a sample's prompt with a wall at a cell, or with no way through it.

    Returns:
        As many tokens as the prompt has; None where that cannot be had: the cell is not in the
        prompt, the tokenizer joins symbols, or the chat template says something else today.
    """
    question = closed_question(sample, cell)
    if question is None:
        return None
    ids = network.local.ids([{"role": "user", "content": sample.question}])
    if ids != sample.prompt:
        return None
    closed = network.local.ids([{"role": "user", "content": question}])
    return closed if len(closed) == len(ids) else None


def closed_question(sample: Sample, cell: Cell) -> str | None:
    """The text of a sample's question with a wall at a cell; None if the cell is not in it."""
    question = sample.question
    span = span_of_cell(sample, cell)
    if span is None:
        return None
    if span[1] - span[0] == 1:
        return question[: span[0]] + WALL + question[span[1] :]
    ways = question[slice(*span)].split()[1]
    question = question[: span[1] - len(ways)] + _NO_WAY + question[span[1] :]
    for action in range(len(ACTIONS)):
        neighbour = cell.moved(action)
        listed = re.search(rf" {neighbour.row},{neighbour.column} (\S+)", question)
        if listed:
            left = listed[1].replace(_BACK[action], "") or _NO_WAY
            question = question[: listed.start(1)] + left + question[listed.end(1) :]
    return question
