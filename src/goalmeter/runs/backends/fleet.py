"""Workers on other machines: the remote process, and the dispatcher that assigns batches."""

from __future__ import annotations

import base64
import json
import os
import socket
import sys
import tempfile
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from goalmeter._errors import GoalmeterError, InvalidFileError
from goalmeter._files import digest
from goalmeter.runs.backends.processes import Processes, Surroundings
from goalmeter.runs.jobs import KILLED, Answer, Batch, JobResult, Working
from goalmeter.runs.store import made_here

# --- Hosted ---------------------------------------------------------------------------------------
# Whatever carries the text, a Ray actor or a Slurm job, hosts the worker process that this machine
# would have started, so that results, limits of time and the words for a crash are the same. Before
# its first batch it makes sure that it would compute what the process that asks would compute.

MOST_BYTES = 2**29  # of files that are sent along


@dataclass(frozen=True)
class Setup:
    """What a worker is told once, before its first batch.

    Attributes:
        version: of goalmeter, and of Python; see `version`.
        folder: in which the process that asks works, and paths begin.
        environment: variables that decide how numbers come out.
        timeout: seconds that a batch may take; None for as long as it takes.
        files: path -> its SHA-256, and its content in base 64.
    """

    version: str
    folder: str
    environment: Mapping[str, str]
    timeout: float | None
    files: Mapping[str, tuple[str, str]]

    @classmethod
    def of(cls, files: Mapping[str, str], timeout: float | None) -> Setup:
        """What this process tells the workers that it asks."""
        contents: dict[str, tuple[str, str]] = {}
        size = 0
        for path, known in files.items():
            if digest(path) != known:
                raise InvalidFileError(f"{path} has changed since this began; ask for the run anew")
            size += Path(path).stat().st_size
            contents[path] = (known, "")
        if size > MOST_BYTES:
            raise InvalidFileError(
                f"the agent's files have {size >> 20} MiB, expected at most {MOST_BYTES >> 20} to "
                f"be sent to other machines; run it with --on processes"
            )
        for path, (known, _) in contents.items():
            contents[path] = (known, base64.b64encode(Path(path).read_bytes()).decode())
        environment = Surroundings.of_this_process().environment
        return cls(version(), str(Path.cwd()), environment, timeout, contents)

    def to_text(self) -> str:
        """The fields as JSON."""
        return json.dumps(asdict(self))


class HostedWorker:
    """A worker process of this machine that somebody on another machine asks.

    Args:
        setup: `Setup.to_text`.
        path: where Python looks for modules; None for where this process looks.
    """

    def __init__(self, setup: str, path: Sequence[str] | None = None) -> None:
        told = Setup(**json.loads(setup))
        check_version(told.version)
        move_to(told.folder, told.files)
        around = Surroundings(told.environment, tuple(sys.path if path is None else path))
        self._pool = Processes(1, told.timeout, around)
        self._pool.__enter__()

    def answer(self, batch: str) -> str:
        """What came of a batch, both as JSON text."""
        answers = list(self._pool.run(iter([Batch(**json.loads(batch))])))
        return json.dumps(answers[0][1].to_json())

    def close(self) -> None:
        """End the worker process."""
        self._pool.__exit__()


def answered(text: str) -> Answer:
    """The answer that `HostedWorker.answer` gave as text."""
    return Answer.from_json(json.loads(text))


def place_here() -> dict[str, Any]:
    """Which process this is, for whoever watches."""
    return {"host": socket.gethostname(), "pid": os.getpid()}


@lru_cache(maxsize=1)
def version() -> str:
    """The version of goalmeter with a digest of its source, and that of Python.

    Of an installation from a checkout the number alone would not say that it is another commit's.
    """
    package = Path(__file__).resolve().parents[2]
    source = sha256()
    for file in sorted(package.rglob("*.py")):
        source.update(str(file.relative_to(package)).encode() + b"\0" + file.read_bytes())
    python = ".".join(map(str, sys.version_info[:2]))
    return f"{made_here()['goalmeter']} (source {source.hexdigest()[:8]}), Python {python}"


def check_version(wanted: str) -> None:
    """Raise if this machine has another goalmeter or Python than the one who asks."""
    if version() != wanted:
        raise GoalmeterError(
            f"{socket.gethostname()} has goalmeter {version()}, expected {wanted} as on the "
            f"machine that asks; install the same there"
        )


def move_to(folder: str, files: Mapping[str, tuple[str, str]]) -> None:
    """Work in a folder in which some files are what they should be.

    That is the folder itself where this machine has it with these files, as on a shared file
    system. Else it is a folder of its own, into which files are written whose paths are relative.
    """
    if Path(folder).is_dir():
        os.chdir(folder)
    missing = [path for path, (known, _) in files.items() if _digest_here(path) != known]
    if elsewhere := [path for path in missing if Path(path).is_absolute()]:
        raise InvalidFileError(
            f"{socket.gethostname()} has no {elsewhere[0]} with the same content, and files are "
            f"only sent that lie in the working folder; put it there"
        )
    if missing or not Path(folder).is_dir():
        os.chdir(tempfile.mkdtemp(prefix="goalmeter-"))
        for path, (_, content) in files.items():
            if not Path(path).is_absolute():
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                Path(path).write_bytes(base64.b64decode(content))


