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


def test_what_was_there_does_not_count_for_the_time(clock: list[float]) -> None:
    told: list[str] = []
    report = Progress("greedy", "walk", 20, 10, 2, told.append)
    assert told == ["greedy: 10 of 20 walks were there already"]
    for _ in range(5):
        clock[0] += 2.0
        report.ended()
    assert told[-1] == "greedy: 15 of 20 walks, 2 failed, 10 s left"
    report.failed()
    for _ in range(5):  # within a second nothing is told but the last
        report.ended()
    assert len(told) == 7 and told[-1] == "greedy: 20 of 20 walks, 3 failed"
