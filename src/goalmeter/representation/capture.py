"""Capture the residual stream of recorded decisions, also from an untrained network."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
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
    write_manifest,
)
from goalmeter.representation.network import Network
from goalmeter.representation.probes.protocol import Reading
from goalmeter.representation.replay import Sample, scenes_of
from goalmeter.representation.scenes import Scenes
from goalmeter.runs.progress import Tell

if TYPE_CHECKING:
    import torch

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

    tell = progress or (lambda line: None)
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
    check_disk({folder: wanted, **(later or {})}, rows, network, tell)
    if not (folder / MANIFEST).is_file():
        padding = padding_difference(network, samples, wanted)
        write_manifest(folder, manifest | {"padded_against_single": padding, "sha256": {}})
    for number in rows.missing(folder):
        part = rows.shard(number)
        arrays = {
            f"{layer}/{name}": torch.full(
                (len(part), width, network.width), torch.nan, dtype=network.local.model.dtype
            )
            for layer in wanted
            for name, width in rows.widths.items()
        }
        for batch in batches(part.samples):
            _read_batch(network, part, batch, wanted, arrays)
        part.write(folder, number, arrays)
        ready = sum(len(rows.shard(n)) for n in range(number + 1))
        tell(f"activations: {ready} of {len(rows)} decisions")
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


def _read_batch(
    network: Network,
    part: CaptureRows,
    batch: Sequence[int],
    layers: Sequence[int],
    arrays: Mapping[str, torch.Tensor],
) -> None:
    """Copy the tokens of a batch out of the residual stream; refuse what is not finite."""
    import torch

    # Of each position the rows that have it, with their numbers in the batch and their tokens.
    found = {}
    for name in part.widths:
        if has := [number for number, row in enumerate(batch) if part.places[row][name]]:
            rows = [batch[number] for number in has]
            tokens = torch.tensor([part.places[row][name] for row in rows])
            found[name] = torch.tensor(rows), torch.tensor(has)[:, None], tokens

    def store(layer: int, stream: torch.Tensor) -> None:
        for name, (rows, numbers, tokens) in found.items():
            # All rows at once: a copy from an accelerator waits for it.
            arrays[f"{layer}/{name}"][rows] = stream[numbers, tokens].cpu()

    with network.changed({layer: partial(store, layer) for layer in layers}):
        network.forward([part.samples[row].ids for row in batch])
    for layer in layers:
        for name, (rows, _, _) in found.items():
            finite = torch.isfinite(arrays[f"{layer}/{name}"][rows]).flatten(1).all(dim=1)
            if not finite.all():
                sample = part.samples[rows[int(finite.int().argmin())]]
                raise _not_finite(network, sample) or InvalidFileError(
                    f"{network.name} gives numbers that are not finite for step {sample.step} of "
                    f"{sample.walk!r} in a batch only; capture with another attention or number "
                    f"type"
                )


def _not_finite(network: Network, sample: Sample) -> InvalidFileError | None:
    """Return the error of a decision whose residual stream is not finite; None if it is."""
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


# --- Controls -------------------------------------------------------------------------------------
# A probe on a network with random weights reads what the architecture carries along by itself; a
# probe on the embeddings of the same tokens reads what these tokens say without context. What a
# probe gains on a model's activations beyond both is what the model has made of its prompt.
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


@dataclass(frozen=True)
class Captured:
    """Activations of the decisions of a run, of the model and of random weights."""

    samples: tuple[Sample, ...]  # [N]
    scenes: Scenes  # [N]
    trained: Activations
    random: Callable[[], Activations]  # of the same architecture with random weights
    rows: IntArray  # numbers of the decisions that have every position

    def reading(self, layer: int, position: str) -> Reading:
        """Return activations at a place, tokens concatenated, of decisions with every position."""
        rows = self.trained.at(layer, position)[self.rows]
        return Reading(rows.reshape(len(rows), -1), self.scenes.where(self.rows))

    def alternatives(self, layer: int, position: str) -> dict[str, FloatArray]:
        """Return activations of controls at a place, by name."""
        return alternatives_of(self.trained, layer, position, random=self.random(), rows=self.rows)


# Folders of activations in the folder of a probe.
TRAINED_FOLDER, RANDOM_FOLDER = "activations", "random-weights"


def captured(
    samples: tuple[Sample, ...],
    network: Network,
    folder: Path,
    *,
    layers: Sequence[int],
    positions: Sequence[str],
    seed: int,
    tell: Tell,
) -> Captured:
    """Replay all decisions through the model and, on first use, through random weights."""
    of_random = folder / RANDOM_FOLDER
    capture_all = partial(capture, samples, positions=positions, progress=tell)
    trained = capture_all(
        network, folder / TRAINED_FOLDER, layers=[0, *layers], later={of_random: layers}
    )

    @cache
    def replay_random() -> Activations:
        # Such a network is made and hashed even if all its activations are stored: some seconds.
        return capture_all(untrained(network, seed=seed), of_random, layers=layers)

    complete = np.array([not set(positions) & set(row.lacks) for row in trained.rows])
    if not complete.any():
        raise InvalidParameterError(
            f"none of {len(samples)} decisions has all of the positions {', '.join(positions)}; "
            f"choose fewer"
        )
    rows = np.flatnonzero(complete)
    return Captured(samples, scenes_of(samples), trained, replay_random, rows)
