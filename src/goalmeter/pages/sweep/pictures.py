"""MEG over an argument of the policy, and over an argument of the worlds, with intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable

from goalmeter.meg.sweeps.choices import POLICY, WORDS
from goalmeter.meg.sweeps.grids import SEED, is_number
from goalmeter.meg.sweeps.result import Sweep
from goalmeter.meg.sweeps.summary import Group, by_argument
from goalmeter.report import Figure
from goalmeter.report.charts.curves import STROKES, Curve, curve_chart
from goalmeter.report.numbers import general, nats

# Charts of a sweep: more would be a wall that nobody reads.
MOST_CHARTS = 8


def curves(sweep: Sweep, prefix: str) -> tuple[Figure, ...]:
    """A chart for each numeric argument and each utility, as many as can be read."""
    return (*_over_policies(sweep, prefix), *_over_worlds(sweep, prefix))[:MOST_CHARTS]


def _over_policies(sweep: Sweep, prefix: str) -> Iterable[Figure]:
    for word, arguments in WORDS[POLICY].items():
        for argument in arguments:
            groups = [
                (float(group.policy_arguments[argument]), group)
                for group in sweep.summary
                if argument in group.policy_arguments and group.policy.startswith(f"{word}(")
            ]
            by_utility = _lines((group.utility, x, group) for x, group in groups)
            if drawn := _chart(
                f"{prefix}-{word}",
                by_utility,
                x_label=argument,
                caption=f"MEG of {word} policies over {argument}, by utility.",
            ):
                yield drawn


def _over_worlds(sweep: Sweep, prefix: str) -> Iterable[Figure]:
    for column in sweep.columns:
        values = sweep.argument_values(column) if column.startswith("world.") else []
        name = column.partition(".")[2]
        if name == SEED or len(set(map(str, values))) < 2 or not all(map(is_number, values)):
            continue
        groups = by_argument(sweep.plan, sweep.chunks, name)
        for number, utility in enumerate(sweep.plan.utilities):
            lines = _lines(
                (group.policy, float(group.at[1]), group)
                for group in groups
                if group.utility == utility.label and group.at is not None
            )
            if drawn := _chart(
                f"{prefix}-world-{name}-{number}",
                lines,
                x_label=name,
                caption=f"MEG towards {utility.label} over the worlds' {name}, by policy.",
            ):
                yield drawn


_Line = list[tuple[float, Group]]


def _lines(points: Iterable[tuple[str, float, Group]]) -> dict[str, _Line]:
    """The points of each line, from left to right; those without a place or a value left out."""
    out: dict[str, _Line] = {}
    for label, x, group in points:
        if math.isfinite(x) and math.isfinite(group.value.value):
            out.setdefault(label, []).append((x, group))
    return {label: sorted(line, key=lambda point: point[0]) for label, line in out.items()}


def _chart(name: str, lines: dict[str, _Line], *, x_label: str, caption: str) -> Figure | None:
    """A chart of a few lines, or None where none has two points."""
    several = {label: line for label, line in lines.items() if len(line) > 1}
    if not several:
        return None
    shown = dict(list(several.items())[: len(STROKES)])
    left = len(several) - len(shown)
    drawn = []
    for (label, line), (colour, stroke) in zip(shown.items(), STROKES, strict=False):
        ends = [group.value.interval or (group.value.value,) * 2 for _, group in line]
        drawn.append(
            Curve(
                label=label,
                x=[x for x, _ in line],
                y=[group.value.value for _, group in line],
                low=[low for low, _ in ends],
                high=[high for _, high in ends],
                colour=colour,
                stroke=stroke,
                marker="o",
            )
        )
    return Figure(
        svg=curve_chart(name, drawn, x_label=x_label, y_label="MEG, nats", limits=(0.0, None)),
        alt=f"{caption} {_in_words(shown)}",
        caption=f"{caption}{f' {left} more are in the table alone.' if left else ''}",
    )


def _in_words(lines: dict[str, _Line]) -> str:
    return " ".join(
        f"{label}: "
        + ", ".join(f"{nats(group.value.value)} at {general(x, 3)}" for x, group in line)
        + "."
        for label, line in lines.items()
    )
