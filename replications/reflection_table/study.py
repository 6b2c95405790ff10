"""`goalmeter replicate reflection-table-1`: Table 1 on self-reflection, published and ours."""

from __future__ import annotations

if __name__ == "__main__":
    from goalmeter.__main__ import main

    main("replicate", "reflection-table-1")

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from goalmeter import InvalidParameterError
from goalmeter.commands.outcome import Outcome
from goalmeter.commands.replicate import StudyOptions
from goalmeter.pages import reflection as reflection_page
from goalmeter.pages import reflection_tables
from goalmeter.reflection import Reflection, compare, measure
from goalmeter.reflection.environments import BATTERY
from goalmeter.report import (
    DotPanel,
    Dots,
    Figure,
    Section,
    Table,
    dot_chart,
    number,
    percent,
    plus,
    require_report_extra,
)
from goalmeter.runs import HERE
from goalmeter.statistics import Verdict, reach
from replications import ledger
from replications.kinds import FEWEST, TOO_FEW, VERMILION, FloatArray, ProgressCallback, optional
from replications.ledger import Number
from replications.prose import Texts

say = Texts("reflection_table")

LEDGER_PREFIX = "reflection-table-1/"
RAISES, LOWERS = reflection_tables.RAISES, reflection_tables.LOWERS
UNTOLD, SAME = reflection_tables.UNTOLD, reflection_tables.SAME
verdict = reflection_tables.verdict  # of the interval of a difference
STEPS = (500, 1000)
# The environment that tells the agent's learning rate, and the only one that asks for a setting.
ASKS_SETTING = "IncentivizeLearningRate"
_AGENTS = {
    "RandomAgent": "random",
    "ConstantAgent": "constant",
    "NaiveLearner": "naive",
    "A2C": "a2c",
    "DQN": "dqn",
    "PPO": "ppo",
    "PPO as published": "ppo-as-published",
}
# Name here -> name in the paper, each agent followed by its reality check.
PUBLISHED_NAMES = {
    name: shown
    for paper, agent in _AGENTS.items()
    for name, shown in ((agent, paper), (f"rc({agent})", f"RC({paper})"))
}
SCRIPTED, NEURAL = tuple(PUBLISHED_NAMES)[:6], tuple(PUBLISHED_NAMES)[6:]
GROUPS = {"scripted": SCRIPTED, "neural": NEURAL, "all": (*SCRIPTED, *NEURAL)}
SEEDS = 10  # as in the paper
SEEDS_NEURAL_1000 = 2  # these take long; the paper has 10 of them too


# --- Compute --------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Row:
    """One number of Table 1 and ours; `result` is None where ours is the ledger's."""

    agent: str
    steps: int
    published: ledger.Number
    result: Reflection | None

    @property
    def number(self) -> ledger.Number:
        """The row of the ledger with ours from this run, if there was one."""
        return self.published if self.result is None else with_ours(self.published, self.result)

    @property
    def neural(self) -> bool:
        """Whether it is of a neural agent."""
        return "neural" in self.published.quantity


def chosen(agents: str) -> tuple[str, ...]:
    """Return names of agents: of a group, or listed with commas between them."""
    names = GROUPS.get(agents) or tuple(name.strip() for name in agents.split(","))
    if not set(names) <= set(PUBLISHED_NAMES):
        raise InvalidParameterError(
            f"agents is {agents!r}, expected {', '.join(GROUPS)}, or some of "
            f"{', '.join(PUBLISHED_NAMES)} with commas between them"
        )
    return names


def default_seeds(agent: str, steps: int) -> int:
    """Return how many seeds a row has unless `seeds` says otherwise."""
    return SEEDS_NEURAL_1000 if agent in NEURAL and steps == 1000 else SEEDS


def table(
    agents: Sequence[str],
    out: Path,
    *,
    lengths: Sequence[int] = STEPS,
    seeds: int | None = None,
    seed: int = 0,
    on: str = HERE,
    progress: ProgressCallback | None = None,
) -> list[Row]:
    """Return every row of Table 1; those of the agents named are run, the rest is as in the ledger.

    Runs that the folder `out` holds are continued. `lengths` are the steps of the trials to run;
    `seeds` None is `default_seeds`.
    """
    rows = []
    for published in ledger.load(LEDGER_PREFIX):
        steps, agent = setting(published.id)
        result = None
        if agent in agents and steps in lengths:
            n = default_seeds(agent, steps) if seeds is None else seeds
            if progress is not None:
                progress(f"{agent}, {steps} steps, {n} seeds")
            folder = out / "runs" / f"{agent.replace('(', '-').rstrip(')')}-{steps}"
            place: dict[str, Any] = {"on": on, "out": folder, "progress": progress}
            result = measure(agent, steps, range(seed, seed + n), **place)
        rows.append(Row(agent, steps, published, result))
    return rows


