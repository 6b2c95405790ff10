"""Two processes do nearly twice the work of one; jobs and Ray do in longer studies.

Two studies of typical trials: 10,000 mazes of 7 x 7 (states: their free cells) with the
goal-directedness of epsilon-greedy policies towards the goal, by `meg.sweep`; and the reflection
battery, the naive learner, 10 seeds of 1000 steps, by `reflection.measure`. Wall-clock times of
whole calls, including start and end of workers, stored in a run folder unless stated otherwise; all
results must be the same. Efficiency is the time of one worker over twice the time of two. Ray is a
running cluster on this machine; the cost of Ray and of jobs (submitit's local executor) is their
extra time over two processes, including the start of workers: some two seconds, a large share of a
short study. Aims: efficiency at least 85%, and Ray under 10% in longer studies. The cost of storing
is measured in detail by `run_scaling.py`.
"""

from __future__ import annotations

import importlib.util
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import harness

import goalmeter as gm
from goalmeter.runs.backends.clusters import RayCluster

MAZES, SIZE = 10_000, 7
POLICIES = ["epsilon_greedy(0.1, 0.3)"]
AGENT, STEPS, SEEDS = "naive", 1000, 10
REPEAT = 2
Study = Callable[[str, Path | None], Any]


def sweep_of(mazes: int) -> Study:
    """A sweep over so many mazes, as a function of a place and a folder."""

    def run(on: str, out: Path | None) -> Any:
        worlds = [
            {"generator": "maze", "size": SIZE, "horizon": 30, "seed": {"from": 0, "count": mazes}}
        ]
        result = gm.meg.sweep(worlds, policies=POLICIES, on=on, out=out)
        return [row.measured.value for row in result.rows]

    return run


def battery_of(steps: int, seeds: int) -> Study:
    """The battery, as a function of a place and a folder."""

    def run(on: str, out: Path | None) -> Any:
        return gm.reflection.measure(AGENT, steps=steps, seeds=seeds, on=on, out=out).trials

    return run


def seconds_of(study: Study, on: str, *, kept: bool = True) -> tuple[float, Any]:
    """What a study takes, and its results."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        result = study(on, Path(folder) / "run" if kept else None)
        return time.perf_counter() - began, result


@contextmanager
def running(quick: bool) -> Iterator[list[str]]:
    """The places that this machine has, with a Ray cluster that runs."""
    on = ["processes:1", "processes:2"]
    if not quick and importlib.util.find_spec("submitit") is not None:
        on.append("slurm:cluster=local,jobs=2")
    if quick or importlib.util.find_spec("ray") is None:
        yield on
        return
    with RayCluster("local,cpus=2", trials=2, timeout=None):
        yield [*on, "ray:cpus=2"]


def measure(quick: bool) -> dict[str, Any]:
    repeat = 1 if quick else REPEAT
    studies = {
        "sweep": sweep_of(60 if quick else MAZES),
        "battery": battery_of(20 if quick else STEPS, 1 if quick else SEEDS),
    }
    rows: list[dict[str, Any]] = []
    for warm_up in (sweep_of(20), battery_of(20, 1)):  # for the imports of this process
        warm_up("here", None)
    with running(quick) as places:
        for name, study in studies.items():
            taken: dict[str, list[float]] = {}
            ways = [("here", False), ("here", True), *((place, True) for place in places)]
            first, differ = None, dict.fromkeys((place for place, _ in ways), 0)
            for _ in range(repeat):  # taking turns, since a machine has slow minutes
                for place, kept in ways:
                    seconds, result = seconds_of(study, place, kept=kept)
                    taken.setdefault(f"{place}{'' if kept else ', not kept'}", []).append(seconds)
                    first = first or result
                    differ[place] += sum(a != b for a, b in zip(first, result, strict=True))
            times = {way: statistics.median(seconds) for way, seconds in taken.items()}
            rows.append(
                {
                    "study": name,
                    "trials": len(first or ()),
                    "seconds": times,
                    "differ": sum(differ.values()),
                    "efficiency": times["processes:1"] / (2 * times["processes:2"]),
                    "efficiency_over_here": times["here"] / (2 * times["processes:2"]),
                    "over_processes": {
                        place: times[place] / times["processes:2"] - 1
                        for place in places
                        if not place.startswith("processes")
                    },
                }
            )
    return {"rows": rows}


def markdown(result: dict[str, Any]) -> str:
    ways = dict.fromkeys(way for row in result["rows"] for way in row["seconds"])
    tables = harness.table(
        ["where", *(row["study"] for row in result["rows"])],
        [[way, *(harness.short(row["seconds"][way]) for row in result["rows"])] for way in ways],
    )
    notes = []
    for row in result["rows"]:
        over = "".join(
            f"; {place} takes {cost:+.1%} over two processes"
            for place, cost in row["over_processes"].items()
        )
        notes.append(
            f"- {row['study']}: {row['trials']} results, {row['differ']} differ anywhere; "
            f"efficiency at two processes {row['efficiency']:.0%} over one, "
            f"{row['efficiency_over_here']:.0%} over this one{over}."
        )
    return "\n".join([tables, "", *notes])


if __name__ == "__main__":
    harness.run(__file__, __doc__, measure, markdown)
