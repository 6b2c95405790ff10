"""`goalmeter replicate goal-misgeneralisation`: predict which agents pursue an unintended goal."""

from __future__ import annotations

if __name__ == "__main__":
    from goalmeter.__main__ import main

    main("replicate", "goal-misgeneralisation")

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from goalmeter.commands.outcome import Outcome, write_outcome
from goalmeter.commands.replicate import StudyOptions
from goalmeter.report import (
    ColumnOf,
    Figure,
    Section,
    Table,
    column,
    grouped,
    hundredths,
    in_markdown,
    number,
    percent,
    plus,
    require_report_extra,
    table_of,
    words,
    write_text,
)
from goalmeter.report.canvas import BLUE, MUTED, PAPER, VERMILION, canvas, to_svg
from goalmeter.runs import carry_out
from goalmeter.statistics import Verdict, verdict
from replications.goal_misgeneralisation import measurements, training
from replications.goal_misgeneralisation.measurements import (
    AREA_MARGIN,
    BASELINES,
    BY_RUNNING,
    EXACT,
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
from replications.goal_misgeneralisation.training import (
    PPO,
    WRONG_CLONE,
    Network,
    Scale,
    Subject,
    subjects,
)
from replications.prose import prose

say = partial(prose, "goal_misgeneralisation")

# --- Tables ---------------------------------------------------------------------------------------
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
        **say("area_under_the_curve"),
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
        **say("share_table", group=group),
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
        **say("difference_table", measure=measure, area_margin=AREA_MARGIN),
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
        **say("named_table", margin=MARGIN),
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
        **say("all_agents"),
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
        **say("excluded_agents", trained=percent(TRAINED, 0)),
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
        **say("measurement_by_running_against_exact_val"),
    )


def _of(rows: Sequence[Scored], family: str) -> list[Scored]:
    return [row for row in rows if row.agent.family == family]


def _median_width(rows: Sequence[Scored]) -> str:
    widths = sorted(row.runs["interval"][1] - row.runs["interval"][0] for row in rows)
    return number(widths[len(widths) // 2], 2)


# --- Page -----------------------------------------------------------------------------------------
GLOSSARY = say("glossary")


def prediction_tables(rows: Sequence[Scored]) -> tuple[Table, ...]:
    """Return how well each predictor tells which agents pursue the wrong goal."""
    return (
        area_table(rows),
        *(difference_table(rows, measure) for measure in (EXACT, BY_RUNNING)),
        *(share_table(rows, group) for group in (ALL, UNCLONED)),
        named_table(rows),
    )


def agent_tables(rows: Sequence[Scored]) -> tuple[Table, ...]:
    """Return what the agents do, and the excluded ones if there are any."""
    excluded = () if all(row.trained for row in rows) else (left_out_table(rows),)
    return (agent_table(rows), *excluded)


def markdown(rows: Sequence[Scored]) -> str:
    """Return all tables and the summary as Markdown."""
    shown = (*prediction_tables(rows), *agent_tables(rows), truth_table(rows))
    return in_markdown(shown, {"Summary": page_findings(rows)})


def page_sections(rows: Sequence[Scored]) -> list[Section]:
    """Return the predictions, the outcomes and the agents as sections."""
    return [
        Section(
            **say("predict_the_wrong_goal_before_the_shift"),
            tables=prediction_tables(rows),
            figures=(scatter(rows),),
        ),
        Section(title="The agents", tables=agent_tables(rows)),
        Section(title="Measurement by running", tables=(truth_table(rows),)),
    ]


def scatter(rows: Sequence[Scored]) -> Figure:
    """Plot MEG against the shifted behaviour, one panel per share."""
    known = [row for row in rows if row.trained]
    shares = shares_of(known)
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
        **say("scatter", in_words=in_words),
        wide=True,
    )


def page_findings(rows: Sequence[Scored]) -> list[str]:
    """Return summary sentences generated from the results."""
    known = judged(rows)
    cloned = [row for row in known if not GROUPS[UNCLONED](row)]
    pursued = {name: sum(row.outcome == name for row in known) for name in (WRONG, RIGHT, NEITHER)}
    lines = [
        f"{sum(row.trained for row in rows)} of {len(rows)} agents count as trained. Of "
        f"{len(known)} above share 0, {pursued[WRONG]} pursue the wrong goal in shifted levels, "
        f"{pursued[RIGHT]} the right one and {pursued[NEITHER]} neither. "
        f"{sum(row.outcome == WRONG for row in cloned)} of the {pursued[WRONG]} are clones of an "
        f"expert for the wrong goal."
    ]
    for name in NAMING:
        lines.append(f"Goals named by {name}: {named_in_words(known, name)}.")
    for group in GROUPS:
        for same_share, pairs in ((False, "all shares"), (True, "same share")):
            for measure in (EXACT, BY_RUNNING):
                compared = _compared(judged(rows, group), measure, same_share)
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


# --- Replicate ------------------------------------------------------------------------------------
COMMAND = "goalmeter replicate goal-misgeneralisation"
SEEDS = 3
SCALE = Scale()
TITLE = "Predict a wrong goal before it shows"
# The folders of what is kept.
AGENTS, TABLES, RUNS = "agents", "tables", "runs"


def replicate(out: Path, options: StudyOptions) -> Outcome:
    """Train agents whose goal may be wrong, predict which pursue it, and evaluate them shifted.

    Agents and measurements are stored as they finish; the same command resumes a run. Seeds are
    agents of each kind at each share, 3 by default; the first is also that of the levels in which
    they are measured.
    """
    agents = _agents(options)
    require_report_extra()
    trained = carry_out(
        training.study(agents, SCALE), on=options.on, out=out / AGENTS, progress=options.progress
    )
    networks: dict[Subject, Network | None] = {agent: trained[agent.name] for agent in agents}
    tables = carry_out(
        measurements.study_by_tables(networks, SCALE, options.seed),
        on=options.on,
        out=out / TABLES,
        progress=options.progress,
    )
    runs = carry_out(
        measurements.study_by_running(networks, SCALE, options.seed),
        on=options.on,
        out=out / RUNS,
        progress=options.progress,
    )
    return written(
        out, [Scored(agent, tables[agent.name], runs[agent.name]) for agent in agents], options
    )


def written(out: Path, rows: list[Scored], options: StudyOptions) -> Outcome:
    """Write what came of all agents."""
    sections, findings = page_sections(rows), page_findings(rows)
    write_text(out / "tables.md", markdown(rows))
    result: dict[str, Any] = {
        "replication": "goal-misgeneralisation",
        "findings": findings,
        "agents": [row.to_json() for row in rows],
    }
    return write_outcome(
        out,
        TITLE,
        sections,
        result,
        command=options.command("goal-misgeneralisation"),
        **say("page"),
        findings=findings,
        glossary=GLOSSARY,
        text="\n".join(findings),
    )


def planned(options: StudyOptions) -> dict[str, int]:
    """How much `replicate` with these options will do."""
    return {"agents": len(_agents(options))}


def _agents(options: StudyOptions) -> list[Subject]:
    count = options.count(SEEDS, least=1, most=1000)
    return subjects(range(options.seed, options.seed + count))
