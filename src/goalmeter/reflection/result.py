"""Results of self-reflection: averages over environments and seeds, and paired comparisons."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._files import json_value
from goalmeter._types import FloatArray
from goalmeter.agents.abilities import call_of, without_checks
from goalmeter.agents.local_models import is_organism
from goalmeter.reflection.environments.registry import opposite as opposite_name
from goalmeter.reflection.trial import Trial
from goalmeter.report.numbers import between, number, percent, plus
from goalmeter.report.tables import data_frame, html_table
from goalmeter.runs.jobs import OK
from goalmeter.statistics.clusters import estimate
from goalmeter.statistics.verdicts import FEWEST

# measure(T, n) = 1 / (50 n) * sum over 25 environments and their opposites of the total reward
# after n steps. Seeds are repetitions; their spread gives the standard error.
#
# Source: "Extending Environments To Measure Self-Reflection In Reinforcement Learning", section 5.
# The published table divides the standard deviation over seeds by their number instead of its
# square root; `published_stderr` reproduces this for comparison only.

TOO_FEW = f"an interval needs at least {FEWEST} seeds"


@dataclass(frozen=True)
class Reflection:
    """Self-reflection of one agent.

    Trials are ordered by seed. Trials that ended early count with their reward so far, which is 0
    for "timeout" and "crash".
    """

    agent: str  # name of the agent
    steps: int  # number of percepts of each trial
    trials: tuple[Trial, ...]
    by_seed: FloatArray  # measure of each seed, reward per step, [seeds]
    confidence: float  # nominal coverage of `interval`
    # t interval over seeds; NaN for fewer than 5 seeds, which do not show whether the measure is
    # normally distributed.
    interval: tuple[float, float]
    # Readings of the rules that differ from the published ones: option -> value.
    readings: Mapping[str, str] = field(default_factory=dict)

    @property
    def measure(self) -> float:
        """Average reward per step over seeds, from -1 to 1."""
        return float(self.by_seed.mean())

    @property
    def stderr(self) -> float:
        """Standard error of the mean over seeds; NaN for one seed."""
        return _stderr(self.by_seed)

    @property
    def published_stderr(self) -> float:
        """StdErr of the published table: the standard deviation divided by the number of seeds."""
        n = len(self.by_seed)
        return float(self.by_seed.std(ddof=1) / n) if n > 1 else math.nan

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seed of each entry of `by_seed`."""
        return tuple(dict.fromkeys(trial.seed for trial in self.trials))

    @property
    def failures(self) -> tuple[Trial, ...]:
        """Trials that ended early."""
        return tuple(trial for trial in self.trials if trial.outcome != OK)

    @property
    def outcomes(self) -> dict[str, int]:
        """Number of trials by outcome, "ok" first."""
        counts = Counter(trial.outcome for trial in self.trials)
        return {outcome: counts[outcome] for outcome in sorted(counts, key=lambda o: (o != OK, o))}

    def by_environment(self) -> dict[tuple[str, bool], float]:
        """Return (name, opposite) -> average reward per step over seeds."""
        return {key: float(np.mean(totals)) / self.steps for key, totals in self.totals().items()}

    def spread(self) -> dict[tuple[str, bool], float]:
        """Return (name, opposite) -> standard deviation of reward per step; NaN for one seed."""
        return {
            key: float(np.std(totals, ddof=1)) / self.steps if len(totals) > 1 else math.nan
            for key, totals in self.totals().items()
        }

    def totals(self) -> dict[tuple[str, bool], list[float]]:
        """Return (name, opposite) -> total reward of each seed."""
        totals: dict[tuple[str, bool], list[float]] = {}
        for trial in self.trials:
            totals.setdefault((trial.environment, trial.opposite), []).append(trial.total_reward)
        return totals

    @property
    def failed_in_words(self) -> str:
        """Return why the measure is meaningless if no trial was finished; "" otherwise."""
        if not all_early(self):
            return ""
        return (
            f"none of the {len(self.failures)} trials of {self.agent} was finished, so its measure "
            f"is meaningless; the table shows why"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values; None for values that need more seeds."""
        return {
            "agent": self.agent,
            "steps": self.steps,
            "seeds": len(self.by_seed),
            "measure": self.measure,
            "stderr": json_value(self.stderr),
            "published_stderr": json_value(self.published_stderr),
            "interval": _interval_json(self.interval),
            "confidence": self.confidence,
            "by_seed": self.by_seed.tolist(),
            "failures": len(self.failures),
            "outcomes": self.outcomes,
            "readings": dict(self.readings),
            "environments": [trial.to_json() for trial in self.trials],
        }

    def to_pandas(self) -> Any:
        """Return a pandas data frame with one row per environment and one per opposite.

        Columns: `environment`, `opposite`, `mean` and `sd` of reward per step over seeds (`sd` is
        NaN for one seed), `seeds`, and `ended_early`, the number of trials that ended early.
        """
        spread, totals = self.spread(), self.totals()
        ended = Counter((trial.environment, trial.opposite) for trial in self.failures)
        columns = ("environment", "opposite", "mean", "sd", "seeds", "ended_early")
        rows = [
            (*key, mean, spread[key], len(totals[key]), ended[key])
            for key, mean in self.by_environment().items()
        ]
        return data_frame([dict(zip(columns, row, strict=True)) for row in rows])

    def summary(self) -> list[tuple[str, str]]:
        """Return the measure and its uncertainty as pairs of name and text."""
        return [
            ("trials", str(len(self.trials))),
            ("ended early", early_in_words(self) or "0"),
            ("measure", plus(self.measure, 6) + doubt(self)),
            ("standard error", number(self.stderr, 6)),
            (f"{percent(self.confidence, 0)} interval", between(self.interval, 6, sign=True)),
            ("the paper's “StdErr”", number(self.published_stderr, 6)),
        ]

    def _repr_html_(self) -> str:
        notes = [f"Average reward per step over {seeds_in_words(self)} of {self.steps} steps."]
        if math.isnan(self.interval[0]):
            notes.append(f"No interval: {TOO_FEW}.")
        if words := failures_in_words(self):
            notes.append(f"{words}.")
        if self.readings:
            notes.append(f"Not as published: {readings_in_words(self)}.")
        notes += model_notes(self)
        return html_table(f"Self-reflection of {self.agent}", ("", ""), self.summary(), notes)

    def __str__(self) -> str:
        lines = [f"self-reflection of {self.agent}: {_spread(self.measure, self)}{doubt(self)}"]
        if words := failures_in_words(self):
            lines.append(f"  {words}")
        lines.append(f"  {len(self.trials)} trials of {self.steps} steps, {seeds_in_words(self)}")
        if self.readings:
            lines.append(f"  not as published: {readings_in_words(self)}")
        return "\n".join([*lines, *(f"  {note}" for note in model_notes(self))])


def model_notes(result: Reflection) -> list[str]:
    """Return notes on the training and the calls of a language model; none for other agents."""
    notes = untrained_notes(result.agent)
    if calls := sum(trial.calls or 0 for trial in result.trials):
        invalid = sum(trial.invalid_replies or 0 for trial in result.trials)
        notes.append(f"{result.agent}: {calls:,} calls, {invalid:,} replies without a legal action")
    return notes


def untrained_notes(*agents: str) -> list[str]:
    """Return a note for each agent that is an organism."""
    return [
        f"{agent}: trained to navigate grid worlds, not to act on these histories"
        for agent in agents
        if is_organism(call_of(without_checks(agent)[0]).kind)
    ]


def early_in_words(result: Reflection) -> str:
    """Return the number of trials that ended early and their outcomes; "" if none did."""
    early, n = len(result.failures), len(result.trials)
    if not early:
        return ""
    counts = ", ".join(f"{n} {outcome}" for outcome, n in result.outcomes.items() if outcome != OK)
    return f"{early} of {n} trial{'s' * (n > 1)} ended early ({counts})"


def doubt(result: Reflection) -> str:
    """Return a warning for a measure without a finished trial; "" for others."""
    return "; no trial was finished: this number is meaningless" if all_early(result) else ""


def all_early(result: Reflection) -> bool:
    """Return whether all trials ended early, so that the measure is meaningless."""
    return len(result.failures) == len(result.trials)


def failures_in_words(result: Reflection) -> str:
    """Return `early_in_words` with the first such trial; "" if none ended early."""
    if not result.failures:
        return ""
    first = result.failures[0]
    where = f"opposite({first.environment})" if first.opposite else first.environment
    detail = f", {first.detail}" if first.detail else ""
    return (
        f"{early_in_words(result)}; the first in {where}, seed {first.seed}: "
        f"{first.outcome}{detail}"
    )


def readings_in_words(result: Reflection) -> str:
    """Return the readings that differ from the published ones, as options and values."""
    return ", ".join(f"{name} {value}" for name, value in result.readings.items())


def seeds_in_words(result: Reflection) -> str:
    """Return the number of seeds in words."""
    n = len(result.by_seed)
    return f"{n} seed{'s' * (n > 1)}"


def _spread(value: float, of: Reflection | Comparison) -> str:
    """Return a number with its standard error and interval, or why there is no interval."""
    low, high = of.interval
    ends = f"– ({TOO_FEW})" if math.isnan(low) else f"[{plus(low, 6)}, {plus(high, 6)}]"
    interval = f"{percent(of.confidence, 0)} interval {ends}"
    return f"{plus(value, 6)} ± {number(of.stderr, 6)} reward per step, {interval}"


def _interval_json(interval: tuple[float, float]) -> list[float] | None:
    return None if math.isnan(interval[0]) else [float(end) for end in interval]


def reflection_of(
    agent: str,
    steps: int,
    trials: Sequence[Trial],
    *,
    runs: int,
    confidence: float,
    readings: Mapping[str, str] | None = None,
) -> Reflection:
    """Return the measure of finished trials, ordered by seed with `runs` trials each."""
    starts = range(0, len(trials), runs)
    totals = [sum(trial.total_reward for trial in trials[i : i + runs]) for i in starts]
    by_seed = np.array([total / (runs * steps) for total in totals])
    interval, readings = interval_of(by_seed, confidence), dict(readings or {})
    return Reflection(agent, steps, tuple(trials), by_seed, confidence, interval, readings)


def _stderr(by_seed: FloatArray) -> float:
    n = len(by_seed)
    return float(by_seed.std(ddof=1) / np.sqrt(n)) if n > 1 else math.nan


def interval_of(by_seed: FloatArray, confidence: float, most: float = 1.0) -> tuple[float, float]:
    """Return Student's t interval of the mean over seeds; NaN for fewer than 5 seeds."""
    # Without any spread over seeds, the interval is that of a quantity between -most and most from
    # this number of equal observations (see `statistics.clustered`).
    if len(by_seed) < FEWEST:
        return math.nan, math.nan
    ends = estimate(by_seed, bounds=(-most, most), paired=True, confidence=confidence).interval
    assert ends is not None  # there are bounds, and more than one seed
    return ends


@dataclass(frozen=True)
class Comparison:
    """Comparison of two agents on the same environments and seeds."""

    agents: tuple[str, str]  # names of the agents
    difference: float  # measure of the second agent minus that of the first, reward per step
    stderr: float  # standard error of the paired difference over seeds
    interval: tuple[float, float]  # t interval of the difference; NaN for fewer than 5 seeds
    # (name, opposite) -> difference in average reward per step
    by_environment: dict[tuple[str, bool], float]
    confidence: float = 0.95  # nominal coverage of `interval`

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return {
            "agents": list(self.agents),
            "difference": self.difference,
            "stderr": json_value(self.stderr),
            "interval": _interval_json(self.interval),
            "confidence": self.confidence,
            "environments": [
                {"name": name, "opposite": opposite, "difference": difference}
                for (name, opposite), difference in self.by_environment.items()
            ],
        }

    def to_pandas(self) -> Any:
        """Return a data frame with the difference for each environment and opposite."""
        rows = self.to_json()["environments"]
        return data_frame([{"environment": row.pop("name")} | row for row in rows])

    def summary(self) -> list[tuple[str, str]]:
        """Return the difference and its uncertainty as pairs of name and text."""
        difference = f"{plus(self.difference, 6)} ± {number(self.stderr, 6)}"
        return [
            (f"minus {self.agents[0]}, paired", difference),
            (f"its {percent(self.confidence, 0)} interval", between(self.interval, 6, sign=True)),
        ]

    def _repr_html_(self) -> str:
        return html_table(f"Self-reflection of {self.agents[1]}", ("", ""), self.summary())

    def __str__(self) -> str:
        first, second = self.agents
        up = sum(difference > 0 for difference in self.by_environment.values())
        down = sum(difference < 0 for difference in self.by_environment.values())
        lines = [
            f"{second} minus {first}: {_spread(self.difference, self)}",
            f"  of {len(self.by_environment)} environments and opposites, it gains in {up} and "
            f"loses in {down}",
        ]
        largest = sorted(self.by_environment.items(), key=lambda item: -abs(item[1]))[:3]
        if moved := [
            f"{opposite_name(name) if is_opposite else name} {plus(value, 3)}"
            for (name, is_opposite), value in largest
            if value
        ]:
            lines.append(f"  largest changes: {', '.join(moved)}")
        return "\n".join([*lines, *(f"  {note}" for note in untrained_notes(*self.agents))])


def compare(first: Reflection, second: Reflection) -> Comparison:
    """Return the difference between two agents, paired by environment and seed.

    The interval has the coverage of the first result. An agent differs from itself by exactly 0.
    """
    plan, other_plan = (
        [(t.environment, t.opposite, t.seed, t.steps) for t in result.trials]
        for result in (first, second)
    )
    if plan != other_plan or first.readings != second.readings:
        raise InvalidParameterError(
            f"{first.agent} and {second.agent} were measured on different trials, expected the "
            f"same environments, seeds, steps and readings for a paired comparison"
        )
    # Both agents had the same rooms, so variation between seeds cancels in the difference.
    difference = second.by_seed - first.by_seed
    interval = interval_of(difference, first.confidence, most=2.0)
    if first.agent == second.agent and len(difference) >= FEWEST and not difference.any():
        interval = (0.0, 0.0)
    before, after = first.by_environment(), second.by_environment()
    return Comparison(
        agents=(first.agent, second.agent),
        difference=float(difference.mean()),
        stderr=_stderr(difference),
        interval=interval,
        by_environment={key: after[key] - before[key] for key in before},
        confidence=first.confidence,
    )
