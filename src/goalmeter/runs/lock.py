"""One process at a time: by a lock of the system, or where there is none by a record."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Self

from goalmeter._errors import InvalidFileError, InvalidParameterError
from goalmeter.runs.heartbeat import Heartbeat
from goalmeter.runs.owner import OtherOwnerError, Owner

# Whoever looks at a run holds its lock for an instant, which is no reason to refuse to fill it.
_TRIES, _PAUSE = 4, 0.05


def lock(file: int, folder: Path, elsewhere: str) -> bool:
    """Lock an open file for as long as it is open; False where there are no locks.

    Args:
        file: its number.
        folder: that is filled.
        elsewhere: what the error advises to use another folder.
    """
    try:
        import fcntl
    except ImportError:  # not a system of the Unix family
        return False
    for pause in [_PAUSE] * _TRIES + [0.0]:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            time.sleep(pause)
        except OSError:  # a file system without locks
            return False
    raise taken("another process", folder, elsewhere)


def taken(who: object, folder: Path, elsewhere: str) -> InvalidParameterError:
    """What to say where another process fills a folder; who, in words."""
    return InvalidParameterError(f"{who} fills {folder}; wait for it or end it, or {elsewhere}")


def claimed(folder: Path, elsewhere: str) -> Owner:
    """This process as the owner of a folder whose file system has no locks.

    Args:
        folder: that is filled.
        elsewhere: what the error advises to use another folder.
    """
    owner = Owner(folder)
    try:
        owner.claim()
    except OtherOwnerError as other:
        raise taken(other, folder, elsewhere) from other
    return owner


class Alone:
    """The only process that fills a folder that is no run, while the context lasts.

    Args:
        folder: which is there.
        elsewhere: what errors advise to use another folder.

    Raises:
        InvalidParameterError: another process fills it.
        InvalidFileError: it cannot be written.
    """

    def __init__(self, folder: Path, elsewhere: str) -> None:
        self._folder, self._elsewhere = folder, elsewhere
        self._file = -1
        self._owner: Owner | None = None
        self._heart = Heartbeat(self._beat)

    def __enter__(self) -> Self:
        with suppress(OSError):  # some systems open no folders, and some lock none
            self._file = os.open(self._folder, os.O_RDONLY)
        try:
            if self._file < 0 or not lock(self._file, self._folder, self._elsewhere):
                self._claim()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._heart.stop()
        if self._owner is not None:
            self._owner.leave()
        if self._file >= 0:
            os.close(self._file)

    def _claim(self) -> None:
        try:
            self._owner = claimed(self._folder, self._elsewhere)
        except OSError as cause:
            raise InvalidFileError(
                f"{self._folder} cannot be written: {cause.strerror or cause}; make room, or "
                f"{self._elsewhere}"
            ) from cause
        self._heart.start()

    def _beat(self) -> None:
        if self._owner is not None:
            self._owner.renew()
