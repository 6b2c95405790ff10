"""A worker process: reads batches, a line of JSON each, and answers each with a line.

The code that it runs may be anybody's. What that prints goes to standard error, and what it reads
is empty: the pipes of the protocol are moved out of its way. A thread waits for batches, so that a
worker whose parent has gone ends at once, whatever it is doing.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import NoReturn

from goalmeter.runs.jobs import Batch, call, prepare
from goalmeter.runs.streams import prepare_worker

READY = "ready"
BEGUN = "begun"


def main() -> NoReturn:
    """Serve until the other end of standard input is closed."""
    prepare_worker()
    # No keyboard reaches a session of its own: whoever sends its signal ends this process, which is
    # no exception of the code that runs.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    asked, answers = os.dup(0), os.dup(1)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    os.dup2(2, 1)
    batches: SimpleQueue[str] = SimpleQueue()
    # A batch can come from here on, so the time that starting takes counts against none.
    _send(answers, json.dumps(READY))
    Thread(target=_listen, args=(asked, batches), daemon=True).start()
    while True:
        batch = Batch(**json.loads(batches.get()))
        prepare(batch)
        _send(answers, json.dumps(BEGUN))
        _send(answers, json.dumps(_answer(batch)))


def _answer(batch: Batch) -> dict[str, object]:
    # The keyboard's signal ends a worker, so an interrupt is raised by the code itself.
    answer = call(batch, keep_interrupts=True)
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # the user's code may have closed it
            stream.flush()
    return answer.to_json()


def _listen(asked: int, batches: SimpleQueue[str]) -> None:
    with os.fdopen(asked, encoding="utf-8") as lines:
        for line in lines:
            batches.put(line)
    os._exit(0)


def _send(answers: int, line: str) -> None:
    unsent = f"{line}\n".encode()
    try:
        while unsent:
            unsent = unsent[os.write(answers, unsent) :]
    except OSError:  # nobody is there to hear it
        os._exit(0)


if __name__ == "__main__":
    main()
