"""Unknown names, names registered by other packages as entry points, and package fronts."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from difflib import get_close_matches
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from goalmeter._errors import GoalmeterError, InvalidParameterError

# --- Names ----------------------------------------------------------------------------------------
_LONGEST = 80  # letters of a name that are compared: difflib takes time with their square
_SHOWN = 8  # names that a message lists


def nearest(name: object, known: Iterable[object], *, cutoff: float = 0.6) -> str | None:
    """Return the known name that is most similar to an unknown one, or None; case is ignored."""
    # As difflib's ratio, "gridy" is like "greedy" (0.73), and "rat" not like "random" (0.44).
    folded: dict[str, str] = {}
    for option in map(str, known):
        folded.setdefault(option.lower(), option)
    close = get_close_matches(str(name).strip().lower()[:_LONGEST], folded, n=1, cutoff=cutoff)
    return folded[close[0]] if close else None


def did_you_mean(
    name: object, known: Iterable[object], *, quoted: bool = False, cutoff: float = 0.6
) -> str:
    """Return the part of a message that proposes the nearest name, if there is one."""
    close = nearest(name, known, cutoff=cutoff)
    if close is None:
        return ""
    return f"; did you mean {close!r}?" if quoted else f"; did you mean {close}?"


def unknown_name(
    name: object,
    known: Sequence[object],
    what: str,
    error: type[GoalmeterError] = InvalidParameterError,
) -> GoalmeterError:
    """Return the error for an unknown name, with the nearest known one; `what` begins it."""
    # Variables have short names, of which one wrong letter is a large part.
    hint = did_you_mean(name, known, quoted=True, cutoff=0.5)
    return error(f"{what} {name!r} does not exist, expected one of {listed(known)}{hint}")


def listed(names: Iterable[object]) -> str:
    """Return names with commas, cut where there are many."""
    texts = [str(name) for name in names]
    more = f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return ", ".join(texts[:_SHOWN]) + more


# --- Plugins --------------------------------------------------------------------------------------
# A package adds an agent, a suite, an environment or a backend by an entry point in its metadata:
#
#     [project.entry-points."goalmeter.agents"]
#     compass = "their_package.agents:COMPASS"
#
# It is imported when its name is asked for, and never to list what there is.
AGENTS, SUITES = "goalmeter.agents", "goalmeter.suites"
ENVIRONMENTS, BACKENDS = "goalmeter.environments", "goalmeter.backends"


class PluginError(GoalmeterError):
    """A package that adds something to goalmeter cannot be imported, or adds it wrongly."""


@lru_cache(maxsize=8)
def plugins(group: str) -> dict[str, EntryPoint]:
    """Return what installed packages register in a group, by name in alphabetical order."""
    registered: dict[str, EntryPoint] = {}
    for entry in sorted(entry_points(group=group), key=lambda entry: (entry.name, entry.value)):
        first = registered.setdefault(entry.name, entry)
        # An editable install beside a wheel of the same package lists its entries twice.
        if first.value != entry.value:
            raise PluginError(
                f"{origin(first)} and {origin(entry)} both register {entry.name!r} in {group}; "
                f"uninstall one of them"
            )
    return registered


def loaded(entry: EntryPoint) -> Any:
    """Import what an entry point names."""
    try:
        return entry.load()
    # Anything may go wrong in foreign code, SystemExit too, and must not look like our own fault.
    except (Exception, SystemExit) as cause:
        raise PluginError(
            f"{origin(entry)} registers {entry.name!r} in {entry.group} as {entry.value!r}, which "
            f"cannot be loaded ({type(cause).__name__}: {cause}); fix or uninstall that package"
        ) from cause


def origin(entry: EntryPoint) -> str:
    """Return the package of an entry point with its version: "their-package 1.2"."""
    if entry.dist is None:
        return f"a package with the module {entry.module}"
    return f"{entry.dist.name} {entry.dist.version}"


def refuse_taken(group: str, names: Collection[str]) -> None:
    """Raise an error if a package registers one of goalmeter's own names in a group."""
    for name, entry in plugins(group).items():
        if name in names:
            raise PluginError(
                f"{origin(entry)} registers {name!r} in {group}, which is a name of goalmeter's "
                f"own; that package must choose another"
            )


# --- Package fronts -------------------------------------------------------------------------------
def lazy_front(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a package's `__getattr__` and `__dir__`: names are imported when first used."""
    # The imports of the package's `if TYPE_CHECKING:` block say where each name is.
    homes = {
        alias.name: statement.module
        for block in ast.parse(Path(file).read_text(encoding="utf-8")).body
        if isinstance(block, ast.If)
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }

    def look_up(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if homes[name] == package:
            return import_module(f"{package}.{name}")
        value = getattr(import_module(str(homes[name])), name)
        vars(sys.modules[package])[name] = value
        return value

    return look_up, lambda: sorted({*vars(sys.modules[package]), *homes})
