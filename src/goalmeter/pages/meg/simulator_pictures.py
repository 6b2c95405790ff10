"""MEG in a simulator as pictures: intervals on their scale, and how a bound tightened."""

from __future__ import annotations

import math
from collections.abc import Sequence

from goalmeter.meg.simulator import SimulatorProgress, SimulatorResult
from goalmeter.meg.simulator.measurement import Measurement
from goalmeter.meg.simulator.result import NO_MAXIMUM
from goalmeter.report import Figure
from goalmeter.report.charts.colours import BLUE, VERMILION
from goalmeter.report.charts.curves import Curve, curve_chart
from goalmeter.report.charts.range_bars import RangeBar, range_bars
from goalmeter.report.numbers import general, nats, percent

# More charts of one measurement would be a wall that nobody reads.
MOST_CHARTS = 4


def intervals(measurement: Measurement, name: str) -> Figure:
    """A bar for each utility, from 0 to the maximum."""
    results = list(measurement.results.values())
    # Without a maximum the pale bar has no length.
    bars = [RangeBar(r.utility, r.value, *r.interval, r.maximum or 0.0) for r in results]
    words = " ".join(
        f"Towards {r.utility}: {r.ends_in_words(nats)}, "
        f"{f'estimate {nats(r.value)}' if r.estimated else 'no estimate'}, "
        f"{NO_MAXIMUM if r.maximum is None else f'of at most {nats(r.maximum)}'}."
        for r in results
    )
    scale = ", on a scale that ends with a fully predictable agent"
    caption = (
        f"MEG of {measurement.agent}: the interval that holds it at "
        f"{percent(measurement.first.level, 0)}"
        f"{scale if measurement.first.maximum is not None else f' ({NO_MAXIMUM})'}."
    )
    if not all(math.isfinite(result.upper_bound) for result in results):
        caption += " An interval without an upper end goes on to the right."
    svg = range_bars(name, bars, x_label="MEG, nats")
    return Figure(svg=svg, alt=f"{caption} {words}", caption=caption, wide=True)


def tightening(measurement: Measurement, name: str) -> tuple[Figure, ...]:
    """For each utility, the estimate and about where its lower end was, over steps."""
    out: list[Figure] = []
    for number, result in enumerate(measurement.results.values()):
        told = [each for each in measurement.tightening if each.utility == result.utility]
        if told and len(out) < MOST_CHARTS:
            out.append(_curves(f"{name}-{number}", told, result))
    return tuple(out)


def _curves(name: str, told: Sequence[SimulatorProgress], result: SimulatorResult) -> Figure:
    # The last point is what was proven from all steps, with episodes that nothing was chosen by.
    steps = [*(float(each.steps) for each in told), float(sum(result.steps.values()))]
    values = [*(each.value for each in told), result.value]
    lower = [*(max(each.lower, 0.0) for each in told), result.lower]
    caption = f"Towards {result.utility}: the estimate, and about where its lower end was."
    words = "; ".join(
        f"{general(step)} steps: {nats(value)}, at least about {nats(low)}"
        for step, value, low in zip(steps, values, lower, strict=True)
    )
    curves = (
        Curve(label="estimate", x=steps, y=values, colour=BLUE, marker="o"),
        Curve(label="lower end", x=steps, y=lower, colour=VERMILION, stroke="--", marker="s"),
    )
    svg = curve_chart(
        name,
        curves,
        x_label="steps of the simulator",
        y_label="MEG, nats",
        levels=[(top, "upper end")] if math.isfinite(top := result.upper_bound) else (),
        limits=(0.0, None),
    )
    return Figure(svg=svg, alt=f"{caption} {words}.", caption=caption)
