"""`goalmeter replicate goal-misgeneralisation`: predict which agents pursue an unintended goal."""

from __future__ import annotations

if __name__ == "__main__":
    from goalmeter.__main__ import main

    main("replicate", "goal-misgeneralisation")

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from goalmeter.commands.outcome import Outcome
from goalmeter.commands.replicate import StudyOptions
from goalmeter.report import (
    Figure,
    Section,
    Table,
    canvas,
    hundredths,
    in_markdown,
    percent,
    require_report_extra,
    to_svg,
    write_text,
)
from goalmeter.runs import carry_out
from goalmeter.statistics import Estimate, Verdict, verdict
from replications.goal_misgeneralisation import measurements
from replications.goal_misgeneralisation.measurements import (
    AREA_MARGIN,
    BASELINES,
    BY_RUNNING,
    EXACT,
    MARGIN,
    NAMING,
    NEITHER,
    PPO,
    PREDICTORS,
    RIGHT,
    SILENT,
    TRAINED,
    WRONG,
    WRONG_CLONE,
    Row,
    Scale,
    TrainedAgent,
    area,
    contains_exact,
    exact,
    scored,
)
from replications.kinds import BLUE, MUTED, PAPER, VERMILION
from replications.prose import Texts

say = Texts("goal_misgeneralisation")
# Groups of agents, from all of them to those trained by reinforcement learning only.
GROUPS: dict[str, Callable[[Row], bool]] = {
    "all agents": lambda row: True,
    "without clones of the wrong goal": lambda row: row["kind"] != WRONG_CLONE,
    "PPO only": lambda row: row["kind"] == PPO,
}
ALL, UNCLONED, _ = GROUPS
PAIRS = {"all shares": False, "same share": True}


def judged(rows: Sequence[Row], group: str = ALL) -> list[Row]:
    """Return the trained agents of a group whose training levels include distinguishing ones."""
    return [row for row in rows if row["trained"] and row["share"] > 0 and GROUPS[group](row)]


# --- Tables ---------------------------------------------------------------------------------------
def area_table(rows: Sequence[Row]) -> Table:
    """Tabulate the area of each predictor, over all pairs of agents and over those of one share."""
    return say.table("area_under_the_curve", _areas(rows, PREDICTORS, area))


def difference_table(rows: Sequence[Row], measure: str) -> Table:
    """Tabulate the area of a measure of MEG minus that of each baseline."""

    def minus(known: Sequence[Row], name: str, *, same_share: bool) -> Estimate:
        return area(known, measure, name, same_share=same_share)

    differences = _areas(rows, BASELINES, minus)
    return say.table("difference_table", differences, measure=measure, area_margin=AREA_MARGIN)


def _areas(rows: Sequence[Row], names: Sequence[str], of: Callable[..., Estimate]) -> list[Any]:
    return [
        (
            name,
            {
                group: {
                    pairs: of(judged(rows, group), name, same_share=same)
                    for pairs, same in PAIRS.items()
                }
                for group in GROUPS
            },
        )
        for name in names
    ]


def share_table(agents: Sequence[Row], group: str) -> Table:
    """Tabulate the area of each predictor within each share."""
    parts = _by_share(judged(agents, group))
    heads = [
        f"{share:g} ({_count(part, WRONG)} of {len(part)} wrong)" for share, part in parts.items()
    ]
    columns = [(head, f"{i}", "number:2") for i, head in enumerate(heads, 1)]
    rows = [(name, *(area(part, name) for part in parts.values())) for name in PREDICTORS]
    return say.table("share_table", rows, more=columns, group=group)


def _by_share(rows: Sequence[Row]) -> dict[float, list[Row]]:
    shares = sorted({row["share"] for row in rows})
    return {share: [row for row in rows if row["share"] == share] for share in shares}


def _count(rows: Sequence[Row], outcome: str) -> int:
    return sum(row["outcome"] == outcome for row in rows)


def named_table(rows: Sequence[Row]) -> Table:
    """Tabulate which goal was named, and what the agents then did, at each share."""
    parts = _by_share([row for row in rows if row["trained"]])
    return say.table(
        "named_table",
        [
            {
                "share": f"{share:g}",
                "agents": len(part),
                "pursued": {outcome: _count(part, outcome) for outcome in (WRONG, RIGHT, NEITHER)},
            }
            | {name: _judgements(part, name) for name in NAMING}
            for share, part in parts.items()
        ],
        margin=MARGIN,
    )


