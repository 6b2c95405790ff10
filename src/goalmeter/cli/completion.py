"""Shell completion: functions from what was typed so far to the names that continue it.

A shell waits for them, so what each needs is imported only then.
"""

from __future__ import annotations

from collections.abc import Iterable


def suites(incomplete: str) -> list[str]:
    """Complete suites of grid worlds."""
    from goalmeter.navigation.suites import suite_names

    return _beginning(incomplete, suite_names())


def navigators(incomplete: str) -> list[str]:
    """Complete agents that `goalmeter navigate` can measure."""
    from goalmeter.agents import Ability, listed_names

    names = [name for able in (Ability.GRID, Ability.TEXT) for name in listed_names(able)]
    return _beginning(incomplete, dict.fromkeys(names))


def agents(incomplete: str) -> list[str]:
    """Complete agents that `goalmeter reflect` can measure, and their reality checks."""
    from goalmeter.agents import Ability, listed_names

    names = listed_names(Ability.HISTORY)
    return _beginning(incomplete, [*names, *(f"rc({name})" for name in names)])


def environments(incomplete: str) -> list[str]:
    """Complete environments that simulate their agent, and their opposites."""
    from goalmeter.reflection.environments.registry import environment_names, opposite

    names = environment_names()
    return _beginning(incomplete, [*names, *map(opposite, names)])


def replications(incomplete: str) -> list[str]:
    """Complete replications."""
    from goalmeter.commands.replicate import REPLICATIONS

    return _beginning(incomplete, REPLICATIONS)


def places(incomplete: str) -> list[str]:
    """Complete execution backends."""
    from goalmeter.runs import place_names

    return _beginning(incomplete, place_names())


def organisms(incomplete: str) -> list[str]:
    """Complete the small language models whose goals are known."""
    from goalmeter.organisms import organism_names

    return _beginning(incomplete, organism_names())


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
