"""Parts of the scenes to train on, to stop by and to score, so that no grid is in two of them.

Scenes of one grid share their walls. A split by rows would let a probe learn a grid by heart and be
scored on it; the published split of some paths leaks in this way. Grids are numbered by content, so
that a grid and its mirror image are one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import IntArray
from goalmeter.representation.scenes import Scenes


class Split(NamedTuple):
    """Numbers of scenes, in rising order.

    Attributes:
        train: what probes are fitted to.
        validation: what decides when a fit stops, and how sure it is of itself.
        test: what they are scored on.
    """

    train: IntArray
    validation: IntArray
    test: IntArray


def split(scenes: Scenes, *, validation: float = 0.15, test: float = 0.25, seed: int = 0) -> Split:
    """One division of the grids, in which every shape has its share in every part.

    Args:
        scenes: to be divided.
        validation: share of the grids of each shape.
        test: share of the grids of each shape.
        seed: of the order in which grids are dealt.
    """
    if validation <= 0 or test <= 0 or validation + test >= 1:
        raise InvalidParameterError(
            f"the shares of validation and test are {validation!r} and {test!r}, expected both "
            f"above 0 and their sum below 1"
        )
    # 0 is training, so that whatever is not dealt to the others is trained on.
    role = np.zeros(len(scenes), dtype=np.int64)
    for grids in _dealt(scenes, seed):
        if len(grids) < 3:
            raise InvalidParameterError(
                f"a shape has {len(grids)} grids, expected at least three: one to train on, one "
                f"to stop by, one to score; walk through more grids"
            )
        # Each part has a grid, however few there are.
        tested = max(1, min(round(test * len(grids)), len(grids) - 2))
        held = max(1, min(round(validation * len(grids)), len(grids) - tested - 1))
        role[np.isin(scenes.grids, grids[:tested])] = 2
        role[np.isin(scenes.grids, grids[tested : tested + held])] = 1
    return Split(*(np.flatnonzero(role == part) for part in range(3)))


def folds(scenes: Scenes, parts: int, *, validation: float = 0.15, seed: int = 0) -> list[Split]:
    """Divisions in each of which another part of the grids is scored, so that all scenes are.

    Args:
        scenes: to be divided.
        parts: how many, at least 2.
        validation: share of the grids that are not scored.
        seed: of the order in which grids are dealt.
    """
    if parts < 2 or not 0 < validation < 1:
        raise InvalidParameterError(
            f"there are {parts} parts with a share of {validation!r} for validation, expected at "
            f"least 2 parts and a share between 0 and 1"
        )
    role = np.full((parts, len(scenes)), 0)
    for grids in _dealt(scenes, seed):
        fewest = max(parts, 3 if parts > 2 else 4)
        if len(grids) < fewest:
            raise InvalidParameterError(
                f"a shape has {len(grids)} grids, expected at least {fewest} for {parts} "
                f"parts; take fewer parts, or walk through more grids"
            )
        for part in range(parts):
            scored = grids[part::parts]
            left = np.setdiff1d(grids, scored, assume_unique=True)
            held = max(1, min(round(validation * len(left)), len(left) - 1))
            role[part, np.isin(scenes.grids, scored)] = 2
            # The first of those that are left, in the order in which they were dealt.
            kept = [grid for grid in grids.tolist() if grid in left][:held]
            role[part, np.isin(scenes.grids, kept)] = 1
    return [Split(*(np.flatnonzero(row == part) for part in range(3))) for row in role]


def _dealt(scenes: Scenes, seed: int) -> list[IntArray]:
    """The grids of each shape in a random order; a grid that lies on its side is no other shape."""
    # Content is the same in all frames, so a grid may be there both upright and on its side.
    shapes = np.sort(scenes.shapes, axis=1)
    rng = np.random.default_rng(seed)
    out = []
    for shape in np.unique(shapes, axis=0):
        grids = np.unique(scenes.grids[(shapes == shape).all(axis=1)])
        out.append(rng.permutation(grids))
    return out
