"""`goalmeter replicate reflection-table-1`: Table 1 on self-reflection, published and ours."""

from __future__ import annotations

if __name__ == "__main__":
    from goalmeter.__main__ import main

    main("replicate", "reflection-table-1")

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from goalmeter.pages import reflection as reflection_page
from goalmeter.reflection import Reflection, compare, measure
from goalmeter.reflection.environments import BATTERY
from goalmeter.report import Figure, Section, Table, require_report_extra
from goalmeter.statistics import reach
from replications import ledger
from replications.common import FEWEST, TOO_FEW, FloatArray, Outcome, StudyOptions, Texts, optional

say = Texts("reflection_table")
reality_checks = reflection_page.reality_checks
LEDGER_PREFIX = "reflection-table-1/"
STEPS = (500, 1000)
SEEDS = 10  # as in the paper
SEEDS_NEURAL_1000 = 2  # these take long; the paper has 10 of them too
LEVEL = 0.95  # of all intervals
# The environment that tells the agent's learning rate, and the only one that asks for a setting.
ASKS_SETTING = "IncentivizeLearningRate"
# Name here -> name in the paper, each agent followed by its reality check.
PUBLISHED_NAMES = {
    name: shown
    for agent, paper in say.declared("agents").items()
    for name, shown in ((agent, paper), (f"rc({agent})", f"RC({paper})"))
}
SCRIPTED, NEURAL = tuple(PUBLISHED_NAMES)[:6], tuple(PUBLISHED_NAMES)[6:]
GROUPS = {"scripted": SCRIPTED, "neural": NEURAL, "all": (*SCRIPTED, *NEURAL)}


@dataclass(frozen=True, eq=False)
class Row:
    """One number of Table 1 with ours; `result` is None where ours is the ledger's."""

    agent: str
    steps: int
    number: ledger.Number
    result: Reflection | None = None


def table(out: Path, options: StudyOptions) -> list[Row]:
    """Return every row of Table 1; those asked for are run or resumed, others as in the ledger."""
    asked, rows = _asked(options), []
    for published in ledger.load(LEDGER_PREFIX):
        steps, agent = _setting(published.id)
        seeds = asked.get((agent, steps))
        if seeds is None:
            rows.append(Row(agent, steps, published))
            continue
        tell = options.progress or (lambda line: None)
        tell(f"{agent}, {steps} steps, {seeds} seeds")
        folder = out / "runs" / f"{agent.replace('(', '-').rstrip(')')}-{steps}"
        chosen = range(options.seed, options.seed + seeds)
        result = measure(agent, steps, chosen, on=options.on, out=folder, progress=options.progress)
        rows.append(Row(agent, steps, with_ours(published, result), result))
    return rows


def _asked(options: StudyOptions) -> dict[tuple[str, int], int]:
    """Return the seeds of each agent and length to run, if all options can be used."""
    agents = options.agents or "scripted"
    names = GROUPS.get(agents) or tuple(name.strip() for name in agents.split(","))
    if not set(names) <= set(PUBLISHED_NAMES):
        known = {"groups": ", ".join(GROUPS), "names": ", ".join(PUBLISHED_NAMES)}
        raise say.refusal("agents", agents=agents, **known)
    options.count(SEEDS, least=2)
    if options.steps not in (None, *STEPS):
        raise say.refusal("steps", steps=options.steps, lengths=" or ".join(map(str, STEPS)))
    if set(names) & set(NEURAL):
        optional("stable_baselines3", "sb3", "Measuring the neural agents")
    return {
        (name, steps): options.seeds
        or (SEEDS_NEURAL_1000 if name in NEURAL and steps == 1000 else SEEDS)
        for name in names
        for steps in (STEPS if options.steps is None else (options.steps,))
    }


def _setting(row_id: str) -> tuple[int, str]:
    steps, _, agent = row_id.removeprefix(LEDGER_PREFIX).partition("/")
    return int(steps), agent


