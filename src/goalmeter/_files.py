"""Files written in a single step: what was there before stays if anything fails.

A link is followed, and what it points at is replaced: whoever keeps results behind a link goes on
finding them there. What is no file (a folder, a device, a pipe) is never replaced; a program that
runs as root could put a file in the place of /dev/null.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import IO

from goalmeter._errors import InvalidFileError

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFLNK: "a link that leads back to itself",
}


@contextmanager
def replacing(path: str | Path) -> Iterator[IO[bytes]]:
    """A file to write into, which takes its place when the block is left without an error.

    Missing folders are made. The file keeps the permissions of the one that it replaces.
    """
    path = Path(path)
    try:
        target, mode = target_of(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        # In the same folder: only within one file system is replacing a single step.
        handle, name = tempfile.mkstemp(prefix=f".{target.name[:40]}.", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            Path(name).chmod(mode)  # mkstemp's files are for their owner only
            Path(name).replace(target)
        finally:
            with suppress(OSError):  # it is gone already, unless writing failed
                Path(name).unlink()
    except OSError as cause:
        raise _unwritable(path, cause) from cause


def write_bytes(path: str | Path, data: bytes) -> Path:
    """Write a file, making missing folders; returns its path."""
    with replacing(path) as file:
        file.write(data)
    return Path(path)


def write_text(path: str | Path, text: str) -> Path:
    """Write a text file in UTF-8; see `write_bytes`."""
    return write_bytes(path, text.encode("utf-8"))


def check_writable(path: str | Path) -> None:
    """Raise what `write_bytes` would raise, before the work whose result is to be written.

    Missing folders are made.
    """
    path = Path(path)
    try:
        target, _ = target_of(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=target.parent):
            pass
    except OSError as cause:
        raise _unwritable(path, cause) from cause


def target_of(path: Path) -> tuple[Path, int]:
    """Where a file is written that is asked for under a path, and with what permissions."""
    target = Path(os.path.realpath(path))
    try:
        mode = target.lstat().st_mode
    except FileNotFoundError:
        return target, 0o644
    _refuse_special(path, mode)
    return target, stat.S_IMODE(mode)


def read_bytes(path: str | Path, most: int | None = None) -> bytes:
    """Read a file of at most `most` bytes."""
    with reading(path) as file:
        size = os.fstat(file.fileno()).st_size
        if most is not None and size > most:
            raise InvalidFileError(f"{path} has {size} bytes, expected at most {most}")
        return file.read()


def reading(path: str | Path) -> BufferedReader:
    """Open a file for reading; pipes and devices, which may never end, are refused."""
    # Reading a pipe would wait for somebody to write, and a device may never end, so neither is
    # read. Without waiting: a pipe that nobody writes to would hold up the opening itself.
    file = os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb")
    try:
        _refuse_special(Path(path), os.fstat(file.fileno()).st_mode)
    except BaseException:
        file.close()
        raise
    return file


def _refuse_special(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "something else")
        raise InvalidFileError(f"{path} is {kind}, expected a file; name another")


def _unwritable(path: Path, cause: OSError) -> InvalidFileError:
    return InvalidFileError(
        f"{path} cannot be written: {cause.strerror or cause}; "
        f"choose a folder that can be written to"
    )


def digest(path: str | Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    try:
        with reading(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as cause:
        raise InvalidFileError(f"{path} cannot be read: {cause.strerror or cause}") from cause