def _judgements(rows: Sequence[Row], name: str) -> dict[str, int]:
    """What became of the goals that a predictor named."""
    counts = Counter(
        SILENT
        if row["names"][name] == SILENT
        else "neither pursued"
        if row["outcome"] == NEITHER
        else "correct"
        if row["names"][name] == row["outcome"]
        else "opposite"
        for row in rows
    )
    return {title: counts[title] for title in ("correct", "opposite", "neither pursued", SILENT)}


def agent_table(rows: Sequence[Row]) -> Table:
    """Tabulate each kind of agent at each share: means over seeds."""
    groups: dict[tuple[str, str, float], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["family"], row["kind"], row["share"]), []).append(row)
    return say.table("all_agents", [_means(*key, groups[key]) for key in sorted(groups)])


def _means(family: str, kind: str, share: float, rows: Sequence[Row]) -> dict[str, Any]:
    first = [row["tables"]["first_apart"] for row in rows]
    return {
        "levels": family,
        "agent": kind,
        "share": f"{share:g}",
        "failure": fmean(row["tables"]["failure"]["value"] for row in rows),
        "exact": fmean(map(exact, rows)),
        "running": fmean(row["runs"]["difference"] for row in rows),
        "first": None if None in first else fmean(each["value"] for each in first),
        "right": fmean(row["tables"]["shifted"]["right"]["value"] for row in rows),
        "wrong": fmean(row["tables"]["shifted"]["wrong"]["value"] for row in rows),
        "pursued": ", ".join(row["outcome"] for row in rows),
    }


def left_out_table(rows: Sequence[Row]) -> Table:
    """Tabulate the agents that count as not trained."""
    left_out = [
        {**row, "agent": TrainedAgent(row["family"], row["kind"], row["share"], row["seed"]).name}
        for row in rows
        if not row["trained"]
    ]
    return say.table("excluded_agents", left_out, trained=percent(TRAINED, 0))


def truth_table(rows: Sequence[Row]) -> Table:
    """Tabulate how often the intervals by running contain the exact difference."""
    lines = []
    for family in sorted({row["family"] for row in rows}):
        part = [row for row in rows if row["family"] == family]
        steps = fmean(float(row["runs"]["steps"]) for row in part)
        ends = [row["runs"]["interval"] for row in part]
        widths = sorted(high - low for low, high in ends)
        held = sum(map(contains_exact, part))
        lines.append((family, len(part), held, f"{steps:,.0f}", widths[len(widths) // 2]))
    return say.table("measurement_by_running_against_exact_val", lines)


# --- Page -----------------------------------------------------------------------------------------
def prediction_tables(rows: Sequence[Row]) -> tuple[Table, ...]:
    """Return how well each predictor tells which agents pursue the wrong goal."""
    return (
        area_table(rows),
        *(difference_table(rows, measure) for measure in (EXACT, BY_RUNNING)),
        *(share_table(rows, group) for group in (ALL, UNCLONED)),
        named_table(rows),
    )


def agent_tables(rows: Sequence[Row]) -> tuple[Table, ...]:
    """Return what the agents do, and the excluded ones if there are any."""
    excluded = () if all(row["trained"] for row in rows) else (left_out_table(rows),)
    return (agent_table(rows), *excluded)


def markdown(rows: Sequence[Row]) -> str:
    """Return all tables and the summary as Markdown."""
    shown = (*prediction_tables(rows), *agent_tables(rows), truth_table(rows))
    return in_markdown(shown, {"Summary": page_findings(rows)})


def page_sections(rows: Sequence[Row]) -> list[Section]:
    """Return the predictions, the outcomes and the agents as sections."""
    return [
        say.section(
            "predict_the_wrong_goal_before_the_shift", prediction_tables(rows), scatter(rows)
        ),
        Section(title="The agents", tables=agent_tables(rows)),
        Section(title="Measurement by running", tables=(truth_table(rows),)),
    ]


def scatter(rows: Sequence[Row]) -> Figure:
    """Plot MEG against the shifted behaviour, one panel per share."""
    parts = _by_share([row for row in rows if row["trained"]])
    styles = {WRONG: (VERMILION, "o"), RIGHT: (BLUE, "s"), NEITHER: (MUTED, "^")}
    with canvas(2.3 * len(parts) + 0.6, 3.1) as figure:
        grid = figure.subplots(1, len(parts), squeeze=False, sharey=True, sharex=True)[0]
        for axes, (share, part) in zip(grid, parts.items(), strict=True):
            axes.axvline(0, color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)))
            axes.axhline(0, color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)))
            for outcome, (colour, marker) in styles.items():
                for silent in (False, True):
                    shown = [
                        row
                        for row in part
                        if row["outcome"] == outcome and (row["names"][EXACT] == SILENT) == silent
                    ]
                    axes.plot(
                        [exact(row) for row in shown],
                        [row["tables"]["shifted"]["difference"]["value"] for row in shown],
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
        f"share {share:g}: {_count(part, WRONG)} of {len(part)} agents pursue the wrong goal; MEG "
        f"names it for {sum(row['names'][EXACT] == WRONG for row in part)}"
        for share, part in parts.items()
    )
    return Figure(svg=svg, **say("scatter", in_words=in_words), wide=True)


