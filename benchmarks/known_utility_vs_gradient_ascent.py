"""MEG for a known utility is faster than Algorithm 1 at any rate known beforehand to work.

All thirteen CliffWorld settings. Ours is `gm.meg.known_utility`, the whole call, value and proven
bound. The baseline is Algorithm 1, gradient ascent in the rationality, with the arithmetic of
MCE-IRL in the imitation library (`baselines/gradient_ascent.py`). `race.py` defines how its
learning rate is chosen and when a run counts as a lower bound. With a rate tuned to each problem,
which requires its solution, the ascent is about as fast as ours.
"""

from __future__ import annotations

from typing import Any

import harness
import numpy as np
import race
from baselines.gradient_ascent import Ascent, known_utility_ascent
from cliff_settings import Setting, settings
from race import Rate

import goalmeter as gm
from goalmeter.tabular.backup import problem as soft_problem
from goalmeter.tabular.planning import backward
from goalmeter.tabular.policies import rewards_of

AIM = 1000


def rates(horizon: int) -> list[Rate]:
    """For a utility scaled to [0, 1]; the variance of the return is at most horizon^2 / 4."""
    alphas = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 10.0, 100.0)
    return [Rate("plain", 4.0 / horizon**2, safe=True), *(Rate("plain", a) for a in alphas)]


def climber(setting: Setting, value: float) -> race.Climb:
    """Algorithm 1 on one setting."""

    def climb(rate: Rate, seconds: float) -> Ascent:
        return known_utility_ascent(
            setting.transition,
            setting.reward,
            setting.policy,
            setting.initial,
            setting.horizon,
            alpha=rate.alpha,
            target=value,
            accuracies=race.ACCURACIES,
            max_iterations=10**9,
            max_seconds=seconds,
        )

    return climb


def measure(quick: bool) -> dict[str, Any]:
    def ours(setting: Setting) -> gm.meg.MegResult:
        return gm.meg.known_utility(setting.mdp, setting.policy)

    cap, search = (0.2, 0.05) if quick else (20.0, 1.0)
    chosen, rounds = settings(quick), 1 if quick else 5
    options = {"cap": cap, "search_seconds": search, "rounds": rounds}
    return race.race(ours, climber, rates, chosen, **options) | {"one_pass": one_pass(chosen[0])}


def one_pass(setting: Setting) -> dict[str, float]:
    """What each side repeats: our backward pass with derivatives, an iteration of the ascent."""
    task = soft_problem(setting.mdp, rewards_of(setting.mdp), np.array([0.1]))
    ours = harness.median_seconds(lambda: backward(task), 51)
    ascent = climber(setting, np.inf)(Rate("plain", 4.0 / setting.horizon**2), 0.3)
    return {"ours_seconds": ours, "ascent_seconds": ascent.seconds / ascent.iterations}


def markdown(result: dict[str, Any]) -> str:
    each = result["one_pass"]
    rows = [p for p in result["problems"] if not p["runs"]["safe"]["ratio"]["1e-06"]["at_least"]]
    lines = [race.markdown(result, AIM)]
    if rows:
        passes = [p["ours_seconds"] / each["ours_seconds"] for p in rows]
        steps = [p["runs"]["safe"]["iterations"] for p in rows]
        equal = [n * each["ascent_seconds"] / each["ours_seconds"] for n in steps]
        lines.append(
            f"- Where the time goes: with a finite optimum ours takes as long as {min(passes):.0f} "
            f"to {max(passes):.0f} of its backward passes ({harness.short(each['ours_seconds'])} "
            f"each, nearly all of it NumPy's overhead of a call: 30 steps of some 25 calls); the "
            f"safe rate needs {min(steps)} to {max(steps)} iterations "
            f"({harness.short(each['ascent_seconds'])} each). One of our passes alone is only "
            f"{min(equal):.0f} to {max(equal):.0f} times shorter than those ascents, so {AIM}x is "
            f"out of reach there. At an optimum at infinity the safe rate does not arrive, and "
            f"any rate that is large enough does at once."
        )
    return "\n".join(lines)


if __name__ == "__main__":
    harness.run(__file__, __doc__, measure, markdown)
