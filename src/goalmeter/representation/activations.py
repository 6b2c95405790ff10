"""Store activations of decisions: safetensors shards, a manifest, a check of disk space."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from goalmeter._errors import InvalidFileError, InvalidParameterError, json_text, require, shown
from goalmeter._files import read_bytes, write_bytes, write_text
from goalmeter._types import FloatArray, IntArray
from goalmeter.report.numbers import storage
from goalmeter.representation.replay import Located, Sample, checked_positions, position
from goalmeter.runs.progress import Tell

if TYPE_CHECKING:
    import torch


# --- Activations ----------------------------------------------------------------------------------
# manifest.json               what was captured, of which model, by which kernels; the SHA-256 of
#                                 each shard
#         shard-00000.safetensors     for each position "L/NAME" an array [rows, tokens, D] a layer
#     L, and
#                                 "tokens/NAME" [rows, tokens]: the ids of the tokens that it was of
#
# A shard's own header lists its rows: walk, step, digest of the replayed tokens, and the
# positions that the decision lacks. So row i is provably decision i, whatever happened to the
# files beside it, and a shard whose bytes are not those that were captured is refused when the
# folder is opened. A shard appears whole or not at all; a capture that was interrupted goes on
# behind the last one.

MANIFEST, FORMAT = "manifest.json", 2  # 1 had no checksums
_FEATURE = "Keeping activations"
_MOST_BYTES = 2**24  # of a manifest; a shard of 256 rows takes some 100
_MOST_SHARDS = 99_999  # names have five digits


@dataclass(frozen=True)
class Row:
    """Which decision a row of activations is of.

    Attributes:
        walk: key of the walk in its run.
        step: number of the decision.
        digest: SHA-256 of the replayed tokens.
        lacks: names of the positions that this decision does not have; its rows there are NaN.
    """

    walk: str
    step: int
    digest: str
    lacks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Activations:
    """A folder of activations, of which only what is asked for is held in memory.

    Attributes:
        folder: where they are.
        manifest: what manifest.json says.
    """

    folder: Path
    manifest: Mapping[str, Any]

    @classmethod
    def open(cls, folder: str | Path) -> Activations:
        """The activations in a folder, whose shards are read once for their checksums."""
        folder = Path(folder)
        activations = cls(folder, read_manifest(folder))
        for shard in activations.present:
            check_shard(shard, activations.manifest)
        return activations

    @property
    def present(self) -> tuple[Path, ...]:
        """The shards that are there: all of them, unless the capture was interrupted."""
        paths = (shard_path(self.folder, n) for n in range(int(self.manifest["shards"])))
        return tuple(path for path in paths if path.is_file())

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """Which decision each row is of, [N]."""
        return tuple(row for shard in self._shards for row in read_rows(shard))

    def at(self, layer: int, position: str) -> FloatArray:
        """The residual stream at a layer and a position, [N, tokens, D] in single precision.

        Rows of decisions that lack the position are NaN.
        """
        for kind, value in (("layers", layer), ("positions", position)):
            if value not in self.manifest[kind]:
                raise InvalidParameterError(
                    f"{self.folder} has no activations at {kind[:-1]} {value!r}, expected one of "
                    f"{', '.join(map(str, self.manifest[kind]))}; capture it as well"
                )
        name = f"{layer}/{position}"
        parts = [_array(shard, name) for shard in self._shards]
        return np.concatenate(parts).astype(np.float32)

    def tokens(self, position: str) -> IntArray:
        """The ids of the tokens at a position, [N, tokens]; -1 where a decision lacks it."""
        return np.concatenate([_array(s, f"tokens/{position}") for s in self._shards]).astype(int)

    @cached_property
    def _shards(self) -> tuple[Path, ...]:
        shards, present = int(self.manifest["shards"]), self.present
        if len(present) < shards:
            paths = (shard_path(self.folder, number) for number in range(shards))
            first = next(path.name for path in paths if path not in present)
            raise InvalidFileError(
                f"{self.folder} lacks {shards - len(present)} of {shards} shards, such as "
                f"{first}; capture again, which makes only these"
            )
        return present


def shard_path(folder: Path, number: int) -> Path:
    """The file of a shard."""
    return folder / f"shard-{number:05}.safetensors"


def write_shard(path: Path, arrays: Mapping[str, Any], rows: Sequence[Row]) -> None:
    """Write a shard, whole or not at all, and its checksum into the manifest beside it.

    Args:
        path: of the file.
        arrays: torch tensors by name, each with a row for each of `rows`.
        rows: which decisions they are of.
    """
    torch_files = require("safetensors.torch", extra="lm", feature=_FEATURE)
    data = torch_files.save(dict(arrays), metadata={"rows": rows_text(rows)})
    manifest = read_manifest(path.parent)
    sums = {**manifest["sha256"], path.name: hashlib.sha256(data).hexdigest()}
    # Before the shard: if this is interrupted in between, no shard is there without its checksum.
    write_manifest(path.parent, {**manifest, "sha256": sums})
    write_bytes(path, data)


def rows_text(rows: Sequence[Row]) -> str:
    """What the header of a shard says of its rows."""
    return json_text([[row.walk, row.step, row.digest, list(row.lacks)] for row in rows])


def check_shard(path: Path, manifest: Mapping[str, Any]) -> None:
    """See that a shard is, byte for byte, what was written."""
    try:
        with path.open("rb") as file:
            checksum = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as cause:
        raise InvalidFileError(f"{path} cannot be read: {cause.strerror or cause}") from cause
    if checksum != manifest["sha256"].get(path.name):
        raise InvalidFileError(
            f"{path} is damaged: its SHA-256 is not the one in {MANIFEST}; delete this file and "
            f"capture again, which makes only this one anew"
        )


def read_rows(path: Path) -> tuple[Row, ...]:
    """Which decisions the rows of a shard are of."""
    with _opened(path) as shard:
        metadata = shard.metadata() or {}
    try:
        return tuple(
            Row(str(walk), int(step), str(digest), tuple(map(str, lacks)))
            for walk, step, digest, lacks in json.loads(metadata["rows"])
        )
    except (KeyError, TypeError, ValueError, RecursionError) as cause:
        raise InvalidFileError(
            f"{path} does not say which decisions its rows are of; delete it and capture again"
        ) from cause


def read_manifest(folder: Path) -> dict[str, Any]:
    """What manifest.json says."""
    path = folder / MANIFEST
    try:
        value = json.loads(read_bytes(path, _MOST_BYTES))
    except (OSError, ValueError, RecursionError) as cause:
        raise InvalidFileError(
            f"{folder} holds no activations: {MANIFEST} cannot be read ({type(cause).__name__})"
        ) from cause
    kinds = {"format": int, "shards": int, "rows": int, "layers": list, "positions": dict}
    kinds["sha256"] = dict
    for name, kind in kinds.items():
        entry: Any = value.get(name) if isinstance(value, dict) else None
        fits = type(entry) is kind and (name != "format" or entry == FORMAT)
        if not fits or (name == "shards" and not 0 <= entry <= _MOST_SHARDS):
            raise InvalidFileError(
                f"{path} is no manifest of activations of this version: its {name} is "
                f"{shown(entry)}; delete the folder and capture again"
            )
    return dict(value)


def write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Write manifest.json, whole or not at all."""
    write_text(folder / MANIFEST, json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")


def _array(path: Path, name: str) -> Any:
    """An array of a shard; half-precision brain floats, which NumPy lacks, are widened."""
    import torch

    with _opened(path) as shard:
        try:
            tensor = shard.get_tensor(name)
        except Exception as cause:
            raise InvalidFileError(f"{path} lacks the array {name!r}; capture again") from cause
    return (tensor.float() if tensor.dtype is torch.bfloat16 else tensor).numpy()


def _opened(path: Path) -> Any:
    """A shard, mapped into memory: only the arrays that are asked for are read."""
    safetensors = require("safetensors", extra="lm", feature=_FEATURE)
    try:
        return safetensors.safe_open(path, framework="pt")
    # SafetensorError is no subclass of anything else than Exception.
    except Exception as cause:
        raise InvalidFileError(
            f"{path} is damaged or is no file of safetensors; delete it and capture again"
        ) from cause


# --- Disk -----------------------------------------------------------------------------------------
# Of a file system: a file takes whole ones.
_BLOCK = 4096
# Bytes of a manifest without and for a shard; it is written anew beside the one that it replaces.
_MANIFEST, _CHECKSUM = 2048, 120
_ID = 4  # bytes of a token's id


def bytes_of(rows: int, layers: int, tokens: int, width: int, size: int) -> int:
    """The numbers of a capture: rows x layers x tokens x width, each of a size in bytes.

    >>> bytes_of(rows=36_000, layers=3, tokens=6, width=2880, size=2)  # the paper's scale
    3732480000
    """
    return rows * layers * tokens * width * size


def check_disk(
    captures: Mapping[Path, Sequence[int]],
    placed: Placed,
    *,
    width: int,
    size: int,
    progress: Tell | None,
) -> None:
    """Say what is lacking of some captures takes before the first begins; refuse what is too much.

    Args:
        captures: the layers of each by its folder, the one that begins first. If nothing of this
            one is lacking, nothing is said: the others are looked at before they begin.
        placed: the decisions and places, of all of them.
        width: numbers in the residual stream of a token.
        size: bytes of a number.
        progress: told what they take.
    """
    needs = {
        folder: lacking(folder, layers, placed, width, size) for folder, layers in captures.items()
    }
    folder = next(iter(captures))
    if not needs[folder]:
        return
    need = sum(needs.values())
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    free = shutil.disk_usage(existing).free
    if progress is not None:
        progress(f"activations: {storage(need)} on disk, {storage(free)} are free")
    if need > free:
        raise InvalidFileError(
            f"the activations take {storage(need)}, and {existing} has {storage(free)} free, "
            f"{storage(need - free)} too little; choose fewer layers or positions, or another disk"
        )


def lacking(folder: Path, layers: Sequence[int], placed: Placed, width: int, size: int) -> int:
    """Bytes of the shards that a folder does not have, in whole blocks, and of the manifest.

    Arguments as of `check_disk`, for one capture.
    """
    files = [
        _bytes_of_shard(placed.shard(number), layers, width, size)
        for number in range(placed.shards)
        if not shard_path(folder, number).is_file()
    ]
    if files:
        files += 2 * [_MANIFEST + _CHECKSUM * placed.shards]
    return sum(-(-file // _BLOCK) * _BLOCK for file in files)


def _bytes_of_shard(part: Placed, layers: Sequence[int], width: int, size: int) -> int:
    """Bytes of a shard, its header included: as many as it has, or a few more."""
    rows, tokens = len(part), sum(part.widths.values())
    data = bytes_of(rows, len(layers), tokens, width, size) + rows * tokens * _ID
    names = [f"{layer}/{name}" for layer in (*layers, "tokens") for name in part.widths]
    # What each array's entry says; no offset has more digits than the end of the data.
    entry = {"dtype": "BF16", "shape": [rows, tokens, width], "data_offsets": [data, data]}
    header = {"__metadata__": {"rows": rows_text(part.rows)}} | dict.fromkeys(names, entry)
    # In front stands the header's length in 8 bytes, and behind it blanks up to a multiple of 8.
    return 16 + len(json.dumps(header)) + data


# --- Keeping --------------------------------------------------------------------------------------
# Where a row's tokens stand is settled before anything is computed; a folder that holds a part of
# the same capture is completed, and one of another capture is refused.

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
