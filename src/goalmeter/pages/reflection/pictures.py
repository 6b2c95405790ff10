"""Pictures of a report on self-reflection: agents by environments, and reality checks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.pages.reflection.pairs import Group, Pair, labels
from goalmeter.report import Figure
from goalmeter.report.charts.colours import INK, VERMILION
from goalmeter.report.charts.dots import DotPanel, Dots, dot_chart
from goalmeter.report.charts.heat_map import Panel, heat_map
from goalmeter.report.numbers import plus
from goalmeter.statistics.welch import FEWEST

_PANELS = ((False, "environments"), (True, "their opposites"))


def environments_map(group: Group, *, name: str) -> Figure:
    """Agents by environments: reward per step; trials that ended early are hatched."""
    results = group.results
    averages = [result.by_environment() for result in results]
    columns = list(dict.fromkeys(key[0] for average in averages for key in average))
    failed = [{(t.environment, t.opposite) for t in result.failures} for result in results]
    panels = [
        Panel(
            title=title,
            values=_values(averages, columns, opposite),
            hatched=frozenset(
                (row, column)
                for row, ended in enumerate(failed)
                for column, environment in enumerate(columns)
                if (environment, opposite) in ended
            ),
        )
        for opposite, title in _panels(averages)
    ]
    hatched = " In a hatched cell at least one trial ended early." if any(failed) else ""
    return Figure(
        svg=heat_map(
            name,
            panels,
            rows=labels(results),
            columns=columns,
            label="reward per step, average over seeds",
            # The same for every page, so that colours can be compared from page to page.
            limit=1.0,
        ),
        alt=f"Heat map of {len(results)} agents by {len(columns)} environments and their "
        "opposites, reward per step; the last table has every number. "
        + " ".join(_extremes(label, a) for label, a in zip(labels(results), averages, strict=True)),
        caption="Above: each agent in each environment. Below: in the opposite of each. The "
        f"measure of an agent is the average of its two means on the right.{hatched}",
        wide=True,
    )


def pairs_chart(pairs: Sequence[Pair], *, name: str) -> Figure:
    """Each agent and its reality check, and the difference, with intervals."""
    inner = [pair.inner for pair in pairs]
    checked = [pair.checked for pair in pairs]
    differences = [pair.comparison for pair in pairs]
    panels = [
        DotPanel(
            title="the agent and its reality check",
            x_label="self-reflection, reward per step",
            joined=True,
            series=(
                Dots(
                    label="agent",
                    values=[result.measure for result in inner],
                    intervals=[result.interval for result in inner],
                    colour=VERMILION,
                    marker="s",
                    hollow=True,
                ),
                Dots(
                    label="its reality check",
                    values=[result.measure for result in checked],
                    intervals=[result.interval for result in checked],
                ),
            ),
        ),
        DotPanel(
            title="what the reality check changes",
            x_label="paired difference, reward per step",
            series=(
                Dots(
                    label="difference",
                    values=[difference.difference for difference in differences],
                    intervals=[difference.interval for difference in differences],
                    colour=INK,
                    marker="D",
                ),
            ),
        ),
    ]
    few = f" (none for fewer than {FEWEST})" if any(p.seeds < FEWEST for p in pairs) else ""
    told = "; ".join(
        f"{pair.label}: {plus(pair.inner.measure, 3)}, checked "
        f"{plus(pair.checked.measure, 3)}, {pair.verdict}"
        for pair in pairs
    )
    return Figure(
        svg=dot_chart(name, [pair.label for pair in pairs], panels),
        alt=f"Dot chart of agents and their reality checks. {told}.",
        caption="Each agent with and without its reality check, and the paired difference, with "
        f"bootstrap intervals over seeds{few}. Where the difference lies right of 0, the reality "
        "check raises the measure.",
        wide=True,
    )


def differences_map(pairs: Sequence[Pair], *, name: str) -> Figure:
    """What the reality check changes in each environment and its opposite."""
    changes = [pair.comparison.by_environment for pair in pairs]
    columns = list(dict.fromkeys(key[0] for change in changes for key in change))
    panels = [
        Panel(title=title, values=_values(changes, columns, opposite))
        for opposite, title in _panels(changes)
    ]
    return Figure(
        svg=heat_map(
            name,
            panels,
            rows=[pair.label for pair in pairs],
            columns=columns,
            label="reality check minus agent, reward per step",
            # Rewards run from -1 to 1, so their differences from -2 to 2.
            limit=2.0,
        ),
        alt="Heat map of the difference that the reality check makes, agents by environments. "
        + " ".join(_extremes(p.label, c) for p, c in zip(pairs, changes, strict=True)),
        caption="Where the reality check gains and where it loses. What is gained in an "
        "environment and lost in its opposite does not change the measure.",
        wide=True,
    )


def _panels(averages: Sequence[dict[tuple[str, bool], float]]) -> list[tuple[bool, str]]:
    """Environments and opposites; an environment may have been played in one way only."""
    played = {opposite for average in averages for _, opposite in average}
    return [(opposite, title) for opposite, title in _PANELS if opposite in played]


def _values(
    averages: Sequence[dict[tuple[str, bool], float]], columns: Sequence[str], opposite: bool
) -> FloatArray:
    """[agents, environments]; NaN where an agent was not measured."""
    return np.array(
        [[average.get((column, opposite), np.nan) for column in columns] for average in averages]
    )


def _extremes(label: str, average: dict[tuple[str, bool], float]) -> str:
    """Where an agent does best and worst, environments and opposites taken together."""
    names = dict.fromkeys(name for name, _ in average)
    both = {
        name: float(np.mean([value for key, value in average.items() if key[0] == name]))
        for name in names
    }
    best, worst = max(both, key=both.__getitem__), min(both, key=both.__getitem__)
    return (
        f"{label}: most in {best} ({plus(both[best], 2)} with its opposite), least in "
        f"{worst} ({plus(both[worst], 2)})."
    )
