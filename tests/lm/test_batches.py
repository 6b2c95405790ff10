"""Requests are gathered, answered in their order, and never lost."""

from __future__ import annotations

import threading
import time

import pytest

from goalmeter.agents.inspect_providers import Batcher


def test_what_is_asked_together_is_answered_together() -> None:
    sizes: list[int] = []
    begun, gate = threading.Event(), threading.Event()

    def answer(batch: list[int]) -> list[int]:
        begun.set()
        gate.wait()
        sizes.append(len(batch))
        return [-n for n in batch]

    batcher = Batcher(answer, most=8)
    first = batcher.submit(100)
    assert begun.wait(5)
    remaining = [batcher.submit(n) for n in range(20)]
    gate.set()
    assert first.result(5) == -100
    assert [future.result(5) for future in remaining] == [-n for n in range(20)]
    assert sizes == [1, 8, 8, 4]


def test_an_error_is_the_answer_to_its_batch_alone() -> None:
    def answer(batch: list[int]) -> list[int]:
        if 0 in batch:
            raise RuntimeError("out of memory")
        return batch

    batcher = Batcher(answer, most=1)
    with pytest.raises(RuntimeError, match="out of memory"):
        batcher.submit(0).result(5)
    assert batcher.submit(1).result(5) == 1


def test_it_starts_again_after_a_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goalmeter.agents.inspect_providers._IDLE", 0.01)
    batcher: Batcher[int, int] = Batcher(lambda batch: batch, most=2)
    assert batcher.submit(1).result(5) == 1
    while batcher._running:
        time.sleep(0.005)
    assert batcher.submit(2).result(5) == 2
