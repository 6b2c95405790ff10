"""Archives of named numerical arrays, as `numpy.savez` writes them, compressed or not.

Nothing but numbers is read: an array of Python objects would have to be unpickled, and that
runs whatever code the file asks for. Nothing is unpacked before the sizes in the archive's
directory are known to be below a limit (`goalmeter._archives`), and to agree with those in the
heads of the arrays: numpy makes room for what a head says before it reads the first number.

A file is written beside its destination and then moved there in one step, so that an interrupted
write leaves what was there before. It gets exactly the name that was asked for.
"""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import numpy as np

from goalmeter._archives import check_sizes, listed
from goalmeter._errors import InvalidFileError
from goalmeter._files import reading, target_of
from goalmeter._types import AnyArray, ArrayLike
from goalmeter.tabular._validation import naming, shape_text

# Readers of an array's head by the version of its format. Version 3 is for names of columns, which
# numbers have none of.
_HEADS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def load_arrays(
    path: str | Path, *, required: Sequence[str], optional: Sequence[str] = ()
) -> dict[str, AnyArray]:
    """Read the named arrays of an .npz file, all of them numerical.

    Args:
        path: the file; its extension does not matter.
        required: names that must be there.
        optional: names that may be there; any other name is refused.
    """
    with naming(path), _open_archive(Path(path)) as archive:
        names = archive.files
        for name in required:
            if name not in names:
                raise InvalidFileError(
                    f"the array {name!r} is missing; the file holds {listing(names)}"
                )
        known = [*required, *optional]
        for name in names:
            if name not in known:
                raise InvalidFileError(
                    f"the array {name!r} is not part of this format, "
                    f"whose names are {listing(known)}; rename it or leave it out"
                )
        return {name: _read(archive, name) for name in names}


def save_arrays(path: str | Path, arrays: dict[str, ArrayLike]) -> Path:
    """Write named arrays as one .npz file, in a single step; returns its path."""
    path = Path(path)
    plain = {name: np.asarray(array) for name, array in arrays.items()}
    assert all(array.dtype.kind in "biuf" for array in plain.values()), "numpy would pickle it"
    with naming(path):
        try:
            target, _ = target_of(path)
        except OSError:  # what is wrong with the place is found out by writing there
            target = path
        temporary = target.with_name(f".{target.name}.{uuid4().hex}.tmp")
        try:
            # An open file, because numpy would append .npz to a bare name that lacks it.
            with temporary.open("xb") as file:
                np.savez(file, **plain)  # type: ignore[arg-type]
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(target)
        except OSError as cause:
            raise InvalidFileError(
                f"cannot be written: {cause.strerror or cause}; "
                f"choose a file name in a folder that exists and can be written to"
            ) from cause
        finally:
            with suppress(OSError):  # it is gone already, unless writing failed
                temporary.unlink()
    return path


def listing(names: Sequence[str]) -> str:
    """Names as a message shows them."""
    return ", ".join(names) if names else "no array"


@contextmanager
def _open_archive(path: Path) -> Iterator[np.lib.npyio.NpzFile]:
    try:
        # Opened here, because numpy leaves a damaged archive open.
        file = reading(path)
    except FileNotFoundError as cause:
        raise InvalidFileError("there is no such file; check the path") from cause
    except OSError as cause:
        raise InvalidFileError(f"cannot be read: {cause.strerror or cause}") from cause
    with file:
        # numpy would read a single array at once, however large its head says that it is.
        begins = file.read(len(np.lib.format.MAGIC_PREFIX))
        file.seek(0)
        if begins == np.lib.format.MAGIC_PREFIX:
            raise _not_an_archive("a single array (.npy), expected an archive of named arrays")
        try:
            entries = listed(file)
            archive = np.load(file, allow_pickle=False)
        except (ValueError, EOFError, OSError, zipfile.BadZipFile) as cause:
            # numpy's own message proposes to allow pickles, which is never the remedy here.
            raise _not_an_archive("not an .npz archive, or a damaged one") from cause
        with archive:
            check_sizes(entries)
            for entry in entries:
                _check_head(archive.zip, entry)
            yield archive


def _check_head(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> None:
    """Raises if the head of an array asks for more or fewer bytes than there are behind it."""
    try:
        with archive.open(entry) as member:
            version = np.lib.format.read_magic(member)
            shape, _, dtype = _HEADS[version](member) if version in _HEADS else ((), False, None)
            there = entry.file_size - member.tell()
    except Exception:  # it is no array, or its head is damaged: reading it says so
        return
    name = entry.filename.removesuffix(".npy")
    if dtype is None:
        raise InvalidFileError(
            f"the array {name!r} has format {version}, expected that of numpy.savez with numbers"
        )
    wanted = math.prod(shape) * dtype.itemsize
    if wanted != there and not dtype.hasobject:
        raise InvalidFileError(
            f"the array {name!r} is damaged and cannot be read (its shape {shape_text(shape)} "
            f"takes {wanted:,} bytes, and there are {there:,}); write the file again"
        )


def _not_an_archive(kind: str) -> InvalidFileError:
    return InvalidFileError(f"the file is {kind}; write it with numpy.savez(path, name=array, ...)")


def _read(archive: np.lib.npyio.NpzFile, name: str) -> AnyArray:
    try:
        array = archive[name]
    except Exception as cause:  # whatever the decoder stumbles over, the file is at fault
        if "allow_pickle" in str(cause):
            raise InvalidFileError(
                f"the array {name!r} holds Python objects, expected numbers; it was not read, "
                f"because unpickling a file can run any code; save it with a numerical dtype"
            ) from cause
        raise InvalidFileError(
            f"the array {name!r} is damaged and cannot be read ({cause}); write the file again"
        ) from cause
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
        kind = f"type {array.dtype}" if isinstance(array, np.ndarray) else "bytes that are no array"
        raise InvalidFileError(f"the array {name!r} holds {kind}, expected numbers")
    return array
