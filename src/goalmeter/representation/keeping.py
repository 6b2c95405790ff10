"""Rows of activations on their way to disk, whoever computed them: shard by shard, or not at all.

Where a row's tokens stand is settled before anything is computed; a folder that holds a part of the
same capture is completed, and one of another capture is refused.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
from goalmeter.representation.positions import Located, position
from goalmeter.representation.replay import Sample
from goalmeter.runs.progress import Tell

if TYPE_CHECKING:
    import torch

ROWS_OF_A_SHARD = 256
# By position, the places of its tokens among those that are replayed; none where it is lacking.
Places = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Placed:
    """Decisions with the places of the tokens whose activations are kept.

    Attributes:
        samples: the decisions, [N].
        places: of each.
        widths: how many tokens each position has.
    """

    samples: Sequence[Sample]
    places: Sequence[Places]
    widths: Mapping[str, int]

    @classmethod
    def of(cls, samples: Sequence[Sample], tokenizer: Any, positions: Sequence[str]) -> Placed:
        """Find the tokens of named positions.

        Raises:
            InvalidParameterError: no such position, or one that no sample has.
            InvalidFileError: the tokenizer is not that of the model that walked.
        """
        finders = {name: position(name) for name in positions}
        places: list[Places] = []
        for sample in samples:
            located = Located(sample, tokenizer)
            places.append({name: find(located) for name, find in finders.items()})
        widths = _widths(list(finders), places)
        # A cell may take two tokens in one row and three in another: the last ones are kept, for a
        # later token has read those before it.
        cut = [{name: at[name][-width:] for name, width in widths.items()} for at in places]
        return cls(samples, cut, widths)

    def __len__(self) -> int:
        return len(self.samples)

    def shard(self, number: int) -> Placed:
        """The decisions of one shard."""
        part = slice(number * ROWS_OF_A_SHARD, (number + 1) * ROWS_OF_A_SHARD)
        return Placed(self.samples[part], self.places[part], self.widths)

    @property
    def shards(self) -> int:
        """How many shards there are."""
        return -(-len(self) // ROWS_OF_A_SHARD)

    @property
    def rows(self) -> list[Row]:
        """Which decisions these are, as a shard lists them."""
        return [
            Row(s.walk, s.step, s.digest, tuple(name for name, tokens in at.items() if not tokens))
            for s, at in zip(self.samples, self.places, strict=True)
        ]

    def tokens(self, name: str) -> torch.Tensor:
        """The ids of the tokens at a position, [N, width]; -1 where a decision lacks it."""
        import torch

        ids = torch.full((len(self), self.widths[name]), -1, dtype=torch.int32)
        for row, (sample, at) in enumerate(zip(self.samples, self.places, strict=True)):
            if at[name]:
                ids[row] = torch.tensor([sample.ids[token] for token in at[name]])
        return ids


# Fills the arrays [rows, width, D] of a shard, by layer and position, which are NaN before.
Fill = Callable[[Placed, Mapping[tuple[int, str], "torch.Tensor"]], None]


def keep(
    folder: Path,
    placed: Placed,
    manifest: Mapping[str, Any],
    fill: Fill,
    *,
    once: Callable[[], Mapping[str, Any]],
    progress: Tell | None,
) -> Activations:
    """Write what is lacking of a capture.

    Args:
        folder: where it is kept.
        placed: the decisions and places.
        manifest: what decides the activations: "layers", "width", "dtype", the model, its kernels.
        fill: computes a shard.
        once: what else the manifest is to say, measured before the first shard.
        progress: told how much disk it takes, and each shard.

    Raises:
        InvalidFileError: the folder holds another capture, or the disk is too small.
    """
    import torch

    stated = {
        "format": FORMAT,
        **manifest,
        "positions": dict(placed.widths),
        "rows": len(placed),
        "shards": placed.shards,
    }
    _agree(folder, stated, placed)
    _check_disk(folder, stated, progress)
    if not (folder / MANIFEST).is_file():
        write_manifest(folder, {**stated, **once()})
    dtype = getattr(torch, stated["dtype"])
    for number in range(placed.shards):
        path = shard_path(folder, number)
        if path.is_file():
            continue
        part = placed.shard(number)
        arrays = {
            (layer, name): torch.full((len(part), width, stated["width"]), torch.nan, dtype=dtype)
            for layer in stated["layers"]
            for name, width in placed.widths.items()
        }
        fill(part, arrays)
        named = {f"{layer}/{name}": array for (layer, name), array in arrays.items()}
        named |= {f"tokens/{name}": part.tokens(name) for name in placed.widths}
        write_shard(path, named, part.rows)
        if progress is not None:
            ready = min((number + 1) * ROWS_OF_A_SHARD, len(placed))
            progress(f"activations: {ready} of {len(placed)} decisions")
    return Activations.open(folder)


def bytes_of(rows: int, layers: int, tokens: int, width: int, size: int) -> int:
    """The disk that a capture takes: rows x layers x tokens x width numbers of a size in bytes.

    >>> bytes_of(rows=36_000, layers=3, tokens=6, width=2880, size=2)  # the paper's scale
    3732480000
    """
    return rows * layers * tokens * width * size


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


def _agree(folder: Path, manifest: Mapping[str, Any], placed: Placed) -> None:
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
    for number in range(placed.shards):
        path = shard_path(folder, number)
        if not path.is_file():
            continue
        expected = [sample.digest for sample in placed.shard(number).samples]
        if [row.digest for row in read_rows(path)] != expected:
            raise InvalidFileError(
                f"{path} holds other decisions than the run; choose another folder"
            )


def _check_disk(folder: Path, manifest: Mapping[str, Any], progress: Tell | None) -> None:
    """Say what the capture takes before it begins, and refuse what does not fit.

    Raises:
        InvalidFileError: there is less room than it takes.
    """
    import torch

    size = torch.finfo(getattr(torch, manifest["dtype"])).bits // 8
    tokens = sum(manifest["positions"].values())
    need = bytes_of(manifest["rows"], len(manifest["layers"]), tokens, manifest["width"], size)
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
