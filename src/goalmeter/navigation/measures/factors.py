"""Conditions compared within grids: is it the words, the thing, or both together?

A prompt that speaks of keys draws an agent to a key, and so may a key that nothing is said of. Four
combinations tell them apart: each grid is walked through with and without the words, with a key and
with a neutral object in its place. Effects are differences of means within a grid, so that grids
that invite a detour cancel out, and with them the chance of passing the key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from goalmeter._errors import InvalidTrajectoryError
from goalmeter.navigation.measures.cells import MEASURES, OBJECT, TOWARDS, cell_means, levels_of
from goalmeter.navigation.measures.observed import Observed, observed
from goalmeter.navigation.record import Trajectory
from goalmeter.statistics.clustered import Estimate, estimate

PROMPT = "prompt"


@dataclass(frozen=True)
class Factors:
    """The effects of two conditions on a measure, over grids walked through in all four cells.

    Attributes:
        measure: "pick_up", "towards", "success" or "accuracy", see `factors`.
        factors: names of the two conditions.
        levels: the two values of each; effects are of the second one, less the first.
        cells: mean over grids in each combination, [first, second].
        effects: of the first condition and of the second, each averaged over the other.
        interaction: by how much the effect of the one is greater at the second level of the other.
        grids: how many.
    """

    measure: str
    factors: tuple[str, str]
    levels: tuple[tuple[Any, Any], tuple[Any, Any]]
    cells: tuple[tuple[float, float], tuple[float, float]]
    effects: tuple[Estimate, Estimate]
    interaction: Estimate
    grids: int

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {
            "measure": self.measure,
            "factors": list(self.factors),
            "levels": [list(levels) for levels in self.levels],
            "cells": [list(row) for row in self.cells],
            "effects": [effect.to_json() for effect in self.effects],
            "interaction": self.interaction.to_json(),
            "grids": self.grids,
        }


@dataclass(frozen=True)
class Contrast:
    """The effect of one condition on a measure, over grids walked through at both of its levels.

    Attributes:
        measure: as those of `Factors`.
        factor: name of the condition.
        levels: its two values.
        cells: mean over grids at each of them.
        effect: the second one less the first.
        grids: how many.
    """

    measure: str
    factor: str
    levels: tuple[Any, Any]
    cells: tuple[float, float]
    effect: Estimate
    grids: int

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {
            "measure": self.measure,
            "factor": self.factor,
            "levels": list(self.levels),
            "cells": list(self.cells),
            "effect": self.effect.to_json(),
            "grids": self.grids,
        }


def factors(
    trajectories: Sequence[Trajectory] | Observed,
    first: str = PROMPT,
    second: str = OBJECT,
    *,
    measure: str = "pick_up",
    confidence: float = 0.95,
) -> Factors:
    """The effects of two conditions.

    Args:
        trajectories: with two values of each condition; other conditions are averaged over.
        first: name of one condition.
        second: name of the other. "object" is what lies in the world, "neutral" or "key", and
            leaves out worlds in which nothing does.
        measure: "pick_up", "success", "accuracy", or "towards": how many of the wrong moves of a
            walk lead towards the key, less their chance (`TowardsKey.excess_of_kind`), over walks
            that have such moves. A neutral object counts as the key does.
        confidence: nominal coverage of intervals.

    Raises:
        InvalidTrajectoryError: a condition is missing or has other than two values, or no grid was
            walked through in all four combinations.
    """
    seen = trajectories if isinstance(trajectories, Observed) else observed(trajectories)
    levels = levels_of(seen, first), levels_of(seen, second)
    means = cell_means(seen, (first, second), levels, measure)
    of_first = (means[:, 1] - means[:, 0]).mean(axis=1)
    of_second = (means[:, :, 1] - means[:, :, 0]).mean(axis=1)
    both = means[:, 1, 1] - means[:, 1, 0] - means[:, 0, 1] + means[:, 0, 0]
    (a, b), (c, d) = means.mean(axis=0).tolist()
    most = _greatest(measure)

    def effect(values: Any, most: float) -> Estimate:
        return estimate(values, bounds=(-most, most), paired=True, confidence=confidence)

    return Factors(
        measure,
        (first, second),
        levels,
        ((a, b), (c, d)),
        (effect(of_first, most), effect(of_second, most)),
        effect(both, 2 * most),
        len(means),
    )


def contrast(
    trajectories: Sequence[Trajectory] | Observed,
    name: str = OBJECT,
    *,
    measure: str = "pick_up",
    confidence: float = 0.95,
) -> Contrast:
    """The effect of one condition; arguments and errors as those of `factors`."""
    seen = trajectories if isinstance(trajectories, Observed) else observed(trajectories)
    levels = levels_of(seen, name)
    means = cell_means(seen, (name,), (levels,), measure)
    most = _greatest(measure)
    difference = means[:, 1] - means[:, 0]
    effect = estimate(difference, bounds=(-most, most), paired=True, confidence=confidence)
    one, other = means.mean(axis=0).tolist()
    return Contrast(measure, name, levels, (one, other), effect, len(means))


def told_apart(
    trajectories: Sequence[Trajectory] | Observed, *, confidence: float = 0.95
) -> tuple[Factors | Contrast, ...]:
    """What the trajectories tell of prompt and object: of both where both vary, else of one.

    A measure that no grid has in every combination is left out, such as "towards" of an agent that
    makes no wrong moves.
    """
    seen = trajectories if isinstance(trajectories, Observed) else observed(trajectories)
    vary = [name for name in (PROMPT, OBJECT) if _varies(seen, name)]
    out: list[Factors | Contrast] = []
    for measure in MEASURES if vary else ():
        try:
            if len(vary) == 2:
                out.append(factors(seen, *vary, measure=measure, confidence=confidence))
            else:
                out.append(contrast(seen, *vary, measure=measure, confidence=confidence))
        except InvalidTrajectoryError:
            continue
    return tuple(out)


def _varies(seen: Observed, name: str) -> bool:
    try:
        levels_of(seen, name)
    except InvalidTrajectoryError:
        return False
    return True


def _greatest(measure: str) -> float:
    """The greatest difference between two values: shares are in [0, 1], their excess in [-1, 1]."""
    return 2.0 if measure == TOWARDS else 1.0
