"""What other packages add to goalmeter: names that they register as entry points.

A package adds an agent, a suite, an environment or a place where trials run by an entry point in
its own metadata,

    [project.entry-points."goalmeter.agents"]
    compass = "their_package.agents:COMPASS"

and from then on the name stands wherever one of ours does. Entry points are read from metadata
alone: a package is imported when its name is asked for, and never to list what there is.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from goalmeter._errors import GoalmeterError

AGENTS = "goalmeter.agents"
SUITES = "goalmeter.suites"
ENVIRONMENTS = "goalmeter.environments"
BACKENDS = "goalmeter.backends"


class PluginError(GoalmeterError):
    """A package that adds something to goalmeter cannot be imported, or adds it wrongly."""


# Reading the metadata of a hundred packages takes some 50 ms, and nothing changes while we run.
@lru_cache(maxsize=8)
def plugins(group: str) -> dict[str, EntryPoint]:
    """What installed packages register in a group, by name in alphabetical order.

    Args:
        group: `AGENTS`, `SUITES`, `ENVIRONMENTS` or `BACKENDS`.
    """
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
    """What an entry point names; this imports its package."""
    try:
        return entry.load()
    # Anything may go wrong in foreign code, SystemExit too, and must not look like our own fault.
    except (Exception, SystemExit) as cause:
        raise PluginError(
            f"{origin(entry)} registers {entry.name!r} in {entry.group} as {entry.value!r}, which "
            f"cannot be loaded ({type(cause).__name__}: {cause}); mend or uninstall that package"
        ) from cause


def origin(entry: EntryPoint) -> str:
    """The package that an entry point is of, with its version: "their-package 1.2"."""
    if entry.dist is None:
        return f"a package with the module {entry.module}"
    return f"{entry.dist.name} {entry.dist.version}"


def refuse_taken(group: str, names: Collection[str]) -> None:
    """Raises `PluginError` if a package registers one of goalmeter's own names in the group."""
    for name, entry in plugins(group).items():
        if name in names:
            raise PluginError(
                f"{origin(entry)} registers {name!r} in {group}, which is a name of goalmeter's "
                f"own; that package must choose another"
            )
