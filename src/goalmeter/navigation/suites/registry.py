"""Every suite by its name: a line for each of ours, and those that other packages register.

Another package names a `Suite` under the entry-point group `goalmeter.suites`; a notebook calls
`register_suite`.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points

from goalmeter._errors import InvalidParameterError
from goalmeter._names import did_you_mean
from goalmeter._text import shown
from goalmeter.navigation.suites import isometries, key_door, key_no_door, maze, two_path
from goalmeter.navigation.suites.record import Suite

GROUP = "goalmeter.suites"
_SUITES = {
    suite.name: suite
    for suite in (
        maze.SUITE,
        isometries.SUITE,
        key_door.SUITE,
        key_no_door.SUITE,
        two_path.SUITE,
    )
}
SUITES = tuple(_SUITES)  # ours, which are the paper's


def suite_names() -> tuple[str, ...]:
    """Every suite that can be named: ours first."""
    return (*_SUITES, *(name for name in _of_other_packages() if name not in _SUITES))


def suite_named(name: str) -> Suite:
    """The suite of a name.

    Raises:
        InvalidParameterError: there is none, with the nearest name.
    """
    if isinstance(name, str):
        if name in _SUITES:
            return _SUITES[name]
        if name in _of_other_packages():
            return _of_other_packages()[name]
    known = suite_names()
    hint = did_you_mean(str(name), known, quoted=True) or ";"
    raise InvalidParameterError(
        f"there is no suite {shown(name)}{hint} known are {', '.join(known)}"
    )


def register_suite(suite: Suite) -> None:
    """Make a suite known in this process.

    Worker processes do not know it; a suite for those is registered by an entry point.

    Raises:
        InvalidParameterError: there is another suite of that name.
    """
    if suite.name in suite_names() and suite_named(suite.name) != suite:
        raise InvalidParameterError(
            f"there is a suite {suite.name!r} already; give yours another name"
        )
    _SUITES[suite.name] = suite


@cache
def _of_other_packages() -> dict[str, Suite]:
    """The suites that other packages register, by their names."""
    found = {}
    for entry in entry_points(group=GROUP):
        suite = entry.load()
        if not isinstance(suite, Suite):
            raise InvalidParameterError(
                f"the entry point {entry.name!r} of {GROUP} is {shown(suite)}, expected a "
                f"goalmeter.navigation.Suite"
            )
        found[suite.name] = suite
    return found
