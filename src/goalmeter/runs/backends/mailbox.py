"""A folder on a shared file system through which batches go out and answers come back, as text.

    setup.json              what all workers are told, see `hosted.Setup`
    driver                  a number that the driver counts on while it lives
    asks/WORKER/N.json      batch N, for one worker
    answers/WORKER.N.json   what came of it; WORKER.ready.json stands at its beginning

A file takes its name when it is whole, so nobody reads half of one. What is read once is removed.
Folders are listed, since a listing asks the server of a shared file system, where a look for one
name may be answered from a memory that is half a minute old.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

READY = "ready"
_ENDING = ".json"
_HALF = "."  # stands before the name of a file that is being written


@dataclass(frozen=True)
class Mailbox:
    """Such a folder, from both sides."""

    folder: Path

    def make(self, setup: str) -> None:
        """Make it, and say what all workers are told."""
        for name in ("asks", "answers"):
            (self.folder / name).mkdir(parents=True)
        self._write(self.folder / "setup.json", setup)

    def setup(self) -> str:
        """What all workers are told."""
        return (self.folder / "setup.json").read_text(encoding="utf-8")

    # --- The driver's side ------------------------------------------------------------------------
    def beat(self, count: int) -> None:
        """Say that the driver lives."""
        with suppress(OSError):  # workers are patient
            self._write(self.folder / "driver", str(count))

    def ask(self, worker: str, number: int, batch: str) -> None:
        """Hand a batch to a worker."""
        self._write(self.folder / "asks" / worker / f"{number}{_ENDING}", batch)

    def answers(self) -> Iterator[tuple[str, str, str]]:
        """Each answer once: of which worker, to which batch (or `READY`), and its text."""
        answers = self.folder / "answers"
        for name in sorted(os.listdir(answers)):  # noqa: PTH208  # of names alone
            worker, _, number = name.removesuffix(_ENDING).rpartition(".")
            if name[0] != _HALF and name.endswith(_ENDING):
                text = (answers / name).read_text(encoding="utf-8")
                (answers / name).unlink()
                yield worker, number, text

    # --- A worker's side --------------------------------------------------------------------------
    def heart(self) -> str:
        """What the driver has counted to; "" if the folder has gone."""
        with suppress(OSError):
            return (self.folder / "driver").read_text(encoding="utf-8")
        return ""

    def begin(self, worker: str) -> None:
        """Make the folder in which a worker is asked."""
        (self.folder / "asks" / worker).mkdir(exist_ok=True)

    def asked(self, worker: str) -> list[tuple[int, str]]:
        """Batches for a worker, in their order, each once."""
        folder = self.folder / "asks" / worker
        names = os.listdir(folder)  # noqa: PTH208
        numbers = sorted(int(name.removesuffix(_ENDING)) for name in names if name[0].isdigit())
        batches = []
        for number in numbers:
            file = folder / f"{number}{_ENDING}"
            batches.append((number, file.read_text(encoding="utf-8")))
            file.unlink()
        return batches

    def answer(self, worker: str, number: int | str, text: str) -> None:
        """Say what came of a batch."""
        self._write(self.folder / "answers" / f"{worker}.{number}{_ENDING}", text)

    def _write(self, file: Path, text: str) -> None:
        half = file.with_name(f"{_HALF}{file.name}")
        with half.open("w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            # Other machines would see the name before the content.
            os.fsync(stream.fileno())
        half.replace(file)
