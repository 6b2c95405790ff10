"""Requests that come one by one, answered in batches."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Generic, TypeVar

Request = TypeVar("Request")
Reply = TypeVar("Reply")

# A batch is closed after a silence of this share of what the last one took, or of this many
# seconds if that is longer: whoever was answered together mostly comes back together.
_PATIENCE, _LEAST_PATIENCE = 0.05, 0.003
# The thread ends after so many seconds without a request.
_IDLE = 1.0


class Batcher(Generic[Request, Reply]):
    """Gathers requests of any threads and answers them a batch at a time, in a thread of its own.

    Args:
        answer: replies to a batch, in its order. An error it raises is the reply to each of them.
        most: requests in a batch.
    """

    def __init__(self, answer: Callable[[list[Request]], list[Reply]], most: int) -> None:
        self._answer = answer
        self._most = most
        self._changed = threading.Condition()
        self._waiting: list[tuple[Request, Future[Reply]]] = []
        self._running = False
        self._took = 0.0

    def submit(self, request: Request) -> Future[Reply]:
        """Ask; a reply that is cancelled before its batch begins is not computed."""
        future: Future[Reply] = Future()
        with self._changed:
            self._waiting.append((request, future))
            if self._running:
                self._changed.notify()
            else:
                self._running = True
                threading.Thread(target=self._work, name="goalmeter-batches", daemon=True).start()
        return future

    def _work(self) -> None:
        while batch := self._gather():
            # Whoever cancelled is left out; from here on cancelling is too late.
            batch = [pair for pair in batch if pair[1].set_running_or_notify_cancel()]
            if not batch:
                continue
            begun = time.monotonic()
            try:
                replies = self._answer([request for request, _ in batch])
            except Exception as error:
                for _, future in batch:
                    future.set_exception(error)
                continue
            self._took = time.monotonic() - begun
            for (_, future), reply in zip(batch, replies, strict=True):
                future.set_result(reply)

    def _gather(self) -> list[tuple[Request, Future[Reply]]]:
        with self._changed:
            if not self._changed.wait_for(lambda: bool(self._waiting), _IDLE):
                self._running = False
                return []
            patience = max(_LEAST_PATIENCE, _PATIENCE * self._took)
            while len(self._waiting) < self._most:
                seen = len(self._waiting)
                if not self._changed.wait_for(partial(self._more_than, seen), patience):
                    break
            batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
            return batch

    def _more_than(self, number: int) -> bool:
        return len(self._waiting) > number
