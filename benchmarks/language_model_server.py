"""Use of a server's connections by the paper's mazes, at realistic latencies.

A stub server on loopback (`tests/lm/stub.py`) answers in lognormal times: median 4 s, of which one
in twenty is over 10.7 s (shape 0.6), and a fifth of its answers is drawn at random. One call in a
hundred fails: a 500, a 429 that says to come back in 5 s, a dropped connection, or no JSON, in
turn. Ideal is all seconds of answers divided by the connections, or where that is more the longest
walk, whose steps follow each other: its number of questions times the mean time of an answer.
Efficiency is the ideal over the wall time.

Time is compressed: the server's times and the client's waits are divided by the factor of each row.
The client's own computation is not, so it weighs more than in a run with a real model; the
efficiency includes it. `client` is the processor time of the client per call, which bounds the
calls that one process can make in a second.

The suite has 300 grids and 3,000 walks. At 64 connections three walks of each grid are made, so
that the bound is not the longest walk; in the other rows one walk of a grid, with few connections
of some grids only.
"""

from __future__ import annotations

import cProfile
import os
import pstats
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import harness

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from lm.stubbed import Served, StubProcess

from goalmeter.navigation.inspect.models import Server
from goalmeter.navigation.inspect.run import ask
from goalmeter.navigation.prompts import Asking
from goalmeter.navigation.trajectories import Trajectory

SECONDS, TAIL, ERROR, FAILING, RETRY_AFTER = 4.0, 0.6, 0.2, 0.01, 5.0
TENTH: dict[str, Any] = {"trajectories": 1}
THIRD: dict[str, Any] = {"trajectories": 3}
# Connections, how much faster time goes, and options of the suite.
ROWS: tuple[tuple[int, float, dict[str, Any]], ...] = (
    (64, 2.5, THIRD),
    (16, 8.0, TENTH),
    (4, 10.0, TENTH | {"grids": 3}),
    (1, 25.0, TENTH | {"grids": 2}),
    (128, 2.0, TENTH),
)
PACKAGES = ("goalmeter", "inspect_ai", "openai", "pydantic", "httpx", "httpcore", "anyio")


def measure(quick: bool) -> dict[str, Any]:
    """Each row, and where the processor time of a call goes."""
    os.environ["STUB_API_KEY"] = "none"
    os.environ["INSPECT_DISPLAY"] = "none"
    small: dict[str, Any] = {"sizes": [7], "grids": 2, "trajectories": 1}
    once(4, 50.0, small)  # imports, and the worlds
    rows: Any = ((1, 100.0, small), (16, 50.0, small)) if quick else ROWS
    return {
        "rows": [once(*row) for row in rows],
        "shares": shares({"grids": 2, "trajectories": 1, "sizes": [9]}),
    }


def once(connections: int, compression: float, options: dict[str, Any]) -> dict[str, Any]:
    """A run of the suite; times but the client's are those that the compressed ones stand for."""
    settings = {"seconds": SECONDS / compression, "tail": TAIL, "error": ERROR}
    failing = {"failing": FAILING, "retry_after": RETRY_AFTER}
    with StubProcess(**settings, **failing) as stub, compressed(compression):
        began, processor = time.time(), time.process_time()
        walks = walk(stub, connections, options)
        ended = time.time()
        wall = (ended - began) * compression
        processor = time.process_time() - processor
        counts = stub.counts()
    answered = counts["seconds"] * compression
    mean = answered / counts["answers"]
    longest = max(sum(step.attempts or 0 for step in each.steps) for each in walks) * mean
    ideal = max(answered / connections, longest)
    row = {
        "connections": connections,
        "compression": compression,
        "walks": len(walks),
        "calls": int(counts["calls"]),
        "failed_calls": int(counts["calls"] - counts["answers"]),
        "outcomes": dict(Counter(each.outcome for each in walks)),
        "seconds_of_answers": answered,
        "share_bound": answered / connections,
        "longest_walk": longest,
        "wall": wall,
        "efficiency": ideal / wall,
        "before_s": counts["first"] - began,
        "after_s": ended - counts["last"],
        "client_ms": 1000 * processor / counts["calls"],
        "client_share": processor * compression / wall,
    }
    print(row, file=sys.stderr, flush=True)
    return row


def walk(stub: Served, connections: int, options: dict[str, Any]) -> list[Trajectory]:
    """The walks of the paper's mazes, or of some of them."""
    server = Server(base_url=stub.url, max_connections=connections)
    with tempfile.TemporaryDirectory() as folder:
        asking = Asking(max_tokens=10_000)
        model = "openai-api/stub/model"
        return ask(model, "maze", folder, asking=asking, server=server, paper=True, **options)


@contextmanager
def compressed(factor: float) -> Iterator[None]:
    """Let the waits before a question is put again be that much shorter."""
    from inspect_ai.model import _retry

    whole = _retry._sleep

    async def shortly(seconds: float) -> None:
        await anyio.sleep(seconds / factor)

    _retry._sleep = shortly
    try:
        yield
    finally:
        _retry._sleep = whole


def shares(options: dict[str, Any]) -> dict[str, float]:
    """The shares of packages in the client's processor time, by a profile, which slows all down."""
    profile = cProfile.Profile(time.process_time)
    with StubProcess(error=ERROR) as stub:
        profile.enable()
        walk(stub, 16, options)
        profile.disable()
    by: Counter[str] = Counter()
    for (file, _, _), (_, _, own, _, _) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        parts = Path(file).parts
        by[next((name for name in PACKAGES if any(name in p for p in parts)), "other")] += own
    total = sum(by.values())
    return {name: seconds / total for name, seconds in by.most_common()}


def markdown(result: dict[str, Any]) -> str:
    """The table of the documentation."""
    head = (
        "| connections | walks | calls (failed) | time faster by | all answers / connections | "
        "longest walk | wall time | efficiency | client a call |\n" + "|---" * 9 + "|"
    )
    lines = [
        f"| {row['connections']} | {row['walks']} | {row['calls']} ({row['failed_calls']}) "
        f"| {row['compression']:g} | {row['share_bound'] / 60:.0f} min "
        f"| {row['longest_walk'] / 60:.1f} min | {row['wall'] / 60:.0f} min "
        f"| {row['efficiency']:.0%} | {row['client_ms']:.1f} ms |"
        for row in result["rows"]
    ]
    shares = ", ".join(f"{name} {share:.0%}" for name, share in result["shares"].items())
    return "\n".join([head, *lines, "", f"Processor time of a call by package: {shares}."])


if __name__ == "__main__":
    harness.run(__file__, __doc__, measure, markdown)
