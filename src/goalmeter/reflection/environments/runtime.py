"""How long an agent thinks, counted in lines of Python so that it is the same every time."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any

from goalmeter.agents.histories.protocol import Source

# An agent is slow if it runs through more lines than this for each number of the history.
LINES_A_NUMBER = 15


def lines_of_thought(
    source: Source, percepts: Sequence[tuple[float, int]], actions: Sequence[int]
) -> int:
    """The lines of Python that an agent runs through to act at a history, from nothing.

    A mind is begun, told of the history and asked; counted are the line events (`sys.settrace`) of
    all Python code that the agent runs in `begin`, `perceive`, `take` and `act`, whatever it
    calls. A line counts each time it is reached; compiled code (numpy, torch) counts only for the
    lines that call it, and other threads do not count. The number is the same on every machine; it
    may differ between versions of Python, which do not divide all code into lines alike.

    Args:
        source: of the agent.
        percepts: x_1 ... x_n.
        actions: y_1 ... y_{n-1}.
    """
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        if frame.f_code is Source.begin.__code__:
            return None  # not the agent's; what it calls is traced all the same
        if event == "line":
            count += 1
        return trace

    # This function's own lines are not counted: tracing takes hold of frames that begin after it.
    # The garbage collector may come at any time, and runs Python code of anybody who has asked it
    # to; reference counts go on freeing what they free.
    before, collecting = sys.gettrace(), gc.isenabled()
    gc.disable()
    sys.settrace(trace)
    try:
        mind = source.begin()
        for (reward, observation), action in zip(percepts[:-1], actions, strict=True):
            mind.perceive(reward, observation)
            mind.take(action)
        mind.perceive(*percepts[-1])
        mind.act()
    finally:
        sys.settrace(before)
        if collecting:
            gc.enable()
    return count


def patience(n: int) -> int:
    """The lines that are neither fast nor slow at a history of n percepts: 3n - 1 numbers."""
    return LINES_A_NUMBER * (3 * n - 1)
