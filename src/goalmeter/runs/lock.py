"""Locks of run directories: one process at a time writes to a run."""

from __future__ import annotations

import json
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any, Self

from goalmeter._errors import InvalidFileError, InvalidParameterError, shown

# --- Heartbeat ------------------------------------------------------------------------------------
EVERY = 1.0  # seconds


class Heartbeat:
    """Calls a function about once a second, from `start` to `stop`, in a thread of its own.

    It never holds the process open, and where no thread can be started it does nothing.

    Args:
        beat: what is called; whatever it raises is its own affair, and the next beat comes.
    """

    def __init__(self, beat: Callable[[], None]) -> None:
        self._beat = beat
        self._ended = Event()
        self._thread: Thread | None = None

    def start(self) -> None:
        """Begin; the first beat comes after a second."""
        thread = Thread(target=self._run, name="goalmeter heartbeat", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the system has no more threads, or Python is about to end
            return
        self._thread = thread

    def stop(self) -> None:
        """End, and wait for a beat that has begun."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        # `Event.wait` goes by the monotonic clock, which nobody sets.
        while not self._ended.wait(EVERY):
            try:
                self._beat()
            except Exception:
                continue


# --- Owner ----------------------------------------------------------------------------------------
# The first process makes the record, and only one can: a file is made in a single step. From then
# on it renews the record about once a second, and each time sees that it is still its own.
# Another one refuses while the first lives: on the same machine while there is such a process, on
# another while the record is renewed. One whose owner is gone is taken over.
#
# This cannot do what a lock can. A process that stood still for half a minute may find its run
# taken over: it then ends before it writes another line. Two that take over the same record in
# the same instant could both write until the first of them looks, which is a second at most.

OWNER = "owner.json"
# Seconds without a sign of life after which an owner on another machine is taken for gone. Its
# thread may have waited for a computation that lets no other thread run.
STALE = 30.0
# Seconds that a record that looks old is watched: a clock may have jumped.
_WATCHED = 3.0
_SETTLED = 0.3  # seconds after which one of two that took over together has seen the other
# The record's owner looks whether it still is, before it writes, when it has not for so long.
_TRUSTED = 10.0


class OtherOwnerError(Exception):
    """Another process fills the run; which, in words."""


class Owner:
    """This process as the owner of a folder, from `claim` to `leave`.

    Args:
        folder: that holds the record.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / OWNER
        self._token = secrets.token_hex(8)
        self._beats = 0
        self._seen = (time.monotonic(), time.time())

    def claim(self) -> None:
        """Become the owner."""
        try:
            self._make()
        except FileExistsError:
            self._refuse_if_alive()
            self._write()
            time.sleep(_SETTLED)
        self.renew()

    def renew(self) -> None:
        """Give a sign of life, and see that this process still is the owner."""
        self.check()
        self._beats += 1
        self._write()

    def check(self) -> None:
        """See that this process still is the owner."""
        record = _record(self._path)
        if record.get("token") != self._token:
            raise OtherOwnerError(_in_words(record))
        self._seen = (time.monotonic(), time.time())

    def check_if_long_ago(self) -> None:
        """See to it before a line is written, where nobody has for some seconds."""
        # By both clocks: one stands still while a machine sleeps, and the other may be set back.
        then, there = self._seen
        if max(time.monotonic() - then, time.time() - there) > _TRUSTED:
            self.check()

    def leave(self) -> None:
        """Remove the record, if it is this process's."""
        with suppress(OSError, OtherOwnerError):
            self.check()
            self._path.unlink()

    def _text(self) -> str:
        about = {"host": socket.gethostname(), "pid": os.getpid(), "began": _began(os.getpid())}
        return json.dumps(about | {"token": self._token, "beats": self._beats}) + "\n"

    def _make(self) -> None:
        """Make the record, if there is none: whole and in a single step, on network systems too."""
        with self._written() as fresh:
            try:
                os.link(fresh, self._path)
            except FileExistsError:
                raise
            except OSError:  # a file system without links
                os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
                fresh.replace(self._path)

    def _write(self) -> None:
        with self._written() as fresh:
            fresh.replace(self._path)

    @contextmanager
    def _written(self) -> Iterator[Path]:
        """The record in a file beside it, which is gone afterwards, also when it is an error."""
        fresh = self._path.with_name(f".{OWNER}.{self._token}")
        try:
            fresh.write_text(self._text(), encoding="utf-8")
            yield fresh
        finally:
            with suppress(OSError):  # it has become the record
                fresh.unlink()

    def _refuse_if_alive(self) -> None:
        record = _record(self._path)
        if record.get("host") == socket.gethostname():
            alive = is_alive(record.get("pid"), record.get("began"))
            if alive:
                raise OtherOwnerError(_in_words(record))
            if alive is not None:
                return
        end = time.monotonic() + _WATCHED
        while time.monotonic() < end:
            if self._age() < STALE or _record(self._path) != record:
                raise OtherOwnerError(_in_words(record))
            time.sleep(_WATCHED / 10)

    def _age(self) -> float:
        """Seconds since the record was written, by the clock of the file system alone."""
        probe = self._path.with_name(f".{OWNER}.{self._token}")
        probe.write_bytes(b"")
        try:
            return abs(probe.stat().st_mtime - self._path.stat().st_mtime)
        finally:
            probe.unlink()


def _record(path: Path) -> dict[str, Any]:
    """The record; empty where it is not there, or not whole yet."""
    with suppress(FileNotFoundError, ValueError, RecursionError):
        record = json.loads(path.read_bytes()[:10_000])
        return record if isinstance(record, dict) else {}
    return {}


def _in_words(record: dict[str, Any]) -> str:
    if not record:
        return "another process"
    return f"another process ({shown(record.get('pid'))} on {shown(record.get('host'))})"


def is_alive(pid: object, began: object = None) -> bool | None:
    """Whether a process of this machine runs, and is the one that began then; None if unknown.

    Args:
        pid: its number, which another process may have by now.
        began: as the record says; None where that is not known.
    """
    if os.name != "posix" or type(pid) is not int or pid <= 0:
        return None  # elsewhere to ask would be to interrupt it
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # somebody else's
        pass
    now = _began(pid)
    return began is None or now is None or now == began


def _began(pid: int) -> str | None:
    """When a process began, in the system's own ticks; None where the system does not say."""
    try:
        # Behind the name, which may hold blanks and brackets.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return fields[19] if len(fields) > 19 and fields[0] != "Z" else ""


# --- Lock -----------------------------------------------------------------------------------------
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
