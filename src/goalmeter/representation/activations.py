"""Store activations of decisions: safetensors shards, a manifest, a check of disk space.

manifest.json               what was captured, of which model, by which kernels; the SHA-256 of each
                            shard
shard-00000.safetensors     for each layer L and position "L/NAME" an array [rows, tokens, D], and
                            "tokens/NAME" [rows, tokens]: the ids of these tokens

The header of a shard lists its rows: walk, step, digest of the replayed tokens, and the positions
that the decision lacks. So row i is provably decision i, whatever happened to other files, and a
shard whose bytes have changed is refused when the folder is opened. A shard is written whole or not
at all; an interrupted capture continues after the last one.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from goalmeter._errors import InvalidFileError, InvalidParameterError, json_text, require, shown
from goalmeter._files import digest, read_bytes, write_bytes, write_text
from goalmeter._types import FloatArray, IntArray
from goalmeter.report.numbers import storage
from goalmeter.representation.network import Network
from goalmeter.representation.replay import Located, Sample, Tokens, checked_positions, position
from goalmeter.runs.progress import Tell

if TYPE_CHECKING:
    import torch

MANIFEST, FORMAT = "manifest.json", 2  # format 1 had no checksums
ROWS_OF_A_SHARD = 256
_FEATURE = "Storing activations"
_MOST_BYTES = 2**24  # of a manifest; a shard of 256 rows takes some 100
_MOST_SHARDS = 99_999  # names have five digits
_KINDS = {"format": int, "shards": int, "rows": int, "layers": list} | dict.fromkeys(
    ("positions", "sha256"), dict
)
# Bytes of an array's entry in the header of a shard, at most, and of a token's id.
_ENTRY, _ID = 150, 4


@dataclass(frozen=True)
class DecisionRow:
    """The decision that a row of activations belongs to."""

    walk: str
    step: int
    digest: str  # of the replayed tokens
    lacks: tuple[str, ...] = ()  # positions that it does not have; its rows there are NaN


@dataclass(frozen=True)
class Activations:
    """A folder of activations, read from disk on demand, with its manifest."""

    folder: Path
    manifest: Mapping[str, Any]

    @classmethod
    def open(cls, folder: str | Path) -> Activations:
        """Open a folder of activations and verify the checksum of each shard."""
        folder = Path(folder)
        activations = cls(folder, read_manifest(folder))
        for path in sorted(folder.glob("shard-*.safetensors")):
            _check_shard(path, activations.manifest)
        return activations

    @cached_property
    def rows(self) -> tuple[DecisionRow, ...]:
        """The decision of each row, [N]."""
        return tuple(row for shard in self._shards for row in _read_rows(shard))

    def at(self, layer: int, position: str) -> FloatArray:
        """Return the residual stream at a layer and a position, [N, tokens, D], float32.

        Rows of decisions that lack the position are NaN.
        """
        for kind, value in (("layers", layer), ("positions", position)):
            if value not in self.manifest[kind]:
                raise InvalidParameterError(
                    f"{self.folder} has no activations at {kind[:-1]} {value!r}, expected one of "
                    f"{', '.join(map(str, self.manifest[kind]))}; capture it as well"
                )
        return np.asarray(self._array(f"{layer}/{position}"), dtype=np.float32)

    def tokens(self, position: str) -> IntArray:
        """Return the ids of the tokens at a position, [N, tokens]; -1 where a decision lacks it."""
        return np.asarray(self._array(f"tokens/{position}"), dtype=int)

    def _array(self, name: str) -> Any:
        import torch

        parts = []
        for path in self._shards:
            with _opened(path) as shard:
                tensor = shard.get_tensor(name)
            # NumPy lacks bfloat16.
            parts.append((tensor.float() if tensor.dtype is torch.bfloat16 else tensor).numpy())
        return np.concatenate(parts)

    @cached_property
    def _shards(self) -> list[Path]:
        paths = [shard_path(self.folder, n) for n in range(int(self.manifest["shards"]))]
        if missing := [path for path in paths if not path.is_file()]:
            raise InvalidFileError(
                f"{self.folder} lacks {len(missing)} of {len(paths)} shards, such as "
                f"{missing[0].name}; capture again, which makes only these"
            )
        return paths


@dataclass(frozen=True)
class CaptureRows:
    """Decisions with the places of the tokens whose activations are stored."""

    samples: Sequence[Sample]  # [N]
    places: Sequence[Mapping[str, Tokens]]  # of each position among the replayed tokens, [N]
    widths: Mapping[str, int]  # number of tokens of each position

    @classmethod
    def of(cls, samples: Sequence[Sample], tokenizer: Any, positions: Sequence[str]) -> CaptureRows:
        """Find the tokens of named positions."""
        finders = {name: position(name) for name in checked_positions(positions)}
        located = (Located(sample, tokenizer) for sample in samples)
        places = [{name: find(each) for name, find in finders.items()} for each in located]
        widths = {}
        for name in finders:
            lengths = {len(at[name]) for at in places} - {0}
            if not lengths:
                raise InvalidParameterError(
                    f"none of {len(places)} decisions has the position {name!r}; choose others, or "
                    f"record answers with reasoning"
                )
            widths[name] = min(lengths)
        # A cell may take two tokens in one row and three in another: the last ones are stored,
        # since a later token has read those before it.
        cut = [{name: at[name][-width:] for name, width in widths.items()} for at in places]
        return cls(samples, cut, widths)

    def __len__(self) -> int:
        return len(self.samples)

    def shard(self, number: int) -> CaptureRows:
        """Return the decisions of one shard."""
        part = slice(number * ROWS_OF_A_SHARD, (number + 1) * ROWS_OF_A_SHARD)
        return CaptureRows(self.samples[part], self.places[part], self.widths)

    @property
    def shards(self) -> int:
        """Number of shards."""
        return -(-len(self) // ROWS_OF_A_SHARD)

    def missing(self, folder: Path) -> list[int]:
        """Return the numbers of the shards that a folder does not have."""
        return [n for n in range(self.shards) if not shard_path(folder, n).is_file()]

    def missing_bytes(self, folder: Path, layers: Sequence[int], network: Network) -> int:
        """Return the disk space of the missing shards."""
        tokens, total = sum(self.widths.values()), 0
        size = len(layers) * network.width * network.local.model.dtype.itemsize + _ID
        for part in map(self.shard, self.missing(folder)):
            header = len(part.header) + _ENTRY * (len(layers) + 1) * len(self.widths)
            total += len(part) * tokens * size + header
        return total

    @property
    def header(self) -> str:
        """What the header of a shard says of its rows."""
        return json_text(
            [
                [s.walk, s.step, s.digest, [name for name, tokens in at.items() if not tokens]]
                for s, at in zip(self.samples, self.places, strict=True)
            ]
        )

    def write(self, folder: Path, number: int, arrays: Mapping[str, torch.Tensor]) -> None:
        """Write these rows as a shard, with their tokens, and its checksum into the manifest."""
        import torch

        named = dict(arrays)
        for name, width in self.widths.items():
            ids = torch.full((len(self), width), -1, dtype=torch.int32)
            for row, (sample, at) in enumerate(zip(self.samples, self.places, strict=True)):
                if at[name]:
                    ids[row] = torch.tensor([sample.ids[token] for token in at[name]])
            named[f"tokens/{name}"] = ids
        torch_files = require("safetensors.torch", extra="lm", feature=_FEATURE)
        data = torch_files.save(named, metadata={"rows": self.header})
        path, manifest = shard_path(folder, number), read_manifest(folder)
        manifest["sha256"] |= {path.name: hashlib.sha256(data).hexdigest()}
        # Before the shard: if this is interrupted in between, no shard exists without its checksum.
        write_manifest(folder, manifest)
        write_bytes(path, data)


def shard_path(folder: Path, number: int) -> Path:
    """Return the path of a shard."""
    return folder / f"shard-{number:05}.safetensors"


def check_disk(
    captures: Mapping[Path, Sequence[int]], rows: CaptureRows, network: Network, progress: Tell
) -> None:
    """Report the disk space of captures before the first begins; refuse what does not fit."""
    folder = next(iter(captures))
    # A complete capture needs nothing, and those that follow it are checked before they begin.
    if not rows.missing(folder):
        return
    need = sum(rows.missing_bytes(path, layers, network) for path, layers in captures.items())
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    free = shutil.disk_usage(existing).free
    progress(f"activations: {storage(need)} on disk, {storage(free)} are free")
    if need > free:
        raise InvalidFileError(
            f"the activations take {storage(need)}, and {existing} has {storage(free)} free, "
            f"{storage(need - free)} too little; choose fewer layers or positions, or another disk"
        )


def check_same_capture(folder: Path, manifest: Mapping[str, Any], rows: CaptureRows) -> None:
    """Refuse a folder that contains another capture, or damaged shards of this one."""
    if not (folder / MANIFEST).is_file():
        return
    stored = read_manifest(folder)
    for name, value in manifest.items():
        if stored.get(name) != value:
            raise InvalidFileError(
                f"{folder} holds a capture whose {name} is {stored.get(name)!r}, not {value!r}; "
                f"choose another folder"
            )
    for number in set(range(rows.shards)) - set(rows.missing(folder)):
        path = shard_path(folder, number)
        _check_shard(path, stored)
        digests = [sample.digest for sample in rows.shard(number).samples]
        if [row.digest for row in _read_rows(path)] != digests:
            raise InvalidFileError(
                f"{path} holds other decisions than the run; choose another folder"
            )


def _check_shard(path: Path, manifest: Mapping[str, Any]) -> None:
    if digest(path) != manifest["sha256"].get(path.name):
        raise InvalidFileError(
            f"{path} is damaged: its SHA-256 is not the one in {MANIFEST}; delete this file and "
            f"capture again, which makes only this one anew"
        )


def _read_rows(path: Path) -> tuple[DecisionRow, ...]:
    with _opened(path) as shard:
        rows = json.loads(shard.metadata()["rows"])
    return tuple(DecisionRow(walk, step, of, tuple(lacks)) for walk, step, of, lacks in rows)


def _opened(path: Path) -> Any:
    """Map a shard into memory, so that only the requested arrays are read."""
    return require("safetensors", extra="lm", feature=_FEATURE).safe_open(path, framework="pt")


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest of a folder of activations."""
    path = folder / MANIFEST
    try:
        value = json.loads(read_bytes(path, _MOST_BYTES))
    except (OSError, ValueError, RecursionError) as cause:
        raise InvalidFileError(
            f"{folder} holds no activations: {MANIFEST} cannot be read ({type(cause).__name__})"
        ) from cause
    for name, kind in _KINDS.items():
        entry: Any = value.get(name) if isinstance(value, dict) else None
        fits = type(entry) is kind and (name != "format" or entry == FORMAT)
        if not fits or (name == "shards" and not 0 <= entry <= _MOST_SHARDS):
            raise InvalidFileError(
                f"{path} is no manifest of activations of this version: its {name} is "
                f"{shown(entry)}; delete the folder and capture again"
            )
    return dict(value)


def write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Write the manifest of a folder of activations atomically."""
    write_text(folder / MANIFEST, json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")
