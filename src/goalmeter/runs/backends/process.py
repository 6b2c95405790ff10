"""One worker process as its parent sees it: how it is started, spoken to, heard and ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Thread
from typing import IO

from goalmeter.runs.backends.worker import BEGUN, READY
from goalmeter.runs.jobs import Answer, Batch

# The same import path as here, so that the same goalmeter is found, however this process found it.
_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); del sys.argv[1:]; "
    "from goalmeter.runs.backends.worker import main; main()"
)
# Threads change the order of sums, and so their last bits; hashes change the order of sets. What a
# user has set stays.
_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
}
_ENDING = 1.0  # seconds that a process may take to end after it has closed its pipes
# What a shell, a scheduler or a machine short of memory ends a process with; a fault of the
# process's own has other signals.
_FROM_OUTSIDE = frozenset({"SIGKILL", "SIGTERM", "SIGHUP", "SIGINT"})


@dataclass(frozen=True)
class Surroundings:
    """What a worker finds around it that its numbers could depend on.

    Attributes:
        environment: variables of the environment.
        path: where Python looks for modules.
    """

    environment: Mapping[str, str]
    path: Sequence[str]

    @classmethod
    def of_this_process(cls) -> Surroundings:
        """Those that this process gives to its workers."""
        environment = {name: os.environ.get(name, usual) for name, usual in _ENVIRONMENT.items()}
        return cls(environment, tuple(sys.path))


class WorkerProcess:
    """One process, the thread that hears it, and the batch that it has.

    Args:
        heard: gets (this, line) for every line that the process says, and (this, None) at its end.
        attempt: which attempt at starting it this is, from 1.
        surroundings: what it finds around it; None for what this process would give it.

    Attributes:
        attempt: the same.
        batch: the number of the batch that it has, or None.
        ready: whether it has said that it takes batches.
        deadline: when its batch will have taken too long, by `time.monotonic`.
        late: whether one did.
        gone: whether it was seen to have ended, and nothing of it was left to hear.
    """

    def __init__(
        self,
        heard: SimpleQueue[tuple[WorkerProcess, str | None]],
        attempt: int = 1,
        surroundings: Surroundings | None = None,
    ) -> None:
        around = surroundings or Surroundings.of_this_process()
        self.attempt = attempt
        self.batch: int | None = None
        self.ready = False
        self.late = False
        self.gone = False
        self.deadline = self._timeout = float("inf")
        # A session of its own: Ctrl-C in a terminal reaches this process only, and all that a
        # worker starts can be ended with it.
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM, json.dumps(around.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | around.environment,
            encoding="utf-8",
            start_new_session=True,
        )
        assert self.process.stdin is not None and self.process.stdout is not None
        self._to: IO[str] = self.process.stdin
        self._from: IO[str] = self.process.stdout
        self._listener = Thread(target=self._listen, args=(heard,), daemon=True)
        self._listener.start()

    def _listen(self, heard: SimpleQueue[tuple[WorkerProcess, str | None]]) -> None:
        with suppress(OSError, ValueError):
            for line in self._from:
                # Half a line is the last word of a process that was killed.
                if line.endswith("\n"):
                    heard.put((self, line))
        heard.put((self, None))

    def ask(self, number: int, batch: Batch, timeout: float | None) -> bool:
        """Hand over a batch; False if nobody is there to take it."""
        line = json.dumps(batch.to_json())
        try:
            self._to.write(f"{line}\n")
            self._to.flush()
        except OSError:
            return False
        self.batch = number
        self._timeout = float("inf") if timeout is None else timeout
        return True

    def understand(self, line: str) -> Answer | None:
        """The answer that a line holds, after which the worker is idle.

        None for the greeting, and for the word that it begins with its batch, whose time runs now.
        """
        spoken = json.loads(line)
        if spoken == BEGUN:
            self.deadline = time.monotonic() + self._timeout
            return None
        self.deadline, self.batch = float("inf"), None
        if spoken == READY:
            self.ready = True
            return None
        return Answer.from_json(spoken)

    def kill(self) -> None:
        """End the process and all that it started."""
        if hasattr(os, "killpg"):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()

    def ended_itself(self) -> bool:
        """Whether the process ends without its parent's doing, now that its pipe is closed."""
        # Between its last word and its end pass milliseconds, in which it has no status yet.
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=_ENDING)
            return True
        return False

    def end(self) -> int:
        """Wait for the end and close the pipes; the exit status."""
        status = self.process.wait()
        with suppress(OSError):
            self._to.close()
        self._listener.join(timeout=1.0)
        if not self._listener.is_alive():
            self._from.close()
        return status


def is_from_outside(status: int) -> bool:
    """Whether a process with this exit status was ended by somebody else, as far as can be told."""
    return status < 0 and status_in_words(status).removeprefix("signal ") in _FROM_OUTSIDE


def status_in_words(status: int) -> str:
    """How a process ended."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"signal {signal.Signals(-status).name}"
    except ValueError:
        return f"signal {-status}"
