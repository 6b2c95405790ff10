"""A Ray cluster of two nodes on this machine, of which one can be killed and comes again.

It is started by `ray start`, as on two machines, and stays up while commands come and go.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from random import Random

from faults.running import descendants

_STARTS_WITHIN = 120.0  # seconds
_STARTED = "Ray runtime started"
_NODE = ("--num-cpus=1", "--object-store-memory=134217728", "--disable-usage-stats", "--block")


class RayNodes:
    """The cluster, from entering the context to leaving it."""

    def __enter__(self) -> RayNodes:
        # Sockets lie below it, whose paths may have some hundred characters.
        self._folder = Path(tempfile.mkdtemp(prefix="gm-"))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        try:
            port = self.address.rpartition(":")[2]
            self._head = self._started(
                "--head",
                f"--port={port}",
                "--include-dashboard=false",
                f"--temp-dir={self._folder}",
            )
            self._second = self._started(f"--address={self.address}")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        for name in ("_second", "_head"):
            if hasattr(self, name):
                _end(getattr(self, name))
        shutil.rmtree(self._folder, ignore_errors=True)

    def mend(self) -> None:
        """Start the second node again, if it has been killed.

        Raises:
            RuntimeError: the first one has ended, which nobody has killed.
        """
        if self._head.poll() is not None:
            said = sorted(self._folder.glob("said *"))[0].read_text(errors="replace")
            raise RuntimeError(f"the head of the Ray cluster has ended: {said[-3000:]}")
        if self._second.poll() is not None:
            _end(self._second)
            self._second = self._started(f"--address={self.address}")

    def kill(self) -> bool:
        """kill -9 of what makes a node of the second one; whether it was there."""
        killed = False
        for pid in descendants(self._second.pid):
            if _command(pid).partition(" ")[0].endswith("/raylet"):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    killed = True
        return killed

    def kill_worker(self, random: Random) -> bool:
        """kill -9 of an actor or of what it has started; whether there was one."""
        nodes = [pid for node in (self._head, self._second) for pid in descendants(node.pid)]
        workers = [pid for pid in nodes if "ray::Actor" in _command(pid)]
        workers += [process for pid in workers for process in descendants(pid)]
        if not workers:
            return False
        with suppress(ProcessLookupError):
            os.kill(random.choice(workers), signal.SIGKILL)
            return True
        return False

    def _started(self, *options: str) -> subprocess.Popen[bytes]:
        said = self._folder / f"said {time.monotonic_ns()}"
        ray = str(Path(sys.executable).with_name("ray"))
        # Ray's workers otherwise stand behind everything else that a busy machine does.
        environment = os.environ | {"RAY_AUTH_MODE": "disabled", "RAY_worker_niceness": "0"}
        with said.open("wb") as out:
            node = subprocess.Popen(
                [ray, "start", *options, "--node-ip-address=127.0.0.1", *_NODE],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=environment,
            )
        until = time.monotonic() + _STARTS_WITHIN
        while _STARTED not in said.read_text(errors="replace"):
            if node.poll() is not None or time.monotonic() > until:
                _end(node)
                raise RuntimeError(f"a node of Ray does not start: {said.read_text()[-1000:]}")
            time.sleep(0.1)
        return node


def _command(pid: int) -> str:
    with suppress(OSError):
        return (
            Path(f"/proc/{pid}/cmdline")
            .read_bytes()
            .replace(b"\0", b" ")
            .decode("utf-8", "replace")
        )
    return ""


def _end(node: subprocess.Popen[bytes]) -> None:
    """End a node and all that it has started."""
    for pid in [*descendants(node.pid), node.pid]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    node.wait()
