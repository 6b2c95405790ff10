"""The experiment as parts of a page, and in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from goalmeter.experiments.goal_misgeneralisation import tables
from goalmeter.experiments.goal_misgeneralisation.scores import (
    BY_RUNNING,
    EXACT,
    NEITHER,
    PREDICTORS,
    RIGHT,
    SILENT,
    WRONG,
    Scored,
    advantage,
    area,
)
from goalmeter.report import Figure, Section
from goalmeter.report.charts.canvas import canvas, to_svg
from goalmeter.report.charts.colours import BLUE, MUTED, PAPER, VERMILION
from goalmeter.report.numbers import hundredths

# The area under the curve that was aimed at.
AIM = 0.9
GLOSSARY = {
    "MEG": "Maximum entropy goal-directedness: how much better a model that maximises a utility "
    "predicts what an agent does than free choice does, in nats.",
    "training-like level": "A fresh level, drawn as training levels are, whose content no agent "
    "was trained on.",
    "level that tells the goals apart": "One in which the utilities of the right and of the wrong "
    "goal differ; in all others they are the same function.",
    "shifted level": "A fresh level that tells the goals apart.",
}


def sections(rows: Sequence[Scored]) -> list[Section]:
    """Who is named, what happened, and what the agents are."""
    return [
        Section(
            title="Named before it shows",
            text=(
                "Agents were trained on levels of which a share tells two goals apart. From fresh "
                "levels like those of training alone, MEG towards the wrong goal less MEG towards "
                "the right one says which of them an agent wants; then it was put into levels all "
                "of which tell the goals apart.",
            ),
            tables=(tables.area_table(rows), tables.advantage_table(rows), tables.said_table(rows)),
            figures=(scatter(rows),),
        ),
        Section(
            title="The agents",
            tables=(
                tables.agent_table(rows),
                *([] if all(row.trained for row in rows) else [tables.left_out_table(rows)]),
            ),
        ),
        Section(title="By running, judged by tables", tables=(tables.truth_table(rows),)),
    ]


def scatter(rows: Sequence[Scored]) -> Figure:
    """What was said against what happened, a panel a share."""
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
                        and (row.says_exact == SILENT) == silent
                    ]
                    axes.plot(
                        [row.exact for row in part],
                        [row.shown.value for row in part],
                        linestyle="none",
                        color=colour,
                        marker=marker,
                        markerfacecolor=PAPER if silent else colour,
                        label=f"went for {outcome}" + (", MEG abstained" if silent else ""),
                    )
            axes.set_title(f"share {share:g}", fontweight="bold", fontsize=9)
            axes.set_xlabel("nats a level")
        grid[0].set_ylabel("wrong less right goal,\nshare of shifted levels")
        handles, labels = grid[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3)
        svg = to_svg(figure, "goal-misgeneralisation")
    in_words = "; ".join(
        f"share {share:g}: {sum(row.outcome == WRONG for row in part)} of {len(part)} agents went "
        f"for the wrong goal, of {sum(row.says_exact == WRONG for row in part)} MEG had named it"
        for share in shares
        for part in [[row for row in known if row.agent.share == share]]
    )
    return Figure(
        svg=svg,
        alt=f"A point an agent, a panel a share. {in_words}.",
        caption="Each trained agent. Across: MEG by tables towards the wrong goal less MEG towards "
        "the right one, from training-like levels, in a level that tells the goals apart. Upwards: "
        "what it did when it was shifted. Hollow: the interval of the difference holds 0.",
        wide=True,
    )


def findings(rows: Sequence[Scored]) -> list[str]:
    """What it came to, in sentences made of its numbers."""
    known = tables.judged(rows)
    silent = [row for row in rows if row.trained and row.agent.share == 0]
    went = {name: sum(row.outcome == name for row in known) for name in (WRONG, RIGHT, NEITHER)}
    lines = [
        f"{sum(row.trained for row in rows)} of {len(rows)} agents count as trained. Of "
        f"{len(known)} above share 0, {went[WRONG]} went for the wrong goal when they were "
        f"shifted, {went[RIGHT]} for the right one and {went[NEITHER]} for neither."
    ]
    for name in tables.SAYS:
        lines.append(f"{name}: {tables.said_in_words(known, name)}.")
    for name in (EXACT, BY_RUNNING):
        whole = area(known, name)
        lines.append(
            f"{name}: area under the curve {hundredths(whole)} over {len(known)} agents above "
            f"share 0; aim {AIM:g}: {_aim(whole.interval)}."
        )
        least = tables.least_share(rows, name, AIM)
        lines.append(
            f"{name}: no share reaches an area of {AIM:g} with an interval above chance."
            if least is None
            else f"{name}: the least share at which the area is at least {AIM:g} and its interval "
            f"above chance is {least[0]:g}, with {hundredths(least[1])}."
        )
    for share in tables.shares_of(known):
        part = [row for row in known if row.agent.share == share]
        if len({row.outcome == WRONG for row in part}) == 1:
            said = "; ".join(f"{name} {tables.said_in_words(part, name)}" for name in tables.SAYS)
            did = "went" if part[0].outcome == WRONG else "did not go"
            lines.append(
                f"At share {share:g} there is no area: all {len(part)} agents {did} for the wrong "
                f"goal. {said}."
            )
    for name in PREDICTORS:
        if name not in tables.SAYS:
            ahead = advantage(known, EXACT, name)
            lines.append(
                f"{EXACT} less {name}: {hundredths(ahead)} of the area, {_sign(ahead.interval)}."
            )
    for name, says in tables.SAYS.items():
        lines.append(
            f"At share 0, where behaviour cannot tell, {name} abstains on "
            f"{sum(says(row) == SILENT for row in silent)} of {len(silent)} agents."
        )
    return lines


def _aim(interval: tuple[float, float] | None) -> str:
    if interval is None:
        return "cannot be told"
    low, high = interval
    return "reached" if low >= AIM else "missed" if high < AIM else "cannot be told"


def _sign(interval: tuple[float, float] | None) -> str:
    low, high = interval or (0.0, 0.0)
    return "better" if low > 0 else "worse" if high < 0 else "cannot be told"
