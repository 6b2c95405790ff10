"""Storing, resuming and reading a trial cost about the same in runs of a thousand and a million.

Each trial is a record of about 200 bytes; each size runs in a fresh process. `keep` is
`Results.keep` of every trial into a new folder, `make` the complete `carry_out` in this process of
a function that returns its record immediately, `resume` `carry_out` of the finished run, `status`
the reads of `goalmeter status`, `read` those of a report. Lower bounds in the same process: `write`
writes the same lines at once and syncs the disk each second and at the end, `parse` is `json.loads`
of each line. Times in the table are CPU times per trial, for small runs the median of several.
`memory` is the increase per trial during `resume`. The last line has the CPU time of storing trials
of a millisecond each, and the wait of the driver for the disk, as a share of the run.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import harness

from goalmeter.runs import Results, Study, carry_out, read_run, stored_results
from goalmeter.runs.status import status_of

SIZES = (1_000, 10_000, 100_000, 1_000_000)
ENOUGH = 30_000  # trials that are kept in all, by as many runs as that takes
PARTS = ("keep", "make", "resume", "status", "read", "write", "parse")


def study_of(count: int) -> Study[Any]:
    def record(seed: int) -> dict[str, Any]:
        return {
            "environment": "IgnoreRewards",
            "opposite": False,
            "seed": seed,
            "steps": 500,
            "total_reward": 0.123456789 * seed,
            "outcome": "ok",
            "detail": "",
            "played": 500,
        }

    trials = {f"IgnoreRewards seed {seed}": {"seed": seed} for seed in range(count)}
    return Study("scaling", record, trials, what={"kind": "benchmark", "count": count})


def of_size(count: int) -> dict[str, Any]:
    """Seconds a trial of each part, for one size; in a process that did nothing else."""
    study = study_of(count)
    make = study.function
    assert callable(make)
    records = {key: make(**arguments) for key, arguments in study.trials.items()}
    seconds: dict[str, list[tuple[float, float]]] = {part: [] for part in PARTS}
    memory = 0.0
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"

        def keep() -> None:
            shutil.rmtree(folder, ignore_errors=True)
            with Results(study, folder) as results:
                for key in results.left:
                    results.keep(key, records[key])

        def timed(part: str, call: Callable[[], object]) -> None:
            began, worked = time.perf_counter(), time.process_time()
            call()
            spent = (time.process_time() - worked, time.perf_counter() - began)
            seconds[part].append(spent)

        for _ in range(max(1, ENOUGH // count)):
            before = resident()
            timed("keep", keep)
            timed("resume", lambda: carry_out(study, out=folder))
            memory = memory or (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before)
            timed("status", lambda: status_of(folder))
            timed("read", lambda: stored_results(read_run(folder), study))
            lines = (folder / "trials.jsonl").read_bytes().splitlines(keepends=True)
            timed("write", partial(write, lines, Path(place) / "bound"))
            timed("parse", partial(parse, lines))
            shutil.rmtree(folder)
            timed("make", lambda: carry_out(study, out=folder))
            size = sum(map(len, lines))
    middle = {
        part: [statistics.median(s[i] for s in seconds[part]) for i in (0, 1)] for part in PARTS
    }
    return {
        "trials": count,
        "bytes_a_trial": size / count,
        "processor": {part: middle[part][0] / count for part in PARTS},
        "clock": {part: middle[part][1] / count for part in PARTS},
        "memory_a_trial": memory / count,
    }


def write(lines: list[bytes], path: Path) -> None:
    with path.open("wb") as file:
        synced = time.monotonic()
        for first in range(0, len(lines), 10_000):
            file.write(b"".join(lines[first : first + 10_000]))
            if time.monotonic() - synced > 1:
                os.fsync(file.fileno())
                synced = time.monotonic()
        file.flush()
        os.fsync(file.fileno())


def parse(lines: list[bytes]) -> None:
    for line in lines:
        json.loads(line)


def work(loops: int) -> int:
    return sum(range(loops))


def keeping_share(trials: int, turns: int) -> dict[str, float]:
    """What keeping costs a run of trials of a millisecond, as a share of the run."""
    loops = 2000
    while harness.processor(partial(work, loops))[1] < 1e-3:  # a millisecond, about
        loops = loops * 5 // 4

    def trial(number: int) -> int:
        return work(loops) + number

    def study() -> Study[int]:
        each = {f"trial {number}": {"number": number} for number in range(trials)}
        return Study("milliseconds", trial, each, what={"kind": "benchmark"})

    waited = [0.0]
    sync = os.fsync

    def timed_sync(file: int) -> None:
        began = time.perf_counter()
        sync(file)
        if threading.current_thread() is threading.main_thread():  # the heartbeat's thread waits
            waited[-1] += time.perf_counter() - began

    def keep(folder: str) -> None:
        with Results(study(), folder) as results:
            for number, key in enumerate(results.left):
                results.keep(key, number)

    # A run that keeps nothing, one that keeps, and keeping alone: the difference of the first two
    # is small, and drowns in what else the machine does; so the last is what counts.
    plain, kept, keeping = [], [], []
    for _ in range(turns):
        plain.append(harness.processor(lambda: carry_out(study()))[1])
        with tempfile.TemporaryDirectory() as folder:
            keeping.append(harness.processor(partial(keep, folder))[1])
        with tempfile.TemporaryDirectory() as folder:
            os.fsync = timed_sync
            waited.append(0.0)
            try:
                kept.append(harness.processor(partial(carry_out, study(), out=folder))[1])
            finally:
                os.fsync = sync
    base, wait = statistics.median(plain), statistics.median(waited[1:])
    added = statistics.median(keeping) + wait
    return {
        "trials": trials,
        "trial_seconds": base / trials,
        "waited_seconds": wait,
        "share": added / (base + added),
        "share_by_difference": 1 - base / (statistics.median(kept) + wait),
    }


def resident() -> int:
    """Bytes that this process holds."""
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def measure(quick: bool) -> dict[str, Any]:
    rows = []
    for size in (100, 1000) if quick else SIZES:
        program = f"import json, run_scaling; print(json.dumps(run_scaling.of_size({size})))"
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, check=True
        )
        rows.append(json.loads(done.stdout))
    return {"rows": rows, "keeping": keeping_share(*((50, 1) if quick else (3000, 9)))}


def markdown(result: dict[str, Any]) -> str:
    header = ["trials", *PARTS, "memory a trial"]
    rows = [
        [
            f"{row['trials']:,}",
            *(f"{1e6 * row['processor'][part]:.3g} us" for part in PARTS),
            f"{row['memory_a_trial']:.0f} B",
        ]
        for row in result["rows"]
    ]
    last, keeping = result["rows"][-1], result["keeping"]
    clock = ", ".join(
        f"{part} {harness.short(last['trials'] * last['clock'][part])}" for part in PARTS
    )
    return (
        harness.table(header, rows)
        + f"\n\n- A line has {last['bytes_a_trial']:.0f} bytes. By the clock the run of "
        + f"{last['trials']:,} took: {clock}."
        + f"\n- Keeping is {keeping['share']:.1%} of a run of {keeping['trials']:,} trials of "
        + f"{harness.short(keeping['trial_seconds'])}; for the disk its driver waits "
        + f"{harness.short(keeping['waited_seconds'])} in all."
    )


if __name__ == "__main__":
    harness.run(__file__, __doc__, measure, markdown)
