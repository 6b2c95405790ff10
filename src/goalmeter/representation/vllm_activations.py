"""Activations that a vLLM server extracted, as rows of a capture: refused unless they are these.

A server that is started with the speculative method "extract_hidden_states" and the connector
ExampleHiddenStatesConnector writes a file of safetensors a request:

    token_ids       [T], the tokens of the request's prompt
    hidden_states   [T, layers, D], the residual stream at the layers that the server was told

Layers are counted as here: 0 is the embedding, k what block k passes on, the last one before its
normalisation. They stand in rising order, however they were named to the server. What is sent is a
recorded decision as a prompt, `list(sample.ids)`, with one token to be written, so that reasoning
and answer are prompt too. No token stands for another file's: files are found by their tokens.

What has gone wrong in such files, and is refused: with prefix caching the states of tokens that
were in the cache are missing (vllm#44485, open in version 0.22); a layer id that the model does not
have is left out silently (speculators#705); a last layer is named by its number from 0, which is
one block early (TorchSpec#87), so the number of blocks has to be said; rows of a batch were those
of another request (speculators#279), which the embedding tells wherever layer 0 was extracted, for
there a token is the same vector wherever it stands.

Source: vllm/distributed/kv_transfer/kv_connector/v1/example_hidden_states_connector.py. Written
against the file format only: no server was run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goalmeter._errors import InvalidFileError, InvalidParameterError, require
from goalmeter._names import unknown_name
from goalmeter.representation.activations import Activations, Placed, keep
from goalmeter.representation.network import checked_layers
from goalmeter.representation.replay import Sample, digest_of
from goalmeter.runs.progress import Tell

if TYPE_CHECKING:
    import torch

DTYPES = ("float16", "bfloat16", "float32", "float64")
TOKENS, STATES = "token_ids", "hidden_states"
_MEND = "extract it again, without prefix caching"


@dataclass(frozen=True)
class Extraction:
    """What a server was told when it was started, and which model it has.

    Attributes:
        folder: where it wrote its files.
        model: its name.
        revision: of its weights, such as the commit of the repository that they are from.
        blocks: how many the model has.
        layers: that were extracted, as `eagle_aux_hidden_state_layer_ids`.
        width: numbers in the residual stream of a token, D.
        dtype: of the numbers, such as "bfloat16".
    """

    folder: str | Path
    model: str
    revision: str
    blocks: int
    layers: tuple[int, ...]
    width: int
    dtype: str

    def __post_init__(self) -> None:
        checked_layers(self.layers, self.blocks, self.model)
        if self.dtype not in DTYPES:
            raise unknown_name(self.dtype, DTYPES, "the number type")


def from_vllm(
    extraction: Extraction,
    samples: Sequence[Sample],
    tokenizer: Any,
    folder: str | Path,
    *,
    layers: Sequence[int],
    positions: Sequence[str],
    progress: Tell | None = None,
) -> Activations:
    """Take the rows of some decisions out of the files of a vLLM server, and keep them.

    Args:
        extraction: what the server wrote, and how.
        samples: the decisions, in the order of the rows.
        tokenizer: of the model, a transformers object.
        folder: where the activations are kept; a part of the same ones is completed, so that a
            server's files can be taken 256 decisions at a time and deleted, as they hold all
            tokens.
        layers: some of those that were extracted.
        positions: names as `positions.position` knows them.
        progress: told now and then how far it is, and before it begins how much disk it takes.

    Example: what the server is started with, and what it is sent.
        >>> config = {
        ...     "method": "extract_hidden_states",
        ...     "num_speculative_tokens": 1,
        ...     "draft_model_config": {"hf_config": {"eagle_aux_hidden_state_layer_ids": [0, 12]}},
        ... }
        >>> def request(sample):
        ...     return {"prompt": list(sample.ids), "max_tokens": 1}
    """
    extracted = sorted(set(extraction.layers))
    wanted = list(checked_layers(layers, extraction.blocks, extraction.model))
    if set(wanted) - set(extracted):
        raise InvalidParameterError(
            f"layers are {list(layers)}, expected some of {extracted}, which the server extracted"
        )
    placed = Placed.of(samples, tokenizer, positions)
    files = _files_in(Path(extraction.folder))
    manifest = {
        "model": extraction.model,
        "revision": extraction.revision,
        "layers": wanted,
        "width": extraction.width,
        "backend": "vllm",
        "dtype": extraction.dtype,
    }

    def fill(part: Placed, arrays: Mapping[tuple[int, str], torch.Tensor]) -> None:
        _check_there(files, part, extraction)
        for row, (sample, places) in enumerate(zip(part.samples, part.places, strict=True)):
            states = _states(files[sample.digest], sample, extraction, extracted)
            for (layer, name), array in arrays.items():
                if tokens := places[name]:
                    array[row] = states[list(tokens), extracted.index(layer)]

    return keep(Path(folder), placed, manifest, fill, once=dict, progress=progress)


def _files_in(folder: Path) -> dict[str, Path]:
    """The files of a folder by the digest of their tokens."""
    paths = sorted(folder.glob("*.safetensors"))
    return {digest_of(_array(path, TOKENS).flatten().tolist()): path for path in paths}


def _check_there(files: Mapping[str, Path], part: Placed, extraction: Extraction) -> None:
    """See that each decision of a shard has its file."""
    lacking = [sample for sample in part.samples if sample.digest not in files]
    if lacking:
        raise InvalidFileError(
            f"{extraction.folder} has no file with the tokens of {len(lacking)} of {len(part)} "
            f"decisions, first step {lacking[0].step} of {lacking[0].walk!r}; send the recorded "
            f"tokens themselves as the prompt, answer included, and not their text"
        )


def _states(path: Path, sample: Sample, extraction: Extraction, layers: list[int]) -> torch.Tensor:
    """The states in a file, [T, layers, D], after all that can be checked was."""
    import torch

    states = _array(path, STATES)
    expected = (len(sample.ids), len(layers), extraction.width)
    what = ("tokens", "layers", "numbers a token")
    for axis, (size, name) in enumerate(zip(expected, what, strict=True)):
        if states.ndim != 3 or states.shape[axis] != size:
            raise InvalidFileError(
                f"{path} has states of shape {list(states.shape)}, expected {size} {name} for step "
                f"{sample.step} of {sample.walk!r}; {_MEND}"
            )
    if str(states.dtype) != f"torch.{extraction.dtype}":
        raise InvalidFileError(
            f"{path} has numbers of type {states.dtype}, expected {extraction.dtype}; say which "
            f"type the server computes in"
        )
    if not torch.isfinite(states).all():
        raise InvalidFileError(f"{path} has states that are no finite numbers; {_MEND}")
    if layers[0] == 0 and not _one_vector_a_token(states[:, 0], sample.ids):
        raise InvalidFileError(
            f"{path} has two embeddings of one token, so its states are those of another request; "
            f"{_MEND}"
        )
    return states


def _one_vector_a_token(embeddings: torch.Tensor, ids: Sequence[int]) -> bool:
    """Whether equal tokens have equal embeddings [T, D]."""
    import torch

    kinds = torch.unique(torch.tensor(ids), return_inverse=True)[1]
    first = torch.zeros(int(kinds.max()) + 1, dtype=torch.long)
    # The last place of a token that is written stays; which of them it is does not matter.
    first[kinds] = torch.arange(len(kinds))
    return bool(torch.equal(embeddings, embeddings[first[kinds]]))


def _array(path: Path, name: str) -> torch.Tensor:
    """One of the two arrays of a file, mapped into memory: the states are large."""
    safetensors = require("safetensors", extra="lm", feature="Reading a server's activations")
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            return file.get_tensor(name)  # type: ignore[no-any-return]
    # SafetensorError is no subclass of anything else than Exception.
    except Exception as cause:
        raise InvalidFileError(
            f"{path} is damaged, still being written, or has no {name}; wait for the server, or "
            f"extract it again"
        ) from cause