def with_ours(number: ledger.Number, result: Reflection) -> ledger.Number:
    """Return a row of the ledger with what was measured."""
    values = as_published(result)
    n = len(values)
    error = float(values.std(ddof=1) / math.sqrt(n)) if n > 1 else math.nan
    return replace(number, ours=float(values.mean()), error=error, seeds=n)


def as_published(result: Reflection) -> FloatArray:
    """Return the measure of each seed, [seeds], as the authors' library would give it."""
    # Their reality check hands no setting on to the agent inside, so that one environment pays it
    # -1 and the opposite +1, whatever it does, and both together nothing. What they paid is left
    # out for a reality check; nothing else depends on it.
    is_check = result.agent.strip().startswith("rc(")
    return result.by_seed - forwarded(result) if is_check else result.by_seed


def forwarded(result: Reflection) -> FloatArray:
    """Return what the environment that asks for a setting adds to each seed's measure, [seeds]."""
    totals = dict.fromkeys(result.seeds, 0.0)
    for trial in result.trials:
        if trial.environment == ASKS_SETTING:
            totals[trial.seed] += trial.total_reward
    return np.array(list(totals.values())) / (len(result.trials) // len(totals) * result.steps)


def recompute(ids: Sequence[str]) -> dict[str, float]:
    """Return values of ledger rows reflection-table-1/STEPS/AGENT, reward per step."""
    seeds = {row.id: row.seeds for row in ledger.load(LEDGER_PREFIX)}
    return {
        row: float(as_published(measure(agent, steps, seeds[row])).mean())
        for row in ids
        for steps, agent in [_setting(row)]
    }


class ErrorEstimate(NamedTuple):
    """A number with its standard error and an interval, whose ends are NaN for too few seeds."""

    value: float
    error: float
    interval: tuple[float, float]

    @property
    def verdict(self) -> str:
        """What the reality check does, by the interval of the difference."""
        return reality_checks.verdict(self.interval)

    def to_json(self) -> dict[str, Any]:
        """Return the estimate of a difference as JSON values."""
        ends = None if math.isnan(self.interval[0]) else list(self.interval)
        record = {"difference": self.value, "stderr": self.error, "interval": ends}
        return record | {"verdict": self.verdict}


@dataclass(frozen=True)
class Effect:
    """What the reality check changes: ours, and theirs from the published numbers."""

    agent: str
    steps: int
    ours: ErrorEstimate
    theirs: ErrorEstimate
    paired: bool  # whether ours is of pairs of runs; else of two numbers of the ledger, as theirs


def effects(rows: Sequence[Row]) -> list[Effect]:
    """Return what the reality check changes, for agents and lengths that both have numbers for."""
    by_key = {(row.agent, row.steps): row for row in rows if row.number.ran}
    out = []
    for steps, agent in product(STEPS, PUBLISHED_NAMES):
        inner, checked = by_key.get((agent, steps)), by_key.get((f"rc({agent})", steps))
        if inner is not None and checked is not None:
            ours, theirs = _with_t_intervals(inner.number, checked.number)
            if paired := inner.result is not None and checked.result is not None:
                ours = _paired_estimate(inner.result, checked.result)
            out.append(Effect(agent, steps, ours, theirs, paired))
    return out


def _with_t_intervals(*numbers: ledger.Number) -> tuple[ErrorEstimate, ErrorEstimate]:
    """Ours and theirs of a number, or of the second of two less the first, by standard errors."""
    both = []
    for terms in (
        [(n.ours, n.error, n.seeds) for n in numbers],
        [(n.theirs, n.published_error, n.published_seeds) for n in numbers],
    ):
        values, errors, seeds = zip(*terms, strict=True)
        value, error = values[-1] - sum(values[:-1]), math.hypot(*errors)
        # Welch's degrees of freedom; NaN for too few seeds, and then both ends are NaN.
        half = reach(errors, seeds) * error
        both.append(ErrorEstimate(value, error, (value - half, value + half)))
    ours, theirs = both
    return ours, theirs


def _paired_estimate(inner: Reflection, checked: Reflection) -> ErrorEstimate:
    """Ours from runs of this call, paired by environment and seed."""
    rewards = [[t.total_reward for t in r.trials] for r in (inner, checked)]
    if rewards[0] == rewards[1]:
        # Every run was the same one twice, which is no matter of chance.
        return ErrorEstimate(0.0, 0.0, (0.0, 0.0))
    # In the paper's reading of the reality check, which keeps the learning rate to itself.
    comparison = compare(inner, replace(checked, by_seed=as_published(checked)))
    return ErrorEstimate(comparison.difference, comparison.stderr, comparison.interval)


def _thesis(measured: Sequence[Effect]) -> str:
    """For which agents the reality check raises or lowers the measure, ours beside theirs."""
    parts, order = [], list(PUBLISHED_NAMES)
    for conclusion, text in say.declared("conclusions").items():
        members = [effect for effect in measured if effect.ours.verdict == conclusion]
        members.sort(key=lambda effect: order.index(effect.agent))
        names = []
        for agent, group in groupby(members, key=lambda effect: effect.agent):
            numbers = ", ".join(say.line("effect", effect=effect) for effect in group)
            names.append(f"{PUBLISHED_NAMES[agent]} ({numbers})")
        if names or conclusion == reality_checks.LOWERS:
            parts.append(f"{text} {', '.join(names) or 'none'}")
    # What was tried with too few seeds goes neither way.
    told = [effect for effect in measured if effect.ours.verdict != TOO_FEW]
    if not told:
        return f"The reality check {'; '.join(parts)}."
    way = Counter({reality_checks.RAISES: 1, reality_checks.LOWERS: -1})
    ways = Counter(way[effect.ours.verdict] * way[effect.theirs.verdict] for effect in told)
    counts = {"told": len(told), "same": ways[1], "other": ways[-1], "untold": ways[0]}
    return say.line("thesis", parts="; ".join(parts), **counts)


def _table_1(rows: Sequence[Row], steps: int) -> Table:
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
    data = {row.agent: row.number.corrected for row in of_length}
    if any(value is not None for value in data.values()):
        notes.append(say.line("misprint", ppo=data["ppo"], check=data["rc(ppo)"]))
    if commands := sorted({row.number.command for row in of_length if row.result is None}):
        notes.append(say.line("from_ledger", commands=" or ".join(commands)))
    return say.table("table_1", lines, notes=notes, steps=steps)


Pairs = Mapping[tuple[str, int], tuple[ErrorEstimate, ErrorEstimate]]


def _chart(name: str, texts: str, estimates: Pairs, agents: Iterable[str]) -> Figure:
    shown = list(dict.fromkeys(agents))
    rows = [{str(steps): estimates.get((agent, steps)) for steps in STEPS} for agent in shown]
    return say.dots(texts, name, [PUBLISHED_NAMES[agent] for agent in shown], rows, few=FEWEST)


def _sections(rows: Sequence[Row]) -> list[Section]:
    measured, margin = effects(rows), rows[0].number.margin
    compared = {(row.agent, row.steps): _with_t_intervals(row.number) for row in rows}
    ran = [n for n in PUBLISHED_NAMES if any(row.number.ran for row in rows if row.agent == n)]
    changed = {(e.agent, e.steps): (e.ours, e.theirs) for e in measured}
    agents = [effect.agent for effect in measured]
    lines = [(PUBLISHED_NAMES[e.agent] + " *" * (not e.paired), e) for e in measured]
    few: dict[str, Any] = {"too_few": TOO_FEW.capitalize(), "fewest": FEWEST}
    return [
        say.section(
            "table_1_ours_beside_theirs",
            [_table_1(rows, steps) for steps in STEPS],
            _chart("table-1", "comparison_chart", compared, ran),
            list(_points(rows)),
            # It was stated before any number was looked at, so the page gives its reason too.
            margin="none." if margin is None else f"±{margin.within:g}. {margin.reason}",
            fewest=FEWEST,
        ),
        say.section(
            "the_thesis_tested_on_both",
            say.table("effects_table", lines, untold=reality_checks.UNTOLD.capitalize(), **few),
            _chart("thesis", "effects_chart", changed, agents) if measured else None,
            fewest=FEWEST,
        ),
    ]


def _findings(rows: Sequence[Row]) -> list[str]:
    """How many numbers of ours are shown to equal the published ones, and what of the rest."""
    lines = []
    for kind in ("scripted", "neural"):
        numbers = [row.number for row in rows if row.number.ran and row.agent in GROUPS[kind]]
        enough = [row for row in numbers if not math.isnan(row.z)]
        few = len(numbers) - len(enough)
        if enough:
            margin, count = enough[0].margin, Counter(row.counted for row in enough)
            values = {
                "kind": kind,
                "within": f" within {margin.within:g}" if margin else "",
                "z": max(abs(row.z) for row in enough),
                "few": f" {few} more are of too few seeds to be judged." if few else "",
            }
            lines.append(say.line("agreement", judged=len(enough), count=count, **values))
        elif few:
            lines.append(f"{few} numbers of {kind} agents are of too few seeds to be judged.")
    measured = effects(rows)
    return [*lines, _thesis(measured)] if measured else lines


def _points(rows: Sequence[Row]) -> Iterable[str]:
    scripted = [row.number.z for row in rows if row.agent in SCRIPTED]
    if zs := [z for z in scripted if not math.isnan(z)]:
        some, squares = 1 - LEVEL ** len(zs), sum(z**2 for z in zs)
        yield say.line("comparisons", n=len(zs), level=LEVEL, some=some, squares=squares)
    yield say.line("random_agent")
    yield say.line("ppo")
    for row in rows:
        if row.result is not None and row.agent in NEURAL:
            shift = float((row.result.by_seed - as_published(row.result)).mean())
            # Half a unit of the fourth digit: less would be shown as 0.
            if abs(shift) > 5e-5:
                yield say.line("rate", row=row, shift=shift)


OPTIONS = ("agents", "steps")


def replicate(out: Path, options: StudyOptions) -> Outcome:
    """Measure agents of Table 1; their runs are stored in `out`/runs and resumed.

    `agents` to run now are "scripted" (the default), "neural", "all", or names; the others are
    shown as the ledger has them. `steps` runs one length of trials only.
    """
    _asked(options)  # before anything is played, which may take hours
    require_report_extra()
    rows = table(out, options)
    ran = [row.result for row in rows if row.result is not None]
    shown = [result for result in ran if result.steps == min(r.steps for r in ran)]
    sections = _sections(rows)
    result = {
        "replication": "reflection-table-1",
        "rows": [_json(row) for row in rows],
        "reality_check": [say.record("effect_record", effect=each) for each in effects(rows)],
    }
    findings = [*reflection_page.ended_early(ran), *_findings(rows)]
    tables = [table for section in sections for table in section.tables]
    sections += reflection_page.sections(shown)
    own = (reflection_page.GLOSSARY, tables)
    return say.report(out, options, sections, result, findings, *own, steps=shown[0].steps)


def _json(row: Row) -> dict[str, Any]:
    number, result = row.number, row.result
    record = say.record("row_record", row=row, number=number)
    record["verdict_on_print"] = record["verdict_on_print"] or number.verdict
    if not number.ran:
        record |= {"ours": None, "stderr": None}
    failures = None if result is None else len(result.failures)
    return record | {"run_now": result is not None, "ended_early": failures}


def planned(options: StudyOptions) -> dict[str, int]:
    """Return how much `replicate` with these options will do."""
    seeds = _asked(options).values()
    return {"runs": len(seeds), "trials": len(BATTERY) * sum(seeds)}


def ledger_values(row: ledger.Number, results: Mapping[str, Any]) -> dict[str, str] | None:
    """Return what these results say of a row of the ledger; None for a row that was not run."""
    steps, agent = _setting(row.id)
    for ran in results["rows"]:
        if (ran["steps"], ran["agent"]) == (steps, agent) and ran["run_now"]:
            values = {"ours": f"{ran['ours']:.6f}", "error": f"{ran['stderr']:.6f}"}
            if agent in NEURAL:
                values["tolerance"] = f"{max(2 * round(ran['stderr'], 6), 1e-6):.6f}"
            return values | {"seeds": str(ran["seeds"])}
    return None
