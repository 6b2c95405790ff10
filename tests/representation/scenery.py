"""Small worlds that several tests look at, and posteriors in the form of the oracle."""

from __future__ import annotations

from typing import Any

import numpy as np

from goalmeter.gridworld import GridWorld, State
from goalmeter.representation.scenes import CLASSES, Scenes

# Two rooms side by side; the wall between them is open in the middle of the one, at the top of the
# other, and closed in the third but for the bottom.
PICTURES = (
    ["#####", "#A#_#", "#___#", "#_#G#", "#####"],
    ["#####", "#A__#", "#_#_#", "#_#G#", "#####"],
    ["#####", "#A#_#", "#_#_#", "#__G#", "#####"],
)


def scenes_of(*pictures: list[str], actions: list[int | None] | None = None) -> Scenes:
    worlds = [GridWorld.from_text(picture) for picture in pictures]
    chosen = [0] * len(worlds) if actions is None else actions
    return Scenes.of(worlds, [State(world.start) for world in worlds], chosen)


def spelled(posterior: np.ndarray[Any, Any]) -> list[list[dict[str, float]]]:
    """[rows, columns, 7] as the oracle has it."""
    return [[dict(zip(CLASSES, cell.tolist(), strict=True)) for cell in row] for row in posterior]


def random_posterior(scenes: Scenes, seed: int, classes: int = 4) -> np.ndarray[Any, Any]:
    """Any posterior over the first classes, [N, rows, columns, 7]."""
    rng = np.random.default_rng(seed)
    out = np.zeros((*scenes.labels.shape, len(CLASSES)))
    out[..., :classes] = rng.dirichlet(np.full(classes, 0.5), size=scenes.labels.shape)
    return out


def certain(scenes: Scenes) -> np.ndarray[Any, Any]:
    """The truth as a posterior."""
    out = np.zeros((*scenes.labels.shape, len(CLASSES)))
    np.put_along_axis(out, np.maximum(scenes.labels, 0)[..., None], 1.0, axis=-1)
    return out
