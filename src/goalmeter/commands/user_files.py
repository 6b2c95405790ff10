"""What options name as FILE.py:NAME: environments, utilities and agents of a user's own.

Each file is run once, whatever is asked of it: it may train what it holds. What its functions
raise later is an error of the file, with the line, and no fault of goalmeter's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Any

from goalmeter._errors import GoalmeterError, InvalidFileError, InvalidParameterError
from goalmeter._files import digest
from goalmeter._text import in_a_line, shown
from goalmeter.agents.user_agents import walks
from goalmeter.agents.user_code import (
    canonical,
    files_of,
    line_of,
    member_of,
    run_file,
    split_name,
)


class UserFiles:
    """A user's files, as a command loads them."""

    def __init__(self) -> None:
        self._modules: dict[str, ModuleType] = {}

    def function(self, spelled: str, kind: str) -> Callable[..., Any]:
        """The function that FILE.py:NAME stands for."""
        member = self._member(spelled, kind)
        if not callable(member):
            raise InvalidFileError(f"{spelled} is {shown(member)}, expected a function")
        return guarded(member, spelled)

    def agent(self, spelled: str) -> Any:
        """The agent that FILE.py:NAME stands for, as `from_simulator` takes one.

        A function without parameters makes the agent, and a class is called without any. An agent
        that walks in grid worlds stays a name, which the registry knows how to ask.
        """
        member = self._member(spelled, "agent")
        if walks(member):
            return canonical(spelled)
        if isinstance(member, type) or _takes_nothing(member):
            member = guarded(member, spelled)()
        if member is None:
            raise InvalidFileError(f"{spelled}() returned nothing, expected an agent")
        if hasattr(member, "begin"):
            return GuardedEpisodes(member, spelled)
        # A model of a library is asked by its methods; a plain function is called.
        if callable(member) and not hasattr(member, "predict"):
            return guarded(member, spelled)
        return member

    def _member(self, spelled: str, kind: str) -> Any:
        parts = split_name(spelled)
        if parts is None:
            raise InvalidParameterError(
                f"{shown(spelled)} names no {kind} in a file, expected FILE.py:NAME"
            )
        path, name = parts
        key = str(Path(path).resolve())
        if key not in self._modules:
            self._modules[key] = run_file(path, kind)
        return member_of(self._modules[key], path, name, kind)


@dataclass(frozen=True)
class GuardedEpisodes:
    """An agent that begins anew in each episode, and whose faults are told as its own."""

    agent: Any
    __name__: str

    def begin(self, generator: Any) -> Callable[..., Any]:
        """Its function for one episode."""
        function = guarded(self.agent.begin, self.__name__)(generator)
        return guarded(function, self.__name__)


def guarded(function: Callable[..., Any], spelled: str) -> Callable[..., Any]:
    """A function of a user's whose exceptions become one sentence that names file and line."""
    parts = split_name(spelled)
    assert parts is not None, "only functions of files are guarded"
    where = Path(parts[0]).resolve()

    def call(*arguments: Any, **options: Any) -> Any:
        try:
            return function(*arguments, **options)
        except (GoalmeterError, KeyboardInterrupt):
            raise
        # Whatever else a user's code raises to end the program ends the command in a sentence.
        except BaseException as cause:
            raise InvalidParameterError(
                f"{spelled} fails{line_of(cause, where)}: {_named(cause)}; mend it"
            ) from cause

    call.__name__ = spelled
    return call


def _named(cause: BaseException) -> str:
    """An error in a line that begins with its class."""
    name, words = type(cause).__name__, in_a_line(cause)
    return words if words.startswith(name) else f"{name}: {words}"


def contents(names: list[str]) -> Mapping[str, str]:
    """The SHA-256 of every file that options name or that such a file imports, by path."""
    paths: dict[str, None] = {}
    for spelled in map(canonical, names):
        parts = split_name(spelled)
        prefix, _, path = spelled.partition(":")
        if parts is not None:
            paths |= dict.fromkeys(files_of(parts[0]))
        elif prefix in ("sb3", "policy"):
            paths[path] = None
    return {path: digest(path) for path in sorted(paths)}


def _takes_nothing(member: Any) -> bool:
    try:
        return callable(member) and not signature(member).parameters
    except (TypeError, ValueError):  # some builtins have no signature
        return False
