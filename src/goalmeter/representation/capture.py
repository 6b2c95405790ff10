"""Capture the residual stream of recorded decisions, also from an untrained network."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from goalmeter._errors import InvalidFileError, InvalidParameterError, require
from goalmeter._types import FloatArray, IntArray
from goalmeter.representation.activations import (
    FORMAT,
    MANIFEST,
    Activations,
    CaptureRows,
    check_disk,
    check_same_capture,
    read_manifest,
    shard_path,
    write_manifest,
    write_shard,
)
from goalmeter.representation.network import Network
from goalmeter.representation.replay import Sample
from goalmeter.runs.progress import Tell

if TYPE_CHECKING:
    import torch

Arrays = Mapping[tuple[int, str], "torch.Tensor"]

BATCH_TOKENS = 8192  # padding included
# Largest difference between a row in a batch and the same row alone, relative to the root mean
# square of the row: it allows for rounding; a row at wrong positions differs by its whole size.
_TOLERANCE = {"float32": 1e-3, "float64": 1e-6, "bfloat16": 0.1, "float16": 0.05}


def capture(
    samples: Sequence[Sample],
    network: Network,
    folder: str | Path,
    *,
    layers: Sequence[int],
    positions: Sequence[str],
    later: Mapping[Path, Sequence[int]] | None = None,
    progress: Tell | None = None,
) -> Activations:
    """Capture the residual stream of decisions at some layers and positions, into a folder.

    Args:
        samples: the decisions, in the order of the rows.
        network: the model that made them.
        folder: destination; an interrupted capture found there is completed, another is refused.
        layers: 0 for the embedding, k for the output of block k.
        positions: names of tokens, see `replay.position`.
        later: layers of further captures of the same decisions and positions, by folder: if the
            disk is too small for all of them, none begins.
        progress: called with the disk space needed and after each shard.
    """
    import torch

    folder, wanted = Path(folder), network.check_layers(layers)
    rows = CaptureRows.of(samples, network.local.tokenizer, positions)
    manifest = {
        "format": FORMAT,
        "model": network.name,
        "revision": network.revision,
        "layers": list(wanted),
        "width": network.width,
        **network.pinned,
        "positions": dict(rows.widths),
        "rows": len(rows),
        "shards": rows.shards,
    }
    check_same_capture(folder, manifest, rows)
    dtype = getattr(torch, network.pinned["dtype"])
    captures = {folder: wanted, **(later or {})}
    check_disk(captures, rows, network.width, dtype.itemsize, progress)
    if not (folder / MANIFEST).is_file():
        padding = padding_difference(network, samples, wanted)
        write_manifest(folder, manifest | {"padded_against_single": padding, "sha256": {}})
    for number in rows.missing(folder):
        part = rows.shard(number)
        arrays = {
            (layer, name): torch.full((len(part), width, network.width), torch.nan, dtype=dtype)
            for layer in wanted
            for name, width in rows.widths.items()
        }
        for batch in batches(part.samples):
            stores = {layer: partial(_store, part, arrays, batch, layer) for layer in wanted}
            with network.changed(stores):
                network.forward([part.samples[row].ids for row in batch])
            _check_batch(network, part, arrays, batch)
        named = {f"{layer}/{name}": array for (layer, name), array in arrays.items()}
        named |= {f"tokens/{name}": part.tokens(name) for name in rows.widths}
        write_shard(shard_path(folder, number), named, part.header)
        if progress is not None:
            ready = sum(len(rows.shard(n)) for n in range(number + 1))
            progress(f"activations: {ready} of {len(rows)} decisions")
    # Existing shards were verified above, and the others were written just now.
    return Activations(folder, read_manifest(folder))


def batches(samples: Sequence[Sample]) -> list[list[int]]:
    """Group rows of similar length, so that batches contain little padding."""
    out: list[list[int]] = []
    for row in sorted(range(len(samples)), key=lambda row: len(samples[row].ids)):
        # Sorted, so the last row is the longest of its batch.
        if out and (len(out[-1]) + 1) * len(samples[row].ids) <= BATCH_TOKENS:
            out[-1].append(row)
        else:
            out.append([row])
    return out


def padding_difference(network: Network, samples: Sequence[Sample], layers: Sequence[int]) -> float:
    """Return how far rows of a batch are from the same rows alone, relative to their size."""
    # The shortest sample beside the longest has the most padding.
    by_length = sorted(samples, key=lambda sample: len(sample.ids))
    pair = [by_length[0], by_length[-1]]
    for sample in pair:
        if error := _not_finite(network, sample):
            raise error
    streams: list[torch.Tensor] = []

    def store(stream: torch.Tensor) -> None:
        streams.append(stream[0, : len(pair[0].ids)].float())

    with network.changed({layers[-1]: store}):
        network.forward([sample.ids for sample in pair])
        network.forward([pair[0].ids])
    together, alone = streams
    size = alone.square().mean().sqrt()
    difference = float((together - alone).abs().max() / size)
    most = _TOLERANCE.get(network.pinned["dtype"], 0.1)
    if not difference <= most:
        raise InvalidFileError(
            f"{network.name} gives a row in a batch other activations than the same row alone (by "
            f"{difference:.2g} of their size, expected at most {most:g}), so it reads padding; "
            f"capture with another attention or number type"
        )
    return difference


def _store(
    part: CaptureRows, arrays: Arrays, batch: Sequence[int], layer: int, stream: torch.Tensor
) -> None:
    """Copy the tokens of a batch out of the residual stream [B, T, D] of a layer."""
    import torch

    for name in part.widths:
        taken = [(place, row) for place, row in enumerate(batch) if part.places[row][name]]
        if not taken:
            continue
        places, rows = (torch.tensor(each) for each in zip(*taken, strict=True))
        tokens = torch.tensor([part.places[int(row)][name] for row in rows])
        # All rows at once: a copy from an accelerator waits for it.
        arrays[layer, name][rows] = stream[places[:, None], tokens].cpu()


def _check_batch(network: Network, part: CaptureRows, arrays: Arrays, batch: Sequence[int]) -> None:
    """Refuse activations that are not finite; rows that lack a position are NaN."""
    import torch

    for (_, name), array in arrays.items():
        rows = [row for row in batch if part.places[row][name]]
        finite = torch.isfinite(array[rows]).flatten(1).all(dim=1)
        if not finite.all():
            sample = part.samples[rows[int(finite.int().argmin())]]
            raise _not_finite(network, sample) or InvalidFileError(
                f"{network.name} gives numbers that are not finite for step {sample.step} of "
                f"{sample.walk!r} in a batch only; capture with another attention or number type"
            )


def _not_finite(network: Network, sample: Sample) -> InvalidFileError | None:
    """The error of a decision whose residual stream is not finite; None if it is."""
    import torch

    streams = network.streams(sample.ids, range(len(network.blocks) + 1))
    bad = [layer for layer, stream in sorted(streams.items()) if not torch.isfinite(stream).all()]
    if not bad:
        return None
    weights = network.local.model.state_dict().items()
    # Number types of eight bits do not support isfinite.
    broken = [name for name, weight in weights if not torch.isfinite(weight.float()).all()]
    fix = (
        f"its weights {broken[0]} are not finite, so load an intact copy of it"
        if broken
        else f"they overflow in {network.pinned['dtype']}, so save it in one of more range"
    )
    return InvalidFileError(
        f"{network.name} gives numbers that are not finite, first at layer {bad[0]}, for step "
        f"{sample.step} of {sample.walk!r}: {fix}"
    )


# Controls: a probe on a network with random weights reads what the architecture carries along by
# itself; a probe on the embeddings of the same tokens reads what these tokens say without context.
# What a probe gains on a model's activations beyond both is what the model has made of its prompt.
#
# Source: random encoders as controls in Belinkov (2022, "Probing Classifiers", section 4.1) and
# Zhang and Bowman (2018).
RANDOM_WEIGHTS, EMBEDDINGS = "random weights", "embeddings alone"


def untrained(network: Network, *, seed: int) -> Network:
    """Return a network of the same configuration with freshly initialised weights.

    Tokenizer, number type, device and kernels are those of the trained network, which is not
    changed; the state of torch's random numbers is restored.
    """
    torch = require("torch", extra="lm", feature="A network with random weights")
    transformers = require("transformers", extra="lm", feature="A network with random weights")
    trained = network.local.model
    config = copy.deepcopy(trained.config)
    # Seeding torch itself would seed every device; weights are drawn on the processor.
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        model = transformers.AutoModelForCausalLM.from_config(
            config, dtype=trained.dtype, attn_implementation=config._attn_implementation
        )
    model.to(trained.device).eval()
    model.generation_config = copy.deepcopy(trained.generation_config)
    local = copy.copy(network.local)
    local.model = model
    return Network(f"{network.name} with random weights (seed {seed})", local)


def alternatives_of(
    activations: Activations,
    layer: int,
    position: str,
    *,
    random: Activations | None = None,
    rows: IntArray | None = None,
) -> dict[str, FloatArray]:
    """Return other activations of the same decisions at the same tokens, as `compare` takes them.

    The activations are captured at layer 0 (the embedding) too; for models that add positions to
    words (GPT-2) the embedding contains them. `random` are the same decisions, captured from a
    network with random weights, and `rows` the numbers of the decisions, None for all. Returns
    arrays [rows, tokens * D] by name.
    """
    sources = {EMBEDDINGS: activations.at(0, position)}
    if random is not None:
        ours, theirs = ([row.digest for row in each.rows] for each in (activations, random))
        if ours != theirs:
            raise InvalidParameterError(
                f"{random.folder} holds {len(theirs)} decisions and {activations.folder} "
                f"{len(ours)}, which are not the same tokens in the same order; capture the same "
                f"decisions with the network of random weights"
            )
        sources[RANDOM_WEIGHTS] = random.at(layer, position)
    chosen = np.arange(len(activations.rows)) if rows is None else rows
    return {name: source[chosen].reshape(len(chosen), -1) for name, source in sources.items()}
