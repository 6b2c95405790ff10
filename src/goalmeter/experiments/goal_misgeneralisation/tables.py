"""Tables of the results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from statistics import fmean

from goalmeter.experiments.goal_misgeneralisation.scores import (
    AREA_MARGIN,
    BASELINES,
    MARGIN,
    NAMING,
    NEITHER,
    PREDICTORS,
    RIGHT,
    SILENT,
    TRAINED,
    WRONG,
    Scored,
    area,
    named_goal,
)
from goalmeter.experiments.goal_misgeneralisation.training import PPO, WRONG_CLONE
from goalmeter.report import Table
from goalmeter.report.numbers import hundredths, number, percent, plus
from goalmeter.report.table_of import ColumnOf, column, grouped, table_of, words

INTERVALS = "In brackets: 95% intervals over agents."
DASH = "A dash: no agent pursues the wrong goal, or all do."
# Groups of agents, from all of them to those trained by reinforcement learning only.
ALL, UNCLONED, REINFORCED = "all agents", "without clones of the wrong goal", "PPO only"
GROUPS: dict[str, Callable[[Scored], bool]] = {
    ALL: lambda row: True,
    UNCLONED: lambda row: row.agent.kind != WRONG_CLONE,
    REINFORCED: lambda row: row.agent.kind == PPO,
}
# What becomes of a goal that was named.
JUDGEMENTS = ("correct", "opposite", "neither pursued", SILENT)


def judged(rows: Sequence[Scored], group: str = ALL) -> list[Scored]:
    """Return the trained agents of a group whose training levels include distinguishing ones."""
    return [row for row in rows if row.trained and row.agent.share > 0 and GROUPS[group](row)]


def shares_of(rows: Sequence[Scored]) -> list[float]:
    """Return the shares of distinguishing levels, in increasing order."""
    return sorted({row.agent.share for row in rows})


def area_table(rows: Sequence[Scored]) -> Table:
    """Tabulate the area of each predictor, over all pairs of agents and over those of one share."""

    def areas(group: str) -> tuple[ColumnOf[str], ...]:
        known = judged(rows, group)
        return grouped(
            group,
            column("all shares", lambda name: area(known, name), hundredths, answer=group == ALL),
            column("same share", lambda name: area(known, name, same_share=True), hundredths),
        )

    return table_of(
        PREDICTORS,
        (words("predictor", lambda name: name), *areas(ALL), *areas(UNCLONED), *areas(REINFORCED)),
        caption="Area under the curve",
        meaning="Probability that an agent that pursues the wrong goal in shifted levels has a "
        "higher score than an agent that does not; 0.5 is chance. Same share: only pairs of agents "
        "trained with the same share of distinguishing levels.",
        notes=(INTERVALS, "Where MEG abstains its score is 0."),
    )


def share_table(rows: Sequence[Scored], group: str) -> Table:
    """Tabulate the area of each predictor within each share."""
    known = judged(rows, group)

    def at(share: float) -> ColumnOf[str]:
        part = [row for row in known if row.agent.share == share]
        wrong = sum(row.outcome == WRONG for row in part)
        title = f"{share:g} ({wrong} of {len(part)} wrong)"
        return column(title, lambda name: area(part, name), hundredths)

    return table_of(
        PREDICTORS,
        (words("predictor", lambda name: name), *map(at, shares_of(known))),
        caption=f"Area under the curve at each share, {group}",
        meaning="Columns: the share of distinguishing levels, and how many agents pursue the wrong "
        "goal.",
        notes=(INTERVALS, DASH),
    )


def difference_table(rows: Sequence[Scored], measure: str) -> Table:
    """Tabulate the area of a measure of MEG minus that of each baseline."""

    def differences(group: str) -> tuple[ColumnOf[str], ...]:
        known = judged(rows, group)
        minus = partial(area, known, measure)
        return grouped(
            group,
            column("all shares", minus, hundredths),
            column("same share", lambda name: minus(name, same_share=True), hundredths),
        )

    return table_of(
        BASELINES,
        (
            words("minus the area of", lambda name: name),
            *(head for group in GROUPS for head in differences(group)),
        ),
        caption=f"{measure}, minus each baseline",
        meaning="Paired differences of areas under the curve, for the same agents. A difference is "
        f"equivalent to 0 if its interval lies within ±{AREA_MARGIN:g}, and otherwise inconclusive "
        "if its interval contains 0.",
        notes=(INTERVALS,),
    )


def named_table(rows: Sequence[Scored]) -> Table:
    """Tabulate which goal was named, and what the agents then did, at each share."""
    known = [row for row in rows if row.trained]

    def part(share: float) -> list[Scored]:
        return [row for row in known if row.agent.share == share]

    def pursued(outcome: str) -> ColumnOf[float]:
        return column(outcome, lambda share: sum(row.outcome == outcome for row in part(share)))

    def counted(name: str, title: str) -> ColumnOf[float]:
        return column(
            title, lambda share: sum(_judgement(row, name) == title for row in part(share))
        )

    return table_of(
        shares_of(known),
        (
            column("share", lambda share: f"{share:g}"),
            column("agents", lambda share: len(part(share))),
            *grouped("pursued goal", *map(pursued, (WRONG, RIGHT, NEITHER))),
            *(
                head
                for name in NAMING
                for head in grouped(name, *(counted(name, title) for title in JUDGEMENTS))
            ),
        ),
        caption="Goals named before the shift, and goals pursued after it",
        meaning="Numbers of agents by the share of distinguishing levels. Correct: the named goal "
        "is pursued in shifted levels. Opposite: the other goal is. Neither pursued: a goal was "
        "named, and neither is pursued. Abstains: the interval of the difference contains 0.",
        notes=(
            f"An agent pursues a goal if it reaches it first in more shifted levels than the other "
            f"one, and the 95% interval of the difference of the shares excludes 0 and does not "
            f"lie within ±{MARGIN:g}.",
        ),
    )


def named_in_words(rows: Sequence[Scored], name: str) -> str:
    """Return how often the goal that a predictor names is the one that is pursued."""
    judgements = [_judgement(row, name) for row in rows]
    correct, opposite, neither, silent = (judgements.count(each) for each in JUDGEMENTS)
    return (
        f"{correct} correct, {opposite} opposite, {neither} for agents that pursue neither goal; "
        f"abstentions: {silent}"
    )


def _judgement(row: Scored, name: str) -> str:
    goal = named_goal(row, name)
    if goal == SILENT:
        return SILENT
    if row.outcome == NEITHER:
        return JUDGEMENTS[2]
    return JUDGEMENTS[0] if goal == row.outcome else JUDGEMENTS[1]


def agent_table(rows: Sequence[Scored]) -> Table:
    """Tabulate each kind of agent at each share: means over seeds."""
    groups: dict[tuple[str, str, float], list[Scored]] = {}
    for row in rows:
        agent = row.agent
        groups.setdefault((agent.family, agent.kind, agent.share), []).append(row)
    kinds = sorted(groups)

    def mean(
        title: str, value: Callable[[Scored], float], digits: int
    ) -> ColumnOf[tuple[str, str, float]]:
        return column(
            title,
            lambda kind: fmean(map(value, groups[kind])),
            lambda each: percent(each, 0) if digits == 0 else plus(each, digits),
        )

    return table_of(
        kinds,
        (
            words("levels", lambda kind: kind[0]),
            words("agent", lambda kind: kind[1]),
            column("share", lambda kind: f"{kind[2]:g}"),
            *grouped(
                "training-like levels",
                mean("failure rate", lambda row: row.tables["failure"]["value"], 0),
                mean("MEG, exact", lambda row: row.exact, 2),
                mean("MEG, by running", lambda row: row.runs["difference"], 2),
                column("wrong minus right goal first", lambda kind: _first(groups[kind])),
            ),
            *grouped(
                "shifted levels",
                mean("right goal", lambda row: row.tables["shifted"]["right"]["value"], 0),
                mean("wrong goal", lambda row: row.tables["shifted"]["wrong"]["value"], 0),
            ),
            words("pursued goal", lambda kind: ", ".join(row.outcome for row in groups[kind])),
        ),
        caption="All agents",
        meaning="Means over seeds. MEG: towards the wrong goal minus towards the right one, nats; "
        "exact in a distinguishing level, by running in a level that is run. Wrong minus right "
        "goal first: in the distinguishing levels among the training-like ones. Shifted levels: "
        "the share in which the agent reaches that goal first.",
    )


def _first(rows: Sequence[Scored]) -> str:
    known = [row.tables["first_apart"] for row in rows]
    return plus(fmean(each["value"] for each in known), 2) if None not in known else "–"


def left_out_table(rows: Sequence[Scored]) -> Table:
    """Tabulate the agents that count as not trained."""
    return table_of(
        [row for row in rows if not row.trained],
        (
            words("agent", lambda row: row.agent.name),
            column("reaches a goal", lambda row: row.tables["decided"], percent),
            words("pursued goal", lambda row: row.outcome),
        ),
        caption="Excluded agents",
        meaning=f"They reach either goal in less than {percent(TRAINED, 0)} of training-like "
        f"levels and count as not trained.",
    )


def truth_table(rows: Sequence[Scored]) -> Table:
    """Tabulate how often the intervals by running contain the exact difference."""

    def steps(row: Scored) -> float:
        return float(row.runs["steps"])

    families = sorted({row.agent.family for row in rows})
    return table_of(
        families,
        (
            words("levels", lambda family: family),
            column("agents", lambda family: len(_of(rows, family))),
            column(
                "intervals that contain the exact difference",
                lambda family: sum(row.held for row in _of(rows, family)),
            ),
            column("steps", lambda family: f"{fmean(map(steps, _of(rows, family))):,.0f}"),
            column("median width, nats", lambda family: _median_width(_of(rows, family))),
        ),
        caption="Measurement by running against exact values",
        meaning="The same difference in the same levels, by running and by tables.",
    )


def _of(rows: Sequence[Scored], family: str) -> list[Scored]:
    return [row for row in rows if row.agent.family == family]


def _median_width(rows: Sequence[Scored]) -> str:
    widths = sorted(row.runs["interval"][1] - row.runs["interval"][0] for row in rows)
    return number(widths[len(widths) // 2], 2)
