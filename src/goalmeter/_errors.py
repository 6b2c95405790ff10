"""The errors a user can meet: each says what, where, expected, got, and how to mend it.

What an error quotes may be anybody's: the text of an error is one line of bounded length, in which
whatever steers a terminal is spelled out.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from os import PathLike
from types import ModuleType
from typing import Any

from goalmeter._text import message


class GoalmeterError(ValueError):
    """Something handed to goalmeter cannot be used; the message says how to mend it."""

    # Here and not where it is raised: what a message quotes may be anybody's text.
    def __str__(self) -> str:
        return message(super().__str__())


class InvalidModelError(GoalmeterError):
    """A world (transition, reward, initial distribution, horizon) is not well formed."""


class InvalidPolicyError(GoalmeterError):
    """A policy is not a distribution over the actions of the world it is used in."""


class InvalidUtilityError(GoalmeterError):
    """A utility, or a feature matrix that spans utilities, does not fit the world."""


class InvalidTrajectoryError(GoalmeterError):
    """Logged trajectories do not fit the world they are said to come from."""


class InvalidParameterError(GoalmeterError):
    """An option lies outside the range in which it means something."""


class InvalidFileError(GoalmeterError):
    """A file is missing, unreadable, or lacks what its format requires."""


class IncompleteRunError(InvalidFileError):
    """A run folder lacks some of its trials.

    Attributes:
        folder: of the run.
        what: what the run is, as its run.json says.
        shortage: how much of what is missing, as a sentence without a remedy.
    """

    def __init__(
        self,
        folder: str | PathLike[str],
        what: Mapping[str, Any],
        *,
        missing: int,
        total: int,
        trials: str,
    ) -> None:
        self.folder, self.what = str(folder), what
        self.shortage = message(f"{self.folder} lacks {missing} of {total} {trials}")
        super().__init__(
            f"{self.shortage}; measure the same again with out={self.folder!r}, which makes them"
        )


class MissingExtraError(ImportError):
    """An optional dependency is needed and not installed."""

    def __str__(self) -> str:
        return message(super().__str__())


def how_to_install(extra: str) -> str:
    """The command that brings an extra, for a package that was installed and for a checkout.

    >>> print(how_to_install("lm").removeprefix("install it with: "))
    pip install 'goalmeter[lm]' (in a checkout: pip install -c constraints.txt -e '.[lm]')
    """
    return (
        f"install it with: pip install 'goalmeter[{extra}]' "
        f"(in a checkout: pip install -c constraints.txt -e '.[{extra}]')"
    )


def require(module: str, *, extra: str, feature: str) -> ModuleType:
    """Import an optional module, or say which command installs it.

    Args:
        module: dotted name of the module.
        extra: the goalmeter extra that brings it.
        feature: what it is needed for, as the subject of a sentence.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        # A module that is there and fails to import something else is broken, and says so itself.
        if error.name is None or error.name.partition(".")[0] != module.partition(".")[0]:
            raise
        raise MissingExtraError(
            f"{feature} needs the package {module.partition('.')[0]!r}, which is not installed; "
            f"{how_to_install(extra)}"
        ) from error
