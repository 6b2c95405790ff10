"""Ray backend: join or start a cluster, and run trials in actors."""

from __future__ import annotations

import atexit
import logging
import os
import secrets
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, Self

from goalmeter._errors import (
    MOST_WORKERS,
    GoalmeterError,
    InvalidParameterError,
    require,
    shown,
    whole_in_text,
)
from goalmeter.runs.backends.fleet import Fleet, HostedWorker, Member, place_here
from goalmeter.runs.jobs import Answer, check_timeout, options_of

# --- Ray session ----------------------------------------------------------------------------------
_AUTO, _LOCAL = "auto", "local"
_REACHED_WITHIN = 5.0  # seconds
_OBJECTS = 2**27  # bytes of Ray's store in a cluster that is started here; batches are text


@dataclass
class _Session:
    """What this process has joined: the address asked for, and the folder of a cluster of its own.

    Both are "" where it has joined nothing.
    """

    address: str = ""
    folder: str = ""


_JOINED = _Session()


def join(ray: ModuleType, address: str) -> None:
    """Join a cluster, unless this process is in it already.

    To start one takes seconds, and a command has several studies: so what is joined stays until the
    process ends. A cluster that somebody else's code here has joined is taken as it is.

    Args:
        ray: the package.
        address: HOST:PORT, "auto", or "local" for a cluster that is started here; "" for that of
            RAY_ADDRESS, or else whichever there is.
    """
    wanted = address or os.environ.get("RAY_ADDRESS") or _AUTO
    if ray.is_initialized():
        if not _JOINED.address or wanted in (_AUTO, _JOINED.address):
            return
        leave(ray)
    folder = _connect(ray, wanted)
    _JOINED.address, _JOINED.folder = wanted, folder
    atexit.register(leave, ray)


def leave(ray: ModuleType) -> None:
    """Leave the cluster that was joined, and stop it if it was started here."""
    atexit.unregister(leave)
    if _JOINED.address:
        with suppress(Exception):  # it may have gone
            ray.shutdown()
    if _JOINED.folder:
        shutil.rmtree(_JOINED.folder, ignore_errors=True)
    _JOINED.address = _JOINED.folder = ""


def _connect(ray: ModuleType, address: str) -> str:
    """Join the cluster of an address; the folder of one that was started for it, "" for others."""
    if address == _LOCAL:
        return _start_here(ray)
    if address != _AUTO:
        _reach(address)
    try:
        ray.init(address=address, **_quiet())
    except ConnectionError as cause:
        if address != _AUTO:
            raise GoalmeterError(
                f"the Ray cluster at {address} cannot be joined: {_first_line(cause)}"
            ) from cause
        return _start_here(ray)
    except ValueError as cause:
        raise InvalidParameterError(
            f"{shown(address)} is no address of a Ray cluster, expected HOST:PORT, auto or "
            f"local: {_first_line(cause)}"
        ) from cause
    except RuntimeError as cause:
        raise GoalmeterError(
            f"the Ray cluster at {address} cannot be joined: {' '.join(str(cause).split())}; "
            f"install the Ray and the Python here that it has"
        ) from cause
    return ""


def _start_here(ray: ModuleType) -> str:
    """Start a cluster of this machine; its folder."""
    # Ray's sockets lie below it, whose paths may have some hundred characters.
    folder = tempfile.mkdtemp(prefix="gm-")
    variables = {
        "RAY_ADDRESS": "",
        # A cluster of this machine has the modules that this process has.
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        # On a busy machine its first process takes longer than Ray would wait.
        "RAY_gcs_server_port_wait_time_s": "120",
        # Ray's workers would stand back behind every other process, and run out of time.
        "RAY_worker_niceness": "0",
    }
    # Ray would write a token to the home folder.
    if not any(os.environ.get(f"RAY_AUTH_{name}") for name in ("MODE", "TOKEN", "TOKEN_PATH")):
        variables["RAY_AUTH_TOKEN"] = _token()
    with _environment(variables), _silent():
        try:
            ray.init(
                address=_LOCAL,
                include_dashboard=False,
                object_store_memory=_OBJECTS,
                _temp_dir=folder,
                **_quiet(),
            )
        except BaseException as cause:
            ray.shutdown()
            shutil.rmtree(folder, ignore_errors=True)
            if not isinstance(cause, RuntimeError):
                raise
            raise GoalmeterError(
                f"no Ray cluster starts on this machine: {_first_line(cause)}; run it with "
                f"--on processes"
            ) from cause
    return folder


