"""Self-reflection: the average reward per step over the battery and its opposites.

measure(T, n) = 1 / (50 n) * sum over 25 environments and their opposites of the total reward after
n steps. Seeds are repetitions; their spread gives the standard error.

Source: "Extending Environments To Measure Self-Reflection In Reinforcement Learning", section 5.
The published table divides the standard deviation over seeds by their number, not by its root;
`published_stderr` does so too, for comparison only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import FloatArray
from goalmeter.reflection.environments.record import Environment
from goalmeter.reflection.environments.registry import BATTERY
from goalmeter.reflection.protocol import Agent
from goalmeter.reflection.trial import OK, Trial, agent_of, run_trial
from goalmeter.statistics import percentile_interval, resample_weights


@dataclass(frozen=True)
class Reflection:
    """The self-reflection of one agent.

    Attributes:
        agent: its name.
        steps: percepts of each trial.
        trials: every trial; those that ended early count with the reward that they had.
        by_seed: the measure of each seed, [seeds], reward per step.
        confidence: nominal coverage of `interval`.
        interval: bootstrap interval over seeds; of no width for one seed.
    """

    agent: str
    steps: int
    trials: tuple[Trial, ...]
    by_seed: FloatArray
    confidence: float
    interval: tuple[float, float]

    @property
    def measure(self) -> float:
        """The average over seeds, reward per step: from -1 to 1."""
        return float(self.by_seed.mean())

    @property
    def stderr(self) -> float:
        """Standard deviation over seeds divided by the root of their number; NaN for one."""
        n = len(self.by_seed)
        return float(self.by_seed.std(ddof=1) / np.sqrt(n)) if n > 1 else float("nan")

    @property
    def published_stderr(self) -> float:
        """What the published table calls StdErr: the deviation divided by the number of seeds."""
        n = len(self.by_seed)
        return float(self.by_seed.std(ddof=1) / n) if n > 1 else float("nan")

    @property
    def failures(self) -> tuple[Trial, ...]:
        """Trials that ended early."""
        return tuple(trial for trial in self.trials if trial.outcome != OK)

    def by_environment(self) -> dict[tuple[str, bool], float]:
        """(name, opposite) -> average reward per step over seeds."""
        sums: dict[tuple[str, bool], list[float]] = {}
        for trial in self.trials:
            sums.setdefault((trial.environment, trial.opposite), []).append(trial.total_reward)
        return {key: float(np.mean(totals)) / self.steps for key, totals in sums.items()}

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {
            "agent": self.agent,
            "steps": self.steps,
            "seeds": len(self.by_seed),
            "measure": self.measure,
            "stderr": self.stderr,
            "published_stderr": self.published_stderr,
            "interval": list(self.interval),
            "confidence": self.confidence,
            "failures": len(self.failures),
            "environments": [trial.to_json() for trial in self.trials],
        }

    def __str__(self) -> str:
        low, high = self.interval
        lines = [
            f"self-reflection of {self.agent}: {self.measure:+.6f} ± {self.stderr:.6f} "
            f"reward per step, {self.confidence:.0%} interval [{low:+.6f}, {high:+.6f}]",
            f"  {len(self.trials)} trials of {self.steps} steps, {len(self.by_seed)} seeds",
        ]
        if self.failures:
            first = self.failures[0]
            lines.append(
                f"  {len(self.failures)} trials ended early, the first in {first.environment}: "
                f"{first.outcome}, {first.detail}"
            )
        return "\n".join(lines)


def measure(
    agent: Agent | str,
    steps: int = 500,
    seeds: int | Sequence[int] = 10,
    *,
    environments: Iterable[Environment] = BATTERY,
    confidence: float = 0.95,
    opposite_reading: str = "literal",
) -> Reflection:
    """Measure the self-reflection of an agent.

    Args:
        agent: an agent, or its name as on the command line: "rc(naive)".
        steps: percepts of each trial, the first included.
        seeds: how many repetitions, or the seed of each. An agent given by name is seeded anew in
            each; one given as an object is as it is, and only the environments differ.
        environments: what to play, each with its opposite; default the paper's battery.
        confidence: nominal coverage of the interval.
        opposite_reading: "literal" or "unnegated"; see `Environment.start`.

    Raises:
        InvalidParameterError: no seeds, no environments, fewer than 1 step.

    Example: an agent that ignores everything gains in the opposites what it loses.
        >>> measure("constant", steps=50, seeds=2).measure
        0.0
    """
    chosen = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
    played = list(environments)
    if not chosen or not played:
        raise InvalidParameterError(
            f"got {len(chosen)} seeds and {len(played)} environments, expected at least one of each"
        )
    trials: list[Trial] = []
    totals = []
    for seed in chosen:
        mind = agent_of(agent, seed)
        own = [
            run_trial(
                mind,
                environment,
                opposite=opposite,
                steps=steps,
                seed=seed,
                opposite_reading=opposite_reading,
            )
            for environment in played
            for opposite in (False, True)
        ]
        trials += own
        totals.append(sum(trial.total_reward for trial in own) / (len(own) * steps))
    by_seed = np.array(totals)
    name = agent if isinstance(agent, str) else repr(agent)
    interval = _interval(by_seed, confidence)
    return Reflection(name, steps, tuple(trials), by_seed, confidence, interval)


def _interval(by_seed: FloatArray, confidence: float) -> tuple[float, float]:
    """Bootstrap over seeds; the resamples are the same every time."""
    n = len(by_seed)
    draws = resample_weights(n, 2000, np.random.default_rng(0))
    return percentile_interval(draws @ by_seed, 0.0, n, confidence)


@dataclass(frozen=True)
class Comparison:
    """Two agents on the same environments and seeds.

    Attributes:
        agents: their names.
        difference: the second's measure less the first's, reward per step.
        stderr: of the difference, over seeds, paired.
        interval: bootstrap interval of the difference over seeds.
        by_environment: (name, opposite) -> difference in average reward per step.
    """

    agents: tuple[str, str]
    difference: float
    stderr: float
    interval: tuple[float, float]
    by_environment: dict[tuple[str, bool], float]


def compare(first: Reflection, second: Reflection) -> Comparison:
    """The difference between two agents, paired by environment and seed.

    Raises:
        InvalidParameterError: they were not measured on the same trials.
    """
    plan, other = (
        [(t.environment, t.opposite, t.seed, t.steps) for t in result.trials]
        for result in (first, second)
    )
    if plan != other:
        raise InvalidParameterError(
            f"{first.agent} and {second.agent} were measured on different trials, expected the "
            f"same environments, seeds and steps for a paired comparison"
        )
    difference = second.by_seed - first.by_seed
    n = len(difference)
    before, after = first.by_environment(), second.by_environment()
    return Comparison(
        agents=(first.agent, second.agent),
        difference=float(difference.mean()),
        stderr=float(difference.std(ddof=1) / np.sqrt(n)) if n > 1 else float("nan"),
        interval=_interval(difference, 0.95),
        by_environment={key: after[key] - before[key] for key in before},
    )
