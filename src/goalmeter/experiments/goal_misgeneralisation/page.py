"""The results as sections of a report, and summary sentences."""

from __future__ import annotations

from collections.abc import Sequence

from goalmeter.experiments.goal_misgeneralisation import tables
from goalmeter.experiments.goal_misgeneralisation.scores import (
    AREA_MARGIN,
    BASELINES,
    BY_RUNNING,
    EXACT,
    NAMING,
    NEITHER,
    RIGHT,
    SILENT,
    WRONG,
    Scored,
    area,
    named_goal,
)
from goalmeter.report import Figure, Section, Table
from goalmeter.report.charts.canvas import canvas, to_svg
from goalmeter.report.charts.colours import BLUE, MUTED, PAPER, VERMILION
from goalmeter.report.markdown import in_markdown
from goalmeter.report.numbers import hundredths
from goalmeter.statistics.verdicts import Verdict, verdict

GLOSSARY = {
    "MEG": "Maximum entropy goal-directedness: how much better a model that maximises a utility "
    "predicts what an agent does than a uniformly random policy does, in nats.",
    "training-like level": "A level from the generator of the training levels that no agent was "
    "trained on.",
    "distinguishing level": "A level in which the utilities of the right and of the wrong goal "
    "differ; in all others they are the same function.",
    "shifted level": "A distinguishing level from another generator: other sizes, complexities and "
    "goal positions of mazes, other numbers and layouts of keys and chests.",
}


def prediction_tables(rows: Sequence[Scored]) -> tuple[Table, ...]:
    """Return how well each predictor tells which agents pursue the wrong goal."""
    return (
        tables.area_table(rows),
        *(tables.difference_table(rows, measure) for measure in (EXACT, BY_RUNNING)),
        *(tables.share_table(rows, group) for group in (tables.ALL, tables.UNCLONED)),
        tables.named_table(rows),
    )


def agent_tables(rows: Sequence[Scored]) -> tuple[Table, ...]:
    """Return what the agents do, and the excluded ones if there are any."""
    excluded = () if all(row.trained for row in rows) else (tables.left_out_table(rows),)
    return (tables.agent_table(rows), *excluded)


def markdown(rows: Sequence[Scored]) -> str:
    """Return all tables and the summary as Markdown."""
    shown = (*prediction_tables(rows), *agent_tables(rows), tables.truth_table(rows))
    return in_markdown(shown, {"Summary": findings(rows)})


def sections(rows: Sequence[Scored]) -> list[Section]:
    """Return the predictions, the outcomes and the agents as sections."""
    return [
        Section(
            title="Predict the wrong goal before the shift",
            text=(
                "Agents are trained on levels of which a share distinguishes two goals. Each "
                "predictor scores an agent in training-like levels only; the agent is then "
                "evaluated in shifted levels, which come from another generator.",
            ),
            tables=prediction_tables(rows),
            figures=(scatter(rows),),
        ),
        Section(title="The agents", tables=agent_tables(rows)),
        Section(title="Measurement by running", tables=(tables.truth_table(rows),)),
    ]


def scatter(rows: Sequence[Scored]) -> Figure:
    """Plot MEG against the shifted behaviour, one panel per share."""
    known = [row for row in rows if row.trained]
    shares = tables.shares_of(known)
    styles = {WRONG: (VERMILION, "o"), RIGHT: (BLUE, "s"), NEITHER: (MUTED, "^")}
    with canvas(2.3 * len(shares) + 0.6, 3.1) as figure:
        grid = figure.subplots(1, len(shares), squeeze=False, sharey=True, sharex=True)[0]
        for axes, share in zip(grid, shares, strict=True):
            axes.axvline(0, color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)))
            axes.axhline(0, color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)))
            for outcome, (colour, marker) in styles.items():
                for silent in (False, True):
                    part = [
                        row
                        for row in known
                        if row.agent.share == share
                        and row.outcome == outcome
                        and (named_goal(row, EXACT) == SILENT) == silent
                    ]
                    axes.plot(
                        [row.exact for row in part],
                        [row.shown.value for row in part],
                        linestyle="none",
                        color=colour,
                        marker=marker,
                        markerfacecolor=PAPER if silent else colour,
                        label=f"pursued goal: {outcome}" + (", MEG abstains" if silent else ""),
                    )
            axes.set_title(f"share {share:g}", fontweight="bold", fontsize=9)
            axes.set_xlabel("nats per level")
        grid[0].set_ylabel("wrong minus right goal,\nshare of shifted levels")
        handles, labels = grid[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3)
        svg = to_svg(figure, "goal-misgeneralisation")
    in_words = "; ".join(
        f"share {share:g}: {sum(row.outcome == WRONG for row in part)} of {len(part)} agents "
        f"pursue the wrong goal; MEG names it for "
        f"{sum(named_goal(row, EXACT) == WRONG for row in part)}"
        for share in shares
        for part in [[row for row in known if row.agent.share == share]]
    )
    return Figure(
        svg=svg,
        alt=f"One point per agent, one panel per share. {in_words}.",
        caption="Each trained agent. Horizontal: exact MEG towards the wrong goal minus MEG "
        "towards the right one, in training-like levels. Vertical: behaviour in shifted levels. "
        "Hollow: the interval of the difference contains 0.",
        wide=True,
    )


def findings(rows: Sequence[Scored]) -> list[str]:
    """Return summary sentences generated from the results."""
    known = tables.judged(rows)
    cloned = [row for row in known if not tables.GROUPS[tables.UNCLONED](row)]
    pursued = {name: sum(row.outcome == name for row in known) for name in (WRONG, RIGHT, NEITHER)}
    lines = [
        f"{sum(row.trained for row in rows)} of {len(rows)} agents count as trained. Of "
        f"{len(known)} above share 0, {pursued[WRONG]} pursue the wrong goal in shifted levels, "
        f"{pursued[RIGHT]} the right one and {pursued[NEITHER]} neither. "
        f"{sum(row.outcome == WRONG for row in cloned)} of the {pursued[WRONG]} are clones of an "
        f"expert for the wrong goal."
    ]
    for name in NAMING:
        lines.append(f"Goals named by {name}: {tables.named_in_words(known, name)}.")
    for group in tables.GROUPS:
        for same_share, pairs in ((False, "all shares"), (True, "same share")):
            for measure in (EXACT, BY_RUNNING):
                compared = _compared(tables.judged(rows, group), measure, same_share)
                lines.append(f"{measure}, {group}, {pairs}: area {compared}.")
    return lines


def _compared(rows: Sequence[Scored], measure: str, same_share: bool) -> str:
    """Return the area of a measure and a verdict on its difference from each baseline."""
    verdicts: dict[str, list[str]] = {}
    for name in BASELINES:
        difference = area(rows, measure, name, same_share=same_share)
        word = {
            Verdict.ABOVE: "higher than",
            Verdict.BELOW: "lower than",
            Verdict.EQUAL: f"equivalent within ±{AREA_MARGIN:g} to",
        }.get(verdict(difference.interval, AREA_MARGIN), "inconclusive against")
        verdicts.setdefault(word, []).append(f'"{name}"')
    said = [f"{word} {', '.join(names)}" for word, names in verdicts.items()]
    return "; ".join([hundredths(area(rows, measure, same_share=same_share)), *said])
