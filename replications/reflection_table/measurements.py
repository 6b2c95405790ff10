"""Measure the agents of Table 1, and estimate what the reality check changes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from goalmeter import InvalidParameterError
from goalmeter.reflection import Reflection, compare, measure
from goalmeter.report import plus
from goalmeter.runs import HERE
from goalmeter.statistics import TOO_FEW, reach
from replications import ledger
from replications.kinds import FloatArray, ProgressCallback

LEDGER_PREFIX = "reflection-table-1/"
RAISES, LOWERS, UNTOLD, SAME = "raises", "lowers", "no clear difference", "changes nothing"
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
    for number in ledger.load(LEDGER_PREFIX):
        steps, agent = setting(number.id)
        result = None
        if agent in agents and steps in lengths:
            n = default_seeds(agent, steps) if seeds is None else seeds
            if progress is not None:
                progress(f"{agent}, {steps} steps, {n} seeds")
            folder = out / "runs" / f"{agent.replace('(', '-').rstrip(')')}-{steps}"
            place: dict[str, Any] = {"on": on, "out": folder, "progress": progress}
            result = measure(agent, steps, range(seed, seed + n), **place)
        rows.append(Row(agent, steps, number, result))
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


def verdict(interval: tuple[float, float]) -> str:
    """Return what the interval of a difference says of the reality check."""
    low, high = interval
    if math.isnan(low):
        return TOO_FEW
    if low == high == 0:
        return SAME
    return RAISES if low > 0 else LOWERS if high < 0 else UNTOLD


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
