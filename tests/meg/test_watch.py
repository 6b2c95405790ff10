"""Long searches: progress, a timeout and an interrupt, each with what was reached by then."""

from __future__ import annotations

import re
import time
from typing import Any

import numpy as np
import pytest

from goalmeter._types import FloatArray
from goalmeter.meg import FitInterrupted, Progress, unknown_utility
from goalmeter.tabular import TabularMDP, cliff_world, epsilon_greedy, optimal_policy

CLIFF = cliff_world(1)
POLICY = epsilon_greedy(optimal_policy(CLIFF), 0.2)
VALUE = 18.0392  # published 17.4, see test_unknown


def large_world() -> tuple[TabularMDP, FloatArray]:
    """A grid of 21 x 21 states, whose search takes a minute and more."""
    n = 21
    row, column = np.divmod(np.arange(n * n), n)
    moves = [(0, -1), (0, 1), (-1, 0), (1, 0)]
    target = [np.clip(row + dr, 0, n - 1) * n + np.clip(column + dc, 0, n - 1) for dr, dc in moves]
    next_state = np.stack(target, axis=1)[..., None]
    reward = np.zeros(n * n)
    reward[-1] = 1.0
    mdp = TabularMDP((next_state, np.ones(next_state.shape)), reward, horizon=2 * n)
    return mdp, epsilon_greedy(optimal_policy(mdp), 0.2)


def holds(result: Any, value: float = VALUE) -> None:
    """A result that was stopped: both of its numbers are true, and it says so."""
    assert 0 <= result.value <= value + 1e-4 <= result.upper_bound + 2e-4
    assert result.upper_bound <= result.maximum
    assert result.to_json()["stopped"] == result.stopped
    assert any(note.startswith("stopped by") for note in result.notes)


def test_progress_brackets_the_value() -> None:
    heard: list[Progress] = []
    result = unknown_utility(CLIFF, POLICY, progress=heard.append)
    assert len(heard) > 5 and result.stopped is None
    assert [p.step for p in heard] == list(range(len(heard)))
    values = [p.value for p in heard]
    assert values == sorted(values)
    assert all(p.value <= VALUE + 1e-4 and p.upper_bound >= VALUE - 1e-4 for p in heard)
    assert all(p.left >= 0 and p.elapsed >= 0 for p in heard)
    words = r"Newton steps, step \d+: MEG \S+ nats so far, at most \S+; .* gone, .* left at most"
    assert re.fullmatch(words, str(heard[-1]))


@pytest.mark.parametrize("seconds", [1e-9, 0.1])
def test_a_timeout_returns_what_there_is(seconds: float) -> None:
    mdp, policy = large_world()
    begun = time.process_time()
    result = unknown_utility(mdp, policy, timeout=seconds, progress=False)
    assert time.process_time() - begun < seconds + 10  # most of a minute less than without
    assert result.stopped == "timeout" and not result.certified
    assert 0 <= result.value <= result.upper_bound <= result.maximum
    assert any("stopped by the timeout after" in note for note in result.notes)


def test_an_interrupt_carries_what_there_is() -> None:
    def at_the_keyboard(progress: Progress) -> None:
        if progress.step == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        unknown_utility(CLIFF, POLICY, progress=at_the_keyboard)
    assert isinstance(caught.value, FitInterrupted)
    result = caught.value.result
    holds(result)
    assert result.stopped == "interrupt" and result.value > 1
    assert "the best so far is in the attribute `result`" in str(caught.value)
