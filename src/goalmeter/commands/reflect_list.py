"""`goalmeter reflect --list`: the environments and agents that have names."""

from __future__ import annotations

import re
from typing import Any

from goalmeter.agents.abilities import Ability
from goalmeter.commands.agents import listings
from goalmeter.commands.outcome import Outcome
from goalmeter.reflection.environments import Environment, all_environments
from goalmeter.report import Column, Table

_RETURNS = re.compile(r"^Known returns:\n((?:[ \t]+.*\n?)*)", re.MULTILINE)


def catalogue() -> Outcome:
    """All environments and agents, as tables and as JSON."""
    environments = [_about(environment) for environment in all_environments()]
    agents = {line.name: line.about for line in listings(Ability.HISTORY)}
    columns = ("actions", "observations", "battery")
    return Outcome(
        tables=(
            Table(
                caption="Environments",
                columns=(
                    Column("name", numeric=False),
                    *columns,
                    Column("idea", numeric=False),
                    Column("other readings", numeric=False),
                ),
                rows=tuple(
                    (
                        environment["name"],
                        str(environment["n_actions"]),
                        str(environment["n_observations"]),
                        "yes" if environment["in_battery"] else "–",
                        environment["idea"],
                        " ".join(
                            f"{name}={value}"
                            for name, values in environment["options"].items()
                            for value in values[1:]
                        )
                        or "–",
                    )
                    for environment in environments
                ),
                meaning="Each has an opposite, spelled opposite(NAME). The battery is the paper's "
                "25. Other readings are spelled NAME(option=value).",
                notes=("One of your own is FILE.py:NAME, a class derived from Run.",),
            ),
            Table(
                caption="Agents",
                columns=(Column("name", numeric=False), Column("", numeric=False)),
                rows=tuple(agents.items()),
                meaning="What AGENT can be; in a shell, names with brackets stand in quotes.",
            ),
        ),
        json={
            "environments": environments,
            "agents": [{"name": name, "about": about} for name, about in agents.items()],
        },
    )


def _about(environment: Environment) -> dict[str, Any]:
    returns = _RETURNS.search(environment.doc)
    lines = [line.strip() for line in returns[1].splitlines()] if returns else []
    return {
        "name": environment.name,
        "n_actions": environment.n_actions,
        "n_observations": environment.n_observations,
        "in_battery": environment.in_battery,
        "idea": environment.idea,
        "options": {name: list(values) for name, values in environment.run.options.items()},
        "known_returns": [line for line in lines if line],
    }
