"""Who fills a run, where the file system has no locks: a record that is renewed, and looked after.

The first process makes the record, and only one can: a file is made in a single step. From then on
it renews the record about once a second, and each time sees that it is still its own. Another one
refuses while the first lives: on the same machine while there is such a process, on another while
the record is renewed. One whose owner is gone is taken over.

This cannot do what a lock can. A process that stood still for half a minute may find its run taken
over: it then ends before it writes another line. Two that take over the same record in the same
instant could both write until the first of them looks, which is a second at most.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from goalmeter._text import shown

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