def _digest_here(path: str) -> str:
    try:
        return digest(path)
    except InvalidFileError:
        return ""


# --- Fleet ----------------------------------------------------------------------------------------
# What carries text to them and back is the subclass's. Each has a batch, and a second one on its
# way where batches are short, so that it never waits for an answer to cross; nothing else is in
# memory.

# Seconds: where a worker takes longer than this for a batch, a second one would only lie there.
_SHORT = 2.0
# Starts in a row that may fail before one worker has taken a batch.
_ATTEMPTS = 6


@dataclass(eq=False)
class Member:
    """One worker.

    Attributes:
        name: by which a user recognises it.
        batches: numbers of those that it has, the one that it makes first.
        ready: whether it has said that it takes batches.
        short: whether its last batch took little time.
    """

    name: str
    batches: deque[int] = field(default_factory=deque)
    ready: bool = False
    short: bool = False


class Fleet(ABC):
    """A `Backend` of such workers, from entering the context to leaving it.

    Attributes:
        slots: how many there are to be.
        worthwhile: see `Backend`.
        members: those that there are.
    """

    slots: int
    worthwhile: float

    def __init__(self, timeout: float | None) -> None:
        self._timeout = timeout
        self._failed = 0
        self._started = False
        self.members: list[Member] = []

    @abstractmethod
    def start(self, setup: str) -> None:
        """Start workers, which all are told the same, see `hosted.Setup`."""

    @abstractmethod
    def ask(self, member: Member, number: int, batch: str) -> None:
        """Send a batch to a worker that is ready."""

    @abstractmethod
    def hear(self) -> Iterator[tuple[int, Answer]]:
        """Wait a while for something to happen; the answers that came, by `took` and `lost`."""

    def run(self, batches: Iterator[Batch]) -> Iterator[tuple[int, Answer]]:
        """Make batches, and give the number and the answer of each as it is ready.

        An iterator that is left early leaves its batches running: leave the context too.
        """
        numbered = enumerate(batches)
        waiting = deque([first] if (first := next(numbered, None)) is not None else [])
        if waiting and not self._started:
            self._started = True
            self.start(Setup.of(waiting[0][1].files, self._timeout).to_text())
        while self._share_out(waiting, numbered):
            yield from self.hear()

    def working(self) -> Sequence[Working]:
        """The workers that have a batch now."""
        # Copies, since another thread goes on.
        return [
            Working(member.name, number)
            for member in tuple(self.members)
            for number in tuple(member.batches)[:1]
        ]

    def _share_out(
        self, waiting: deque[tuple[int, Batch]], numbered: Iterator[tuple[int, Batch]]
    ) -> bool:
        """Give batches to those who can take one; whether there is any answer to wait for."""
        # Whoever has none comes first.
        for member in sorted(self.members, key=lambda each: len(each.batches)):
            while member.ready and len(member.batches) < (2 if member.short else 1):
                taken = waiting.popleft() if waiting else next(numbered, None)
                if taken is None:
                    break
                number, batch = taken
                member.batches.append(number)
                self.ask(member, number, json.dumps(batch.to_json()))
        busy = any(member.batches for member in self.members)
        # While workers start, nobody knows yet whether there is a batch for them.
        if not busy and not waiting and (following := next(numbered, None)) is not None:
            waiting.append(following)
        return busy or bool(waiting)

    # --- What a subclass says of its workers ------------------------------------------------------
    def took(self, member: Member, number: int, text: str) -> tuple[int, Answer]:
        """A worker has answered a batch with this text."""
        answer = answered(text)
        member.batches.remove(number)
        member.short = answer.seconds < _SHORT
        self._failed = 0
        return number, answer

    def lost(
        self, member: Member, detail: str, *, counts: bool = True
    ) -> Iterator[tuple[int, Answer]]:
        """A worker has gone with all that it had; whoever says so starts another.

        Args:
            member: it.
            detail: what became of it.
            counts: whether it was a start of its own, if it had not started.
        """
        self.members.remove(member)
        if not member.ready:
            self._failed += counts
            if self._failed >= _ATTEMPTS and not any(each.ready for each in self.members):
                raise GoalmeterError(
                    f"no worker starts: {self._failed} ended before they took a batch, the last "
                    f"of which is {member.name}: {detail}; what is finished is kept where --out "
                    f"names a folder"
                )
        yield from self.given_up(member, detail)

    def given_up(self, member: Member, detail: str) -> Iterator[tuple[int, Answer]]:
        """What a worker had has come to nothing."""
        while member.batches:
            yield member.batches.popleft(), Answer(lost=JobResult(KILLED, detail=detail))
