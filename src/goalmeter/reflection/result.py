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
# The published table divides the standard deviation over seeds by their number, not by its root;
# `published_stderr` does so too, for comparison only.

TOO_FEW = f"an interval needs at least {FEWEST} seeds"


@dataclass(frozen=True)
class Reflection:
    """The self-reflection of one agent.

    Attributes:
        agent: its name.
        steps: percepts of each trial.
        trials: every trial, seed by seed; those that ended early count with the reward that they
            had, which is 0 for "timeout" and "crash".
        by_seed: the measure of each seed, [seeds], reward per step.
        confidence: nominal coverage of `interval`.
        interval: t interval over seeds, (low, high); NaN for fewer than 5 seeds, which tell too
            little of whether their spread is that of a normal variable.
        readings: of the rules that are not the published ones: option -> value.
    """

    agent: str
    steps: int
    trials: tuple[Trial, ...]
    by_seed: FloatArray
    confidence: float
    interval: tuple[float, float]
    readings: Mapping[str, str] = field(default_factory=dict)

    @property
    def measure(self) -> float:
        """The average over seeds, reward per step: from -1 to 1."""
        return float(self.by_seed.mean())

    @property
    def stderr(self) -> float:
        """Standard deviation over seeds divided by the root of their number; NaN for one."""
        return _stderr(self.by_seed)

    @property
    def published_stderr(self) -> float:
        """What the published table calls StdErr: the deviation divided by the number of seeds."""
        n = len(self.by_seed)
        return float(self.by_seed.std(ddof=1) / n) if n > 1 else math.nan

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seed of each entry of `by_seed`."""
        return tuple(dict.fromkeys(trial.seed for trial in self.trials))

    @property
    def failures(self) -> tuple[Trial, ...]:
        """Trials that ended early."""
        return tuple(trial for trial in self.trials if trial.outcome != OK)

    @property
    def outcomes(self) -> dict[str, int]:
        """How many trials had each outcome, "ok" first, those that none had left out."""
        counts = Counter(trial.outcome for trial in self.trials)
        return {outcome: counts[outcome] for outcome in sorted(counts, key=lambda o: (o != OK, o))}

    def by_environment(self) -> dict[tuple[str, bool], float]:
        """(name, opposite) -> average reward per step over seeds."""
        return {key: float(np.mean(totals)) / self.steps for key, totals in self._totals().items()}

    def spread(self) -> dict[tuple[str, bool], float]:
        """(name, opposite) -> standard deviation over seeds of reward per step; NaN for one."""
        return {
            key: float(np.std(totals, ddof=1)) / self.steps if len(totals) > 1 else math.nan
            for key, totals in self._totals().items()
        }

    def _totals(self) -> dict[tuple[str, bool], list[float]]:
        totals: dict[tuple[str, bool], list[float]] = {}
        for trial in self.trials:
            totals.setdefault((trial.environment, trial.opposite), []).append(trial.total_reward)
        return totals

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values; None for what is unknown from so few seeds."""
        return {
            "agent": self.agent,
            "steps": self.steps,
            "seeds": len(self.by_seed),
            "measure": self.measure,
            "stderr": json_value(self.stderr),
            "published_stderr": json_value(self.published_stderr),
            "interval": interval_json(self.interval),
            "confidence": self.confidence,
            "by_seed": self.by_seed.tolist(),
            "failures": len(self.failures),
            "outcomes": self.outcomes,
            "readings": dict(self.readings),
            "environments": [trial.to_json() for trial in self.trials],
        }

    def to_pandas(self) -> Any:
        """Return one row an environment and one its opposite, as a pandas data frame.

        Columns: `environment`, `opposite`, `mean` and `sd` of reward per step over seeds (`sd` is
        NaN for one seed), `seeds`, and `ended_early`, the number of trials that did.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        spread, totals = self.spread(), self._totals()
        ended = Counter((trial.environment, trial.opposite) for trial in self.failures)
        return data_frame(
            [
                {
                    "environment": name,
                    "opposite": opposite,
                    "mean": mean,
                    "sd": spread[name, opposite],
                    "seeds": len(totals[name, opposite]),
                    "ended_early": ended[name, opposite],
                }
                for (name, opposite), mean in self.by_environment().items()
            ]
        )

    def summary(self) -> list[tuple[str, str]]:
        """Return the measure and its uncertainty as names and texts, for tables and notebooks."""
        return [
            ("trials", str(len(self.trials))),
            ("ended early", early_in_words(self) or "0"),
            ("measure", plus(self.measure, 6) + doubt(self)),
            ("standard error", number(self.stderr, 6)),
            (f"{percent(self.confidence, 0)} interval", between(self.interval, 6, sign=True)),
            ("the paper's “StdErr”", number(self.published_stderr, 6)),
        ]

    def _repr_html_(self) -> str:
        """Return the summary as a notebook shows it; `to_pandas` has the environments."""
        notes = [f"Average reward per step over {seeds_in_words(self)} of {self.steps} steps."]
        if math.isnan(self.interval[0]):
            notes.append(f"No interval: {TOO_FEW}.")
        if words := failures_in_words(self):
            notes.append(f"{words}.")
        if self.readings:
            notes.append(f"Not as published: {readings_in_words(self)}.")
        return html_table(f"Self-reflection of {self.agent}", ("", ""), self.summary(), notes)

    def __str__(self) -> str:
        lines = [
            f"self-reflection of {self.agent}: {plus(self.measure, 6)} "
            + spread_in_words(self.stderr, self.interval, self.confidence)
            + doubt(self),
        ]
        if words := failures_in_words(self):
            lines.append(f"  {words}")
        lines.append(f"  {len(self.trials)} trials of {self.steps} steps, {seeds_in_words(self)}")
        if self.readings:
            lines.append(f"  not as published: {readings_in_words(self)}")
        return "\n".join(lines)


def early_in_words(result: Reflection) -> str:
    """Return how many trials ended early, and why; "" if none did."""
    early, n = len(result.failures), len(result.trials)
    if not early:
        return ""
    counts = ", ".join(f"{n} {outcome}" for outcome, n in result.outcomes.items() if outcome != OK)
    return f"{early} of {n} trial{'s' * (n > 1)} ended early ({counts})"


def doubt(result: Reflection) -> str:
    """Return what follows a measure without a finished trial; "" after any other."""
    unfinished = len(result.failures) == len(result.trials)
    return "; no trial was finished: this number says nothing" if unfinished else ""


def failures_in_words(result: Reflection) -> str:
    """Return how many trials ended early, why, and the first of them; "" if none did."""
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
    """Return the rules that are not the published ones, as options and values."""
    return ", ".join(f"{name} {value}" for name, value in result.readings.items())


def seeds_in_words(result: Reflection) -> str:
    """Return the number of seeds in words."""
    n = len(result.by_seed)
    return f"{n} seed{'s' * (n > 1)}"


def spread_in_words(stderr: float, interval: tuple[float, float], confidence: float) -> str:
    """Return the standard error and the interval of a measure, or why there is none."""
    low, high = interval
    ends = f"– ({TOO_FEW})" if math.isnan(low) else f"[{plus(low, 6)}, {plus(high, 6)}]"
    return f"± {number(stderr, 6)} reward per step, {percent(confidence, 0)} interval {ends}"


def interval_json(interval: tuple[float, float]) -> list[float] | None:
    """Return an interval as JSON has it: None where there is none."""
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
    """Return the measure of finished trials, `runs` of each seed, one seed after the other."""
    by_seed = np.array(
        [
            sum(trial.total_reward for trial in trials[start : start + runs]) / (runs * steps)
            for start in range(0, len(trials), runs)
        ]
    )
    interval, readings = interval_of(by_seed, confidence), dict(readings or {})
    return Reflection(agent, steps, tuple(trials), by_seed, confidence, interval, readings)


def _stderr(by_seed: FloatArray) -> float:
    n = len(by_seed)
    return float(by_seed.std(ddof=1) / np.sqrt(n)) if n > 1 else math.nan


def interval_of(by_seed: FloatArray, confidence: float, most: float = 1.0) -> tuple[float, float]:
    """Return Student's t interval of the mean over seeds, (low, high); NaN for fewer than 5 seeds.

    Where all seeds are the same there is no spread to judge by, and the interval is what that many
    say of a quantity between -most and most (see `statistics.clustered`).
    """
    if len(by_seed) < FEWEST:
        return math.nan, math.nan
    ends = estimate(by_seed, bounds=(-most, most), paired=True, confidence=confidence).interval
    assert ends is not None  # there are bounds, and more than one seed
    return ends


@dataclass(frozen=True)
class Comparison:
    """Two agents on the same environments and seeds.

    Attributes:
        agents: their names.
        difference: the second's measure less the first's, reward per step.
        stderr: of the difference, over seeds, paired.
        interval: t interval of the difference over seeds; NaN for fewer than 5.
        by_environment: (name, opposite) -> difference in average reward per step.
        confidence: nominal coverage of `interval`.
    """

    agents: tuple[str, str]
    difference: float
    stderr: float
    interval: tuple[float, float]
    by_environment: dict[tuple[str, bool], float]
    confidence: float = 0.95

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return {
            "agents": list(self.agents),
            "difference": self.difference,
            "stderr": json_value(self.stderr),
            "interval": interval_json(self.interval),
            "confidence": self.confidence,
            "environments": [
                {"name": name, "opposite": opposite, "difference": difference}
                for (name, opposite), difference in self.by_environment.items()
            ],
        }

    def to_pandas(self) -> Any:
        """Return one row an environment and one its opposite, with the difference."""
        rows = self.to_json()["environments"]
        return data_frame([{"environment": row.pop("name")} | row for row in rows])

    def summary(self) -> list[tuple[str, str]]:
        """Return the difference and its uncertainty as names and texts."""
        return [
            (
                f"less {self.agents[0]}, paired",
                f"{plus(self.difference, 6)} ± {number(self.stderr, 6)}",
            ),
            (f"its {percent(self.confidence, 0)} interval", between(self.interval, 6, sign=True)),
        ]

    def _repr_html_(self) -> str:
        """Return the summary as a notebook shows it; `to_pandas` has the environments."""
        return html_table(f"Self-reflection of {self.agents[1]}", ("", ""), self.summary())

    def __str__(self) -> str:
        first, second = self.agents
        up = sum(difference > 0 for difference in self.by_environment.values())
        down = sum(difference < 0 for difference in self.by_environment.values())
        lines = [
            f"{second} less {first}: {plus(self.difference, 6)} "
            + spread_in_words(self.stderr, self.interval, self.confidence),
            f"  of {len(self.by_environment)} environments, opposites counted, it gains in {up} "
            f"and loses in {down}",
        ]
        largest = sorted(self.by_environment.items(), key=lambda item: -abs(item[1]))[:3]
        if moved := [(key, value) for key, value in largest if value]:
            names = [
                f"{opposite_name(name) if is_opposite else name} {plus(value, 3)}"
                for (name, is_opposite), value in moved
            ]
            lines.append(f"  most in {', '.join(names)}")
        return "\n".join(lines)


def compare(first: Reflection, second: Reflection) -> Comparison:
    """Return the difference between two agents, paired by environment and seed.

    Its interval has the coverage of the first. An agent differs from itself by exactly 0.

    Raises:
        InvalidParameterError: they were not measured on the same trials.
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
    # Paired: both met the same rooms, so what differs between seeds drops out of the difference.
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