def setting(row_id: str) -> tuple[int, str]:
    """Return steps and agent of a ledger row reflection-table-1/STEPS/AGENT."""
    steps, _, agent = row_id.removeprefix(LEDGER_PREFIX).partition("/")
    if steps not in map(str, STEPS) or agent not in PUBLISHED_NAMES:
        raise InvalidParameterError(
            f"ledger row {row_id!r}: expected {LEDGER_PREFIX}STEPS/AGENT with STEPS "
            f"{' or '.join(map(str, STEPS))} and AGENT one of {', '.join(PUBLISHED_NAMES)}"
        )
    return int(steps), agent


def with_ours(number: ledger.Number, result: Reflection) -> ledger.Number:
    """Return a row of the ledger with what was measured."""
    values = as_published(result)
    n = len(values)
    error = float(values.std(ddof=1) / math.sqrt(n)) if n > 1 else math.nan
    return replace(number, ours=float(values.mean()), error=error, seeds=n)


def as_published(result: Reflection) -> FloatArray:
    """Return the measure of each seed, [seeds], as the authors' library would give it.

    Their reality check hands no setting on to the agent inside, so that one environment pays it -1
    and the opposite +1, whatever it does, and both together nothing. What they paid is left out for
    a reality check; nothing else depends on it.
    """
    is_check = result.agent.strip().startswith("rc(")
    return result.by_seed - forwarded(result) if is_check else result.by_seed


