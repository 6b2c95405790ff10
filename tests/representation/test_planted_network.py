"""A network whose weights were set by hand, and instruments that find what was set."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("transformers")

import torch
from representation.planted_network import NetworkPlant, PlantedNetwork, planted_network

from goalmeter.gridworld.world import ACTIONS, Cell
from goalmeter.representation.use.causal_use import causal_use
from goalmeter.representation.use.interventions import ablate, answer_all, write

GATE, OTHER = Cell(1, 2), Cell(3, 2)
RIGHT, DOWN = ACTIONS.index("RIGHT"), ACTIONS.index("DOWN")
SOME = (GATE, OTHER, Cell(2, 3), Cell(1, 4))
PLANTS = {
    "used": NetworkPlant(reads=SOME),
    "used elsewhere": NetworkPlant(reads=SOME, route="own"),
    "decoded, not used": NetworkPlant(reads=SOME, uses=()),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, PlantedNetwork]:
    folder = tmp_path_factory.mktemp("planted")
    return {
        name: planted_network(plant, folder / name.replace(" ", "-"), seed=number)
        for number, (name, plant) in enumerate(PLANTS.items())
    }


@pytest.mark.parametrize("name", ["used", "used elsewhere", "decoded, not used"])
def test_the_stream_holds_what_was_planted(made: dict[str, PlantedNetwork], name: str) -> None:
    """Along each direction +1 for a wall and -1 for open ground, and no link without direction."""
    planted = made[name]
    for decision in planted.decisions(4, seed=1):
        stream = planted.network.streams(decision.prompt, [0, 1])
        moved = (stream[1] - stream[0])[-3:].double().numpy()
        expected = np.zeros(planted.network.width)
        for cell, direction in planted.directions.items():
            expected += (1 if decision.world.walls[cell] else -1) * direction
        np.testing.assert_allclose(moved, np.tile(expected, (3, 1)), atol=1e-3)
    assert set(planted.directions) == set(planted.plant.reads)


@pytest.mark.parametrize("name", ["used", "used elsewhere", "decoded, not used"])
def test_the_answer_is_that_of_the_cells_that_are_used(
    made: dict[str, PlantedNetwork], name: str
) -> None:
    planted = made[name]
    decisions = planted.decisions(24, seed=2)
    answers = answer_all(planted.network, decisions)
    for decision, answer in zip(decisions, answers, strict=True):
        closed = any(decision.world.walls[cell] for cell in planted.plant.uses)
        assert answer.action == (DOWN if closed else RIGHT), answer
    assert len({decision.world.walls[GATE] for decision in decisions}) == 2
    if planted.plant.uses == (GATE,):
        assert all(a.action in d.optimal for a, d in zip(answers, decisions, strict=True))
    text = planted.network.local.tokenizer.decode(answers[0].tokens)
    assert text.startswith('So </think> { "action": "')


def confirmed(planted: PlantedNetwork, grids: int = 40, layers: tuple[int, ...] = (1,)) -> Any:
    return causal_use(planted.decisions(grids, seed=3), planted.network, layers=layers)


def flips(use: Any, intervention: str, layer: int | str) -> float:
    (row,) = [r for r in use.screened if (r.intervention, r.layer) == (intervention, layer)]
    assert row.needed.flips.n >= 8
    return float(row.needed.flips.value)


def test_what_is_used_at_the_end_of_the_prompt(made: dict[str, PlantedNetwork]) -> None:
    """Masking the gate flips every move, and so does its state there, once it has been read."""
    use = confirmed(made["used"], layers=(0, 1))
    assert use.verdict == "used"
    assert use.confirmed.needed.flips.value == use.confirmed.needed.as_if_changed.value == 1
    assert use.confirmed.unneeded.flips.value == 0
    assert flips(use, "knock-out", 1) == flips(use, "patch", 0) == 1
    assert flips(use, "knock-out, other", "all") == 0
    assert [flips(use, "patch, end", layer) for layer in (0, 1, "all")] == [0, 1, 1]
    # Block 2 does not look at the cell, and what its symbol holds behind block 1 is not read.
    assert flips(use, "patch", 1) == 0


@pytest.mark.slow
def test_what_is_used_elsewhere(made: dict[str, PlantedNetwork]) -> None:
    """The end of the prompt holds the same map in the same directions, and no move depends on it
    there; masked symbols tell that the cell is used all the same."""
    use = confirmed(made["used elsewhere"])
    assert use.verdict == "used" and use.confirmed.intervention in ("knock-out", "patch")
    assert [flips(use, "patch, end", layer) for layer in (1, "all")] == [0, 0]
    assert flips(use, "knock-out", 1) == 1


@pytest.mark.slow
def test_what_is_decoded_and_not_used(made: dict[str, PlantedNetwork]) -> None:
    use = confirmed(made["decoded, not used"], grids=52)
    assert use.verdict == "not used"
    assert {row.needed.flips.value for row in use.screened} == {0.0}


@pytest.mark.parametrize(
    ("name", "flip"), [("used", True), ("used elsewhere", False), ("decoded, not used", False)]
)
def test_writing_along_the_known_direction(
    made: dict[str, PlantedNetwork], name: str, flip: bool
) -> None:
    """Wall instead of open and back, at the last three tokens behind block 1; any other direction
    of the same length, and the wall of another cell, change nothing."""
    planted = made[name]
    network, decisions = planted.network, planted.decisions(30, seed=4)
    before = [answer.action for answer in answer_all(network, decisions)]
    drawn = np.random.default_rng(0).normal(size=network.width)
    length = float(np.linalg.norm(planted.directions[GATE]))
    vectors = {
        "gate": planted.directions[GATE],
        "other": planted.directions[OTHER],
        "random": drawn / np.linalg.norm(drawn) * length,
    }
    ends = [range(len(each.prompt) - 3, len(each.prompt)) for each in decisions]
    signs = [-1 if each.world.walls[GATE] else 1 for each in decisions]
    moved = {}
    for kind, vector in vectors.items():
        step = torch.tensor(2 * vector)
        changes = [write(s * step, at, [1]) for s, at in zip(signs, ends, strict=True)]
        after = [answer.action for answer in answer_all(network, decisions, changes)]
        moved[kind] = np.mean([a != b for a, b in zip(after, before, strict=True)])
    assert moved == {"gate": float(flip), "other": 0.0, "random": 0.0}
    direction = torch.tensor(planted.directions[GATE])
    removed = answer_all(network, decisions, [ablate(direction, at, [1]) for at in ends])
    # A gate of which nothing is known is not open.
    expected = [DOWN] * len(before) if flip else before
    assert [answer.action for answer in removed] == expected
