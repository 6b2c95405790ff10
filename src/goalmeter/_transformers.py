"""Models of transformers from folders of this machine: whole or not at all, and without noise."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidFileError, require
from goalmeter._files import read_bytes
from goalmeter._text import in_a_line, shown

# Prompts of a batch are filled up to the longest one. transformers counts these fillings as words,
# and warns of a context that is too short though each prompt with its answer fits.
_OF_FILLED_BATCHES = "exceeded the model's predefined maximum length"
_GENERATION = "transformers.generation.stopping_criteria"
# Every layer is built before the weights are read; the deepest models have some hundred.
_MOST_LAYERS, _MOST_BYTES = 10_000, 2**24


def loaded(kind: str, folder: str | Path, *, feature: str, **options: Any) -> Any:
    """A model, read without a network from a folder as `save_pretrained` writes it.

    `kind` is the class of transformers, such as "AutoModelForCausalLM", `feature` what the model is
    needed for, as the subject of a sentence, and `options` are those of `from_pretrained`.
    """
    transformers: Any = require("transformers", extra="lm", feature=feature)
    read = getattr(transformers, kind).from_pretrained
    with _reading(folder):
        _check_layers(json.loads(read_bytes(Path(folder) / "config.json", _MOST_BYTES)))
        model, seen = read(folder, local_files_only=True, output_loading_info=True, **options)
    if lacking := sorted(seen["missing_keys"]):
        raise InvalidFileError(
            f"the model in {folder} is not whole: {len(lacking)} of its weights are missing, such "
            f"as {lacking[0]}"
        )
    return model


def loaded_tokenizer(folder: str | Path, *, feature: str) -> Any:
    """The tokenizer of a model, read from its folder without a network."""
    transformers: Any = require("transformers", extra="lm", feature=feature)
    with _reading(folder):
        return transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)


@contextmanager
def without_bars() -> Iterator[None]:
    """No loading bars of transformers; they are shown again afterwards if they were before."""
    from transformers.utils import logging as untyped

    theirs: Any = untyped  # the package says nothing of its types
    shown = theirs.is_progress_bar_enabled()
    theirs.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            theirs.enable_progress_bar()


@contextmanager
def generating_in_batches() -> Iterator[None]:
    """No warning that a batch is longer than the context when only its fillings make it so.

    For callers that see to it that each prompt with its answer fits. All other warnings are said.
    """

    def keep(record: logging.LogRecord) -> bool:
        return _OF_FILLED_BATCHES not in record.getMessage()

    logger = logging.getLogger(_GENERATION)
    logger.addFilter(keep)
    try:
        yield
    finally:
        logger.removeFilter(keep)


def _check_layers(config: Any) -> None:
    """Raise ValueError if a configuration, or one inside of it, has too many layers to build."""
    for name, value in config.items():
        if isinstance(value, dict):
            _check_layers(value)
        elif "layer" in name and type(value) is int and value > _MOST_LAYERS:
            raise ValueError(f"its {name} is {shown(value)}, expected at most {_MOST_LAYERS}")


@contextmanager
def _reading(folder: str | Path) -> Iterator[None]:
    try:
        with without_bars():
            yield
    # A damaged file raises whatever the reader of its format stumbles over: SafetensorError,
    # KeyError, TypeError, RuntimeError, and plain Exception by the reader of tokenizer.json.
    except Exception as cause:
        raise InvalidFileError(
            f"the model in {folder} cannot be loaded: {in_a_line(cause)}"
        ) from cause
