"""The threads that share the blocks of a large world."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import TypeVar

from goalmeter._errors import InvalidParameterError

_T = TypeVar("_T")
_R = TypeVar("_R")


def map_all(work: Callable[[_T], _R], items: Sequence[_T]) -> list[_R]:
    """Do `work` for every item, on all threads where there is more than one item."""
    if len(items) == 1 or thread_count() == 1:
        return [work(item) for item in items]
    return list(_pool(thread_count(), os.getpid()).map(work, items))


def thread_count() -> int:
    """Threads used on worlds of more than one block: GOALMETER_THREADS, else the cores."""
    text = os.environ.get("GOALMETER_THREADS", "")
    if not text:
        # A container may have fewer cores than its machine.
        affinity = getattr(os, "sched_getaffinity", None)
        return len(affinity(0)) if affinity else (os.cpu_count() or 1)
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise InvalidParameterError(
            f"GOALMETER_THREADS is {text!r}, expected a whole number of threads, at least 1"
        )
    return int(text)


@lru_cache(maxsize=1)
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    # The process is part of the key: a forked child inherits the pool but not its threads.
    return ThreadPoolExecutor(threads, thread_name_prefix="goalmeter")
