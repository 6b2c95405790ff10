"""What the benchmark scripts share: one thread, medians, the machine, JSON, tables.

A result is a dictionary: `claim` (the script's docstring), `commit`, `machine`, `versions`,
`quick`, `seconds` (how long the script took) and what the script measured.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

_T = TypeVar("_T")
HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def run(
    script: str,
    claim: str | None,
    measure: Callable[[bool], dict[str, Any]],
    markdown: Callable[[dict[str, Any]], str],
) -> None:
    """The main function of a script: parse --quick and --out, measure, print, write.

    The linear-algebra library gets one thread, for both sides of every comparison; it reads that
    when it is loaded, so the script starts itself again if it has to.
    """
    if any(os.environ.get(name) != "1" for name in THREAD_VARIABLES):
        os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))
        os.execv(sys.executable, [sys.executable, *sys.argv])
    text = (claim or "").strip()
    name = Path(script).stem
    parser = argparse.ArgumentParser(description=text.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a smoke run; its times mean nothing")
    parser.add_argument("--out", type=Path, help="JSON file (default: benchmarks/results)")
    options = parser.parse_args()
    if options.out is None and options.quick:
        parser.error("--quick needs --out, so that it does not replace the real results")
    out = options.out or RESULTS / f"{name}.json"
    began = time.perf_counter()
    load = os.getloadavg()[0]
    measured = measure(options.quick)
    result = {
        "claim": text,
        "commit": commit(),
        "machine": {**machine(), "load_before": round(load, 2)},
        "versions": versions(),
        "quick": options.quick,
        "seconds": round(time.perf_counter() - began, 1),
        **measured,
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(result, indent=1) + "\n")
    print(markdown(result))


def processor(call: Callable[[], _T]) -> tuple[_T, float]:
    """What a call returns, and the seconds of the processor that it takes."""
    began = time.process_time()
    result = call()
    return result, time.process_time() - began


def median_seconds(call: Callable[[], object], repeat: int, *, warm_up: bool = True) -> float:
    """Median time of a call over `repeat` calls, after one that is not counted."""
    return interleaved([call], repeat, warm_up=warm_up)[0]


def interleaved(
    calls: Sequence[Callable[[], object]], repeat: int, *, warm_up: bool = True
) -> list[float]:
    """Median times of several calls that take turns, so that a busy spell hits all alike."""
    if warm_up:
        for call in calls:
            call()
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(repeat):
        for call, taken in zip(calls, times, strict=True):
            began = time.perf_counter()
            call()
            taken.append(time.perf_counter() - began)
    return [statistics.median(t) for t in times]


def enough(seconds: float, budget: float = 0.5) -> int:
    """How often to repeat a call of this length: 3 to 31 times, a short one more often."""
    return max(3, min(31, round(budget / max(seconds, 1e-9))))


def geometric_mean(values: Sequence[float]) -> float:
    """exp of the mean logarithm."""
    return math.exp(statistics.fmean(math.log(v) for v in values))


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """b of the fit seconds ~ sizes^b."""
    x, y = [math.log(v) for v in sizes], [math.log(v) for v in seconds]
    return statistics.linear_regression(x, y).slope


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table, columns aligned so that it reads well in a terminal too."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    lines = [
        "| " + " | ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) + " |"
        for row in (header, *rows)
    ]
    lines.insert(1, "|" + "|".join("-" * (w + 2) for w in widths) + "|")
    return "\n".join(lines)


def short(seconds: float) -> str:
    """A duration with three digits and its unit."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale or unit == "us":
            return f"{seconds / scale:.3g} {unit}"
    raise AssertionError


def commit() -> str:
    """The commit that was measured, with a mark if the working tree differs; "" outside git."""
    try:
        git = ["git", "-C", str(HERE)]
        head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, check=True)
        changed = subprocess.run(
            [*git, "status", "--porcelain", "--", "../src"], capture_output=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return head.stdout.decode().strip() + (" (src changed)" if changed.stdout.strip() else "")


def machine() -> dict[str, Any]:
    """CPU model, cores that may be used, memory, system."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [x for x in cpuinfo.read_text().splitlines() if x.startswith("model name")]
        model = names[0].split(":", 1)[1].strip() if names else model
    return {
        "cpu": model,
        "cores": cores(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
    }


def cores() -> int:
    """Cores this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else (os.cpu_count() or 1)


def versions() -> dict[str, str]:
    """Of everything that the times depend on."""
    import numpy
    import scipy

    import goalmeter

    return {
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
        "goalmeter": goalmeter.__version__,
    }
