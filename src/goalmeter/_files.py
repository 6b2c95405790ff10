"""Atomic file writes, locks, JSON values and records, archives, table files, transformers."""

from __future__ import annotations

import csv
import errno
import hashlib
import json
import logging
import os
import stat
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import MISSING, dataclass, fields, is_dataclass
from dataclasses import Field as DataclassField
from io import BufferedReader, TextIOWrapper
from itertools import islice
from math import isfinite, isnan
from pathlib import Path
from typing import IO, Any, cast, get_args, get_origin, get_type_hints

from goalmeter._errors import (
    InvalidFileError,
    InvalidParameterError,
    encodable,
    in_a_line,
    json_text,
    require,
    shown,
    whole_in_text,
)
from goalmeter._names import did_you_mean

# --- Files ----------------------------------------------------------------------------------------
# A link is followed, and its target is replaced. Folders, devices and pipes are never replaced: a
# program that runs as root could put a file in the place of /dev/null.
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFLNK: "a link that leads back to itself",
}


@contextmanager
def _writing(path: str | Path) -> Iterator[tuple[Path, int]]:
    """Give the path to which a file is written, and its permissions; missing folders are made."""
    target, permissions = Path(os.path.realpath(path)), 0o644
    try:
        with suppress(FileNotFoundError):
            mode = target.lstat().st_mode
            _refuse_special(path, mode)
            permissions = stat.S_IMODE(mode)
        target.parent.mkdir(parents=True, exist_ok=True)
        yield target, permissions
    except OSError as cause:
        raise InvalidFileError(
            f"{path} cannot be written: {cause.strerror or cause}; "
            f"choose a folder that can be written to"
        ) from cause


