"""`goalmeter replicate reflection-table-1`: Table 1 on self-reflection, published and ours."""

from __future__ import annotations

if __name__ == "__main__":
    from goalmeter.__main__ import main

    main("replicate", "reflection-table-1")

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

from goalmeter import InvalidParameterError
from goalmeter._errors import require
from goalmeter.commands.outcome import Outcome, write_outcome
from goalmeter.commands.replicate import StudyOptions
from goalmeter.pages import reflection as reflection_page
from goalmeter.pages.reflection_tables import UNTOLD, verdict
from goalmeter.reflection.environments import BATTERY
from goalmeter.reflection.result import interval_json
from goalmeter.report import (
    ColumnOf,
    Figure,
    Section,
    Table,
    column,
    grouped,
    number,
    percent,
    plus,
    require_report_extra,
    table_of,
    words,
)
from goalmeter.report.canvas import VERMILION
from goalmeter.report.charts import DotPanel, Dots, dot_chart
from goalmeter.report.numbers import between, true_minus
from goalmeter.statistics import Verdict
from goalmeter.statistics.verdicts import FEWEST, LEVEL, TOO_FEW
from replications.ledger import Number
from replications.prose import prose
from replications.reflection_table import measurements
from replications.reflection_table.measurements import (
    NEURAL,
    PUBLISHED_NAMES,
    STEPS,
    Effect,
    Estimate,
    Row,
    as_published,
    default_seeds,
    effects,
    has_ours,
    thesis,
    with_t_interval,
)

say = partial(prose, "reflection_table")

# --- Pictures -------------------------------------------------------------------------------------
_NONE = f"; none from fewer than {FEWEST} seeds"
_NOTHING = Estimate(math.nan, math.nan, (math.nan, math.nan))


def comparison_chart(rows: Sequence[Row]) -> Figure:
    """Both columns of Table 1, with intervals of two standard errors."""
    shown = [name for name in PUBLISHED_NAMES if any(has_ours(r) for r in rows if r.agent == name)]
    panels = []
    for steps in STEPS:
        by_agent = {row.agent: row.number for row in rows if row.steps == steps}
        numbers = [by_agent[name] for name in shown]
        ours = [with_t_interval(n.ours, [n.error], [n.seeds]) for n in numbers]
        theirs = [
            with_t_interval(n.theirs, [n.published_error], [n.published_seeds]) for n in numbers
        ]
        panels.append(_panel(steps, "self-reflection, reward per step", ours, theirs))
    return Figure(
        svg=dot_chart("table-1", [PUBLISHED_NAMES[name] for name in shown], panels),
        **say("comparison_chart", few=_NONE),
        wide=True,
    )


def effects_chart(effects: Sequence[Effect]) -> Figure:
    """The thesis as a picture."""
    panels, names = [], list(dict.fromkeys(effect.agent for effect in effects))
    for steps in sorted({effect.steps for effect in effects}):
        by_agent = {effect.agent: effect for effect in effects if effect.steps == steps}
        ours = [by_agent[name].ours if name in by_agent else _NOTHING for name in names]
        theirs = [by_agent[name].theirs if name in by_agent else _NOTHING for name in names]
        panels.append(_panel(steps, "what the reality check changes", ours, theirs))
    return Figure(
        svg=dot_chart("thesis", [PUBLISHED_NAMES[name] for name in names], panels),
        **say("effects_chart", few=_NONE),
        wide=True,
    )


def _panel(
    steps: int, x_label: str, ours: Sequence[Estimate], theirs: Sequence[Estimate]
) -> DotPanel:
    return DotPanel(
        title=f"{steps} steps",
        x_label=x_label,
        series=(
            Dots.of("ours", ours),
            Dots.of("published (their data)", theirs, colour=VERMILION, marker="s", hollow=True),
        ),
    )