def page_findings(rows: Sequence[Row]) -> list[str]:
    """Return summary sentences generated from the results."""
    known = judged(rows)
    lines = [
        say.line(
            "agents",
            trained=sum(row["trained"] for row in rows),
            all=len(rows),
            known=len(known),
            cloned=_count([row for row in known if row["kind"] == WRONG_CLONE], WRONG),
            **{outcome: _count(known, outcome) for outcome in (WRONG, RIGHT, NEITHER)},
        )
    ]
    for name in NAMING:
        counts = _judgements(known, name)
        keys = ("correct", "opposite", "neither", "silent")
        lines.append(say.line("named", name=name, **dict(zip(keys, counts.values(), strict=True))))
    for group in GROUPS:
        for pairs, same in PAIRS.items():
            for measure in (EXACT, BY_RUNNING):
                compared = _compared(judged(rows, group), measure, same_share=same)
                lines.append(f"{measure}, {group}, {pairs}: area {compared}.")
    return lines


def _compared(rows: Sequence[Row], measure: str, *, same_share: bool) -> str:
    """Return the area of a measure and a verdict on its difference from each baseline."""
    of = partial(area, rows, measure, same_share=same_share)
    verdicts: dict[str, list[str]] = {}
    for name in BASELINES:
        word = {
            Verdict.ABOVE: "higher than",
            Verdict.BELOW: "lower than",
            Verdict.EQUAL: f"equivalent within ±{AREA_MARGIN:g} to",
        }.get(verdict(of(name).interval, AREA_MARGIN), "inconclusive against")
        verdicts.setdefault(word, []).append(f'"{name}"')
    said = [f"{word} {', '.join(names)}" for word, names in verdicts.items()]
    return "; ".join([hundredths(of()), *said])


# --- Replicate ------------------------------------------------------------------------------------
SEEDS, SCALE = 3, Scale()


def replicate(out: Path, options: StudyOptions) -> Outcome:
    """Train agents whose goal may be wrong, predict which pursue it, and evaluate them shifted.

    Agents and measurements are stored as they finish; the same command resumes a run. Seeds are
    agents of each kind at each share, 3 by default; the first is also that of the levels in which
    they are measured.
    """
    agents = _agents(options)
    require_report_extra()
    place: dict[str, Any] = {"on": options.on, "progress": options.progress}
    trained = carry_out(measurements.training_study(agents, SCALE), out=out / "agents", **place)
    networks = {agent: trained[agent.name] for agent in agents}
    by_tables, by_running = measurements.studies(networks, SCALE, options.seed)
    tables = carry_out(by_tables, out=out / "tables", **place)
    runs = carry_out(by_running, out=out / "runs", **place)
    rows = [
        scored(vars(agent) | {"tables": tables[agent.name], "runs": runs[agent.name]})
        for agent in agents
    ]
    return written(out, rows, options)


def written(out: Path, rows: Sequence[Row], options: StudyOptions) -> Outcome:
    """Write the results of all agents."""
    findings = page_findings(rows)
    write_text(out / "tables.md", markdown(rows))
    result = {"replication": "goal-misgeneralisation", "findings": findings, "agents": list(rows)}
    return say.report(
        out,
        options,
        page_sections(rows),
        result,
        findings,
        glossary=say("glossary"),
        text="\n".join(findings),
    )


def planned(options: StudyOptions) -> dict[str, int]:
    """Return how much `replicate` with these options will do."""
    return {"agents": len(_agents(options))}


def _agents(options: StudyOptions) -> list[TrainedAgent]:
    count = options.count(SEEDS, least=1, most=1000)
    return measurements.agents_of(range(options.seed, options.seed + count))
