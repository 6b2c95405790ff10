"""How much disk captures take: said before the first one begins, and refused if it does not fit."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from goalmeter._errors import InvalidFileError
from goalmeter.report.numbers import storage
from goalmeter.representation.activations import rows_text, shard_path
from goalmeter.runs.progress import Tell

if TYPE_CHECKING:
    from goalmeter.representation.keeping import Placed

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
