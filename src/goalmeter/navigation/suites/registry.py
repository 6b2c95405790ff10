"""Every suite by its name: a line for each of ours, and those that other packages register.

Another package names a `Suite` under the entry-point group `goalmeter.suites`; a notebook calls
`register_suite`.
"""

from __future__ import annotations

from goalmeter._errors import InvalidParameterError
from goalmeter._names import did_you_mean
from goalmeter._plugins import SUITES as PLUGINS
from goalmeter._plugins import PluginError, loaded, origin, plugins, refuse_taken
from goalmeter._text import shown
from goalmeter.navigation.suites import isometries, key_door, key_no_door, maze, two_path
from goalmeter.navigation.suites.record import Suite

_SUITES = {
    suite.name: suite
    for suite in (maze.SUITE, isometries.SUITE, key_door.SUITE, key_no_door.SUITE, two_path.SUITE)
}
SUITES = tuple(_SUITES)  # ours, which are the paper's


def suite_names() -> tuple[str, ...]:
    """Every suite that can be named: ours first. No other package is imported for that."""
    refuse_taken(PLUGINS, SUITES)
    return (*_SUITES, *(name for name in plugins(PLUGINS) if name not in _SUITES))


def suite_named(name: str) -> Suite:
    """The suite of a name.

    Raises:
        InvalidParameterError: there is none, with the nearest name.
        PluginError: another package registers it, and its suite cannot be used.
    """
    known = suite_names()
    if not isinstance(name, str) or name not in known:
        hint = did_you_mean(str(name), known, quoted=True) or ";"
        raise InvalidParameterError(
            f"there is no suite {shown(name)}{hint} known are {', '.join(known)}"
        )
    return _SUITES[name] if name in _SUITES else _of_another_package(name)


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


def _of_another_package(name: str) -> Suite:
    entry = plugins(PLUGINS)[name]
    suite = loaded(entry)
    if not isinstance(suite, Suite) or suite.name != name:
        raise PluginError(
            f"{origin(entry)} registers {entry.value} as the suite {name!r}, expected a "
            f"goalmeter.navigation.Suite of that name; that package has to mend it"
        )
    return suite