def _quiet() -> dict[str, Any]:
    """Options of `ray.init` that leave standard output and logging to this process."""
    return {"log_to_driver": False, "configure_logging": False, "logging_level": logging.ERROR}


def _reach(address: str) -> None:
    """Raise at once if nobody answers at an address, which Ray finds out after a minute."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not (host and port.isdecimal()):
        raise InvalidParameterError(
            f"{shown(address)} is no address of a Ray cluster, expected HOST:PORT, auto or local"
        )
    try:
        socket.create_connection((host, int(port)), timeout=_REACHED_WITHIN).close()
    except (OSError, OverflowError) as cause:
        raise GoalmeterError(
            f"nobody answers at {address}: {cause}; look whether the Ray cluster runs, and which "
            f"address ray start has told"
        ) from cause


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


@lru_cache(maxsize=1)
def _token() -> str:
    """What proves to a cluster that is started here that it is this process who asks."""
    # One for all clusters of this process: Ray remembers the first.
    return secrets.token_hex(32)


@contextmanager
def _silent() -> Iterator[None]:
    """Without Ray's advice about tokens and the like."""
    logger = logging.getLogger("ray")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    """This process with other variables of the environment, "" for none; Ray adds some itself."""
    before = dict(os.environ)
    for name, value in values.items():
        if value:
            os.environ[name] = value
        else:
            os.environ.pop(name, None)
    try:
        yield
    finally:
        for name in set(os.environ) - set(before):
            if name.startswith("RAY_") or name in values:
                del os.environ[name]
        os.environ.update(before)


# --- Ray cluster ----------------------------------------------------------------------------------
# ray                     RAY_ADDRESS; else the cluster that runs on this machine; else one is
#                             started here, and stopped with this process
#     ray:ADDRESS             that cluster, such as ray:10.0.0.5:6379; ray:local always starts one
#     ray:ADDRESS,cpus=8      no more than eight workers
#
# What agents print goes to Ray's own logs.

_LOOK_EVERY = 5.0  # seconds; how often it is looked whether there are more CPUs
_PATIENCE = 600.0  # seconds that may pass until a cluster has a free CPU, as one that has to grow


def ray(argument: str, *, trials: int, timeout: float | None) -> RayCluster:
    """A Ray cluster, as `registry.opened` asks for it."""
    options = options_of(argument, "ray", ("address", "cpus"), first="address")
    most = MOST_WORKERS
    if "cpus" in options:
        most = whole_in_text(options["cpus"], "cpus", least=1, most=MOST_WORKERS)
    check_timeout(timeout)
    require("ray", extra="ray", feature="Running trials on a Ray cluster")
    return RayCluster(options.get("address", ""), min(most, max(trials, 1)), timeout)


class Actor:
    """What runs on the cluster; Ray makes one in a process of its own for each worker."""

    def __init__(self) -> None:
        self._worker: HostedWorker | None = None

    def greet(self, setup: str) -> dict[str, Any]:
        """Start the worker process; which process this is, or why it takes no batches."""
        import ray

        # Ray has packages of its own in front, of other versions than ours.
        of_ray = str(Path(ray.__file__).parent)
        path = [folder for folder in sys.path if not folder.startswith(of_ray)]
        try:
            self._worker = HostedWorker(setup, path)
        except GoalmeterError as error:
            return {"refused": str(error)}
        return place_here()

    def answer(self, batch: str) -> str:
        """What came of a batch."""
        assert self._worker is not None
        return self._worker.answer(batch)


@dataclass(eq=False)
class RayWorker(Member):
    """A worker, and the actor that carries to it and from it."""

    actor: Any = None


