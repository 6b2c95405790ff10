"""Worker processes on other machines, which compute what this machine would compute."""

from __future__ import annotations

import json
import os
import re
import socket
import sys
import tempfile
from base64 import b64decode, b64encode
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from goalmeter._errors import GoalmeterError, InvalidFileError, InvalidParameterError, shown
from goalmeter._files import digest
from goalmeter._names import did_you_mean
from goalmeter.runs.backends.processes import WorkerProcess, worker_environment
from goalmeter.runs.store import made_here

MOST_BYTES = 2**29  # of files that are sent along
# Commas inside of square brackets belong to a value: exclude=node[1,2].
_PART = re.compile(r"(?:\[[^\]]*\]|[^,\[])+")


def options_of(
    argument: str, place: str, known: Collection[str], *, first: str = ""
) -> dict[str, str]:
    """Return the options behind the colon of a place; `first` names a first part without a name."""
    options: dict[str, str] = {}
    for number, part in enumerate(_PART.findall(argument)):
        name, equals, value = (word.strip() for word in part.partition("="))
        if not equals and first and number == 0:
            name, value = first, name
        if name not in known or not value or name in options:
            raise InvalidParameterError(
                f"{place}:{argument} has {shown(part)}{did_you_mean(name, known) or ';'} expected "
                f"NAME=VALUE once each, with commas between them, of {', '.join(known)}"
            )
        options[name] = value
    return options


def setup_of(files: Mapping[str, str], timeout: float | None) -> str:
    """Return what a remote worker needs before its first batch, as JSON; the files travel along."""
    for path, known in files.items():
        if digest(path) != known:
            raise InvalidFileError(f"{path} has changed since this began; start the run again")
    if (size := sum(Path(path).stat().st_size for path in files)) > MOST_BYTES:
        raise InvalidFileError(
            f"the agent's files have {size >> 20} MiB, expected at most {MOST_BYTES >> 20} to "
            f"be sent to other machines; run it with --on processes"
        )
    contents = {
        path: (known, b64encode(Path(path).read_bytes()).decode()) for path, known in files.items()
    }
    # Relative paths begin in the working folder.
    return json.dumps([version(), str(Path.cwd()), worker_environment(), timeout, contents])


def worker_here(setup: str, path: Sequence[str] | None = None) -> WorkerProcess:
    """Return a worker process of this machine, which a driver on another machine set up."""
    wanted, folder, environment, timeout, files = json.loads(setup)
    if version() != wanted:
        raise GoalmeterError(
            f"{socket.gethostname()} has goalmeter {version()}, expected {wanted} as on the "
            f"machine that started the run; install the same there"
        )
    move_to(folder, files)
    return WorkerProcess(timeout, environment, path)


@lru_cache(maxsize=1)
def version() -> str:
    """Return the version of goalmeter with a digest of its source, and that of Python."""
    # In a checkout the number alone does not tell one commit from another.
    package = Path(__file__).resolve().parents[2]
    source = sha256()
    for file in sorted(package.rglob("*.py")):
        source.update(str(file.relative_to(package)).encode() + b"\0" + file.read_bytes())
    python = ".".join(map(str, sys.version_info[:2]))
    return f"{made_here()['goalmeter']} (source {source.hexdigest()[:8]}), Python {python}"


def move_to(folder: str, files: Mapping[str, Sequence[str]]) -> None:
    """Change to the working folder, or to one with copies of the files where it is not shared."""
    if Path(folder).is_dir():
        os.chdir(folder)
    missing = [
        path
        for path, (known, _) in files.items()
        if not Path(path).is_file() or digest(path) != known
    ]
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
                Path(path).write_bytes(b64decode(content))
