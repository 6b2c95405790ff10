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
from goalmeter.organisms.lessons import END, IDS, SMALL_VOCABULARY, VOCABULARY, tokenizer

if TYPE_CHECKING:
    import torch


# A Llama of 1.9 million weights. Most words depend on words a few places back, which is learnt
# faster with rotary than with learnt positions: 0.96 instead of 1.34 nats per word after 200 steps
# on small mazes. The large theta makes half of the rotary dimensions nearly independent of the
# distance, which helps to look up a word.
_WIDTH, _INNER, _LAYERS, _HEADS, _THETA = 192, 512, 4, 6, 1e6
# Longest text in tokens by the number of words: grids up to size 13, and up to size 15.
_PLACES = {SMALL_VOCABULARY: 512, len(VOCABULARY): 1024}
_ANSWERS = {SMALL_VOCABULARY: 350, len(VOCABULARY): 720}
_SIZES = {
    "hidden_size": _WIDTH,
    "intermediate_size": _INNER,
    "num_hidden_layers": _LAYERS,
    "num_attention_heads": _HEADS,
    "num_key_value_heads": _HEADS,
}
_FEATURE = "Training an organism"
_LONGEST = 1_000_000  # maximum bytes of a configuration


def new_network(seed: int, words: int = SMALL_VOCABULARY) -> Any:
    """Return an untrained network with this many words as a transformers model."""
    torch = require("torch", extra="lm", feature=_FEATURE)
    transformers = require("transformers", extra="lm", feature=_FEATURE)
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(
        rope_parameters={"rope_type": "default", "rope_theta": _THETA},
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=IDS[END],
        vocab_size=words,
        max_position_embeddings=_PLACES[words],
        **_SIZES,
    )
    return transformers.LlamaForCausalLM(config)


def with_vocabulary(model: Any, words: int, seed: int) -> Any:
    """Return the network with at least this many words, new ones drawn as for a new network."""
    if model.config.vocab_size < words:
        torch = require("torch", extra="lm", feature=_FEATURE)
        torch.manual_seed(seed)
        model.resize_token_embeddings(words, mean_resizing=False)
        model.config.max_position_embeddings = _PLACES[words]
    return model


def read_network(folder: str | Path) -> Any:
    """Load the network of an organism from a folder."""
    require("torch", extra="lm", feature=_FEATURE)
    check(Path(folder))
    # Sizes are checked first, since a network of other sizes could exhaust the memory.
    file = Path(folder) / "config.json"
    try:
        value = json.loads(read_bytes(file, _LONGEST))
        words = value["vocab_size"]
        words = words if words in _PLACES else SMALL_VOCABULARY
        expected = {"vocab_size": words, "max_position_embeddings": _PLACES[words]} | _SIZES
        other = [name for name, size in expected.items() if value[name] != size]
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as cause:
        raise InvalidFileError(
            f"{folder} contains no organism: {file.name} cannot be read ({in_a_line(cause)})"
        ) from cause
    for name in other:
        raise InvalidFileError(
            f"the model in {folder} has {name} {shortened(repr(value[name]), 40)}, expected "
            f"{expected[name]} for an organism of this version"
        )
    try:
        return loaded("LlamaForCausalLM", folder, feature=_FEATURE, use_safetensors=True)
    except InvalidFileError as cause:
        raise InvalidFileError(f"{folder} contains no organism: {cause}") from cause


def write_network(model: Any, folder: str | Path) -> None:
    """Write the network in half precision and its tokenizer, for `from_pretrained`."""
    torch = require("torch", extra="lm", feature=_FEATURE)
    # The default sampling settings of servers are the paper's.
    model.generation_config.update(
        do_sample=True,
        temperature=0.7,
        top_p=0.95,
        max_new_tokens=_ANSWERS[model.config.vocab_size],
    )
    # Input and output embeddings share a parameter, which the state would contain twice.
    halved = {name: value.detach().to(torch.float16) for name, value in model.named_parameters()}
    with published(Path(folder)) as fresh, without_bars():
        try:
            model.save_pretrained(fresh, state_dict=halved)
            tokenizer(model.config.vocab_size).save_pretrained(fresh)
        except Exception as cause:  # the writers have their own errors for a full disk
            raise OSError(in_a_line(cause)) from cause


