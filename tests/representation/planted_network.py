"""A language model whose use of what it reads is known, because its weights were set by hand.

    block 1    a head a cell that is read: it attends to the cell's symbol and writes +1 for a wall
               and -1 for open ground along a direction of its own, at every token behind
    block 2    one head: it takes the directions of the cells that are used, from one token, and
               writes whether all of them are open
    answer     "RIGHT" if they are, else "DOWN"

That token is the last of the prompt ("end"), or the one at which the answer is written ("own").
In the worlds that go with it the goal's way leads through one cell, the gate: RIGHT if it is open,
DOWN around if it is closed; all other links are drawn at random and do not matter.

The residual stream is x beside -x, so that its mean is 0 and normalising only scales it; x is a
random rotation of the features that are set. A masked symbol sends its head to the first token,
where nothing is written: the cell is neither wall nor open, and "all of them are open" is false.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from goalmeter._errors import require
from goalmeter._types import FloatArray
from goalmeter.gridworld.generators import distances_from
from goalmeter.gridworld.planner import State, planned
from goalmeter.gridworld.world import Cell, GridWorld, content
from goalmeter.navigation.prompts import template
from goalmeter.representation.network import Network
from goalmeter.representation.replay import Located, Sample
from goalmeter.representation.scenes import link_cells

if TYPE_CHECKING:
    import torch

_SIZE = 7
# The cells of a maze that may be closed, from the top left.
LINKS = tuple(Cell(int(r), int(c)) for r, c in np.argwhere(link_cells((_SIZE, _SIZE))))
_START, _GATE, _GOAL, _ASIDE = Cell(1, 1), Cell(1, 2), Cell(1, 3), Cell(2, 1)
_PROMPT = "plain/1"
_PAD, _UNKNOWN, _USER, _ASSISTANT, _END = "<pad>", "<unk>", "<|user|>", "<|assistant|>", "<|end|>"
# What is written, word by word, with the move before the last two; it has a reasoning, of one word.
# None of these stands in the prompt, or a head that looks for it would find it there.
_WRITTEN = ("So", "</think>", "{", '"action":', "}", _END)
_RIGHT, _DOWN = '"RIGHT"', '"DOWN"'
_CHAT = f"{_USER} {{{{ messages[0].content }}}} {_ASSISTANT}"
_FEATURE = "A planted network"
# Scores of attention: a head takes its cell, or the first token where that is masked.
_SHARP, _SINK = 30.0, 5.0
# How sure the answer is: the logits of the two moves differ by some 4 to 9 nats.
_GAIN, _SYNTAX = 0.6, 10.0
# As many numbers a token as an organism has, so that a random direction is not half a feature.
_WIDTH = 192


@dataclass(frozen=True)
class NetworkPlant:
    """What is planted in a network."""

    reads: tuple[Cell, ...]  # the links that are read
    # Those that the answer depends on; () for an answer that is always "RIGHT".
    uses: tuple[Cell, ...] = (_GATE,)
    route: str = "end"  # "end" or "own": the token at which block 2 looks for them


@dataclass(frozen=True, eq=False)
class PlantedNetwork:
    """A planted network and its truth."""

    plant: NetworkPlant  # what was planted
    network: Network  # with these weights, in a folder of its own
    # By cell, the vector [D] that block 1 adds for a wall and subtracts for open ground; of the
    # cells that are read.
    directions: dict[Cell, FloatArray]

    def decisions(self, grids: int, *, seed: int) -> tuple[Sample, ...]:
        """The first decision in some mazes, no two of which are the same or mirror images."""
        worlds = planted_mazes(grids, seed=seed)
        return tuple(_sample(self.network, world, number) for number, world in enumerate(worlds))


def planted_network(plant: NetworkPlant, folder: str | Path, *, seed: int) -> PlantedNetwork:
    """Set the weights of a network and keep it in a folder, as `save_pretrained` does."""
    torch = require("torch", extra="lm", feature=_FEATURE)
    words = _tokenizer()
    features = _Features(plant, words, seed)
    model = features.empty_model()
    with torch.no_grad():
        features.set_embeddings(model)
        features.set_reading(model.transformer.h[0].attn)
        features.set_deciding(model.transformer.h[1].attn)
        features.set_answers(model.lm_head)
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    directions = {cell: features.vector(("read", cell)) for cell in plant.reads}
    return PlantedNetwork(plant, Network.open(f"goalmeter-local/{folder}"), directions)


def planted_mazes(grids: int, *, seed: int) -> tuple[GridWorld, ...]:
    """Mazes in which the first move is RIGHT if the gate is open, and DOWN if it is closed."""
    rng = np.random.default_rng(seed)
    walls = np.ones((_SIZE, _SIZE), dtype=bool)
    walls[1:-1:2, 1:-1:2] = False
    links = link_cells(walls.shape)
    worlds: dict[str, GridWorld] = {}
    for _ in range(50 * grids):
        if len(worlds) == grids:
            break
        walls[links] = rng.random(int(links.sum())) < 0.4
        around = walls.copy()
        around[_GATE], around[_ASIDE], walls[_ASIDE] = True, False, False
        if distances_from(around, [_GOAL])[0][_START] > 0:
            world = GridWorld(walls.copy(), _START, _GOAL)
            worlds.setdefault(content(world), world)
    assert len(worlds) == grids, "take fewer mazes"
    return tuple(worlds.values())


class _Features:
    """Which feature of the stream is what, and the weights that read and write them."""

    def __init__(self, plant: NetworkPlant, words: Any, seed: int) -> None:
        self.plant, self.words = plant, words
        self.answer_words = (_ASSISTANT, *_WRITTEN[:4], "move", _WRITTEN[4])
        named: list[Any] = ["constant", "wall", "first token", "decision"]
        named += [("says", word) for word in self.answer_words]
        named += [(kind, cell) for kind in ("place", "read") for cell in LINKS]
        self.number = {name: number for number, name in enumerate(named)}
        # A head a cell, and twice the features are filled up to a multiple of the heads.
        self.heads = len(plant.reads)
        self.width = -(-max(_WIDTH, 2 * len(named)) // (2 * self.heads)) * 2 * self.heads
        half = self.width // 2
        rng = np.random.default_rng(seed)
        self.rotation = np.linalg.qr(rng.normal(size=(half, half)))[0]

    def vector(self, name: Any) -> FloatArray:
        """The direction in the stream of a feature of size 1, [D]."""
        turned = self.rotation[:, self.number[name]]
        return np.concatenate([turned, -turned])

    def reader(self, name: Any) -> torch.Tensor:
        """What gives the size of a feature by a scalar product, [D]."""
        import torch

        return torch.tensor(self.vector(name) / 2, dtype=torch.float32)

    def writer(self, name: Any) -> torch.Tensor:
        """What is added to the stream for a feature of size 1, [D]."""
        import torch

        return torch.tensor(self.vector(name), dtype=torch.float32)

    def empty_model(self) -> Any:
        """The network with all weights zero, but for normalising."""
        from transformers import GPT2Config, GPT2LMHeadModel

        config = GPT2Config(
            vocab_size=len(self.words),
            n_embd=self.width,
            n_layer=2,
            n_head=self.heads,
            n_inner=1,
            n_positions=1024,
            tie_word_embeddings=False,
            eos_token_id=self.words.eos_token_id,
            bos_token_id=None,
            pad_token_id=self.words.pad_token_id,
        )
        model: Any = GPT2LMHeadModel(config)
        for name, weights in model.named_parameters():
            if not (".ln_" in name and name.endswith("weight")):
                weights.detach().zero_()
        return model

    def set_embeddings(self, model: Any) -> None:
        """What words and places bring with them."""
        tokens, places = model.transformer.wte.weight, model.transformer.wpe.weight
        tokens += self.writer("constant")
        for symbol, size in (("#", 1.0), ("_", -1.0), ("A", -1.0), ("G", -1.0)):
            tokens[self._id(symbol)] += size * self.writer("wall")
        for word in self.answer_words:
            for spelled in (_RIGHT, _DOWN) if word == "move" else (word,):
                tokens[self._id(spelled)] += self.writer(("says", word))
        places[0] += self.writer("first token")
        for cell, place in self._places().items():
            places[place] += self.writer(("place", cell))

    def set_reading(self, attention: Any) -> None:
        """A head for each cell that is read."""
        width = self.width // self.heads
        # A symbol has a constant, what it shows and its place: that is how it is normalised.
        scale = (self.width / 2 / 3) ** 0.5
        for head, cell in enumerate(self.plant.reads):
            self._attend(attention, head, ("place", cell))
            at = head * width
            attention.c_attn.weight[:, 2 * self.width + at] = self.reader("wall") / scale
            attention.c_proj.weight[at] = self.writer(("read", cell))

    def set_deciding(self, attention: Any) -> None:
        """The head that sees whether all cells that are used are open."""
        word = _ASSISTANT if self.plant.route == "end" else _WRITTEN[3]
        self._attend(attention, 0, ("says", word))
        # One cell that is not open is enough: n open ones are n, and the next sum is n - 1.
        value = (0.5 - len(self.plant.uses)) * self.reader("constant")
        for cell in self.plant.uses:
            value -= self.reader(("read", cell))
        attention.c_attn.weight[:, 2 * self.width] = value
        attention.c_proj.weight[0] = self.writer("decision")

    def set_answers(self, head: Any) -> None:
        """Which word follows which, and which move the decision is."""
        following = zip(self.answer_words, (*_WRITTEN[:4], None, *_WRITTEN[4:]), strict=True)
        for word, after in following:
            for spelled in (_RIGHT, _DOWN) if after is None else (after,):
                head.weight[self._id(spelled)] += _SYNTAX * self.reader(("says", word))
        head.weight[self._id(_RIGHT)] += _GAIN * self.reader("decision")
        head.weight[self._id(_DOWN)] -= _GAIN * self.reader("decision")

    def _attend(self, attention: Any, head: int, name: Any) -> None:
        width = self.width // self.heads
        at = head * width
        # Attention divides scores by the root of a head's width.
        attention.c_attn.bias[at] = width**0.5
        key = _SHARP * self.reader(name) + _SINK * self.reader("first token")
        attention.c_attn.weight[:, self.width + at] = key

    def _places(self) -> dict[Cell, int]:
        """Where in the prompt the symbols of the links stand."""
        (world,) = planted_mazes(1, seed=0)
        question = template(_PROMPT).prompt(world, State(world.start))
        ids = tuple(self.words(f"{_USER} {question} {_ASSISTANT}")["input_ids"])
        sample = Sample("", 0, world, State(world.start), None, (), question, ids, ())
        located = Located(sample, self.words)
        return {cell: located.cell(cell)[0] for cell in LINKS}

    def _id(self, word: str) -> int:
        return int(self.words.convert_tokens_to_ids(word))


def _tokenizer() -> Any:
    """The words of the prompt and of the answers, between blanks."""
    transformers: Any = require("transformers", extra="lm", feature=_FEATURE)
    tokenizers: Any = require("tokenizers", extra="lm", feature=_FEATURE)
    (world,) = planted_mazes(1, seed=0)
    question = template(_PROMPT).prompt(world, State(world.start)).split()
    special = [_PAD, _UNKNOWN, _END, _USER, _ASSISTANT]
    words = dict.fromkeys([*special, *question, "#", "_", *_WRITTEN, _RIGHT, _DOWN])
    ids = {word: number for number, word in enumerate(words)}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(ids, unk_token=_UNKNOWN))
    made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    out = transformers.PreTrainedTokenizerFast(
        tokenizer_object=made,
        pad_token=_PAD,
        unk_token=_UNKNOWN,
        eos_token=_END,
        additional_special_tokens=[_USER, _ASSISTANT],
        clean_up_tokenization_spaces=False,
    )
    out.chat_template = _CHAT
    return out


def _sample(network: Network, world: GridWorld, number: int) -> Sample:
    state = State(world.start)
    question = template(_PROMPT).prompt(world, state)
    ids = network.local.ids([{"role": "user", "content": question}])
    optimal = planned(world).optimal_actions(state)
    return Sample(f"planted/{number}", 0, world, state, None, optimal, question, ids, ())
