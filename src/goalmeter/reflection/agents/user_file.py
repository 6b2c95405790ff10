"""Agents from a user's own file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from goalmeter._errors import InvalidFileError
from goalmeter.reflection.adapters import FunctionAgent
from goalmeter.reflection.protocol import Agent
from goalmeter.reflection.user_code import load


def from_file(path: str | Path, name: str, seed: int = 0) -> Agent:
    """The agent that a Python file calls by a name.

    It may be a function `name(history, n_actions, n_observations) -> int`; an object with the
    method `begin` of `goalmeter.reflection.protocol.Agent`; or a class of such objects, which is
    then called with the seed. The file is run anew each time, and may import its neighbours.

    Raises:
        InvalidFileError: there is no such file, it fails, or has no such agent.
    """
    path = Path(path)
    found = load(path, name, kind="agent")
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
