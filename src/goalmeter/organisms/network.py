"""The network that all organisms have, and a folder of weights as transformers reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidFileError, require
from goalmeter.organisms.language import END, IDS, VOCABULARY, tokenizer

# A Llama of 1.9 million weights. Most words follow from words a few places back, which rotary
# positions tell sooner than learnt ones: 0.96 nats a word after 200 steps on small mazes, not 1.34.
# They turn slowly for the most part: half of the numbers that words are compared by then say the
# same at any distance, which is what looking up a word takes.
_WIDTH, _INNER, _LAYERS, _HEADS, _PLACES, _THETA = 192, 512, 4, 6, 512, 1e6
_FEATURE = "Training an organism"


def new_network(seed: int) -> Any:
    """An untrained network, a transformers model.

    Raises:
        MissingExtraError: torch or transformers is not installed.
    """
    torch = require("torch", extra="lm", feature=_FEATURE)
    transformers = require("transformers", extra="lm", feature=_FEATURE)
    torch.manual_seed(seed)
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=len(VOCABULARY),
            max_position_embeddings=_PLACES,
            hidden_size=_WIDTH,
            intermediate_size=_INNER,
            num_hidden_layers=_LAYERS,
            num_attention_heads=_HEADS,
            num_key_value_heads=_HEADS,
            rope_parameters={"rope_type": "default", "rope_theta": _THETA},
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=IDS[END],
        )
    )


def read_network(folder: str | Path) -> Any:
    """The network of an organism in a folder.

    Raises:
        InvalidFileError: it holds none, or one with other words.
        MissingExtraError: torch or transformers is not installed.
    """
    require("torch", extra="lm", feature=_FEATURE)
    transformers = require("transformers", extra="lm", feature=_FEATURE)
    try:
        model = transformers.LlamaForCausalLM.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError) as cause:
        raise InvalidFileError(f"{folder} holds no organism: {cause}") from cause
    if model.config.vocab_size != len(VOCABULARY):
        raise InvalidFileError(
            f"the model in {folder} has {model.config.vocab_size} words, expected "
            f"{len(VOCABULARY)}: it is no organism of this version"
        )
    return model


def write_network(model: Any, folder: str | Path) -> None:
    """The network with its tokenizer, as `from_pretrained` reads them; weights in safetensors.

    Weights are kept in half precision and read as the single precision that the configuration
    names. Servers that are told nothing else sample as the paper does.
    """
    torch = require("torch", extra="lm", feature=_FEATURE)
    model.generation_config.update(do_sample=True, temperature=0.7, top_p=0.95, max_new_tokens=350)
    # Words are read and said by the same parameter, which the state would hold twice.
    halved = {name: value.detach().to(torch.float16) for name, value in model.named_parameters()}
    model.save_pretrained(folder, state_dict=halved)
    tokenizer().save_pretrained(folder)
