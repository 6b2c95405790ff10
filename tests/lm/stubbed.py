"""A stub server for tests and benchmarks: in a thread, or in a process of its own."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from lm.stub import Settings, Stub, listening

STUB = Path(__file__).with_name("stub.py")


class Served:
    """A server of `stub.py` while the context is open.

    Attributes:
        url: where it is.
    """

    url: str

    def counts(self) -> dict[str, float]:
        """What happened so far: calls, answers, tokens, seconds of answers, each failure."""
        with urlopen(f"{self.url}/counts") as reply:
            return dict(json.load(reply))

    def end(self) -> None:
        """End the server."""

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *error: object) -> None:
        self.end()


class Stubbed(Served):
    """In a thread, which is there at once; options are those of its `Settings`."""

    def __init__(self, **settings: Any) -> None:
        self._stub = Stub(Settings(**settings))
        self._loop = asyncio.new_event_loop()
        _, port = self._loop.run_until_complete(listening(self._stub))
        self.url = f"http://127.0.0.1:{port}/v1"
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0.01))
        self._loop.close()


class StubProcess(Served):
    """In a process of its own, which takes nothing of the client's time."""

    def __init__(self, **settings: Any) -> None:
        command = [sys.executable, str(STUB), json.dumps(settings)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        assert self._process.stdout is not None
        self.url = f"http://127.0.0.1:{int(self._process.stdout.readline())}/v1"

    def end(self) -> None:
        self._process.communicate()
