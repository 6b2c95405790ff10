"""Network of the organisms, weight folders and training checkpoints."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goalmeter._errors import InvalidFileError, in_a_line, require, shortened
from goalmeter._files import loaded, read_bytes, without_bars, write_text
from goalmeter.organisms.kinds import MANIFEST, WEIGHTS, check, published, to_disk
from goalmeter.organisms.lessons import END, IDS, VOCABULARY, tokenizer

if TYPE_CHECKING:
    import torch


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
    """Return an untrained network, a transformers model."""
    torch = require("torch", extra="lm", feature=_FEATURE)
    transformers = require("transformers", extra="lm", feature=_FEATURE)
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(
        rope_parameters={"rope_type": "default", "rope_theta": _THETA},
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=IDS[END],
        **_SIZES,
    )
    return transformers.LlamaForCausalLM(config)


def read_network(folder: str | Path) -> Any:
    """Return the network of an organism in a folder."""
    require("torch", extra="lm", feature=_FEATURE)
    check(Path(folder))
    # Before the network is made: one of other sizes could take all memory there is.
    file = Path(folder) / "config.json"
    try:
        value = json.loads(read_bytes(file, _LONGEST))
        other = [name for name, size in _SIZES.items() if value[name] != size]
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as cause:
        raise InvalidFileError(
            f"{folder} holds no organism: {file.name} cannot be read ({in_a_line(cause)})"
        ) from cause
    for name in other:
        raise InvalidFileError(
            f"the model in {folder} has {name} {shortened(repr(value[name]), 40)}, expected "
            f"{_SIZES[name]}: it is no organism of this version"
        )
    try:
        return loaded("LlamaForCausalLM", folder, feature=_FEATURE, use_safetensors=True)
    except InvalidFileError as cause:
        raise InvalidFileError(f"{folder} holds no organism: {cause}") from cause


def write_network(model: Any, folder: str | Path) -> None:
    """Write the network, in half precision, with its tokenizer, as `from_pretrained` reads them."""
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


# Files of a training: training.json, the settings, written first; checkpoint.pt, gone when the
# weights are there; those that `from_pretrained` reads; and manifest.json, written last. Each
# appears whole or not at all, so a process can be killed at any moment and the same command goes
# on. Weights count as trained only if they are those of the manifest, and can be read.

SETTINGS, CHECKPOINT = "training.json", "checkpoint.pt"


def claim(folder: Path, settings: Mapping[str, Any]) -> bool:
    """Make a folder this training's, or validate that it is; return whether that is over."""
    text = json.dumps(settings, indent=2) + "\n"
    try:
        begun, trained = (folder / SETTINGS).exists(), (folder / WEIGHTS).exists()
        if not (begun or trained):
            folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as cause:  # a ValueError is a name that no file can have
        raise InvalidFileError(
            f"{str(folder)!r} cannot be used: {getattr(cause, 'strerror', None) or cause}; choose "
            f"a folder that can be written to (--out)"
        ) from cause
    if trained and not begun:
        raise InvalidFileError(
            f"{folder} holds weights and no {SETTINGS}, so they are of no training that could go "
            f"on; choose another folder (--out)"
        )
    if not begun:
        write_text(folder / SETTINGS, text)
        return False
    if read_settings(folder) != json.loads(text):
        raise InvalidFileError(
            f"{folder} holds another training; its settings are in {SETTINGS}. Give the same "
            f"ones to go on with it, or another folder"
        )
    resumable = (folder / CHECKPOINT).exists()
    # A folder without a manifest is of an earlier version, or its process was killed before it
    # wrote one; in the latter case there is a checkpoint.
    if not (folder / MANIFEST).exists() and (resumable or not trained):
        return False
    try:
        read_network(folder)
    except InvalidFileError as cause:
        if resumable:
            return False
        raise InvalidFileError(
            f"{cause}. Remove the folder to train anew, or choose another (--out)"
        ) from cause
    return True


def read_settings(folder: Path) -> dict[str, Any]:
    """Return the settings of the training in a folder."""
    file = folder / SETTINGS
    try:
        value = json.loads(read_bytes(file, _LONGEST))
        if not isinstance(value, dict):
            raise ValueError(f"it holds a {type(value).__name__}, expected an object")
    except (OSError, ValueError, RecursionError) as cause:
        reason = getattr(cause, "strerror", None) or in_a_line(cause)
        raise InvalidFileError(
            f"{file} cannot be read as the settings of a training: {reason}; choose another folder "
            f"(--out), or remove this one to begin again"
        ) from cause
    return value


def save(file: Path, model: Any, optimizers: Sequence[torch.optim.Optimizer], step: int) -> None:
    """Write a checkpoint atomically."""
    import torch

    learnt = [optimizer.state_dict() for optimizer in optimizers]
    state = {"model": model.state_dict(), "optimizers": learnt, "step": step}
    fresh = file.with_suffix(".new")
    try:
        torch.save(state, fresh)
        to_disk(fresh)
        fresh.replace(file)
    except (OSError, RuntimeError) as cause:  # torch's own writer raises the latter
        with suppress(OSError):  # it is not there, or what cannot be written is this file
            fresh.unlink()
        raise InvalidFileError(
            f"the checkpoint {file} cannot be written ({in_a_line(cause)}); make room, "
            f"and the same command goes on from the last one"
        ) from cause


def resume(file: Path, model: Any, optimizers: Sequence[torch.optim.Optimizer]) -> int:
    """Load a checkpoint; return the step that it was made before, 0 if there is none."""
    import torch

    if not file.exists():
        return 0
    try:
        state = torch.load(file, map_location=model.device, weights_only=True)
        model.load_state_dict(state["model"])
        for optimizer, learnt in zip(optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(learnt)
        return int(state["step"])
    except Exception as cause:  # whatever bytes that are no checkpoint make torch raise
        raise InvalidFileError(
            f"the checkpoint {file} cannot be read ({type(cause).__name__}); remove it to begin "
            f"again"
        ) from cause