class RayCluster(Fleet):
    """Workers on a Ray cluster.

    Args:
        address: of the cluster, see above; "" for whichever there is.
        most: workers.
        timeout: seconds that a batch may take; None for as long as it takes.
    """

    worthwhile = 0.3  # seconds; a batch and its answer cross in some milliseconds

    def __init__(self, address: str, most: int, timeout: float | None) -> None:
        super().__init__(timeout)
        self._address = address
        self._most = most
        self._asked: dict[Any, tuple[RayWorker, int]] = {}  # what was asked -> of whom, which batch
        self._setup: Any = None
        self._looked = self._begun = time.monotonic()

    def __enter__(self) -> Self:
        self._ray = require("ray", extra="ray", feature="Running trials on a Ray cluster")
        join(self._ray, self._address)
        self.slots = max(1, min(self._most, self._free()))
        return self

    def __exit__(self, *error: object) -> None:
        for member in self.members:
            self._end(member)
        self.members.clear()
        self._asked.clear()
        self._setup = None

    def _free(self) -> int:
        return int(self._ray.available_resources().get("CPU", 0))

    # --- Workers ----------------------------------------------------------------------------------
    def start(self, setup: str) -> None:
        """Start as many workers as there are free CPUs; they are told once a node."""
        self._setup = self._ray.put(setup)
        self._begun = self._looked = time.monotonic()
        for _ in range(self.slots):
            self._add()

    def _add(self) -> None:
        actor = self._ray.remote(num_cpus=1, max_restarts=0)(Actor).remote()
        member = RayWorker("ray worker that starts", actor=actor)
        self.members.append(member)
        self._asked[actor.greet.remote(self._setup)] = (member, -1)

    def ask(self, member: Member, number: int, batch: str) -> None:
        """Send a batch to a worker that is ready."""
        assert isinstance(member, RayWorker)
        self._asked[member.actor.answer.remote(batch)] = (member, number)

    def hear(self) -> Iterator[tuple[int, Answer]]:
        """Wait a while for something to happen; the answers that came."""
        self._grow()
        ready, _ = self._ray.wait(list(self._asked), num_returns=1, timeout=1.0)
        if ready and len(self._asked) > 1:  # others that are there already
            every = list(self._asked)
            ready, _ = self._ray.wait(every, num_returns=len(every), timeout=0)
        for reference in ready:
            member, number = self._asked.pop(reference)
            if member not in self.members:
                continue  # what a worker that has gone was still to answer
            try:
                said = self._ray.get(reference)
            except self._ray.exceptions.RayTaskError as error:
                raise GoalmeterError(_why(self._ray, error)) from error
            except self._ray.exceptions.RayError as error:
                detail = _why(self._ray, error)
                self._end(member)
                yield from self.lost(member, detail)
                self._add()
                continue
            if member.ready:
                yield self.took(member, number, said)
            elif "refused" in said:
                raise GoalmeterError(f"a node of the Ray cluster cannot be used: {said['refused']}")
            else:
                member.name = f"ray {said['host']} process {said['pid']}"
                member.ready = True

    def _grow(self) -> None:
        """Look now and then whether the cluster has more CPUs, and take them."""
        now = time.monotonic()
        if now - self._looked < _LOOK_EVERY:
            return
        self._looked = now
        if all(member.ready for member in self.members):
            for _ in range(min(self._free(), self._most - len(self.members))):
                self._add()
        elif not any(member.ready for member in self.members) and now - self._begun > _PATIENCE:
            raise GoalmeterError(
                f"the Ray cluster had no free CPU for {_PATIENCE / 60:.0f} minutes; ray status "
                f"shows who has them"
            )

    def _end(self, member: Member) -> None:
        assert isinstance(member, RayWorker)
        with suppress(Exception):  # the cluster itself may have gone
            self._ray.kill(member.actor, no_restart=True)


def _why(ray: ModuleType, error: Exception) -> str:
    """What Ray says of a worker that has gone, in a line."""
    text = str(error)
    if "No module named 'goalmeter" in text:
        return "a node of the Ray cluster has no goalmeter; install the same version there"
    if isinstance(error, ray.exceptions.RayTaskError):
        return f"a worker on the Ray cluster fails: {text.strip().splitlines()[-1]}"
    return f"Ray lost the process ({type(error).__name__})"
