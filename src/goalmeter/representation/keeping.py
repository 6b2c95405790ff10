"""Rows of activations on their way to disk, whoever computed them: shard by shard, or not at all.

Where a row's tokens stand is settled before anything is computed; a folder that holds a part of the
same capture is completed, and one of another capture is refused.
"""

from __future__ import annotations

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
    check_shard,
    read_manifest,
    read_rows,
    shard_path,
    write_manifest,
    write_shard,
)
from goalmeter.representation.disk import check_disk
from goalmeter.representation.positions import Located, checked_positions, position
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
        """Find the tokens of named positions."""
        finders = {name: position(name) for name in checked_positions(positions)}
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
    later: Mapping[Path, Sequence[int]] | None = None,
) -> Activations:
    """Write what is lacking of a capture.

    Args:
        folder: where it is kept.
        placed: the decisions and places.
        manifest: what decides the activations: "layers", "width", "dtype", the model, its kernels.
        fill: computes a shard.
        once: what else the manifest is to say, measured before the first shard.
        progress: told how much disk it takes, and each shard.
        later: the layers of captures of the same that follow, by folder: they have to fit too.
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
    dtype = getattr(torch, stated["dtype"])
    check_disk(
        {folder: stated["layers"], **(later or {})},
        placed,
        width=stated["width"],
        size=dtype.itemsize,
        progress=progress,
    )
    if not (folder / MANIFEST).is_file():
        write_manifest(folder, {**stated, **once(), "sha256": {}})
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
    # What was there before has been checked, and what came was written just now.
    return Activations(folder, read_manifest(folder))


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
    """See that what is in the folder is a part of this capture."""
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
        check_shard(path, stored)
        expected = [sample.digest for sample in placed.shard(number).samples]
        if [row.digest for row in read_rows(path)] != expected:
            raise InvalidFileError(
                f"{path} holds other decisions than the run; choose another folder"
            )
