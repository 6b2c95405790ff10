"""Disks and locks that fail in a process: made before it is forked, and entered in it."""

from __future__ import annotations

import builtins
import errno
import fcntl
import io
import mmap
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

_FULL = (errno.ENOSPC, errno.EDQUOT)  # a full disk still removes and shortens files


class Counted:
    """A number of calls, and how many of them were spoilt, in memory shared with the parent."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 16)

    @property
    def asked(self) -> int:
        """How many calls there were."""
        return self._get(0)

    @property
    def struck(self) -> int:
        """How many of them were spoilt."""
        return self._get(8)

    def count(self, *, struck: bool = False) -> int:
        """One call more; its number, from 0."""
        at = 8 if struck else 0
        before = self._get(at)
        self._memory[at : at + 8] = struct.pack("q", before + 1)
        return before

    def _get(self, at: int) -> int:
        return int(struct.unpack("q", self._memory[at : at + 8])[0])


class Disk(Counted):
    """Calls that write below a folder, counted, of which some fail.

    Args:
        folder: whose files these are.
        error: what they fail with: ENOSPC, EDQUOT or EROFS.
        first: number of the first call that fails, from 0; None for none.
        calls: how many fail from there on; None for all.
    """

    def __init__(
        self, folder: Path, error: int = 0, first: int | None = None, calls: int | None = None
    ) -> None:
        super().__init__()
        self._folder = str(folder.resolve())
        self._error, self._first = error, first
        self._last = float("inf") if first is None or calls is None else first + calls

    def enter(self) -> None:
        """Put this in the place of the system's calls, in this process."""
        self._cwd = str(Path.cwd())
        for name in ("fsync", "replace", "rename", "mkdir"):
            setattr(os, name, self._checked(getattr(os, name)))
        if self._error not in _FULL:
            for name in ("ftruncate", "unlink", "remove", "rmdir", "chmod", "utime"):
                setattr(os, name, self._checked(getattr(os, name)))
        system_write, system_open = os.write, os.open

        def write(file: int, data: Any, /) -> int:
            # A disk that is nearly full takes a part.
            data = self._part(file, memoryview(data).cast("B"))
            return system_write(file, data)

        def opened(path: Any, flags: int, *args: Any, **more: Any) -> int:
            if flags & (os.O_CREAT | os.O_WRONLY | os.O_RDWR):
                self._check(path)
            return system_open(path, flags, *args, **more)

        os.write, os.open = write, opened
        builtins.open = io.open = self._opener(io.open)

    def _opener(self, system_open: Callable[..., Any]) -> Callable[..., Any]:
        disk = self

        class Raw(io.FileIO):
            def write(self, data: Any, /) -> int:
                return super().write(disk._part(self.fileno(), memoryview(data).cast("B")))

        def opened(file: Any, mode: str = "r", buffering: int = -1, *text: Any, **more: Any) -> Any:
            if not set(mode) & set("wax+") or not disk._is_ours(file):
                return system_open(file, mode, buffering, *text, **more)
            disk._check(file)
            of_raw = {name: more.pop(name) for name in ("closefd", "opener") if name in more}
            raw = Raw(file, mode.replace("b", "").replace("t", ""), **of_raw)
            if buffering == 0:
                return raw
            buffered: Any = (io.BufferedRandom if "+" in mode else io.BufferedWriter)(raw)
            return buffered if "b" in mode else io.TextIOWrapper(buffered, *text, **more)

        return opened

    def _checked(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def checked(path: Any, *args: Any, **more: Any) -> Any:
            self._check(path)
            return call(path, *args, **more)

        return checked

    def _check(self, file: Any) -> None:
        """Count a call, and raise if it fails."""
        if self._is_ours(file) and self._strikes():
            raise OSError(self._error, os.strerror(self._error))

    def _part(self, file: int, data: memoryview) -> memoryview:
        """What of the data is written; nothing is an error."""
        if not (self._is_ours(file) and self._strikes()):
            return data
        if self.struck == 1 and len(data) > 1 and self._error in _FULL:
            return data[: len(data) // 2]
        raise OSError(self._error, os.strerror(self._error))

    def _strikes(self) -> bool:
        number = self.count()
        if self._first is None or not self._first <= number < self._last:
            return False
        self.count(struck=True)
        return True

    def _is_ours(self, file: Any) -> bool:
        try:
            if isinstance(file, int):
                path = str(Path(f"/proc/self/fd/{file}").readlink())
            else:
                path = os.path.join(self._cwd, os.fsdecode(file))  # noqa: PTH118
        except (OSError, TypeError):
            return False
        return os.path.normpath(path).startswith(self._folder)


class NoLocks(Counted):
    """Locks that a file system refuses, as network file systems do."""

    def __init__(self, error: int) -> None:
        super().__init__()
        self._error = error

    def enter(self) -> None:
        """Put this in the place of the locks."""

        def refused(*args: Any) -> None:
            self.count()
            self.count(struck=True)
            raise OSError(self._error, os.strerror(self._error))

        fcntl.flock = fcntl.lockf = refused
