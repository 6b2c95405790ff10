"""Agents from a user's own file, loaded by its path."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any
from zlib import crc32

from goalmeter._errors import InvalidFileError
from goalmeter.reflection.adapters import FunctionAgent
from goalmeter.reflection.protocol import Agent


def from_file(path: str | Path, name: str, seed: int = 0) -> Agent:
    """The agent that a Python file calls by a name.

    It may be a function `name(history, n_actions, n_observations) -> int`; an object with the
    method `begin` of `goalmeter.reflection.protocol.Agent`; or a class of such objects, which is
    then called with the seed. The file is run anew each time, and may import its neighbours.

    Raises:
        InvalidFileError: there is no such file, it fails, or has no such agent.
    """
    path = Path(path)
    module = _run(path)
    found: Any = getattr(module, name, None)
    if found is None:
        own = [key for key, value in vars(module).items() if key[0] != "_" and callable(value)]
        nearest = get_close_matches(name, own, n=1)
        raise InvalidFileError(
            f"{path} has no agent {name!r}"
            + (f"; did you mean {path}:{nearest[0]}?" if nearest else "; define it there")
        )
    if hasattr(found, "begin"):
        made: Agent = _made(found, seed, f"{path}:{name}") if isinstance(found, type) else found
        return made
    if isinstance(found, type) or not callable(found):
        kind = "a class without the method 'begin'" if isinstance(found, type) else repr(found)
        raise InvalidFileError(
            f"{path}:{name} is {kind}, expected a function (history, n_actions, n_observations) "
            f"-> int, or an object with the method 'begin'"
        )
    return FunctionAgent(found)


def _made(found: Callable[[int], Agent], seed: int, where: str) -> Agent:
    try:
        return found(seed)
    except Exception as cause:
        raise InvalidFileError(
            f"{where}({seed}) fails: {type(cause).__name__}: {cause}; a class of agents is called "
            f"with the seed alone"
        ) from cause


def _run(path: Path) -> ModuleType:
    if not path.is_file():
        raise InvalidFileError(f"there is no file {path}; the path of an agent is FILE.py:NAME")
    where = path.resolve()
    spec = importlib.util.spec_from_file_location(
        f"goalmeter_user_{where.stem}_{crc32(str(where).encode()):08x}", where
    )
    if spec is None or spec.loader is None:
        raise InvalidFileError(f"{path} is no Python file; expected a name that ends in .py")
    module = importlib.util.module_from_spec(spec)
    # At the end, so that a neighbour called random.py does not hide Python's own. It stays there
    # for imports that stand inside functions.
    if str(where.parent) not in sys.path:
        sys.path.append(str(where.parent))
    sys.modules[spec.name] = module  # dataclasses look their module up there
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as cause:
        sys.modules.pop(spec.name, None)
        raise InvalidFileError(
            f"{path} fails when it is run{_line(cause, where)}: {type(cause).__name__}: {cause}; "
            f"mend it, or try: python {path}"
        ) from cause
    return module


def _line(cause: BaseException, where: Path) -> str:
    """Where in the file it failed, if it got that far."""
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(cause.__traceback__)
        if frame.filename == str(where)
    ]
    return f", in line {lines[-1]}" if lines else ""
