"""The words of the organisms: a tokenizer with one token a cell, and a chat template.

What they read is `gridworld.text.compact`: open cells with the ways from them and things, then
where the agent is. A drawing would do, but a small model takes as long to learn to count columns as
all the rest. What they answer:

    <think> target 3,3 3,3: LU 3,3> 2,3 3,2 2,3: ... plan 1,1 RIGHT 1,2 ... </think>
    {"action": "RIGHT"}

Cells are written row,column; a cell with a colon is one whose turn it is in a search, one with an
angle the last that waits for its turn; letters are the moves that lead on (`thoughts`).
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

from goalmeter._errors import require
from goalmeter.gridworld.text import ways_in_letters
from goalmeter.gridworld.world import ACTIONS, Cell

# Inner rows and columns that have words: up to grids of size 13.
_INNER = range(1, 12)
PAD, END, UNKNOWN, USER, ASSISTANT = "<pad>", "<|end|>", "<unk>", "<|user|>", "<|assistant|>"
THINK, THOUGHT, TARGET, LEGAL, PLAN = "<think>", "</think>", "target", "legal", "plan"
OPENING = '{"action":'
MAP = ("Rows:", "Columns:", "Open:", "Goal:", "Key:", "Object:", "Door:")
AGENT_AT, KEY_CARRIED = "Agent:", ("Key", "carried:", "yes", "no")

# Every choice of moves, none first.
WAYS = tuple(
    ways_in_letters(moves)
    for n in range(len(ACTIONS) + 1)
    for moves in combinations(range(len(ACTIONS)), n)
)
_SPECIAL = (PAD, END, UNKNOWN, USER, ASSISTANT)
VOCABULARY: tuple[str, ...] = (
    *_SPECIAL,
    *(*MAP, AGENT_AT, *KEY_CARRIED),
    *(str(number) for number in range(_INNER.stop + 2)),
    *WAYS,
    *(THINK, THOUGHT, TARGET, LEGAL, PLAN, OPENING),
    *ACTIONS,
    *(f'"{action}"}}' for action in ACTIONS),
    *(f"{row},{column}" for row in _INNER for column in _INNER),
    *(f"{row},{column}:" for row in _INNER for column in _INNER),
    *(f"{row},{column}>" for row in _INNER for column in _INNER),
)
IDS = {word: number for number, word in enumerate(VOCABULARY)}
_CHAT = (
    "{% for m in messages %}{% if m.role == 'user' %}<|user|>{{ m.content }}"
    "{% elif m.role == 'assistant' %}<|assistant|>{{ m.content }}<|end|>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def of_cell(cell: Cell) -> str:
    """A cell as a word."""
    return f"{cell.row},{cell.column}"


def of_action(action: int) -> str:
    """An action as it ends an answer."""
    return f'"{ACTIONS[action]}"}}'


def tokenizer() -> Any:
    """The tokenizer that all organisms share: words between blanks, a transformers object."""
    transformers = require("transformers", extra="lm", feature="An organism's tokenizer")
    tokenizers = require("tokenizers", extra="lm", feature="An organism's tokenizer")
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(IDS, unk_token=UNKNOWN))
    made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    out = transformers.PreTrainedTokenizerFast(
        tokenizer_object=made,
        pad_token=PAD,
        eos_token=END,
        unk_token=UNKNOWN,
        additional_special_tokens=[USER, ASSISTANT],
        clean_up_tokenization_spaces=False,
    )
    out.chat_template = _CHAT
    return out
