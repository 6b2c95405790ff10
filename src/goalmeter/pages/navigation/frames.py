"""The same grids in other frames: a table of tests, and a picture of what they rest on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from goalmeter.navigation.measures.frames import Comparison, Frame
from goalmeter.navigation.result import Navigation
from goalmeter.pages.navigation.conditions import say
from goalmeter.report import Figure, Table
from goalmeter.report.charts.colours import VERMILION
from goalmeter.report.charts.dots import DotPanel, Dots, dot_chart
from goalmeter.report.numbers import p_value, percent, points
from goalmeter.report.table_of import column, grouped, table_of, words
from goalmeter.statistics.verdicts import Verdict
from goalmeter.statistics.verdicts import verdict as verdict_of
from goalmeter.statistics.verdicts import words as words_of

LEVEL = 0.05
ACCURACY = "accuracy"


class _Row(NamedTuple):
    """An agent in a frame, by one measure."""

    result: Navigation
    frame: Frame
    comparison: Comparison


def frames_table(results: Sequence[Navigation], *, every: bool = False) -> Table:
    """The published test, and the one that can show sameness.

    Args:
        results: the agents.
        every: whether agents that are no reference agents are compared by every measure, and not
            by accuracy alone.
    """
    return table_of(
        [
            _Row(result, frame, comparison)
            for result in results
            for frame in _frames(result)
            for comparison in frame.comparisons
            if comparison.metric == ACCURACY or (every and not result.reference)
        ],
        (
            words("agent", lambda row: row.result.agent),
            words("frame", lambda row: row.frame.transform),
            words("verdict", lambda row: _in_words(row.comparison), answer=True),
            words("measure", lambda row: row.comparison.metric),
            column("pairs", lambda row: row.frame.pairs),
            column("difference, points", lambda row: row.comparison.difference, points),
            *grouped(
                "published test",
                column("Wilcoxon p", lambda row: row.comparison.test.p_value, p_value),
                column("corrected", lambda row: row.comparison.test_corrected, p_value),
            ),
            *grouped(
                "equivalence",
                column(
                    f"p for ±{100 * _margin(results):g} points",
                    lambda row: row.comparison.equivalence.p_value,
                    p_value,
                ),
                column("corrected", lambda row: row.comparison.equivalence_corrected, p_value),
            ),
            column("answers that agree", lambda row: _agreement(row.frame)),
        ),
        **say("frames", level=percent(LEVEL, 0)),
    )


def picture(results: Sequence[Navigation], name: str) -> Figure:
    """How much accuracy changes with the frame, and whether the moves stay the same."""
    shown = [(result, frame) for result in results for frame in _frames(result)]
    lines = [f"{result.agent}{' (ref.)' * result.reference}, {f.transform}" for result, f in shown]
    by_metric = [{c.metric: c for c in frame.comparisons} for _, frame in shown]
    # Shares are shown in percent, so all of it is in points.
    margin = 100 * _margin(results)
    panels = [
        DotPanel(
            title="Does it do as well?",
            x_label="accuracy in the frame minus in the original, points",
            series=(Dots.of("difference", [c[ACCURACY].difference for c in by_metric], scale=100),),
            band=(-margin, margin),
        ),
        DotPanel(
            title="Does it do the same?",
            x_label="answers in one place that agree, %",
            series=(
                Dots.of("between frames", [f.agreement for _, f in shown], scale=100),
                Dots.of(
                    "within a frame",
                    [f.self_agreement for _, f in shown],
                    scale=100,
                    colour=VERMILION,
                    marker="s",
                    hollow=True,
                ),
            ),
        ),
    ]
    differences = "; ".join(
        f"{line}: {points(comparisons[ACCURACY].difference)}"
        for line, comparisons in zip(lines, by_metric, strict=True)
    )
    return Figure(
        svg=dot_chart(name, lines, panels),
        wide=True,
        **say("frames_picture", differences=differences, frame=shown[0][1], margin=margin),
    )


def verdict(comparison: Comparison) -> Verdict:
    """How the frame stands to the original: both tests, corrected for the number of frames.

    Wilcoxon's test has no direction of the mean, so the interval of the mean must have one, too.
    """
    if comparison.equivalence_corrected < LEVEL:
        return Verdict.EQUAL
    # So written that NaN, where no test can be made, is not taken for a difference.
    if not comparison.test_corrected < LEVEL:
        return Verdict.UNTOLD
    return verdict_of(comparison.difference.interval, margin=0)


def _in_words(comparison: Comparison) -> str:
    return words_of(verdict(comparison), 100 * comparison.equivalence.margin, "points")


def _agreement(frame: Frame) -> str | None:
    """Between frames and, in brackets, within one; None where neither can be looked at."""
    if frame.agreement is None or frame.self_agreement is None:
        return None
    return f"{percent(frame.agreement.value)} ({percent(frame.self_agreement.value)})"


def _frames(result: Navigation) -> tuple[Frame, ...]:
    return () if result.frames is None else result.frames.frames


def _margin(results: Sequence[Navigation]) -> float:
    """Within which two accuracies count as the same; one for all agents."""
    return next(result.frames.margin for result in results if result.frames is not None)
