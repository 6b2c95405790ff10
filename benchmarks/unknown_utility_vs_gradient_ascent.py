"""MEG for an unknown utility over states is faster than Algorithm 2, at every rate tried.

All thirteen CliffWorld settings. Ours is `gm.meg.unknown_utility`, the whole call, value and proven
bound. The baseline is Algorithm 2 with a table of 40 weights, by plain gradient ascent and by Adam,
with the arithmetic of MCE-IRL in the imitation library (`baselines/gradient_ascent.py`). `race.py`
defines how its learning rate is chosen and when a run counts as a lower bound.
"""

from __future__ import annotations

from typing import Any, Literal, cast

import harness
import race
from baselines.gradient_ascent import Ascent, unknown_utility_ascent
from cliff_settings import Setting, settings
from race import Rate

import goalmeter as gm

AIM = 500


def rates(horizon: int) -> list[Rate]:
    """Along any unit vector the visits spread by horizon * sqrt(2): curvature <= horizon^2 / 2."""
    plain = (0.02, 0.1, 0.5, 2.0, 10.0)
    adam = (0.01, 0.05, 0.2, 1.0, 5.0)
    return [
        Rate("plain", 2.0 / horizon**2, safe=True),
        *(Rate("plain", a) for a in plain),
        *(Rate("adam", a) for a in adam),
    ]


def climber(setting: Setting, value: float) -> race.Climb:
    """Algorithm 2 on one setting."""

    def climb(rate: Rate, seconds: float) -> Ascent:
        return unknown_utility_ascent(
            setting.transition,
            setting.policy,
            setting.initial,
            setting.horizon,
            alpha=rate.alpha,
            optimiser=cast(Literal["plain", "adam"], rate.optimiser),
            target=value,
            accuracies=race.ACCURACIES,
            max_iterations=10**9,
            max_seconds=seconds,
        )

    return climb


def measure(quick: bool) -> dict[str, Any]:
    def ours(setting: Setting) -> gm.meg.MegResult:
        return gm.meg.unknown_utility(setting.mdp, setting.policy)

    cap, search = (0.2, 0.05) if quick else (30.0, 2.0)
    options = {"cap": cap, "search_seconds": search, "rounds": 1 if quick else 5}
    return race.race(ours, climber, rates, settings(quick), **options)


def markdown(result: dict[str, Any]) -> str:
    return race.markdown(result, AIM)


if __name__ == "__main__":
    harness.run(__file__, __doc__, measure, markdown)