# --- Page -----------------------------------------------------------------------------------------
def page_sections(rows: Sequence[Row]) -> list[Section]:
    """Both halves of the table and the thesis."""
    every_effect = effects(rows)
    return [
        Section(
            **say("table_1_ours_beside_theirs", margin=_margin(rows), fewest=FEWEST),
            tables=tuple(table_1(rows, steps) for steps in STEPS),
            figures=(comparison_chart(rows),),
            points=_points(rows),
        ),
        Section(
            **say("the_thesis_tested_on_both", fewest=FEWEST),
            tables=(effects_table(every_effect),),
            figures=(effects_chart(every_effect),) if every_effect else (),
        ),
    ]


def findings(rows: Sequence[Row]) -> list[str]:
    """The page in a few sentences, from the numbers."""
    lines = []
    for kind, neural in (("scripted", False), ("neural", True)):
        numbers = [row.number for row in rows if has_ours(row) and _neural(row) == neural]
        if numbers:
            lines.append(_agreement(kind, numbers))
    every_effect = effects(rows)
    if every_effect:
        lines.append(thesis(every_effect))
    return lines


def table_1(rows: Sequence[Row], steps: int) -> Table:
    """One column of Table 1."""
    of_length = [row for row in rows if row.steps == steps]
    return table_of(
        of_length,
        (
            words("agent", lambda row: row.number.setting),
            *grouped(
                "published",
                column("as printed", lambda row: _printed(row.number)),
                column("standard error", lambda row: number(row.number.published_error, 4)),
            ),
            *grouped(
                "ours",
                column("measure", lambda row: plus(row.number.ours, 4)),
                column("standard error", lambda row: _if_ran(row, number(row.number.error, 4))),
                column("seeds", lambda row: _if_ran(row, row.number.seeds)),
            ),
            *grouped(
                "ours beside their data",
                column("z", lambda row: plus(row.number.z, 2)),
                words("verdict", lambda row: row.number.verdict),
            ),
            *grouped(
                "beside the print",
                words("verdict", lambda row: row.number.verdict_on_print or row.number.verdict),
            ),
            words(
                "ours from",
                lambda row: "this run" if row.result is not None else _if_ran(row, "ledger"),
            ),
        ),
        **say("table_1", steps=steps, level=percent(LEVEL, 0)),
        notes=_table_notes(of_length),
    )


def _printed(published: Number) -> str:
    """The number as printed, marked where the print is a mistake."""
    return true_minus(published.published) + " †" * (published.corrected is not None)


def _if_ran(row: Row, value: object) -> object:
    """A value of ours; None for a row that was never run."""
    return value if row.number.ran else None


def effects_table(effects: Sequence[Effect]) -> Table:
    """The thesis, for each agent and length."""

    def estimate(name: str) -> tuple[ColumnOf[Effect], ...]:
        of = attrgetter(name)
        return (
            column("difference", lambda effect: plus(of(effect).value, 4)),
            column("95% interval", lambda effect: between(of(effect).interval, 3)),
            column("the reality check", lambda effect: verdict(of(effect).interval)),
        )

    return table_of(
        effects,
        (
            words(
                "agent", lambda effect: PUBLISHED_NAMES[effect.agent] + " *" * (not effect.paired)
            ),
            column("steps", lambda effect: effect.steps),
            *grouped("published", *estimate("theirs")),
            *grouped("ours", *estimate("ours")),
        ),
        **say(
            "effects_table",
            untold=UNTOLD.capitalize(),
            too_few=TOO_FEW.capitalize(),
            fewest=FEWEST,
        ),
    )


def _agreement(kind: str, numbers: Sequence[Number]) -> str:
    """How many numbers of ours are shown to equal the published ones, and what of the rest."""
    judged = [row for row in numbers if _has_enough_seeds(row)]
    text = f"{len(numbers)} numbers of {kind} agents are of too few seeds to be judged."
    if judged:
        count = Counter(row.counted for row in judged)
        margin = judged[0].margin
        within = f" within {margin.within:g}" if margin else ""
        text = (
            f"Of the {len(judged)} numbers of {kind} agents, {count[Verdict.EQUAL]} are shown to "
            f"be equal{within} to the published ones by the 95% interval of the difference, "
            f"{count[Verdict.ABOVE]} are above, {count[Verdict.BELOW]} below, and of "
            f"{count[Verdict.UNTOLD]} it cannot be told; the largest |z| is "
            f"{number(max(abs(row.z) for row in judged), 2)}."
        )
        if few := len(numbers) - len(judged):
            text += f" {few} more are of too few seeds to be judged."
    return text


