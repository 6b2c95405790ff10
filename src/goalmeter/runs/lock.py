"""Locks of run directories: one process at a time writes to a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from goalmeter._errors import InvalidFileError, InvalidParameterError

LOCK = ".lock"


@contextmanager
def locked(folder: Path, elsewhere: str) -> Iterator[None]:
    """Hold the lock of an existing directory; `elsewhere` advises to use another one."""
    from filelock import FileLock, Timeout

    # Whoever looks at a run holds its lock for an instant, which is no reason to refuse to write.
    lock = FileLock(folder / LOCK, timeout=0.2, thread_local=False)
    try:
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
