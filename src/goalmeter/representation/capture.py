"""Replay recorded decisions through their model, and keep the residual stream at chosen places.

Layers and positions are chosen before the pass, so what is kept is small: a model of 24 blocks and
2,880 numbers a token would write 550 kB a token, and a chain of thought has thousands.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goalmeter._errors import InvalidFileError, InvalidParameterError
from goalmeter.representation.activations import (
    FORMAT,
    MANIFEST,
    Activations,
    Row,
    read_manifest,
    read_rows,
    shard_path,
    write_manifest,
    write_shard,
)
from goalmeter.representation.network import Network
from goalmeter.representation.positions import Located, position
from goalmeter.representation.replay import Sample

if TYPE_CHECKING:
    import torch

# Decisions in a shard, and tokens in a batch, fillings included.
ROWS_OF_A_SHARD, TOKENS_OF_A_BATCH = 256, 8192
# A row in a batch and the same row alone differ by rounding only. Relative to the row's own root
# mean square; a row read at positions that are off by one differs by its whole size.
_TOLERANCE = {"float32": 1e-3, "float64": 1e-6, "bfloat16": 0.1, "float16": 0.05}
Progress = Callable[[str], None]


# By position, the places of its tokens among those that are replayed; none where it is lacking.
Places = dict[str, tuple[int, ...]]


def capture(
    samples: Sequence[Sample],
    network: Network,
    folder: str | Path,
    *,
    layers: Sequence[int],
    positions: Sequence[str],
    progress: Progress | None = None,
) -> Activations:
    """The residual stream at some layers and positions of some decisions, kept in a folder.

    Args:
        samples: the decisions, in the order of the rows.
        network: the model that made them.
        folder: what holds a part of this capture already is completed.
        layers: 0 for the embedding, k for what block k passes on.
        positions: names as `positions.position` knows them.
        progress: told now and then how far it is, and before it begins how much disk it takes.

    Raises:
        InvalidParameterError: no such layer or position, or none that any sample has.
        InvalidFileError: the folder holds another capture, the disk is too small, or the tokenizer
            is not that of the model that walked.
    """
    folder = Path(folder)
    wanted = network.check_layers(layers)
    names = tuple(dict.fromkeys(positions))
    finders = {name: position(name) for name in names}
    located = [Located(sample, network.local.tokenizer) for sample in samples]
    places = [{name: find(at) for name, find in finders.items()} for at in located]
    widths = _widths(names, places)
    # A cell may take two tokens in one row and three in another: the last ones are kept, for a
    # later token has read those before it.
    places = [{name: at[name][-width:] for name, width in widths.items()} for at in places]
    count = -(-len(samples) // ROWS_OF_A_SHARD)
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "model": network.name,
        "revision": network.revision,
        "layers": list(wanted),
        "positions": widths,
        "rows": len(samples),
        "shards": count,
        "width": network.width,
        **network.pinned,
    }
    _agree(folder, manifest, samples)
    _check_disk(folder, manifest, len(samples), progress)
    if not (folder / MANIFEST).is_file():
        manifest["padded_against_single"] = _difference(network, samples, wanted)
        write_manifest(folder, manifest)
    for number in range(count):
        path = shard_path(folder, number)
        if path.is_file():
            continue
        part = slice(number * ROWS_OF_A_SHARD, (number + 1) * ROWS_OF_A_SHARD)
        arrays = _stream(network, samples[part], places[part], wanted, widths)
        write_shard(path, arrays, _rows(samples[part], places[part]))
        if progress is not None:
            progress(f"activations: {min(part.stop, len(samples))} of {len(samples)} decisions")
    return Activations.open(folder)


def bytes_of(rows: int, layers: int, tokens: int, width: int, size: int) -> int:
    """The disk that a capture takes: rows x layers x tokens x width numbers of a size in bytes.

    >>> bytes_of(rows=36_000, layers=3, tokens=6, width=2880, size=2)  # the paper's scale
    3732480000
    """
    return rows * layers * tokens * width * size


def _stream(
    network: Network,
    samples: Sequence[Sample],
    places: Sequence[Places],
    layers: Sequence[int],
    widths: dict[str, int],
) -> dict[str, Any]:
    """The arrays of a shard."""
    import torch

    model = network.local.model
    arrays: dict[str, torch.Tensor] = {}
    for name, width in widths.items():
        ids = torch.full((len(samples), width), -1, dtype=torch.int32)
        for row, (sample, at) in enumerate(zip(samples, places, strict=True)):
            if at[name]:
                ids[row] = torch.tensor([sample.ids[token] for token in at[name]])
        arrays[f"tokens/{name}"] = ids
        for layer in layers:
            shape = (len(samples), width, network.width)
            arrays[f"{layer}/{name}"] = torch.full(shape, torch.nan, dtype=model.dtype)
    for batch in _batches(samples):

        def keep(layer: int, stream: torch.Tensor, batch: Sequence[int] = batch) -> None:
            for name in widths:
                for place, row in enumerate(batch):
                    if at := places[row][name]:
                        arrays[f"{layer}/{name}"][row] = stream[place, list(at)].cpu()

        with network.changed({layer: partial(keep, layer) for layer in layers}):
            network.forward([samples[row].ids for row in batch])
    return arrays


def _batches(samples: Sequence[Sample]) -> list[list[int]]:
    """Rows of like lengths together, so that little of a batch is filling."""
    order = sorted(range(len(samples)), key=lambda row: len(samples[row].ids))
    batches: list[list[int]] = []
    for row in order:
        # Sorted, so the last row is the longest of its batch.
        fits = batches and (len(batches[-1]) + 1) * len(samples[row].ids) <= TOKENS_OF_A_BATCH
        if fits:
            batches[-1].append(row)
        else:
            batches.append([row])
    return batches


def _difference(network: Network, samples: Sequence[Sample], layers: Sequence[int]) -> float:
    """How far rows of a batch are from the same rows alone, relative to their size.

    Raises:
        InvalidFileError: so far that fillings must have been read.
    """
    # The shortest beside the longest is filled up most.
    by_length = sorted(range(len(samples)), key=lambda row: len(samples[row].ids))
    pair = [samples[by_length[0]], samples[by_length[-1]]]
    streams: list[torch.Tensor] = []

    def keep(stream: torch.Tensor) -> None:
        streams.append(stream[0, : len(pair[0].ids)].float())

    with network.changed({layers[-1]: keep}):
        network.forward([sample.ids for sample in pair])
        network.forward([pair[0].ids])
    together, alone = streams
    size = alone.square().mean().sqrt()
    difference = float((together - alone).abs().max() / size)
    most = _TOLERANCE.get(network.pinned["dtype"], 0.1)
    if not difference <= most:
        raise InvalidFileError(
            f"{network.name} gives a row in a batch other activations than the same row alone (by "
            f"{difference:.2g} of their size, expected at most {most:g}), so it reads fillings; "
            f"capture with another attention or number type"
        )
    return difference


def _widths(names: Sequence[str], places: Sequence[Places]) -> dict[str, int]:
    """How many tokens each position has."""
    widths = {}
    for name in names:
        lengths = {len(at[name]) for at in places} - {0}
        if not lengths:
            raise InvalidParameterError(
                f"none of {len(places)} decisions has the position {name!r}; choose others, or "
                f"record answers with reasoning"
            )
        widths[name] = min(lengths)
    return widths


def _rows(samples: Sequence[Sample], places: Sequence[Places]) -> list[Row]:
    return [
        Row(s.walk, s.step, s.digest, tuple(name for name, tokens in at.items() if not tokens))
        for s, at in zip(samples, places, strict=True)
    ]


def _agree(folder: Path, manifest: dict[str, Any], samples: Sequence[Sample]) -> None:
    """See that what is in the folder is a part of this capture.

    Raises:
        InvalidFileError: it is of another model, other places or other decisions.
    """
    if not (folder / MANIFEST).is_file():
        return
    stored = read_manifest(folder)
    for name, value in manifest.items():
        if stored.get(name) != value:
            raise InvalidFileError(
                f"{folder} holds a capture whose {name} is {stored.get(name)!r}, not {value!r}; "
                f"choose another folder"
            )
    for number in range(manifest["shards"]):
        path = shard_path(folder, number)
        if not path.is_file():
            continue
        part = samples[number * ROWS_OF_A_SHARD : (number + 1) * ROWS_OF_A_SHARD]
        if [row.digest for row in read_rows(path)] != [sample.digest for sample in part]:
            raise InvalidFileError(
                f"{path} holds other decisions than the run; choose another folder"
            )


def _check_disk(
    folder: Path, manifest: dict[str, Any], rows: int, progress: Progress | None
) -> None:
    """Say what the capture takes before it begins, and refuse what does not fit.

    Raises:
        InvalidFileError: there is less room than it takes.
    """
    import torch

    size = torch.finfo(getattr(torch, manifest["dtype"])).bits // 8
    tokens = sum(manifest["positions"].values())
    need = bytes_of(rows, len(manifest["layers"]), tokens, manifest["width"], size)
    there = sum(path.stat().st_size for path in folder.glob("shard-*.safetensors"))
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    if progress is not None:
        progress(f"activations: {need / 1e6:.0f} MB on disk, {free / 1e6:.0f} MB are free")
    if need - there > free:
        raise InvalidFileError(
            f"the activations take {need / 1e9:.1f} GB, and {folder} has {free / 1e9:.1f} GB free; "
            f"choose fewer layers or positions, or another disk"
        )