# The margin was stated before any number was looked at, so the page gives its reason too.
def _margin(rows: Sequence[Row]) -> str:
    """The margin of the table with its reason, as a sentence."""
    margin = rows[0].published.margin
    if margin is None:
        return "none."
    return f"±{margin.within:g}. {margin.reason}"


def _has_enough_seeds(row: Number) -> bool:
    """Whether it was run, with enough seeds."""
    return not math.isnan(row.z)


def _neural(row: Row) -> bool:
    return "neural" in row.published.quantity


def _table_notes(rows: Sequence[Row]) -> tuple[str, ...]:
    notes = []
    data = {
        row.agent: plus(row.published.corrected, 6)
        for row in rows
        if row.published.corrected is not None
    }
    if data:
        notes.append(
            "† A mistake in print: the number of RC(PPO) stands in the row of PPO, and an older "
            f"one in that of RC(PPO). Their data say {data['ppo']} and {data['rc(ppo)']}. Ours are "
            "compared with these, z too, and in a column of its own with the print."
        )
    if any(row.result is None for row in rows):
        commands = sorted({row.published.command for row in rows if row.result is None})
        notes.append(
            "Ours from the ledger: as they were when the ledger was last made; – where they were "
            f"not. To run them: {' or '.join(commands)}."
        )
    return tuple(notes)


def _points(rows: Sequence[Row]) -> tuple[str, ...]:
    numbers = [row.number for row in rows if not _neural(row) and _has_enough_seeds(row.number)]
    points = []
    if numbers:
        squares = sum(row.z**2 for row in numbers)
        points.append(
            f"{len(numbers)} comparisons of scripted agents: if every pair of numbers estimated "
            f"the same, |z| would be beyond what {percent(LEVEL, 0)} of draws reach in some row of "
            f"about {percent(1 - LEVEL ** len(numbers), 0)} of such tables, and Σ z² would be a "
            f"little above {len(numbers)}; here it is {number(squares, 1)}."
        )
    points.append(
        "RandomAgent is at about −0.02, not at 0 as the paper's argument has it, in both tables: "
        "the opposite of IgnoreRewards2 pays −1 at every step to any agent that is a function of "
        "its history, which is −0.02 of the measure."
    )
    points.append(
        "The authors' conversion of PPO stores a wrong log-probability: that of an action that the "
        "network sampled, not of the one it was held to. It hardly matters: a freshly initialised "
        "network makes each rollout, and its actions are nearly equally likely, so that the wrong "
        "log-probability nearly equals the right one."
    )
    for row in rows:
        if row.result is not None and _neural(row):
            shift = float((row.result.by_seed - as_published(row.result)).mean())
            # Half a unit of the fourth digit: less would be shown as 0.
            if abs(shift) > 5e-5:
                points.append(
                    f"{row.published.setting}, {row.steps} steps: IncentivizeLearningRate and its "
                    f"opposite, to which our reality check hands the learning rate on, would add "
                    f"{plus(shift, 4)}; the authors' does not, so they are left out here."
                )
    return tuple(points)


# --- Replicate ------------------------------------------------------------------------------------
OPTIONS = ("agents", "steps")