@contextmanager
def replacing(path: str | Path) -> Iterator[IO[bytes]]:
    """Open a file that takes its place, with its permissions, unless the block raises an error."""
    with _writing(path) as (target, permissions):
        # In the same folder: only within one file system is replacing a single step.
        handle, name = tempfile.mkstemp(prefix=f".{target.name[:40]}.", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            Path(name).chmod(permissions)  # mkstemp's files are for their owner only
            Path(name).replace(target)
        finally:
            with suppress(OSError):  # it is gone already, unless writing failed
                Path(name).unlink()


def write_bytes(path: str | Path, data: bytes) -> Path:
    """Write a file atomically, making missing folders; return its path."""
    with replacing(path) as file:
        file.write(data)
    return Path(path)


def write_text(path: str | Path, text: str) -> Path:
    """Write a text file in UTF-8; see `write_bytes`."""
    return write_bytes(path, text.encode("utf-8"))


def check_writable(path: str | Path) -> None:
    """Raise what `write_bytes` would raise; missing folders are made."""
    with _writing(path) as (target, _):
        tempfile.TemporaryFile(dir=target.parent).close()


def read_bytes(path: str | Path, most: int | None = None) -> bytes:
    """Read a file of at most `most` bytes."""
    with reading(path) as file:
        size = os.fstat(file.fileno()).st_size
        if most is not None and size > most:
            raise InvalidFileError(f"{path} has {size} bytes, expected at most {most}")
        return file.read()


def reading(path: str | Path) -> BufferedReader:
    """Open a file for reading; pipes and devices, which may never end, are refused."""
    # Without waiting: a pipe that nobody writes to would hold up the opening itself.
    file = os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb")
    try:
        _refuse_special(path, os.fstat(file.fileno()).st_mode)
    except BaseException:
        file.close()
        raise
    return file


def _refuse_special(path: str | Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "something else")
        raise InvalidFileError(f"{path} is {kind}, expected a file; name another")


def digest(path: str | Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    try:
        with reading(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as cause:
        raise InvalidFileError(f"{path} cannot be read: {cause.strerror or cause}") from cause


# --- Locks ----------------------------------------------------------------------------------------
LOCK, SOFT_LOCK = ".lock", ".soft-lock"


@contextmanager
def locked(folder: Path, elsewhere: str) -> Iterator[None]:
    """Hold the lock of an existing directory; `elsewhere` advises to use another one."""
    from filelock import BaseFileLock, FileLock, SoftFileLock, Timeout

    # Whoever looks at a run holds its lock for an instant, which is no reason to refuse to write.
    lock: BaseFileLock = FileLock(folder / LOCK, timeout=0.2, thread_local=False)
    try:
        try:
            lock.acquire()
        except OSError as cause:  # a file system without locks: the existence of a file is the lock
            if cause.errno not in (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP):
                raise
            lock = soft = SoftFileLock(folder / SOFT_LOCK, timeout=0.2, thread_local=False)
            try:
                lock.acquire()
            except Timeout:
                if soft.pid is not None:
                    raise
                # Its holder was stopped before it had written its name.
                (folder / SOFT_LOCK).unlink(missing_ok=True)
                lock.acquire()
    except Timeout as cause:
        raise InvalidParameterError(
            f"another process writes to {folder}; wait for it or end it, or {elsewhere}"
        ) from cause
    except OSError as cause:
        raise InvalidFileError(
            f"{folder} cannot be written: {cause.strerror or cause}; make room, or {elsewhere}"
        ) from cause
    try:
        yield
    finally:
        with suppress(OSError):  # while it is held: whoever waits for it then makes another file
            (folder / LOCK).unlink()
        lock.release()


def is_locked(folder: Path) -> bool | None:
    """Return whether a process holds the lock of a directory; None where that is unknown."""
    try:
        import fcntl

        with (folder / LOCK).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    except (ImportError, OSError):
        return None
    return False


# --- Json -----------------------------------------------------------------------------------------
def json_value(value: Any) -> Any:
    """Return a value as JSON has it: tuples as lists, NaN as null, results as their `to_json`."""
    if hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, Mapping):
        return {name: json_value(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(entry) for entry in value]
    return None if isinstance(value, float) and value != value else value


def strict_json(value: Any) -> str:
    """Return JSON text of `strict_values`: many programs refuse NaN and infinities."""
    return json_text(strict_values(value), allow_nan=False)


def strict_values(value: Any) -> Any:
    """Return JSON values without NaN (null) and infinities ("inf", "-inf")."""
    value = value.tolist() if hasattr(value, "tolist") else value  # of NumPy
    if isinstance(value, dict):
        return {str(key): strict_values(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [strict_values(item) for item in value]
    if isinstance(value, float) and not isfinite(value):
        return None if isnan(value) else str(value)
    return value


class JsonFields:
    """A dataclass whose JSON is its fields."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values; NaN is null."""
        return {field.name: json_value(getattr(self, field.name)) for field in fields(self)}  # type: ignore[arg-type]


def restored(kind: Any, value: Any) -> Any:
    """Return a value of a type from JSON values, which may have been edited.

    The inverse of `JsonFields.to_json` and `strict_values`; fields that are not stored have their
    defaults. Raises TypeError, ValueError or LookupError for what does not fit.
    """
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        stored = [each.name for each in fields(kind) if each.name in value or is_required(each)]
        return cast(type, kind)(**{name: restored(hints[name], value[name]) for name in stored})
    inner = get_args(kind)
    if type(None) in inner:
        return None if value is None else restored(inner[0], value)
    if get_origin(kind) in (tuple, Sequence):
        kinds = inner[:1] * len(value) if inner[1:] in ((), (...,)) else inner
        return tuple(restored(*each) for each in zip(kinds, value, strict=True))
    if inner:
        return {str(name): restored(inner[1], each) for name, each in value.items()}
    if kind is str and not isinstance(value, str):
        raise TypeError(f"{shown(value)} is not a string")
    return value if kind is Any else kind(value)


def is_required(each: DataclassField[Any]) -> bool:
    """Return whether a field of a dataclass has no default."""
    return each.default is MISSING and each.default_factory is MISSING


@dataclass(frozen=True)
class Field:
    """Valid values of a field of a JSON record, in words and as a test; whether it is required."""

    expected: str
    accepts: Callable[[Any], bool]
    required: bool = True

    @classmethod
    def whole(cls, least: int, most: int, *, or_null: bool = False, required: bool = True) -> Field:
        """Return a field for an integer in a range."""
        words = f"a whole number from {least} to {most}" + " or null" * or_null
        return cls(words, lambda v: (or_null and v is None) or is_whole(v, least, most), required)

    @classmethod
    def word(cls, *known: str, required: bool = True) -> Field:
        """Return a field for one of some words."""
        return cls(f"one of {', '.join(map(repr, known))}", lambda v: v in known, required)

    @classmethod
    def distinct(cls, what: str, accepts: Callable[[Any], bool], *, most: int) -> Field:
        """Return a field for a list of different hashable values, which `what` names in words."""

        def fits(value: Any) -> bool:
            is_list = isinstance(value, list) and 1 <= len(value) <= most
            return is_list and all(map(accepts, value)) and len(set(value)) == len(value)

        return cls(f"a list of 1 to {most} different {what}", fits)


def is_whole(value: Any, least: int, most: int) -> bool:
    """Return whether a value is an integer in a range; true and false are not."""
    return type(value) is int and least <= value <= most


def is_number(value: Any, most: float) -> bool:
    """Return whether a value is a number of at most some finite size."""
    return type(value) in (int, float) and bool(abs(value) <= most)


def check_record(
    value: Any, fields: Mapping[str, Field], where: str, *, others: bool = False
) -> dict[str, Any]:
    """Return a record with valid fields; `others` says whether it may have further fields."""
    if not isinstance(value, Mapping):
        raise InvalidFileError(f"{where}: got {shown(value)}, expected an object of JSON")
    for name, key in fields.items():
        if name not in value:
            if key.required:
                raise InvalidFileError(f"{where}: {name} is missing, expected {key.expected}")
        elif not key.accepts(value[name]):
            raise InvalidFileError(
                f"{where}: {name} is {shown(value[name])}, expected {key.expected}"
            )
    if not others and (unknown := [name for name in value if name not in fields]):
        hint = did_you_mean(unknown[0], fields, quoted=True) or ";"
        raise InvalidFileError(
            f"{where}: there is no field {shown(unknown[0])}{hint} expected {', '.join(fields)}"
        )
    return dict(value)


# --- Archives -------------------------------------------------------------------------------------
# A file of a megabyte can hold zeros by the gigabyte. Readers unpack no more of a file than the
# archive's directory says, so those sizes are limited.
UNPACK_LIMIT, DEFAULT_LIMIT = "GOALMETER_UNPACK_LIMIT", 2 * 1024**3


def unpack_limit() -> int:
    """Return the number of bytes that an archive may unpack to."""
    text = os.environ.get(UNPACK_LIMIT, "").strip() or str(DEFAULT_LIMIT)
    return whole_in_text(text, UNPACK_LIMIT, least=1, most=2**63)  # more than any machine has


def listed(file: IO[bytes]) -> list[zipfile.ZipInfo]:
    """Return the directory of an archive that is open for reading; nothing is unpacked."""
    try:
        with zipfile.ZipFile(file) as archive:
            return archive.infolist()
    # A damaged directory raises more than BadZipFile: struct.error, ValueError and others.
    except Exception as cause:
        raise InvalidFileError(f"not a valid archive: {in_a_line(cause)}") from cause
    finally:
        file.seek(0)


def check_sizes(entries: Iterable[zipfile.ZipInfo]) -> None:
    """Raise an error if the files of an archive unpack to more than the limit."""
    check_bytes(sum(entry.file_size for entry in entries))


def check_bytes(size: int) -> None:
    """Raise an error if so many bytes are more than the limit."""
    limit = unpack_limit()
    if size > limit:
        raise InvalidFileError(
            f"the file unpacks to {size:,} bytes, more than the limit of {limit:,}; if it is to be "
            f"trusted, set {UNPACK_LIMIT}={size}"
        )


# --- Table files ----------------------------------------------------------------------------------
_ROWS_IN_MEMORY = 20_000  # rows of a Parquet group


def write_csv(path: str | Path, columns: Iterable[str], records: Iterable[dict[str, Any]]) -> Path:
    """Write records as CSV in UTF-8, with all digits, "inf", and nothing for missing values."""
    with replacing(path) as file:
        # Half characters, which no file can hold, are escaped.
        text = TextIOWrapper(file, encoding="utf-8", errors="backslashreplace", newline="")
        lines = csv.DictWriter(text, list(columns), lineterminator="\n")
        lines.writeheader()
        lines.writerows(records)
        text.detach()  # `replacing` closes the file
    return Path(path)


def write_parquet(
    path: str | Path, types: Mapping[str, str], records: Iterator[dict[str, Any]]
) -> Path:
    """Write records as Parquet, with the type of each column; see `parquet_type`."""
    arrow, parquet = require_parquet()
    schema = arrow.schema(list(types.items()))
    texts = [name for name, kind in types.items() if kind == "string"]
    with replacing(path) as file, parquet.ParquetWriter(file, schema) as writer:
        while group := list(islice(records, _ROWS_IN_MEMORY)):
            for record in group:
                cells = {name: record[name] for name in texts if record[name] is not None}
                record |= {name: encodable(str(value)) for name, value in cells.items()}
            writer.write_table(arrow.Table.from_pylist(group, schema=schema))
    return Path(path)


def parquet_type(values: Sequence[Any]) -> str:
    """Return the type of a column that can hold all of these values."""
    kinds = set(map(type, values))
    if kinds == {bool}:
        return "bool"
    if kinds == {int} and all(abs(value) < 2**63 for value in values):
        return "int64"
    return "double" if kinds <= {int, float} else "string"


def require_parquet() -> tuple[Any, Any]:
    """Return pyarrow and its Parquet module, or raise how to install them."""
    feature = "a Parquet file, unlike a CSV file,"
    return require("pyarrow", feature=feature), require("pyarrow.parquet", feature=feature)


# --- Transformers ---------------------------------------------------------------------------------
# Every layer is built before the weights are read; the deepest models have some hundred.
_MOST_LAYERS, _MOST_BYTES = 10_000, 2**24


def loaded(kind: str, folder: str | Path, *, feature: str, **options: Any) -> Any:
    """Load a model or a tokenizer by a class of transformers from its folder, without a network."""
    transformers: Any = require("transformers", extra="lm", feature=feature)
    read = getattr(transformers, kind).from_pretrained
    with _reading(folder):
        if kind == "AutoTokenizer":
            return read(folder, local_files_only=True)
        _check_layers(json.loads(read_bytes(Path(folder) / "config.json", _MOST_BYTES)))
        model, seen = read(folder, local_files_only=True, output_loading_info=True, **options)
    if lacking := sorted(seen["missing_keys"]):
        raise InvalidFileError(
            f"the model in {folder} is not whole: {len(lacking)} of its weights are missing, such "
            f"as {lacking[0]}"
        )
    return model


@contextmanager
def without_bars() -> Iterator[None]:
    """Hide the loading bars of transformers."""
    bars: Any = require("transformers.utils.logging", extra="lm", feature="Loading a model")
    was_shown = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    try:
        yield
    finally:
        if was_shown:
            bars.enable_progress_bar()


@contextmanager
def generating_in_batches() -> Iterator[None]:
    """Hide the warning that a batch is longer than the context because of its padding."""

    def keep(record: logging.LogRecord) -> bool:
        return "exceeded the model's predefined maximum length" not in record.getMessage()

    logger = logging.getLogger("transformers.generation.stopping_criteria")
    logger.addFilter(keep)
    try:
        yield
    finally:
        logger.removeFilter(keep)


def _check_layers(config: Any) -> None:
    """Raise ValueError if a configuration, or one inside of it, has too many layers to build."""
    for name, value in config.items():
        if isinstance(value, dict):
            _check_layers(value)
        elif "layer" in name and type(value) is int and value > _MOST_LAYERS:
            raise ValueError(f"its {name} is {shown(value)}, expected at most {_MOST_LAYERS}")


@contextmanager
def _reading(folder: str | Path) -> Iterator[None]:
    try:
        with without_bars():
            yield
    # A damaged file raises whatever the reader of its format stumbles over: SafetensorError,
    # KeyError, TypeError, RuntimeError, and plain Exception by the reader of tokenizer.json.
    except Exception as cause:
        raise InvalidFileError(
            f"the model in {folder} cannot be loaded: {in_a_line(cause)}"
        ) from cause
