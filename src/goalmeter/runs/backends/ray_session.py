"""How this process joins a Ray cluster, or starts one: once, until it ends or asks for another."""

from __future__ import annotations

import atexit
import logging
import os
import secrets
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import Any

from goalmeter._errors import GoalmeterError, InvalidParameterError
from goalmeter._text import shown

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
