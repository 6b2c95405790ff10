"""The faults: how each is injected into a command, and what it may end with."""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

from faults.ray_nodes import RayNodes
from faults.running import Command, Ended, descendants
from faults.spoiling import Clock, Disk, NoLocks, limited_files

NO_LOCKS = "locks that fail"


@dataclass(frozen=True)
class Target:
    """A command that is about to be run, and how it runs where nothing disturbs it.

    Attributes:
        words: what follows `goalmeter`.
        folder: where it is typed.
        seconds: that it takes.
        writes: calls that write below the folder.
        largest: bytes of its largest file.
        smaller: called before it begins.
        locks: those of a file system that has none; None for the system's own.
        nodes: the Ray cluster that it uses, or None.
    """

    words: tuple[str, ...]
    folder: Path
    seconds: float
    writes: int
    largest: int
    smaller: Callable[[], None]
    locks: NoLocks | None = None
    nodes: RayNodes | None = None

    @property
    def limit(self) -> float:
        """Seconds after which it hangs; a busy machine may take many times as long."""
        return 90.0 + 10 * self.seconds

    def start(self, *spoil: Callable[[], None]) -> Command:
        """Begin it, with some things spoilt."""

        def first() -> None:
            self.smaller()
            if self.locks is not None:
                self.locks.enter()
            for each in spoil:
                each()

        return Command(self.words, self.folder, first)


@dataclass(frozen=True)
class Injected:
    """What came of an attempt to inject a fault.

    Attributes:
        command: the last one that was started.
        endings: how each command ended.
        struck: whether a living process was hit; a run may be over before.
    """

    command: Command
    endings: tuple[Ended, ...]
    struck: bool


Inject = Callable[[Target, Random], Injected]


def kill_driver(target: Target, random: Random) -> Injected:
    """kill -9 of the command itself, at any moment."""
    command = target.start()
    command.wait(random.uniform(0, 1.05 * target.seconds))
    struck = command.kill()
    return Injected(command, (command.ended(target.limit),), struck)


def kill_worker(target: Target, random: Random) -> Injected:
    """kill -9 of one of its processes, at any moment; before there are any, of the first."""
    return _kill(target, random, lambda command: _kill_one_of(target, command, random))


def kill_node(target: Target, random: Random) -> Injected:
    """kill -9 of one of two nodes of a Ray cluster, at any moment."""
    nodes = target.nodes
    assert nodes is not None, "a place with nodes"
    return _kill(target, random, lambda command: nodes.kill())


def _kill(target: Target, random: Random, kill: Callable[[Command], bool]) -> Injected:
    command = target.start()
    command.wait(random.uniform(0, target.seconds))
    struck = False
    while not struck and not command.is_over():
        struck = kill(command)
        time.sleep(0.0 if struck else 0.01)
    ended = command.ended(target.limit)
    if target.nodes is not None:
        target.nodes.mend()
    return Injected(command, (ended,), struck)


def _kill_one_of(target: Target, command: Command, random: Random) -> bool:
    if target.nodes is not None:
        return target.nodes.kill_worker(random)
    if workers := descendants(command.pid):
        with suppress(ProcessLookupError):
            os.kill(random.choice(workers), signal.SIGKILL)
            return True
    return False


def _spoil_disk(error: int, *, once: bool) -> Inject:
    def inject(target: Target, random: Random) -> Injected:
        calls = random.choice((None, 1)) if once else None
        disk = Disk(target.folder, error, random.randrange(max(1, target.writes)), calls)
        command = target.start(disk.enter)
        ended = command.ended(target.limit)
        return Injected(command, (ended,), disk.struck > 0)

    return inject


def limit_files(target: Target, random: Random) -> Injected:
    """A limit on the length of files, which writers in C++ and Rust meet too."""
    most = random.randrange(max(1, target.largest))
    command = target.start(lambda: limited_files(most))
    ended = command.ended(target.limit)
    # Nothing tells of it but the error that the system gives.
    struck = os.strerror(errno.EFBIG) in ended.err or ended.status != 0
    return Injected(command, (ended,), struck)


def jump_clock(target: Target, random: Random) -> Injected:
    """A time of day that jumps by hours, forwards and back."""
    clock = Clock(Random(random.random()))
    command = target.start(clock.enter)
    return Injected(command, (command.ended(target.limit),), clock.struck > 0)


def several(target: Target, random: Random) -> Injected:
    """Two or five of the same command at once, or soon after each other."""
    commands = [target.start()]
    for _ in range(random.choice((2, 5)) - 1):
        commands[0].wait(random.choice((0.0, random.uniform(0, target.seconds / 4))))
        commands.append(target.start())
    together = not commands[0].is_over()
    limit = target.limit * len(commands)
    return Injected(commands[-1], tuple(each.ended(limit) for each in commands), together)


def refuse_locks(target: Target, random: Random) -> Injected:
    """A file system without locks, as it is in all of a try that has this: two commands at once."""
    commands = [target.start()]
    commands[0].wait(random.choice((0.0, random.uniform(0, target.seconds))))
    commands.append(target.start())
    endings = tuple(each.ended(2 * target.limit) for each in commands)
    return Injected(commands[-1], endings, target.locks is not None and target.locks.struck > 0)


@dataclass(frozen=True)
class Fault:
    """A fault.

    Attributes:
        name: as the table has it.
        inject: into a command.
        of_workers: whether there have to be processes besides the command.
        of_nodes: whether there has to be a Ray cluster.
    """

    name: str
    inject: Inject
    of_workers: bool = False
    of_nodes: bool = False


FAULTS = (
    Fault("driver killed", kill_driver),
    Fault("worker killed", kill_worker, of_workers=True),
    Fault("Ray node killed", kill_node, of_nodes=True),
    Fault("disk full", _spoil_disk(errno.ENOSPC, once=True)),
    Fault("quota", _spoil_disk(errno.EDQUOT, once=True)),
    Fault("files limited", limit_files),
    Fault("read-only", _spoil_disk(errno.EROFS, once=False)),
    Fault("clock", jump_clock),
    Fault("commands at once", several),
    Fault(NO_LOCKS, refuse_locks),
)
