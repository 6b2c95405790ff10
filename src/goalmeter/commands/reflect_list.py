"""`goalmeter reflect --list`: the environments and agents that have names."""

from __future__ import annotations

import re
from operator import itemgetter
from typing import Any

from goalmeter.agents.abilities import Ability
from goalmeter.commands.agents import listings
from goalmeter.commands.outcome import Outcome
from goalmeter.reflection.environments import Environment, all_environments
from goalmeter.report.numbers import DASH
from goalmeter.report.table_of import column, table_of, words

_RETURNS = re.compile(r"^Known returns:\n((?:[ \t]+.*\n?)*)", re.MULTILINE)


def catalogue() -> Outcome:
    """All environments and agents, as tables and as JSON."""
    environments = [_about(environment) for environment in all_environments()]
    agents = {line.name: line.about for line in listings(Ability.HISTORY)}
    return Outcome(
        tables=(
            table_of(
                environments,
                (
                    words("name", itemgetter("name")),
                    column("actions", itemgetter("n_actions")),
                    column("observations", itemgetter("n_observations")),
                    column("battery", lambda about: "yes" if about["in_battery"] else DASH),
                    words("idea", itemgetter("idea")),
                    words("other readings", itemgetter("options"), _other_readings),
                ),
                caption="Environments",
                meaning="Each has an opposite, spelled opposite(NAME). The battery is the paper's "
                "25. Other readings are spelled NAME(option=value).",
                notes=("One of your own is FILE.py:NAME, a class derived from Run.",),
            ),
            table_of(
                agents.items(),
                (words("name", itemgetter(0)), words("", itemgetter(1))),
                caption="Agents",
                meaning="What AGENT can be; in a shell, names with brackets stand in quotes.",
            ),
        ),
        json={
            "environments": environments,
            "agents": [{"name": name, "about": about} for name, about in agents.items()],
        },
    )


def _other_readings(options: dict[str, list[Any]]) -> str:
    # The first value of each is the default.
    readings = [f"{name}={value}" for name, values in options.items() for value in values[1:]]
    return " ".join(readings) or DASH


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
