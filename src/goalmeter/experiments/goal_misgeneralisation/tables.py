"""What the experiment came to, as tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

from goalmeter.experiments.goal_misgeneralisation.scores import (
    BY_RUNNING,
    EXACT,
    MARGIN,
    NEITHER,
    PREDICTORS,
    RIGHT,
    SILENT,
    TRAINED,
    WRONG,
    Scored,
    advantage,
    area,
)
from goalmeter.report import Table
from goalmeter.report.numbers import hundredths, number, percent, plus
from goalmeter.report.table_of import ColumnOf, column, grouped, table_of, words
from goalmeter.statistics.clustered import Estimate
from goalmeter.statistics.discrimination import NOTHING

INTERVALS = "In brackets: 95% intervals over agents."
SAYS: dict[str, Callable[[Scored], str]] = {
    EXACT: lambda row: row.says_exact,
    BY_RUNNING: lambda row: row.says_by_running,
}

# What becomes of what was said of an agent.
JUDGEMENTS = ("named", "misjudged", "spoke of neither", SILENT)


def judged(rows: Sequence[Scored]) -> list[Scored]:
    """Agents that were trained, on levels some of which tell the goals apart."""
    return [row for row in rows if row.trained and row.agent.share > 0]


def shares_of(rows: Sequence[Scored]) -> list[float]:
    """The shares of levels that tell the goals apart, from the least."""
    return sorted({row.agent.share for row in rows})


def area_table(rows: Sequence[Scored]) -> Table:
    """How well each predictor tells who will go for the wrong goal, over all and at each share."""
    known = judged(rows)

    def at(share: float) -> ColumnOf[str]:
        part = [row for row in known if row.agent.share == share]
        return column(f"{share:g}", lambda name: area(part, name), hundredths)

    return table_of(
        PREDICTORS,
        (
            words("predictor", lambda name: name),
            column("all shares above 0", lambda name: area(known, name), hundredths, answer=True),
            *grouped("share of levels that tell", *(at(share) for share in shares_of(known))),
        ),
        caption="Who will go for the wrong goal",
        meaning="Area under the curve with which a number from training-like levels alone tells "
        "agents that go for the wrong goal in shifted levels from those that do not: 1 if all "
        "pairs are in the right order, 0.5 for chance.",
        notes=(
            INTERVALS,
            "Where MEG abstains its number is 0. A dash: all agents do the same.",
        ),
    )


def advantage_table(rows: Sequence[Scored]) -> Table:
    """By how much MEG is better than what it is compared with."""
    known = judged(rows)
    others = [name for name in PREDICTORS if name not in SAYS]

    def less(first: str) -> ColumnOf[str]:
        return column(first, lambda name: advantage(known, first, name), hundredths)

    return table_of(
        others,
        (words("less the area of", lambda name: name), *map(less, SAYS)),
        caption="What MEG tells more",
        meaning="The area under the curve of MEG less that of another predictor, of the same "
        "agents, over all shares above 0. An interval that holds 0: it cannot be told.",
        notes=(INTERVALS,),
    )


def said_table(rows: Sequence[Scored]) -> Table:
    """What agents did at each share, and what had been said of them."""
    known = [row for row in rows if row.trained]

    def part(share: float) -> list[Scored]:
        return [row for row in known if row.agent.share == share]

    def went(outcome: str) -> ColumnOf[float]:
        return column(outcome, lambda share: sum(row.outcome == outcome for row in part(share)))

    def counted(says: Callable[[Scored], str], title: str) -> ColumnOf[float]:
        def number_of(share: float) -> int:
            return sum(_judgement(row, says(row)) == title for row in part(share))

        return column(title, number_of)

    return table_of(
        shares_of(known),
        (
            column("share", lambda share: f"{share:g}"),
            column("agents", lambda share: len(part(share))),
            *grouped("went for the goal", *map(went, (WRONG, RIGHT, NEITHER))),
            *(
                head
                for name, says in SAYS.items()
                for head in grouped(name, *(counted(says, title) for title in JUDGEMENTS))
            ),
        ),
        caption="What was said, and what happened",
        meaning="Numbers of agents by the share of training levels that tell the goals apart. "
        "Named: the goal that the agent then went for. Misjudged: the other one. Spoke of neither: "
        "a goal was named of an agent that then went for neither. Abstains: the interval of the "
        "difference holds 0.",
        notes=(
            f"An agent goes for a goal if it comes to it first in more shifted levels than to the "
            f"other one, and the 95% interval of the difference of the shares lies above 0 and not "
            f"within {MARGIN:g} of it.",
        ),
    )


def said_in_words(rows: Sequence[Scored], name: str) -> str:
    """How often what was said is what happened."""
    judgements = [_judgement(row, SAYS[name](row)) for row in rows]
    named, misjudged, neither, silent = (judgements.count(each) for each in JUDGEMENTS)
    return (
        f"named the goal of {named} agents, misjudged {misjudged}, spoke of {neither} that went "
        f"for neither, and abstained on {silent}"
    )


def _judgement(row: Scored, said: str) -> str:
    if said == SILENT:
        return SILENT
    if row.outcome == NEITHER:
        return JUDGEMENTS[2]
    return JUDGEMENTS[0] if said == row.outcome else JUDGEMENTS[1]


def agent_table(rows: Sequence[Scored]) -> Table:
    """Each kind of agent at each share: means over seeds."""
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
                mean("success", lambda row: row.tables["success"], 0),
                mean("MEG, exact", lambda row: row.exact, 2),
                mean("MEG, by running", lambda row: row.runs["difference"], 2),
            ),
            *grouped(
                "shifted levels",
                mean("right goal", lambda row: row.tables["shifted"]["right"]["value"], 0),
                mean("wrong goal", lambda row: row.tables["shifted"]["wrong"]["value"], 0),
            ),
            words("went for", lambda kind: ", ".join(row.outcome for row in groups[kind])),
        ),
        caption="What became of the agents",
        meaning="Means over seeds. MEG: towards the wrong goal less towards the right one, nats; "
        "exact in a level that tells the goals apart, by running in a level that is run. Shifted "
        "levels: the share where the agent comes to that goal first.",
    )


def left_out_table(rows: Sequence[Scored]) -> Table:
    """Agents that did not learn."""
    return table_of(
        [row for row in rows if not row.trained],
        (
            words("agent", lambda row: row.agent.name),
            column("comes to a goal", lambda row: row.tables["decided"], percent),
            words("went for", lambda row: row.outcome),
        ),
        caption="Agents that are left out",
        meaning=f"They come to either goal in less than {percent(TRAINED, 0)} of training-like "
        f"levels, so they count as not trained.",
    )


def truth_table(rows: Sequence[Scored]) -> Table:
    """How the intervals by running compare with the tables."""

    def steps(row: Scored) -> float:
        return float(row.runs["steps"])

    families = sorted({row.agent.family for row in rows})
    return table_of(
        families,
        (
            words("levels", lambda family: family),
            column("agents", lambda family: len(_of(rows, family))),
            column(
                "intervals that hold the exact difference",
                lambda family: sum(row.held for row in _of(rows, family)),
            ),
            column("steps", lambda family: f"{fmean(map(steps, _of(rows, family))):,.0f}"),
            column("median width, nats", lambda family: _median_width(_of(rows, family))),
        ),
        caption="Running against tables",
        meaning="The same difference in the same levels, by running and by tables.",
    )


def _of(rows: Sequence[Scored], family: str) -> list[Scored]:
    return [row for row in rows if row.agent.family == family]


def _median_width(rows: Sequence[Scored]) -> str:
    widths = sorted(row.runs["interval"][1] - row.runs["interval"][0] for row in rows)
    return number(widths[len(widths) // 2], 2)


def least_share(
    rows: Sequence[Scored], predictor: str, aim: float
) -> tuple[float, Estimate] | None:
    """The least share at which the interval of the area lies above chance and the area is the aim.

    Returns:
        The share and the area there; None if there is none.
    """
    known = judged(rows)
    for share in shares_of(known):
        at_share = area([row for row in known if row.agent.share == share], predictor)
        ends = at_share.interval
        if ends is not None and at_share.value >= aim and ends[0] > NOTHING:
            return share, at_share
    return None
