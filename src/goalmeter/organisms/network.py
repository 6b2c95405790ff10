"""The network that all organisms have, and a folder of weights as transformers reads it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidFileError, require
from goalmeter._files import read_bytes
from goalmeter._text import in_a_line, shortened
from goalmeter._transformers import loaded, without_bars
from goalmeter.organisms.language import END, IDS, VOCABULARY, tokenizer
from goalmeter.organisms.manifest import check, published

# A Llama of 1.9 million weights. Most words follow from words a few places back, which rotary
# positions tell sooner than learnt ones: 0.96 nats a word after 200 steps on small mazes, not 1.34.
# They turn slowly for the most part: half of the numbers that words are compared by then say the
# same at any distance, which is what looking up a word takes.
_WIDTH, _INNER, _LAYERS, _HEADS, _PLACES, _THETA = 192, 512, 4, 6, 512, 1e6
_SIZES = {
    "vocab_size": len(VOCABULARY),
    "max_position_embeddings": _PLACES,
    "hidden_size": _WIDTH,
    "intermediate_size": _INNER,
    "num_hidden_layers": _LAYERS,
    "num_attention_heads": _HEADS,
    "num_key_value_heads": _HEADS,
}
_FEATURE = "Training an organism"
_LONGEST = 1_000_000  # bytes of a configuration


def new_network(seed: int) -> Any:
    """An untrained network, a transformers model."""
    torch = require("torch", extra="lm", feature=_FEATURE)
    transformers = require("transformers", extra="lm", feature=_FEATURE)
    torch.manual_seed(seed)
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            rope_parameters={"rope_type": "default", "rope_theta": _THETA},
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=IDS[END],
            **_SIZES,
        )
    )


def read_network(folder: str | Path) -> Any:
    """The network of an organism in a folder."""
    require("torch", extra="lm", feature=_FEATURE)
    check(Path(folder))
    _check_sizes(Path(folder))
    try:
        model = loaded("LlamaForCausalLM", folder, feature=_FEATURE, use_safetensors=True)
    except InvalidFileError as cause:
        raise InvalidFileError(f"{folder} holds no organism: {cause}") from cause
    return model


def _check_sizes(folder: Path) -> None:
    # Before the network is made: one of other sizes could take all memory there is.
    file = folder / "config.json"
    try:
        value = json.loads(read_bytes(file, _LONGEST))
        sizes = {name: value[name] for name in _SIZES}
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as cause:
        raise InvalidFileError(
            f"{folder} holds no organism: {file.name} cannot be read ({in_a_line(cause)})"
        ) from cause
    for name, size in sizes.items():
        if size != _SIZES[name]:
            raise InvalidFileError(
                f"the model in {folder} has {name} {shortened(repr(size), 40)}, expected "
                f"{_SIZES[name]}: it is no organism of this version"
            )


def write_network(model: Any, folder: str | Path) -> None:
    """The network with its tokenizer, as `from_pretrained` reads them; weights in safetensors.

    Weights are kept in half precision and read as the single precision that the configuration
    names. The files appear when all of them are written, with a manifest that tells them whole.
    """
    torch = require("torch", extra="lm", feature=_FEATURE)
    # Servers that are told nothing else sample as the paper does.
    model.generation_config.update(do_sample=True, temperature=0.7, top_p=0.95, max_new_tokens=350)
    # Words are read and said by the same parameter, which the state would hold twice.
    halved = {name: value.detach().to(torch.float16) for name, value in model.named_parameters()}
    with published(Path(folder)) as fresh, without_bars():
        try:
            model.save_pretrained(fresh, state_dict=halved)
            tokenizer().save_pretrained(fresh)
        except Exception as cause:  # the writers have errors of their own for a full disk
            raise OSError(in_a_line(cause)) from cause
