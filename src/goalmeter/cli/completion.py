"""Shell completion: functions from what was typed so far to the names that continue it.

A shell waits for them, so what each needs is imported only then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any


def _from(*sources: str, names: Callable[..., Iterable[str]] = lambda *found: found[0]()) -> Any:
    """Return a function that completes names; each source is "module:name", given to `names`."""

    def complete(incomplete: str) -> list[str]:
        found = []
        for source in sources:
            module, _, name = source.partition(":")
            found.append(getattr(import_module(f"goalmeter.{module}"), name))
        return [name for name in dict.fromkeys(names(*found)) if name.startswith(incomplete)]

    return complete


_AGENTS = ("agents:listed_names", "agents:Ability")
_ENVIRONMENTS = "reflection.environments.registry"

suites = _from("navigation.suites:suite_names")
replications = _from("commands.replicate:REPLICATIONS", names=list)
places = _from("runs:place_names")
organisms = _from("organisms:organism_names")
navigators = _from(*_AGENTS, names=lambda listed, able: [*listed(able.GRID), *listed(able.TEXT)])
agents = _from(
    *_AGENTS,
    names=lambda listed, able: [*(names := listed(able.HISTORY)), *(f"rc({n})" for n in names)],
)
environments = _from(
    f"{_ENVIRONMENTS}:environment_names",
    f"{_ENVIRONMENTS}:opposite",
    names=lambda listed, opposite: [*listed(), *map(opposite, listed())],
)
