"""Where directions are written, and their nulls, on prompts and answers of tiny random networks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("transformers")

from representation.tiny import CORRIDOR, ROOM, sample

from goalmeter.gridworld.world import Cell
from goalmeter.representation.replay import Located
from goalmeter.representation.use.directions import (
    Direction,
    TargetCell,
    TrainingDecision,
    ridge_directions,
)
from goalmeter.representation.use.interventions import Intervention


def learnt(network: Any) -> list[TrainingDecision]:
    out = []
    for picture in (ROOM, CORRIDOR):
        asked = sample(network, picture)
        cell = next(
            c for c in asked.world.open_cells if c not in (asked.world.goal, asked.state.cell)
        )
        target = TargetCell(cell, True, (1,), (3,))
        out.append(
            TrainingDecision(Located(asked, network.local.tokenizer), asked.answer, (target,))
        )
    return out


def test_a_write_and_an_ablation_by_hand(networks: dict[str, Any]) -> None:
    """A write adds the dose's multiple of the gap; an ablation leaves nothing along the unit."""
    import torch

    from goalmeter.representation.use.directions import DirectionKind
    from goalmeter.representation.use.trials import candidates

    network = networks["llama"]
    located = learnt(network)[0].located
    unit = np.eye(32)[5]
    writing = DirectionKind("own", "pre/cell", {1: lambda _, __: [(3, Direction(unit, 2.5))]})
    made = {
        c.key: c
        for c in candidates(network, [1], 0, [writing], 2.0)
        if c.family in ("write", "ablate")
    }
    written = made["write, own at layer 1, pre/cell, dose 2"]
    stream = torch.arange(32.0)

    def changed(change: Intervention | None) -> Any:
        assert change is not None
        return change.edits[0].change(stream) - stream

    assert changed(written.change(located, Cell(1, 2))).tolist() == (5.0 * unit).tolist()
    half = replace(written, dose=0.5)
    assert changed(half.change(located, Cell(1, 2))).norm() == 1.25
    assert changed(half.nulls[0].change(located, Cell(1, 2))).norm() == pytest.approx(1.25)
    ablated = made["ablate, own at layer 1, pre/cell"]
    assert changed(ablated.change(located, Cell(1, 2))).tolist() == (-5.0 * unit).tolist()
    assert ablated.nulls[0].null == "random"


def test_a_gap_by_hand() -> None:
    rows = np.array([[0.0, 0.0], [2.0, 0.0], [4.0, 1.0], [6.0, 1.0]])
    wall = np.array([False, False, True, True])
    direction = Direction.of_weights(np.array([3.0, 0.0]), rows, wall)
    assert direction is not None
    assert direction.unit.tolist() == [1.0, 0.0] and direction.gap == 4.0
    assert direction.vector(0.5).tolist() == [2.0, 0.0]
    assert Direction.of_weights(np.array([-3.0, 0.0]), rows, wall) is None
    assert Direction.of_weights(np.zeros(2), rows, wall) is None
    assert Direction.of_weights(np.ones(2), rows, np.ones(4, bool)) is None
    between = Direction.between(np.array([3.0, 4.0]))
    assert between is not None and between.gap == 5.0
    assert between.vector(1.0).tolist() == pytest.approx([3.0, 4.0])
    assert Direction.between(np.zeros(2)) is None


def test_directions_against_the_normal_equations() -> None:
    """Scaled by hand, with a penalty of 1 a row."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((40, 3)) * [1.0, 5.0, 0.1]
    wall = np.stack([rows[:, 0] + rows[:, 1] > 0, rows[:, 2] > 0], axis=1)
    scaled = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    for question, direction in enumerate(ridge_directions(rows, wall)):
        target = wall[:, question] - wall[:, question].mean()
        weights = np.linalg.solve(scaled.T @ scaled + 40 * np.eye(3), scaled.T @ target)
        weights /= rows.std(axis=0)
        assert direction is not None
        assert direction.unit.tolist() == pytest.approx(weights / np.linalg.norm(weights))
        sides = [rows[wall[:, question] == side].mean(axis=0) for side in (True, False)]
        assert direction.gap == pytest.approx(float(direction.unit @ (sides[0] - sides[1])))
