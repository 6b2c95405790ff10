"""Files written in a single step: what was there before stays if anything fails."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from goalmeter._errors import InvalidFileError


def write_bytes(path: str | Path, data: bytes) -> Path:
    """Write a file, making missing folders; returns its path.

    Raises:
        InvalidFileError: the file cannot be written there.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            Path(name).chmod(0o644)  # mkstemp's files are for their owner only
            Path(name).replace(path)
        finally:
            with suppress(OSError):  # it is gone already, unless writing failed
                Path(name).unlink()
    except OSError as cause:
        raise InvalidFileError(
            f"{path} cannot be written: {cause.strerror or cause}; "
            f"choose a folder that can be written to"
        ) from cause
    return path


def write_text(path: str | Path, text: str) -> Path:
    """Write a text file in UTF-8; see `write_bytes`."""
    return write_bytes(path, text.encode("utf-8"))
