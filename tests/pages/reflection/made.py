"""Measured agents that were made up: rewards by seed, environment and opposite."""

from __future__ import annotations

from goalmeter.reflection import Reflection, Trial
from goalmeter.reflection.result import reflection_of

STEPS = 10


def made(
    agent: str, rewards: dict[str, list[tuple[float, float]]], *, failed: str = "", **changes: int
) -> Reflection:
    """An agent with these (total reward, that in the opposite) of each seed, by environment."""
    n = len(next(iter(rewards.values())))
    steps = changes.get("steps", STEPS)
    trials = [
        Trial(
            name,
            opposite,
            seed,
            steps,
            totals[seed][opposite],
            *(("timeout", "took over 1 s") if name == failed and seed == 0 else ()),
        )
        for seed in range(n)
        for name, totals in rewards.items()
        for opposite in (False, True)
    ]
    return reflection_of(agent, steps, trials, runs=2 * len(rewards), confidence=0.95)


# In A it gains 4, more or less, in the opposite of B it loses 2 at every seed.
GAINS = (4, 4, 3, 5, 4)
BEFORE = made("x", {"A": [(s, s) for s in range(5)], "B": [(3, 3)] * 5})
AFTER = made("rc(x)", {"A": [(s + gain, s) for s, gain in enumerate(GAINS)], "B": [(3, 1)] * 5})


def first(result: Reflection, seeds: int) -> Reflection:
    """The same of the first seeds only."""
    trials = [trial for trial in result.trials if trial.seed < seeds]
    runs = len(trials) // seeds
    return reflection_of(result.agent, result.steps, trials, runs=runs, confidence=0.95)


def broken(agent: str, n: int = 5) -> Reflection:
    """An agent that fails at once, everywhere."""
    trials = [
        Trial(name, way, seed, STEPS, 0, "exception", "ZeroDivisionError: by 0")
        for seed in range(n)
        for name in ("A", "B")
        for way in (False, True)
    ]
    return reflection_of(agent, STEPS, trials, runs=4, confidence=0.95)