def forwarded(result: Reflection) -> FloatArray:
    """Return what the environment that asks for a setting adds to each seed's measure, [seeds]."""
    seeds = list(dict.fromkeys(trial.seed for trial in result.trials))
    totals = np.zeros(len(seeds))
    for trial in result.trials:
        if trial.environment == ASKS_SETTING:
            totals[seeds.index(trial.seed)] += trial.total_reward
    return totals / (len(result.trials) // len(seeds) * result.steps)


def recompute(ids: Sequence[str]) -> dict[str, float]:
    """Return values of ledger rows reflection-table-1/STEPS/AGENT, reward per step."""
    out = {}
    for row in ids:
        steps, agent = setting(row)
        out[row] = float(as_published(measure(agent, steps, SEEDS)).mean())
    return out


# --- Effects --------------------------------------------------------------------------------------
@dataclass(frozen=True)
class ErrorEstimate:
    """A number with its standard error and an interval, whose ends are NaN for too few seeds."""

    value: float
    error: float
    interval: tuple[float, float]


@dataclass(frozen=True)
class Effect:
    """What the reality check changes: ours, and theirs from the published numbers.

    `paired` says whether ours is of pairs of runs; where they were not run now it is the
    difference of two numbers of the ledger, as theirs is.
    """

    agent: str
    steps: int
    ours: ErrorEstimate
    theirs: ErrorEstimate
    paired: bool


def effects(rows: Sequence[Row]) -> list[Effect]:
    """Return what the reality check changes, for agents and lengths that both have numbers for."""
    by_key = {(row.agent, row.steps): row for row in rows if row.number.ran}
    out = []
    for steps in STEPS:
        for agent in PUBLISHED_NAMES:
            inner, checked = by_key.get((agent, steps)), by_key.get((f"rc({agent})", steps))
            if inner is None or checked is None:
                continue
            a, b = inner.number, checked.number
            theirs = with_t_interval(
                b.theirs - a.theirs,
                (a.published_error, b.published_error),
                (a.published_seeds, b.published_seeds),
            )
            paired = _paired_estimate(inner, checked)
            ours = paired or with_t_interval(
                b.ours - a.ours, (a.error, b.error), (a.seeds, b.seeds)
            )
            out.append(Effect(agent, steps, ours, theirs, paired is not None))
    return out


def thesis(measured: Sequence[Effect]) -> str:
    """For which agents the reality check raises or lowers the measure, ours beside theirs."""
    parts = []
    for conclusion, text in (
        (RAISES, "raises the measure of"),
        (LOWERS, "lowers that of"),
        (UNTOLD, "has no effect that could be told on"),
        (SAME, "changes nothing about"),
        (TOO_FEW, "has been tried with too few seeds on"),
    ):
        members = [effect for effect in measured if verdict(effect.ours.interval) == conclusion]
        in_order = sorted(members, key=lambda effect: list(PUBLISHED_NAMES).index(effect.agent))
        names = [
            f"{PUBLISHED_NAMES[agent]} ({', '.join(map(_ours_and_theirs, group))})"
            for agent, group in groupby(in_order, key=lambda effect: effect.agent)
        ]
        if names or conclusion == LOWERS:
            parts.append(f"{text} {', '.join(names) or 'none'}")
    # What was tried with too few seeds goes neither way.
    told = [effect for effect in measured if verdict(effect.ours.interval) != TOO_FEW]
    if not told:
        return f"The reality check {'; '.join(parts)}."
    sides = [(_side_of_zero(effect.ours), _side_of_zero(effect.theirs)) for effect in told]
    both = [ours * theirs for ours, theirs in sides if ours and theirs]
    untold = len(sides) - len(both)
    return (
        f"The reality check {'; '.join(parts)}. By the published numbers, in square brackets, it "
        f"goes the same way in {both.count(1)} of {len(told)} comparisons and the other way in "
        f"{both.count(-1)}; in {untold} an interval has 0 inside, so that it cannot be told."
    )


def with_t_interval(value: float, errors: Sequence[float], seeds: Sequence[int]) -> ErrorEstimate:
    """An estimate with a 95% t interval, from the standard errors of its one or two terms."""
    error = math.hypot(*errors)
    # Welch's degrees of freedom; NaN for too few seeds, and then both ends are NaN.
    half = reach(errors, seeds) * error
    return ErrorEstimate(value, error, (value - half, value + half))


def _ours_and_theirs(effect: Effect) -> str:
    ours, theirs = (plus(e.value, 3) for e in (effect.ours, effect.theirs))
    return f"{ours} [{theirs}] at {effect.steps} steps"


def _side_of_zero(estimate: ErrorEstimate) -> int:
    """On which side of 0 the interval lies; 0 if it has 0 inside."""
    low, high = estimate.interval
    return (low > 0) - (high < 0)


def _paired_estimate(inner: Row, checked: Row) -> ErrorEstimate | None:
    """Ours from runs of this call, paired by environment and seed; None if one is missing."""
    if inner.result is None or checked.result is None:
        return None
    # In the paper's reading of the reality check, which keeps the learning rate to itself.
    published = replace(checked.result, by_seed=as_published(checked.result))
    comparison = compare(inner.result, published)
    rewards = [[t.total_reward for t in r.trials] for r in (inner.result, checked.result)]
    if rewards[0] == rewards[1]:
        # Every run was the same one twice, which is no matter of chance.
        return ErrorEstimate(0.0, 0.0, (0.0, 0.0))
    return ErrorEstimate(comparison.difference, comparison.stderr, comparison.interval)


LEVEL = 0.95  # of all intervals
_NOTHING = ErrorEstimate(math.nan, math.nan, (math.nan, math.nan))


# --- Tables and figures ---------------------------------------------------------------------------
def table_1(rows: Sequence[Row], steps: int) -> Table:
    """Tabulate one column of Table 1."""
    of_length = [row for row in rows if row.steps == steps]
    lines = []
    for row in of_length:
        ours, ran = row.number, row.number.ran
        lines.append(
            {
                "number": ours,
                # The number as printed, marked where the print is a mistake.
                "printed": ours.published.replace("-", "−") + " †" * (ours.corrected is not None),
                "error": ours.error if ran else None,
                "seeds": ours.seeds if ran else None,
                "on_print": ours.verdict_on_print or ours.verdict,
                "from": "this run" if row.result is not None else "ledger" if ran else None,
            }
        )
    notes = []
    data = {
        row.agent: plus(row.published.corrected, 6)
        for row in of_length
        if row.published.corrected is not None
    }
    if data:
        notes.append(say.line("misprint", ppo=data["ppo"], check=data["rc(ppo)"]))
    commands = sorted({row.published.command for row in of_length if row.result is None})
    if commands:
        notes.append(say.line("from_ledger", commands=" or ".join(commands)))
    return say.table("table_1", lines, notes=notes, steps=steps, level=percent(LEVEL, 0))


def effects_table(effects: Sequence[Effect]) -> Table:
    """Tabulate the thesis, for each agent and length."""
    rows = [
        {
            "agent": PUBLISHED_NAMES[effect.agent] + " *" * (not effect.paired),
            "steps": effect.steps,
        }
        | {
            name: (of.value, _between(of.interval), verdict(of.interval))
            for name, of in (("theirs", effect.theirs), ("ours", effect.ours))
        }
        for effect in effects
    ]
    untold, too_few = UNTOLD.capitalize(), TOO_FEW.capitalize()
    return say.table("effects_table", rows, untold=untold, too_few=too_few, fewest=FEWEST)


def _between(ends: tuple[float, float]) -> str | None:
    return None if math.isnan(ends[0]) else " to ".join(number(end, 3) for end in ends)


def comparison_chart(rows: Sequence[Row]) -> Figure:
    """Plot both columns of Table 1, with intervals."""
    estimates = {
        (row.agent, row.steps): (
            with_t_interval(n.ours, [n.error], [n.seeds]),
            with_t_interval(n.theirs, [n.published_error], [n.published_seeds]),
        )
        for row in rows
        for n in [row.number]
    }
    ran = {row.agent for row in rows if row.number.ran}
    shown = [name for name in PUBLISHED_NAMES if name in ran]
    return _chart("table-1", "comparison_chart", shown, STEPS, estimates)


def effects_chart(effects: Sequence[Effect]) -> Figure:
    """Plot the thesis."""
    estimates = {(e.agent, e.steps): (e.ours, e.theirs) for e in effects}
    shown = list(dict.fromkeys(effect.agent for effect in effects))
    steps = sorted({effect.steps for effect in effects})
    return _chart("thesis", "effects_chart", shown, steps, estimates)


def _chart(
    name: str,
    texts: str,
    agents: Sequence[str],
    lengths: Sequence[int],
    estimates: Mapping[tuple[str, int], tuple[ErrorEstimate, ErrorEstimate]],
) -> Figure:
    """Ours and theirs of each agent, one panel per length."""
    label = say.declared("labels")[texts]
    panels = []
    for steps in lengths:
        pairs = [estimates.get((agent, steps), (_NOTHING, _NOTHING)) for agent in agents]
        ours, theirs = zip(*pairs, strict=True)
        look: dict[str, Any] = {"colour": VERMILION, "marker": "s", "hollow": True}
        series = (Dots.of("ours", ours), Dots.of("published (their data)", theirs, **look))
        panels.append(DotPanel(title=f"{steps} steps", x_label=label, series=series))
    return Figure(
        svg=dot_chart(name, [PUBLISHED_NAMES[agent] for agent in agents], panels),
        **say(texts, few=f"; none from fewer than {FEWEST} seeds"),
        wide=True,
    )


# --- Page -----------------------------------------------------------------------------------------
def page_sections(rows: Sequence[Row]) -> list[Section]:
    """Return both halves of the table and the thesis."""
    every_effect = effects(rows)
    margin = rows[0].published.margin
    # The margin was stated before any number was looked at, so the page gives its reason too.
    stated = "none." if margin is None else f"±{margin.within:g}. {margin.reason}"
    return [
        say.section(
            "table_1_ours_beside_theirs",
            [table_1(rows, steps) for steps in STEPS],
            comparison_chart(rows),
            points=_points(rows),
            margin=stated,
            fewest=FEWEST,
        ),
        say.section(
            "the_thesis_tested_on_both",
            effects_table(every_effect),
            effects_chart(every_effect) if every_effect else None,
            fewest=FEWEST,
        ),
    ]


def findings(rows: Sequence[Row]) -> list[str]:
    """Return summary sentences generated from the results."""
    lines = []
    for kind, neural in (("scripted", False), ("neural", True)):
        numbers = [row.number for row in rows if row.number.ran and row.neural == neural]
        if numbers:
            lines.append(_agreement(kind, numbers))
    every_effect = effects(rows)
    return [*lines, thesis(every_effect)] if every_effect else lines


def _agreement(kind: str, numbers: Sequence[Number]) -> str:
    """How many numbers of ours are shown to equal the published ones, and what of the rest."""
    judged = [row for row in numbers if not math.isnan(row.z)]
    if not judged:
        return f"{len(numbers)} numbers of {kind} agents are of too few seeds to be judged."
    count = Counter(row.counted for row in judged)
    margin = judged[0].margin
    few = len(numbers) - len(judged)
    return say.line(
        "agreement",
        judged=len(judged),
        kind=kind,
        equal=count[Verdict.EQUAL],
        within=f" within {margin.within:g}" if margin else "",
        above=count[Verdict.ABOVE],
        below=count[Verdict.BELOW],
        untold=count[Verdict.UNTOLD],
        z=number(max(abs(row.z) for row in judged), 2),
        few=f" {few} more are of too few seeds to be judged." if few else "",
    )


def _points(rows: Sequence[Row]) -> tuple[str, ...]:
    numbers = [row.number for row in rows if not row.neural and not math.isnan(row.number.z)]
    points = []
    if numbers:
        points.append(
            say.line(
                "comparisons",
                n=len(numbers),
                level=percent(LEVEL, 0),
                some=percent(1 - LEVEL ** len(numbers), 0),
                squares=number(sum(row.z**2 for row in numbers), 1),
            )
        )
    points += [say.line("random_agent"), say.line("ppo")]
    for row in rows:
        if row.result is not None and row.neural:
            shift = float((row.result.by_seed - as_published(row.result)).mean())
            # Half a unit of the fourth digit: less would be shown as 0.
            if abs(shift) > 5e-5:
                who, steps = row.published.setting, row.steps
                points.append(say.line("rate", who=who, steps=steps, shift=plus(shift, 4)))
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
    # All options are checked before anything is played, which may take hours.
    names, lengths = _checked(options)
    require_report_extra()
    rows = table(
        names,
        out,
        lengths=lengths,
        seeds=options.seeds,
        seed=options.seed,
        on=options.on,
        progress=options.progress,
    )
    ran = [row.result for row in rows if row.result is not None]
    shown = [result for result in ran if result.steps == min(r.steps for r in ran)]
    sections = page_sections(rows)
    return say.report(
        out,
        options,
        [*sections, *reflection_page.sections(shown)],
        {
            "replication": "reflection-table-1",
            "rows": [_json(row) for row in rows],
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
        },
        [*reflection_page.ended_early(ran), *findings(rows)],
        steps=shown[0].steps,
        glossary=reflection_page.GLOSSARY,
        tables=(table for section in sections for table in section.tables),
    )


def _estimate(estimate: ErrorEstimate) -> dict[str, Any]:
    ends = estimate.interval
    return {
        "difference": estimate.value,
        "stderr": estimate.error,
        "interval": None if math.isnan(ends[0]) else list(ends),
        "verdict": verdict(ends),
    }


def _json(row: Row) -> dict[str, Any]:
    result, number = row.result, row.number
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
    """Return how much `replicate` with these options will do."""
    names, lengths = _checked(options)
    runs = [(name, length) for name in names for length in lengths]
    each = [default_seeds(*run) if options.seeds is None else options.seeds for run in runs]
    return {"runs": len(runs), "trials": len(BATTERY) * sum(each)}


def _checked(options: StudyOptions) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The names of the agents and the lengths of trials, if all options can be used."""
    names = chosen(options.agents or "scripted")
    options.count(SEEDS, least=2)
    if options.steps not in (None, *STEPS):
        raise InvalidParameterError(
            f"steps is {options.steps}, expected {' or '.join(map(str, STEPS))}, the lengths of "
            f"Table 1"
        )
    if set(names) & set(NEURAL):
        optional("stable_baselines3", "sb3", "Measuring the neural agents")
    return names, STEPS if options.steps is None else (options.steps,)


def ledger_values(row: Number, results: Mapping[str, Any]) -> dict[str, str] | None:
    """Return what these results say of a row of the ledger; None for a row that was not run."""
    steps, agent = setting(row.id)
    for ran in results["rows"]:
        if (ran["steps"], ran["agent"]) == (steps, agent) and ran["run_now"]:
            values = {"ours": f"{ran['ours']:.6f}", "error": f"{ran['stderr']:.6f}"}
            if agent in NEURAL:
                values["tolerance"] = f"{max(2 * round(ran['stderr'], 6), 1e-6):.6f}"
            return values | {"seeds": str(ran["seeds"])}
    return None
