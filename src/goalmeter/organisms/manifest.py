"""Files that belong together, put in their folder at once, with a manifest that tells them whole.

A process can be killed between any two writes. So the files are written in a folder of their own,
moved over, and listed with their sizes and SHA-256 in `manifest.json`, which comes last: a folder
with a manifest that matches holds exactly what was written.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidFileError
from goalmeter._files import read_bytes, write_text

MANIFEST, WEIGHTS = "manifest.json", "model.safetensors"
_FORMAT = 1
# Folders that writers write in; what a killed writer has left is removed by the next one.
_PREFIX = ".unfinished-"
# A manifest lists a dozen short names; a larger file is something else, and is not read.
_LONGEST = 1_000_000


@contextmanager
def published(folder: Path) -> Iterator[Path]:
    """A folder to write files into, which are moved into `folder` when the block has ended.

    An error in the block leaves what was in `folder` before. Files of other names stay there.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.glob(f"{_PREFIX}*"):
            shutil.rmtree(left, ignore_errors=True)
        # Inside of the destination, so that both are on one file system and moving is a renaming.
        fresh = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=folder))
        try:
            yield fresh
            # The weights come last: where they are, all else is, also without a manifest.
            files = sorted(fresh.iterdir(), key=lambda file: (file.name == WEIGHTS, file.name))
            listed = {
                file.name: {"bytes": file.stat().st_size, "sha256": _digest(file)} for file in files
            }
            # From here until the last line the folder has no manifest: it is not whole.
            (folder / MANIFEST).unlink(missing_ok=True)
            for file in files:
                to_disk(file)
                file.replace(folder / file.name)
            write_text(
                folder / MANIFEST, json.dumps({"format": _FORMAT, "files": listed}, indent=2)
            )
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    except OSError as cause:
        raise InvalidFileError(
            f"{folder} cannot be written: {cause.strerror or cause}; make room, or choose another "
            f"folder (--out)"
        ) from cause


def check(folder: Path) -> bool:
    """See that the files of a folder are those of its manifest; False if it has none.

    Raises:
        InvalidFileError: a file is missing or another one, or the manifest is damaged; the message
            names it.
    """
    for name, size, digest in _listed(folder):
        file = folder / name
        try:
            length = file.stat().st_size
            if length != size:
                raise InvalidFileError(f"{file} has {length} bytes, expected {size}: it is damaged")
            if _digest(file) != digest:
                raise InvalidFileError(f"{file} is not what was written there: it is damaged")
        except OSError as cause:
            raise InvalidFileError(
                f"{file} cannot be read: {cause.strerror or cause}; {MANIFEST} lists it"
            ) from cause
    return (folder / MANIFEST).exists()


def _listed(folder: Path) -> list[tuple[str, int, str]]:
    """The names, sizes and digests in a folder's manifest; none if it has no manifest."""
    file = folder / MANIFEST
    if not file.exists():
        return []
    try:
        value: Any = json.loads(read_bytes(file, _LONGEST))
        if value["format"] != _FORMAT:
            raise ValueError(f"format {value['format']!r}, expected {_FORMAT}")
        listed = [(name, entry["bytes"], entry["sha256"]) for name, entry in value["files"].items()]
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as cause:
        raise InvalidFileError(
            f"{file} is no manifest ({type(cause).__name__}): damaged"
        ) from cause
    for name, _, _ in listed:
        # Names of files, and not ways out of the folder.
        if name != Path(name).name or not name:
            raise InvalidFileError(f"{file} lists {name!r}, expected names of files in the folder")
    return listed


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def to_disk(file: Path) -> None:
    """Have the system write a file out, so that it is there after a loss of power too."""
    with file.open("rb+") as opened:
        os.fsync(opened.fileno())
