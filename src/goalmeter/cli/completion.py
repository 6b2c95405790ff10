"""What a shell offers for names of agents, environments, suites and experiments.

Each function gets what was typed so far and gives all names that go on from there. A shell waits
for it, so what it needs is imported only then.
"""

from __future__ import annotations

from collections.abc import Iterable


def suites(incomplete: str) -> list[str]:
    """Suites of grid worlds."""
    from goalmeter.navigation.suites.registry import suite_names

    return _beginning(incomplete, suite_names())


def navigators(incomplete: str) -> list[str]:
    """Reference agents in grid worlds, and the organisms."""
    from goalmeter.agents.navigators import navigator_names
    from goalmeter.organisms import organism_names

    return _beginning(
        incomplete, [*navigator_names(), *(f"goalmeter/{name}" for name in organism_names())]
    )


def agents(incomplete: str) -> list[str]:
    """Agents of `goalmeter reflect` that have a name."""
    from goalmeter.agents.histories.registry import agent_names

    names = agent_names()
    return _beginning(incomplete, [*names, *(f"rc({name})" for name in names)])


def environments(incomplete: str) -> list[str]:
    """Environments that simulate their agent, and their opposites."""
    from goalmeter.reflection.environments.registry import ENVIRONMENTS, opposite

    return _beginning(incomplete, [*ENVIRONMENTS, *map(opposite, ENVIRONMENTS)])


def replications(incomplete: str) -> list[str]:
    """Published experiments."""
    from goalmeter.commands.replicate import REPLICATIONS

    return _beginning(incomplete, REPLICATIONS)


def organisms(incomplete: str) -> list[str]:
    """The small language models whose goals are known."""
    from goalmeter.organisms import organism_names

    return _beginning(incomplete, organism_names())


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
