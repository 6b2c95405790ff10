"""Agents from a user's own file."""

from __future__ import annotations

from pathlib import Path

from goalmeter._errors import InvalidFileError, InvalidParameterError
from goalmeter.agents.histories.given import made
from goalmeter.agents.histories.protocol import Agent
from goalmeter.agents.user_code import load


def from_file(path: str | Path, name: str, seed: int = 0) -> Agent:
    """The agent that a Python file calls by a name.

    It may be a function `name(history, n_actions, n_observations) -> int`; an object with the
    method `begin` of `agents.histories.protocol.Agent`; or a class of such objects, which is then
    called with the seed. The file is run anew each time, and may import its neighbours.

    Raises:
        InvalidFileError: there is no such file, it fails, or has no such agent.
    """
    path = Path(path)
    found = load(path, name, kind="agent")
    try:
        return made(found, seed, f"{path}:{name}")
    except InvalidParameterError as cause:
        raise InvalidFileError(str(cause)) from cause
