"""A language model of any size that walks: so many words of thought, then a move.

It is a Llama of random weights whose layers are computed like any other's and add nothing; which
token comes next depends on the one before alone. So every answer has the same number of tokens, can
be read, and takes the time that a trained model of the size would take.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from goalmeter.gridworld import State
from goalmeter.gridworld.world import ACTIONS
from goalmeter.navigation import suite
from goalmeter.navigation.prompts import template

END, OPEN, CLOSE = "<end>", '{"action": "', '"}'
VOCABULARY = 4096
_HEAD = 32  # width of an attention head


def talking_model(folder: Path, *, width: int, layers: int, tokens: int) -> int:
    """Make one.

    Args:
        folder: where to.
        width: of its layers.
        layers: how many.
        tokens: of an answer: thoughts, three for the move, one that ends it.

    Returns:
        How many weights it has.
    """
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    thoughts = [f"<{number}>" for number in range(tokens - 4)]
    words = _tokenizer(thoughts)
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=width,
            intermediate_size=4 * width,
            num_hidden_layers=layers,
            num_attention_heads=width // _HEAD,
            num_key_value_heads=width // _HEAD,
            max_position_embeddings=4096,
            eos_token_id=words.eos_token_id,
            pad_token_id=words.pad_token_id,
            bos_token_id=None,
        )
    )
    after = dict(zip(["", *thoughts], [[t] for t in thoughts], strict=False))
    after |= {thoughts[-1]: [OPEN], OPEN: list(ACTIONS), CLOSE: [END]}
    _talk(model, words, after | {action: [CLOSE] for action in ACTIONS})
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    return sum(weights.numel() for weights in model.parameters())


def _tokenizer(thoughts: list[str]) -> Any:
    """A tokenizer that knows the words of our prompts."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    worlds = [task.world for task in suite("maze", grids=1).tasks]
    texts = [template("plain/1").prompt(world, State(world.start)) for world in worlds]
    trainer = trainers.BpeTrainer(
        vocab_size=600, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    made.train_from_iterator(texts, trainer)
    made.add_tokens([*thoughts, OPEN, CLOSE, *ACTIONS])
    words = PreTrainedTokenizerFast(tokenizer_object=made, eos_token=END, pad_token="<pad>")
    words.chat_template = (
        "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:"
    )
    return words


def _talk(model: Any, words: Any, after: dict[str, list[str]]) -> None:
    """Make tokens follow each other, equally likely ones where there are several.

    Each token that has followers of its own is a direction of the embedding; all others are "".
    """
    import torch

    with torch.no_grad():
        for name, weights in model.named_parameters():
            if "o_proj" in name or "down_proj" in name:
                weights.zero_()
        embedding, head = model.get_input_embeddings().weight, model.get_output_embeddings().weight
        embedding.zero_()
        head.zero_()
        embedding[:, 0] = 1.0
        for place, (last, following) in enumerate(after.items()):
            if last:
                embedding[words.convert_tokens_to_ids(last)] = torch.eye(embedding.shape[1])[place]
            # The last norm makes the direction longer than 1: all but the followers are hopeless.
            head[:, place] = -40.0
            for token in following:
                head[words.convert_tokens_to_ids(token), place] = 0.0
