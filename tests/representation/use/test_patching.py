"""Questions in which something moved, by hand, and what the mouse does with their streams."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("transformers")

import torch
from representation.tiny import ROOM, sample
from representation.use.test_causal_use import decisions
from scipy import stats

from goalmeter.gridworld.planner import planned
from goalmeter.representation.use.patching import (
    KINDS,
    PairAnswers,
    StreamPlace,
    _exchange,
    angle,
    answers_by_half,
    moved,
    pairs,
    stream_places,
    subspace,
)

LEFT, RIGHT, UP, DOWN = range(4)


@pytest.mark.parametrize("kind", KINDS)
def test_pairs_differ_in_what_moved(mouse: Any, kind: str) -> None:
    """As many tokens, the question of the other state and its right moves, and nothing else."""
    words = decisions(mouse, 2)[1]
    for each in (words, sample(mouse, ROOM, prompt="compact/2")):
        listed = pairs(mouse, each, kind, seed=0)
        assert listed and len({pair.relation for pair in listed}) == len(listed)
        for pair in listed:
            asked, other = pair.located.sample, pair.donor.sample
            assert len(asked.prompt) == len(other.prompt) and asked.prompt != other.prompt
            assert other.optimal == planned(other.world).optimal_actions(other.state)
            moves = set(asked.optimal), set(other.optimal)
            by_hand = {
                "same": moves[0] == moves[1],
                "overlapping": moves[0] != moves[1] and bool(moves[0] & moves[1]),
                "disjoint": not moves[0] & moves[1],
            }
            assert by_hand[pair.relation]
            apart = [
                n for n, (a, b) in enumerate(zip(asked.prompt, other.prompt, strict=True)) if a != b
            ]
            if kind == "goal":
                assert tuple(apart) == pair.located.label("Goal:")
                assert asked.state == other.state and asked.world.goal != other.world.goal
            if kind == "agent":
                assert tuple(apart) == pair.located.label("Agent:")
                assert asked.world == other.world and asked.state.cell != other.state.cell


@pytest.fixture(scope="module")
def of_the_mouse(mouse: Any) -> Any:
    halves = answers_by_half(mouse, decisions(mouse, 16), "goal", "0", 0)
    return moved(halves, stream_places(mouse, ["pre/goal", "pre/end"], [0]))


@pytest.mark.slow
def test_the_goal_is_read_at_its_word(of_the_mouse: Any) -> None:
    """At layer 0 its word is the only one that differs, so this is the other question itself."""
    *screened, best, ceiling = of_the_mouse
    rows = {(row.position, row.layer): row for row in screened}
    assert [row.half for row in (screened[0], best, ceiling)] == ["screen", "confirm", "confirm"]
    assert set(rows) == {
        (position, label)
        for position in ("pre/goal", "pre/end")
        for label in (0, "0-1", "2-4", "all")
    }
    word, end = rows["pre/goal", 0], rows["pre/end", "all"]
    assert word.pairs >= 4 and word.flips.value > 0.75
    assert word.null_flips.value < word.flips.value
    assert word.same_flips.value == 0 and end.flips.value < 0.5
    (chosen,) = (row for row in screened if row.chosen)
    assert best.chosen and (best.position, best.layer) == (chosen.position, chosen.layer)
    assert best.position == "pre/goal" and best.flips.value > 0.75
    assert (ceiling.position, ceiling.layer, ceiling.is_ceiling) == ("pre/all", 0, True)
    assert ceiling.flips.value > 0.75


def test_exchanging_every_dimension_is_a_patch(mouse: Any) -> None:
    """And none is none; between them the components of either, by hand."""
    (pair, *_) = pairs(mouse, decisions(mouse, 1)[0], "goal", seed=0)
    asked, place = PairAnswers(mouse, "goal", [pair], 0), StreamPlace("pre/goal", (2,), 2)
    (token,) = asked.tokens(place, 0)
    own = mouse.streams(pair.located.sample.prompt, [2])[2][token]
    other = mouse.streams(pair.donor.sample.prompt, [2])[2][token]
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(mouse.width, mouse.width)))[0]
    for rank in (0, 3, mouse.width):
        change = _exchange(asked, place, basis[:, :rank], 0)
        assert change is not None
        onto = torch.from_numpy(basis[:, :rank] @ basis[:, :rank].T).float()
        by_hand = own - onto @ own + onto @ other
        torch.testing.assert_close(change.edits[0].change(own), by_hand, rtol=1e-4, atol=1e-4)


def test_angles_by_hand() -> None:
    """Half way out of a plane is 45 degrees; what chance gives is known in closed form."""
    basis, direction = np.eye(50)[:, :4], np.zeros(50)
    direction[[0, 9]] = 3.0
    degrees, chance = angle(basis, direction)
    assert degrees == pytest.approx(45)
    # The square of the cosine of a random direction: Beta(k / 2, (D - k) / 2).
    quantiles = stats.beta(2, 23).ppf([0.975, 0.5, 0.025])
    assert chance == pytest.approx(np.degrees(np.arccos(np.sqrt(quantiles))), abs=3)
    both = np.stack([direction, np.eye(50)[20]], axis=1)
    assert angle(basis, both)[0] == pytest.approx(45)
    assert angle(basis, np.eye(50)[:, 3])[0] == pytest.approx(0, abs=1e-3)


@pytest.mark.slow
def test_a_subspace_is_learnt(mouse: Any) -> None:
    """Where the goal's word is read, some dimensions do what the whole stream does."""
    halves = answers_by_half(mouse, decisions(mouse, 24), "goal", "0", 0)
    place = StreamPlace("pre/goal", (0,), 0)
    row, basis = subspace(mouse, halves, place, rank=12, steps=30, seed=0)
    assert row.losses[1] < row.losses[0] / 2
    np.testing.assert_allclose(basis.T @ basis, np.eye(12), atol=1e-6)
    assert row.whole_flips.value > 0.75
    assert row.flips.value > row.random_flips.value