# Files of a training: training.json with the settings, written first; checkpoint.pt, removed when
# the weights are written; the files for `from_pretrained`; and manifest.json, written last. Each is
# written atomically, so a killed training is resumed by the same command. Weights count as trained
# only if they match the manifest and can be read.

SETTINGS, CHECKPOINT = "training.json", "checkpoint.pt"


def claim(folder: Path, settings: Mapping[str, Any]) -> bool:
    """Claim a folder for a training, or validate its settings; return whether it is finished."""
    text = json.dumps(settings, indent=2) + "\n"
    try:
        begun, trained = (folder / SETTINGS).exists(), (folder / WEIGHTS).exists()
        if not (begun or trained):
            folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as cause:  # ValueError: invalid file name
        raise InvalidFileError(
            f"{str(folder)!r} cannot be used: {getattr(cause, 'strerror', None) or cause}; choose "
            f"a writable folder (--out)"
        ) from cause
    if trained and not begun:
        raise InvalidFileError(
            f"{folder} contains weights but no {SETTINGS}, so there is no training to resume; "
            f"choose another folder (--out)"
        )
    if not begun:
        write_text(folder / SETTINGS, text)
        return False
    if read_settings(folder) != json.loads(text):
        raise InvalidFileError(
            f"{folder} contains another training; use the settings in its {SETTINGS} to resume it, "
            f"or choose another folder"
        )
    resumable = (folder / CHECKPOINT).exists()
    # A folder without a manifest is from an earlier version, or its process was killed before the
    # manifest; in the latter case there is a checkpoint.
    if not (folder / MANIFEST).exists() and (resumable or not trained):
        return False
    try:
        read_network(folder)
    except InvalidFileError as cause:
        if resumable:
            return False
        raise InvalidFileError(
            f"{cause}. Remove the folder to train again, or choose another (--out)"
        ) from cause
    return True


def read_settings(folder: Path) -> dict[str, Any]:
    """Read the settings of the training in a folder."""
    file = folder / SETTINGS
    try:
        value = json.loads(read_bytes(file, _LONGEST))
        if not isinstance(value, dict):
            raise ValueError(f"it contains a {type(value).__name__}, expected an object")
    except (OSError, ValueError, RecursionError) as cause:
        reason = getattr(cause, "strerror", None) or in_a_line(cause)
        raise InvalidFileError(
            f"{file} does not contain valid training settings: {reason}; choose another folder "
            f"(--out), or remove this folder to start again"
        ) from cause
    return value


def save(file: Path, model: Any, optimizers: Sequence[torch.optim.Optimizer], step: int) -> None:
    """Write a checkpoint atomically."""
    import torch

    states = [optimizer.state_dict() for optimizer in optimizers]
    state = {"model": model.state_dict(), "optimizers": states, "step": step}
    temporary = file.with_suffix(".new")
    try:
        torch.save(state, temporary)
        to_disk(temporary)
        temporary.replace(file)
    except (OSError, RuntimeError) as cause:  # torch's writer raises RuntimeError
        with suppress(OSError):  # the file is missing or not writable
            temporary.unlink()
        raise InvalidFileError(
            f"the checkpoint {file} cannot be written ({in_a_line(cause)}); free disk space and "
            f"repeat the command to resume from the last checkpoint"
        ) from cause


def resume(file: Path, model: Any, optimizers: Sequence[torch.optim.Optimizer]) -> int:
    """Load a checkpoint and return the number of steps done, 0 without a checkpoint."""
    import torch

    if not file.exists():
        return 0
    try:
        state = torch.load(file, map_location=model.device, weights_only=True)
        model.load_state_dict(state["model"])
        for optimizer, optimizer_state in zip(optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(optimizer_state)
        return int(state["step"])
    except Exception as cause:  # torch raises many kinds of errors for corrupt files
        raise InvalidFileError(
            f"the checkpoint {file} cannot be read ({type(cause).__name__}); remove it to start "
            f"again"
        ) from cause
