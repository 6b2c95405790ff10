"""A stub server in a process of its own, for tests and benchmarks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.request import urlopen

STUB = Path(__file__).with_name("stub.py")


class Stubbed:
    """A server of `stub.py` while the context is open; options are those of its `Settings`."""

    def __init__(self, **settings: Any) -> None:
        command = [sys.executable, str(STUB), json.dumps(settings)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        assert self.process.stdout is not None
        self.url = f"http://127.0.0.1:{int(self.process.stdout.readline())}/v1"

    def counts(self) -> dict[str, float]:
        """What happened so far: calls, answers, tokens, seconds of answers, each failure."""
        with urlopen(f"{self.url}/counts") as reply:
            return dict(json.load(reply))

    def __enter__(self) -> Stubbed:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.communicate()
