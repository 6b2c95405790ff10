"""Table 1 and the thesis in pictures: ours beside theirs, a panel for each length of trials."""

from __future__ import annotations

import math
from collections.abc import Sequence

from goalmeter.experiments.reflection_table_1.compute import PUBLISHED_NAMES, STEPS, Row
from goalmeter.experiments.reflection_table_1.effects import (
    Effect,
    Estimate,
    has_ours,
    with_t_interval,
)
from goalmeter.report import Figure
from goalmeter.report.charts.colours import VERMILION
from goalmeter.report.charts.dots import DotPanel, Dots, dot_chart
from goalmeter.statistics.welch import FEWEST

_NONE = f"; none from fewer than {FEWEST} seeds"
_NOTHING = Estimate(math.nan, math.nan, (math.nan, math.nan))


def comparison_chart(rows: Sequence[Row]) -> Figure:
    """Both columns of Table 1, with intervals of two standard errors."""
    shown = [name for name in PUBLISHED_NAMES if any(has_ours(r) for r in rows if r.agent == name)]
    panels = []
    for steps in STEPS:
        by_agent = {row.agent: row.number for row in rows if row.steps == steps}
        numbers = [by_agent[name] for name in shown]
        ours = [with_t_interval(n.ours, [n.error], [n.seeds]) for n in numbers]
        theirs = [
            with_t_interval(n.theirs, [n.published_error], [n.published_seeds]) for n in numbers
        ]
        panels.append(_panel(steps, "self-reflection, reward per step", ours, theirs))
    return Figure(
        svg=dot_chart("table-1", [PUBLISHED_NAMES[name] for name in shown], panels),
        alt="Dot chart of Table 1, ours and theirs for each agent; the tables have every number.",
        caption=f"Ours and theirs, each with a 95% t interval{_NONE}.",
        wide=True,
    )


def effects_chart(effects: Sequence[Effect]) -> Figure:
    """The thesis as a picture."""
    panels, names = [], list(dict.fromkeys(effect.agent for effect in effects))
    for steps in sorted({effect.steps for effect in effects}):
        by_agent = {effect.agent: effect for effect in effects if effect.steps == steps}
        ours = [by_agent[name].ours if name in by_agent else _NOTHING for name in names]
        theirs = [by_agent[name].theirs if name in by_agent else _NOTHING for name in names]
        panels.append(_panel(steps, "what the reality check changes", ours, theirs))
    return Figure(
        svg=dot_chart("thesis", [PUBLISHED_NAMES[name] for name in names], panels),
        alt="Dot chart of what the reality check changes, ours and theirs; the table has every "
        "number.",
        caption=f"Right of 0: the reality check raises the measure. 95% intervals{_NONE}.",
        wide=True,
    )


def _panel(
    steps: int, x_label: str, ours: Sequence[Estimate], theirs: Sequence[Estimate]
) -> DotPanel:
    return DotPanel(
        title=f"{steps} steps",
        x_label=x_label,
        series=(
            Dots.of("ours", ours),
            Dots.of("published (their data)", theirs, colour=VERMILION, marker="s", hollow=True),
        ),
    )
