"""Activations of recorded decisions: safetensors shards beside a manifest, a row a decision.

    manifest.json               what was captured, of which model, by which kernels; the SHA-256 of
                                each shard
    shard-00000.safetensors     for each position "L/NAME" an array [rows, tokens, D] a layer L, and
                                "tokens/NAME" [rows, tokens]: the ids of the tokens that it was of

A shard's own header lists its rows: walk, step, digest of the replayed tokens, and the positions
that the decision lacks. So row i is provably decision i, whatever happened to the files beside it,
and a shard whose bytes are not those that were captured is refused when the folder is opened.
A shard appears whole or not at all; a capture that was interrupted goes on behind the last one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from goalmeter._errors import InvalidFileError, InvalidParameterError, require
from goalmeter._files import read_bytes, write_bytes, write_text
from goalmeter._text import json_text, shown
from goalmeter._types import FloatArray, IntArray

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
