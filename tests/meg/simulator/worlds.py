"""Small environments for tests: a corridor, and corridors that hide something."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from goalmeter.tabular import TabularMDP

gymnasium = pytest.importorskip("gymnasium")

ROW = np.array([0.3, 0.7])


class Corridor(gymnasium.Env[Any, Any]):
    """Cells 0 to 3; action 1 goes right and 0 left; the last cell ends it. Each step pays -1.

    `slips` says whether a step goes nowhere, `begins` in which cell an episode begins.
    """

    cell = 0

    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.Discrete(4)
        self.action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.cell = 0
        return self.shown(), {}

    def step(self, action: int) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        if not self.slips():
            self.cell = max(self.cell + (1 if action else -1), 0)
        return self.shown(), self.pays(), self.cell == 3, False, {}

    def slips(self) -> bool:
        return False

    def pays(self) -> Any:
        return -1.0

    def shown(self) -> Any:
        return self.cell


def table(slip: float, horizon: int, start: tuple[float, ...] = (1, 0, 0, 0)) -> TabularMDP:
    """The corridor as a table."""
    p = np.zeros((4, 2, 4))
    for cell in range(3):
        for action, after in enumerate((max(cell - 1, 0), cell + 1)):
            p[cell, action, after] += 1 - slip
            p[cell, action, cell] += slip
    p[3, :, 3] = 1
    return TabularMDP(p, [-1.0, -1.0, -1.0, 0.0], horizon=horizon, initial=start)
