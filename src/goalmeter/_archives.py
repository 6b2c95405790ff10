"""Archives (zip) that unpack to more than a limit are refused before they are unpacked.

A file of a megabyte can hold zeros by the gigabyte. The limit is 2 GiB; `GOALMETER_UNPACK_LIMIT`,
in bytes, sets another. Readers unpack no more of a file than its archive's directory says, so that
is what is added up.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterable
from typing import IO

from goalmeter._errors import InvalidFileError, InvalidParameterError
from goalmeter._text import in_a_line

UNPACK_LIMIT, DEFAULT_LIMIT = "GOALMETER_UNPACK_LIMIT", 2 * 1024**3


def unpack_limit() -> int:
    """How many bytes an archive may unpack to."""
    text = os.environ.get(UNPACK_LIMIT, "").strip()
    if not text:
        return DEFAULT_LIMIT
    # Twenty digits are more bytes than any machine has.
    if not (text.isascii() and text.isdigit() and len(text) <= 20 and int(text) > 0):
        raise InvalidParameterError(
            f"{UNPACK_LIMIT} is {text[:40]!r}, expected a number of bytes, such as {DEFAULT_LIMIT}"
        )
    return int(text)


def listed(file: IO[bytes]) -> list[zipfile.ZipInfo]:
    """The directory of an archive: names and sizes of its files; nothing of them is unpacked.

    Args:
        file: opened for reading; it is left at its beginning.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            return archive.infolist()
    # A damaged directory raises more than BadZipFile: struct.error, ValueError and others.
    except Exception as cause:
        raise InvalidFileError(f"it is no archive, or a damaged one: {in_a_line(cause)}") from cause
    finally:
        file.seek(0)


def check_sizes(entries: Iterable[zipfile.ZipInfo]) -> None:
    """Raises `InvalidFileError` if files of an archive together unpack to more than the limit."""
    check_bytes(sum(entry.file_size for entry in entries))


def check_bytes(size: int) -> None:
    """Raises `InvalidFileError` if so many bytes are more than the limit."""
    limit = unpack_limit()
    if size > limit:
        raise InvalidFileError(
            f"the file unpacks to {size:,} bytes, more than the limit of {limit:,}; if it is to be "
            f"trusted, set {UNPACK_LIMIT}={size}"
        )