def replicate(out: Path, options: StudyOptions) -> Outcome:
    """Measure agents of Table 1 and write report.html, results.json and figures/*.svg.

    The runs are stored in `out`/runs, one an agent and length, and resumed. There are 10 seeds by
    default, but 2 of neural agents for 1000 steps. `agents` to run now are "scripted" (the
    default), "neural", "all", or names; the others are shown as the ledger has them. `steps` runs
    one length of trials only.
    """
    # All options are looked at before anything is played, which may take hours.
    names = _checked(options)
    require_report_extra()
    rows = measurements.table(
        names,
        out,
        lengths=STEPS if options.steps is None else (options.steps,),
        seeds=options.seeds,
        seed=options.seed,
        on=options.on,
        progress=options.progress,
    )
    ran = [row.result for row in rows if row.result is not None]
    shown = [result for result in ran if result.steps == min(r.steps for r in ran)]
    sections = [*page_sections(rows), *reflection_page.sections(shown)]
    return write_outcome(
        out,
        "Self-reflection of agents: Table 1, reproduced",
        sections,
        _json(rows),
        command=options.command("reflection-table-1"),
        **say("page", steps=shown[0].steps),
        findings=[*reflection_page.ended_early(ran), *findings(rows)],
        glossary=reflection_page.GLOSSARY,
        tables=(table for section in sections[:2] for table in section.tables),
    )


def _json(rows: list[Row]) -> dict[str, Any]:
    return {
        "replication": "reflection-table-1",
        "rows": [_row(row, row.number) for row in rows],
        "reality_check": [
            {
                "agent": effect.agent,
                "steps": effect.steps,
                "paired": effect.paired,
                "ours": _estimate(effect.ours),
                "published": _estimate(effect.theirs),
            }
            for effect in effects(rows)
        ],
    }


def _estimate(estimate: Estimate) -> dict[str, Any]:
    return {
        "difference": estimate.value,
        "stderr": estimate.error,
        "interval": interval_json(estimate.interval),
        "verdict": verdict(estimate.interval),
    }


def _row(row: Row, number: Number) -> dict[str, Any]:
    result = row.result
    return {
        "agent": row.agent,
        "steps": row.steps,
        "printed": number.published,
        "published": number.theirs,
        "published_stderr": number.published_error,
        "ours": number.ours if number.ran else None,
        "stderr": number.error if number.ran else None,
        "seeds": number.seeds,
        "z": number.z,
        "verdict": number.verdict,
        "verdict_on_print": number.verdict_on_print or number.verdict,
        "margin": None if number.margin is None else number.margin.within,
        "run_now": result is not None,
        "measure": None if result is None else result.measure,
        "ended_early": None if result is None else len(result.failures),
    }


def planned(options: StudyOptions) -> dict[str, int]:
    """How much `replicate` with these options will do."""
    names = _checked(options)
    lengths = STEPS if options.steps is None else (options.steps,)
    runs = [(name, length) for name in names for length in lengths]
    each = [default_seeds(*run) if options.seeds is None else options.seeds for run in runs]
    return {"runs": len(runs), "trials": len(BATTERY) * sum(each)}


def _checked(options: StudyOptions) -> tuple[str, ...]:
    """The names of the agents, if all options can be used."""
    names = measurements.chosen(options.agents or "scripted")
    options.count(measurements.SEEDS, least=2)
    if options.steps not in (None, *STEPS):
        raise InvalidParameterError(
            f"steps is {options.steps}, expected {' or '.join(map(str, STEPS))}, the lengths of "
            f"Table 1"
        )
    if set(names) & set(NEURAL):
        require("stable_baselines3", extra="sb3", feature="Measuring the neural agents")
    return names


def ledger_values(row: Number, results: Mapping[str, Any]) -> dict[str, str] | None:
    """Return what these results say of a row of the ledger; None for a row that was not run."""
    steps, agent = measurements.setting(row.id)
    for ran in results["rows"]:
        if (ran["steps"], ran["agent"]) == (steps, agent) and ran["run_now"]:
            values = {"ours": f"{ran['ours']:.6f}", "error": f"{ran['stderr']:.6f}"}
            if agent in NEURAL:
                values["tolerance"] = f"{max(2 * round(ran['stderr'], 6), 1e-6):.6f}"
            return values | {"seeds": str(ran["seeds"])}
    return None
