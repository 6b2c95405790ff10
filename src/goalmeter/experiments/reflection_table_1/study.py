"""`goalmeter replicate reflection-table-1`: Table 1 on self-reflection, published and ours.

`python -m goalmeter.experiments.reflection_table_1.study [--partial] OUT [LEDGER.toml]` puts the
runs of a finished study into the ledger.
"""

from __future__ import annotations

import math
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidFileError, InvalidParameterError, require
from goalmeter._files import write_text
from goalmeter.commands.outcome import Outcome, write_outcome
from goalmeter.experiments import ledger
from goalmeter.experiments.ledger import Number
from goalmeter.experiments.ledger.rows import PATH, with_row
from goalmeter.experiments.reflection_table_1 import measurements
from goalmeter.experiments.reflection_table_1.measurements import (
    COMMAND,
    LEDGER_PREFIX,
    NEURAL,
    PUBLISHED_NAMES,
    STEPS,
    Effect,
    Estimate,
    Row,
    as_published,
    effects,
    has_ours,
    run_folder,
    thesis,
    with_t_interval,
)
from goalmeter.pages import reflection as reflection_page
from goalmeter.pages.reflection_tables import UNTOLD, verdict
from goalmeter.reflection import Reflection, Trial
from goalmeter.reflection.environments import BATTERY
from goalmeter.reflection.measure import DEFAULTS, key, plan_of
from goalmeter.reflection.result import failures_in_words, interval_json, reflection_of
from goalmeter.report import Figure, Section, Table, require_report_extra
from goalmeter.report.canvas import VERMILION
from goalmeter.report.charts import DotPanel, Dots, dot_chart
from goalmeter.report.numbers import between, number, percent, plus, true_minus
from goalmeter.report.tables import ColumnOf, column, grouped, table_of, words
from goalmeter.runs import HERE, read_run
from goalmeter.runs.forecast import Forecast
from goalmeter.statistics.verdicts import FEWEST, LEVEL, TOO_FEW, Verdict
from goalmeter.statistics.verdicts import verdict as verdicts_verdict

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
        alt="Dot chart of Table 1, ours and theirs for each agent; the tables have every number.",
        caption=f"Ours and theirs, each with a 95% t interval{_NONE}.",
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
        alt="Dot chart of what the reality check changes, ours and theirs; the table has every "
        "number.",
        caption=f"Right of 0: the reality check raises the measure. 95% intervals{_NONE}.",
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
            title="Table 1, ours beside theirs",
            text=(
                "The published table has a “StdErr” that is the standard deviation over 10 seeds "
                "divided by 10, not by √10, and cut off to four digits. The standard errors here "
                "are from the authors' data, divided by √10, so they are 3.16 times as large. z is "
                "our number less theirs, in standard errors of that difference. The verdict is "
                "read from Welch's 95% interval of the difference, theirs being of 10 seeds, and a "
                f"margin that was stated beforehand: {_margin(rows)} Where ours is of fewer than "
                f"{FEWEST} seeds, the spread over seeds says too little, and nothing is concluded.",
                "ConstantAgent is exactly 0 here, because an environment and its opposite have the "
                "same rooms, and what a blind agent gains in one it loses in the other; the "
                "authors' library drew new rooms, so theirs is 0 up to luck.",
            ),
            tables=tuple(table_1(rows, steps) for steps in STEPS),
            figures=(comparison_chart(rows),),
            points=_points(rows),
        ),
        Section(
            title="The thesis, tested on both",
            text=(
                "The paper conjectures that the reality check raises the self-reflection of an "
                "agent that is intelligent but reflects little. The published numbers and ours "
                "can be asked: raises or lowers is said where the 95% interval leaves out 0; of "
                f"fewer than {FEWEST} seeds there is none.",
            ),
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
        caption=f"{steps} steps",
        meaning="Self-reflection, reward per step, averaged over 25 environments and their "
        f"opposites. Equal: the whole {percent(LEVEL, 0)} interval of the difference lies within "
        "the margin. Above, below: ours, with the interval on one side of 0. Cannot be told: "
        "everything else.",
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
        caption="What the reality check changes",
        meaning="The measure of the reality check less that of the agent, reward per step.",
        notes=(
            "Ours is paired by environment and seed, with a t interval. Theirs is the "
            "difference of two published numbers, with Welch's t interval; * ours too, from the "
            "ledger.",
            f"{UNTOLD.capitalize()}: the interval has 0 inside. {TOO_FEW.capitalize()}: fewer than "
            f"{FEWEST}, so there is no interval.",
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
def replicate(
    out: str | Path,
    *,
    seeds: int | None = None,
    seed: int = 0,
    on: str = HERE,
    progress: Callable[[str], None] | None = None,
    agents: str = "scripted",
    steps: int | None = None,
) -> Outcome:
    """Measure agents of Table 1 and write report.html, results.json and figures/*.svg.

    The runs are kept in `out`/runs, one an agent and length; what is there already is not run
    again, and a run that was interrupted goes on. `seeds` None is 10, but 2 of neural agents for
    1000 steps. `agents` to run now are "scripted", "neural", "all", or names with commas between
    them; the others are shown as the ledger has them. `steps` runs one length of trials only.
    """
    # All options are looked at before anything is played, which may take hours.
    names = _checked(agents, seeds, steps)
    require_report_extra()
    rows = measurements.table(
        names,
        Path(out),
        lengths=STEPS if steps is None else (steps,),
        seeds=seeds,
        seed=seed,
        on=on,
        progress=progress,
    )
    ran = [row.result for row in rows if row.result is not None]
    shown = [result for result in ran if result.steps == min(r.steps for r in ran)]
    sections = [*page_sections(rows), *reflection_page.sections(shown)]
    chosen = {"seeds": seeds, "steps": steps}
    options = "".join(f" --{name} {value}" for name, value in chosen.items() if value is not None)
    return write_outcome(
        out,
        "Self-reflection of agents: Table 1, reproduced",
        sections,
        _json(rows),
        command=f"{COMMAND} --agents {agents}{options} --seed {seed}",
        lede="Table 1 of Extending Environments To Measure Self-Reflection In Reinforcement "
        "Learning, recomputed: agents and their reality checks in 25 environments that simulate "
        f"them and their opposites. What follows the table is of {shown[0].steps} steps.",
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


def forecasts(
    out: Path,
    *,
    seeds: int | None = None,
    seed: int = 0,
    on: str = HERE,
    agents: str = "scripted",
    steps: int | None = None,
) -> list[Forecast]:
    """What `replicate` with these arguments will cost, a forecast a run."""
    return measurements.forecasts(
        _checked(agents, seeds, steps),
        out,
        lengths=STEPS if steps is None else (steps,),
        seeds=seeds,
        seed=seed,
        on=on,
    )


def _checked(agents: str, seeds: int | None, steps: int | None) -> tuple[str, ...]:
    """The names of the agents, if all options can be used."""
    names = measurements.chosen(agents)
    if seeds is not None and seeds < 2:
        raise InvalidParameterError(f"seeds is {seeds}, expected at least 2, for a standard error")
    if steps is not None and steps not in STEPS:
        raise InvalidParameterError(
            f"steps is {steps}, expected {' or '.join(map(str, STEPS))}, the lengths of Table 1"
        )
    if set(names) & set(NEURAL):
        require("stable_baselines3", extra="sb3", feature="Measuring the neural agents")
    return names


# --- Update ledger --------------------------------------------------------------------------------
# python -m goalmeter.experiments.reflection_table_1.study [--partial] OUT [LEDGER.toml]
#
# Reads the runs that `goalmeter replicate reflection-table-1 --out OUT` left, and writes `ours`,
# `error`, `seeds` and `found` of their rows, and of neural agents the `tolerance`; every other row,
# and the remarks, stay as they are. With --partial a run that is not finished counts with the seeds
# that are, unless the ledger has more. Then make the page anew:
# python -m goalmeter.experiments.ledger.page > docs/ledger.md

_LEAST_TOLERANCE = 1e-6  # as many digits as there are
_LEAST_SEEDS = 2  # for a standard error


def updated(text: str, rows: list[ledger.Number]) -> str:
    """The text of a ledger with other numbers in some of its rows."""
    for row in rows:
        text = with_row(
            text,
            row.id,
            ours=f"{row.ours:.6f}",
            error=f"{row.error:.6f}",
            seeds=str(row.seeds),
            tolerance=f"{row.tolerance:.6f}",
            found=row.found,
        )
    return text


def measured(out: Path, *, partial: bool = False) -> list[ledger.Number]:
    """The rows of the ledger that there are runs for, with ours from them.

    Says on stderr which runs cannot be used.
    """
    rows = []
    for row in ledger.load(LEDGER_PREFIX):
        steps, agent = measurements.setting(row.id)
        if not run_folder(out, agent, steps).is_dir():
            continue
        try:
            result = _usable(out, row, agent, steps, partial=partial)
        except InvalidFileError as error:
            print(f"left out: {error}", file=sys.stderr)
            continue
        rows.append(_filled(row, agent, result))
    return rows


def finished(out: Path, agent: str, steps: int, *, partial: bool = False) -> Reflection:
    """The measurement that a run of Table 1 holds.

    With `partial`, an unfinished run counts with the seeds that have all of their trials.
    """
    folder = run_folder(out, agent, steps)
    run = read_run(folder)
    plan = plan_of(agent, steps, 1, BATTERY, *DEFAULTS).as_json()
    # How many seeds a run has may differ; anything else would make it another row.
    differ = [k for k in {**plan, **run.what} if k != "seeds" and run.what.get(k) != plan.get(k)]
    seeds = run.what.get("seeds")
    if differ or not isinstance(seeds, list):
        raise InvalidFileError(
            f"{folder} is not the run of {agent}, {steps} steps, that Table 1 asks for: "
            f"{', '.join(differ) or 'seeds'} differs"
        )
    names = plan["environments"]
    complete = [s for s in seeds if all(key(name, s) in run.values for name in names)]
    if len(complete) < (_LEAST_SEEDS if partial else len(seeds)):
        wanted = f"at least {_LEAST_SEEDS}" if partial else "all; --partial takes those that are"
        raise InvalidFileError(
            f"{folder}: {len(complete)} of {len(seeds)} seeds are finished, expected {wanted}"
        )
    trials = [Trial.from_json(run.values[key(name, s)]) for s in complete for name in names]
    result = reflection_of(agent, steps, trials, runs=len(names), confidence=0.95)
    if result.failures:
        raise InvalidFileError(f"{folder}: {failures_in_words(result)}")
    return result


def _usable(out: Path, row: ledger.Number, agent: str, steps: int, *, partial: bool) -> Reflection:
    """The run of a row; with `partial` its finished seeds, if the ledger has no more."""
    try:
        result = finished(out, agent, steps)
    except InvalidFileError:
        if not partial:
            raise
        # A run that is under way must not take the place of one that was finished.
        result = finished(out, agent, steps, partial=True)
        if len(result.by_seed) < row.seeds:
            raise InvalidFileError(
                f"{row.id} has {row.seeds} seeds already, and the run {len(result.by_seed)} "
                f"finished"
            ) from None
    if len(result.by_seed) < 2:
        raise InvalidFileError(f"{row.id}: the run has one seed, expected at least two")
    return result


def _filled(row: ledger.Number, agent: str, result: Reflection) -> ledger.Number:
    filled = measurements.with_ours(row, result)
    if agent in NEURAL:
        tolerance = max(2 * round(filled.error, 6), _LEAST_TOLERANCE)
        filled = replace(filled, tolerance=tolerance)
    return replace(filled, found=" ".join(_explained(filled, agent, result)))


def _explained(row: ledger.Number, agent: str, result: Reflection) -> list[str]:
    """What the runs say of the difference, sentence by sentence."""
    lines = []
    if row.verdict == TOO_FEW:
        lines.append(f"{row.seeds} seeds are too few for a verdict.")
    # Also of a difference that is too small to matter, but certain.
    side = verdicts_verdict(row.difference_interval(row.theirs), margin=0)
    if side in (Verdict.ABOVE, Verdict.BELOW):
        lines.append(
            f"Ours is {abs(row.ours - row.theirs):.3f} {side}, {abs(row.z):.1f} standard "
            f"errors; up to {row.limit:.1f} would be luck. What could explain it are the "
            f"differences named here; 1 row in 20 is told to differ by luck alone."
        )
    forwarded = float(measurements.forwarded(result).mean())
    if agent in NEURAL and agent.startswith("rc("):
        lines.append(f"With these two ours would be {row.ours + forwarded:+.4f}.")
    elif agent in NEURAL:
        lines.append(f"IncentivizeLearningRate and its opposite make {forwarded:+.4f} of ours.")
    return lines


def main(arguments: list[str]) -> None:
    """Update the ledger; says what it wrote."""
    parser = ArgumentParser(
        prog="update_ledger", description=__doc__, formatter_class=RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("ledger", type=Path, nargs="?", default=PATH, metavar="LEDGER.toml")
    parser.add_argument("--partial", action="store_true")
    options = parser.parse_args(arguments)
    rows = measured(options.out, partial=options.partial)
    write_text(options.ledger, updated(options.ledger.read_text(encoding="utf-8"), rows))
    for row in rows:
        print(f"{row.id}: {row.ours:+.6f} ± {row.error:.6f}, {row.seeds} seeds, {row.verdict}")


if __name__ == "__main__":
    main(sys.argv[1:])
