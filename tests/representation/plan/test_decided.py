"""When it is decided: planted to appear at a known share, to vanish again, or never to appear."""

from __future__ import annotations

from typing import Any

import pytest
from representation.plan.plantings import planted_plans, walked

from goalmeter.representation.plans.comparison import Decided, along, decided
from goalmeter.representation.plans.readers import POSITION

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)


def emergent(shown: dict[str, int], **options: Any) -> Decided:
    """Activations that hold so many first actions at each position, by its name."""
    plans = walked(200, queries=3)

    def at(_: int, position: str) -> Any:
        first = shown.get(position, 0)
        rows = planted_plans(plans, "linear" if first else "none", first=max(first, 1))
        return rows[:, 1:2]

    return decided(at, plans, layers=[2], shares=SHARES, parts=3, **options)


def test_a_step_is_settled_from_where_it_can_be_read_and_stays_so() -> None:
    shown = {"post/0.25": 1, "post/0.75": 1, "post/1.0": 2, "post/answer": 2}
    made = emergent(shown, steps=3)
    assert [row.position for row in made.decided if row.step == 1] == list(along(SHARES))
    # The first can be read at 0.25, not at 0.5, and then again: it is settled from 0.75 on.
    row = {(r.position, r.step): r for r in made.decided}
    assert row["post/0.25", 1].exceeds and not row["post/0.5", 1].exceeds
    assert [each.share for each in made.settled] == [0.75, 1.0, None]
    # With the position, what tells the first action tells something of the second as well.
    assert [each.added for each in made.settled[:2]] == [0.75, 0.75]
    assert not row["post/0.5", 1].adds
    first = row["post/0.75", 1]
    assert first.accuracy.value > 0.95 > first.baselines[POSITION].value
    difference = first.accuracy.value - first.baselines[POSITION].value
    assert first.beyond.value == pytest.approx(difference)
    assert first.accuracy.n == 200
    # Sequences that have ended have no third step.
    plans = walked(200, queries=3)
    assert row["pre/end", 3].accuracy.n == (plans.lengths >= 3).sum() < 200
