"""What is told of a study that takes long."""

from __future__ import annotations

import pytest

from goalmeter.runs import progress
from goalmeter.runs.progress import Progress, in_words


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that stands at the only item, in seconds."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_the_time_that_is_left_is_told_after_a_few_trials(clock: list[float]) -> None:
    told: list[str] = []
    report = Progress("greedy", "walk", 20, 0, 0, told.append)
    for _ in range(20):
        clock[0] += 1.0
        report.ended()
    # A second a walk: of the first ones nothing is told of what is left.
    assert told[0] == "greedy: 1 of 20 walks"
    assert told[4] == "greedy: 5 of 20 walks, 15 s left" and told[-1] == "greedy: 20 of 20 walks"
    assert [in_words(s) for s in (12.4, 240, 9000)] == ["12 s", "4 min", "2.5 h"]
