"""Functions of a user's own file, FILE.py:NAME: found, held to their arguments, and called."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from inspect import Parameter, signature
from typing import Any

from goalmeter._errors import InvalidFileError, InvalidParameterError
from goalmeter._files import digest
from goalmeter._names import did_you_mean
from goalmeter._text import shown
from goalmeter.agents.user_code import files_of, load, split_name
from goalmeter.runs.jobs import in_a_line


def function_of(name: str, kind: str) -> Callable[..., Any]:
    """What FILE.py:NAME stands for; the file is run.

    Args:
        name: the file, and behind a colon the function's name in it.
        kind: what it is to give, for the message.
    """
    parts = split_name(name)
    assert parts is not None, "what is of no file has been told apart"
    function = load(*parts, kind=kind)
    if not callable(function):
        raise InvalidFileError(
            f"{name} is {shown(function)}, expected a function that gives a {kind}"
        )
    return function  # type: ignore[no-any-return]  # callable, as was just seen


def contents(names: Collection[str]) -> dict[str, str]:
    """The SHA-256 of the files of some FILE.py:NAME, and of their neighbours that they import."""
    parts = [split_name(name) for name in names]
    paths = sorted({path for pair in parts if pair for path in files_of(pair[0])})
    return {path: digest(path) for path in paths}


def check_arguments(
    function: Callable[..., Any], name: str, arguments: Collection[str], where: str, *, given: int
) -> None:
    """Raises if a function does not take arguments of these names.

    Args:
        function: one of ours, or of a user's.
        name: what it is called in the message.
        arguments: their names.
        where: for the message.
        given: how many arguments it gets besides, before them.
    """
    try:
        parameters = signature(function).parameters
    except (TypeError, ValueError):  # some builtins have no signature
        return
    ours = list(parameters.values())[given:]
    known = [p.name for p in ours if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    if any(p.kind is Parameter.VAR_KEYWORD for p in ours):
        known += [name for name in arguments if name not in known]
    listed = ", ".join(known) or "none"
    for argument in arguments:
        if argument not in known:
            hint = did_you_mean(argument, known, quoted=True) or ";"
            raise InvalidParameterError(
                f"{where}: {name} has no argument {argument!r}{hint} expected {listed}"
            )
    for p in ours:
        if p.name in known and p.default is Parameter.empty and p.name not in arguments:
            raise InvalidParameterError(
                f"{where}: {name} needs the argument {p.name!r}; its arguments are {listed}"
            )


def takes_seed(function: Callable[..., Any]) -> bool:
    """Whether a function has an argument `seed`."""
    try:
        return "seed" in signature(function).parameters
    except (TypeError, ValueError):
        return False


def called(
    function: Callable[..., Any],
    name: str,
    before: Sequence[Any],
    arguments: Mapping[str, Any],
) -> Any:
    """What a user's function gives."""
    try:
        return function(*before, **arguments)
    except (Exception, SystemExit) as cause:
        raise InvalidParameterError(f"{name} raises {in_a_line(cause)}") from cause
