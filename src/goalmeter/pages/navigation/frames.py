"""The same grids in other frames: a table of tests, and a picture of what they rest on."""

from __future__ import annotations

import math
from collections.abc import Sequence

from goalmeter.navigation.directed.results import Measured
from goalmeter.navigation.measures.frames import Comparison, Frame
from goalmeter.report import Column, Figure, Table
from goalmeter.report.dots import DotPanel, Dots, dot_chart
from goalmeter.report.figures import BLUE, VERMILION
from goalmeter.report.numbers import p_value, percent, points
from goalmeter.statistics.clustered import Estimate
from goalmeter.statistics.verdicts import Verdict, words
from goalmeter.statistics.verdicts import verdict as verdict_of

LEVEL = 0.05
ACCURACY = "accuracy"
_NOTHING = Estimate(math.nan, None, 0, 0)


def frames_table(results: Sequence[Measured], *, every: bool = False) -> Table:
    """The published test, and the one that can show sameness.

    Args:
        results: the agents.
        every: whether agents that are no reference agents are compared by every measure, and not
            by accuracy alone.
    """
    rows = []
    for result in results:
        for frame in _frames(result):
            for found in frame.comparisons:
                if found.metric == ACCURACY or (every and not result.reference):
                    rows.append(_frame_row(result, frame, found))
    return Table(
        caption="The same grids in other frames",
        columns=(
            Column("agent", numeric=False),
            Column("frame", numeric=False),
            Column("verdict", numeric=False, answer=True),
            Column("measure", numeric=False),
            "pairs",
            "difference, points",
            Column("Wilcoxon p", group="published test"),
            Column("corrected", group="published test"),
            Column(f"p for ±{100 * _margin(results):g} points", group="equivalence"),
            Column("corrected", group="equivalence"),
            "answers that agree",
        ),
        rows=tuple(rows),
        meaning="The difference is that of the changed frame from the original, over pairs of "
        f"grids. “Equal” needs an equivalence test to succeed at the {LEVEL:.0%} level; “above” "
        "and “below”, of the changed frame, need a Wilcoxon test at that level and a 95% interval "
        "on one side of 0; of all else it cannot be told. A difference that is not significant "
        "does not show that there is none.",
        notes=(
            "P-values are corrected for the number of frames (Holm). A Wilcoxon test needs 10 "
            "pairs of which 5 differ; a dash stands where it cannot be made.",
            "Answers that agree: how often two answers in the same place are the same once the "
            "moves are renamed for the frame. In brackets: how often two answers within one frame "
            "agree, which is the most that can be reached. The frame “swap” exchanges start and "
            "goal. It keeps the distance but changes the task, so it is no isometry.",
        ),
    )


def picture(results: Sequence[Measured], name: str) -> Figure:
    """How much accuracy changes with the frame, and whether the moves stay the same."""
    shown = [(result, frame) for result in results for frame in _frames(result)]
    lines = [f"{result.agent}{' (ref.)' * result.reference}, {f.transform}" for result, f in shown]
    by_metric = [{c.metric: c for c in frame.comparisons} for _, frame in shown]
    margin = 100 * _margin(results)
    panels = [
        DotPanel(
            title="Does it do as well?",
            x_label="accuracy in the frame minus in the original, points",
            series=(_dots("difference", [found[ACCURACY].difference for found in by_metric]),),
            band=(-margin, margin),
        ),
        DotPanel(
            title="Does it do the same?",
            x_label="answers in one place that agree, %",
            series=(
                _dots("between frames", [frame.agreement for _, frame in shown]),
                _dots("within a frame", [frame.self_agreement for _, frame in shown], within=True),
            ),
        ),
    ]
    said = "; ".join(
        f"{line}: {points(found[ACCURACY].difference)}"
        for line, found in zip(lines, by_metric, strict=True)
    )
    return Figure(
        svg=dot_chart(name, lines, panels),
        alt=f"Accuracy in other frames minus that in the original, points. {said}.",
        caption=f"Each line rests on {shown[0][1].pairs} pairs of grids, one in its frame and one "
        "as it was generated. Bars are 95% intervals over grids; “(ref.)” marks reference "
        f"agents; the shaded band is the margin of ±{margin:g} percentage points. Agreement "
        "between frames can hardly be higher than agreement within a frame.",
        wide=True,
    )


def verdict(found: Comparison) -> Verdict:
    """How the frame stands to the original: both tests, corrected for the number of frames.

    Wilcoxon's test has no direction of the mean, so the interval of the mean must have one, too.
    """
    if found.equivalence_corrected < LEVEL:
        return Verdict.EQUAL
    if not found.test_corrected < LEVEL:
        return Verdict.UNTOLD
    return verdict_of(found.difference.interval, margin=0)


def _frame_row(result: Measured, frame: Frame, found: Comparison) -> tuple[str, ...]:
    alike = "–"
    if frame.agreement is not None and frame.self_agreement is not None:
        alike = f"{percent(frame.agreement.value)} ({percent(frame.self_agreement.value)})"
    return (
        result.agent,
        frame.transform,
        words(verdict(found), 100 * found.equivalence.margin, "points"),
        found.metric,
        str(frame.pairs),
        points(found.difference),
        p_value(found.test.p_value),
        p_value(found.test_corrected),
        p_value(found.equivalence.p_value),
        p_value(found.equivalence_corrected),
        alike,
    )


def _frames(result: Measured) -> tuple[Frame, ...]:
    return () if result.frames is None else result.frames.frames


def _margin(results: Sequence[Measured]) -> float:
    """Within which two accuracies count as the same; one for all agents."""
    return next(result.frames.margin for result in results if result.frames is not None)


def _dots(label: str, found: Sequence[Estimate | None], *, within: bool = False) -> Dots:
    known = [_NOTHING if one is None else one for one in found]
    return Dots(
        label=label,
        values=[100 * one.value for one in known],
        intervals=[
            (math.nan, math.nan)
            if one.interval is None
            else (100 * one.interval[0], 100 * one.interval[1])
            for one in known
        ],
        colour=VERMILION if within else BLUE,
        marker="s" if within else "o",
        hollow=within,
    )
