"""A reality check is measured at over 200,000 steps a second, in time linear in their number.

The whole battery of 25 environments and their opposites, each agent and number of steps in a
process of its own; CPU time, for ours the best of three runs where they are short. Time is linear
in the 23 environments that need not replay the whole history; BackwardConsciousness and DejaVu
must, so their time is quadratic unless the copy freezes early. The peer is the authors' library at
its paper commit (e38e3dc of semitrivial/ExtendedEnvironments): with a checkout named in
GOALMETER_REFLECTION_LIBRARY it is measured in the same run, if a battery takes at most a minute.
Without one its times are those measured earlier on a similar machine. Equality of the rewards is
checked by `reflection_agreement.py`.

Memory is the peak of the process minus its memory before the first step. The scripted half
of the paper's Table 1 is six agents, ten seeds, 500 and 1000 steps, by the clock.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import harness

import goalmeter as gm

LIBRARY = "GOALMETER_REFLECTION_LIBRARY"
INNER = ("constant", "random", "naive", "q-learner")
AGENTS = tuple(name for inner in INNER for name in (inner, f"rc({inner})"))
TABLE_1 = AGENTS[:6]
QUADRATIC = ("random", "naive", "q-learner")  # they are told all of a history, however long
SIZES = (250, 500, 1000, 2000, 4000)
SHOWN = 500
WHOLE_HISTORY = ("backwardconsciousness", "dejavu")
# What the library can do in a minute or so.
LIBRARY_SIZES = {
    "constant": (250, 500, 1000),
    "rc(constant)": (250, 500),
    "random": (250, 500, 1000),
    "rc(random)": (250,),
    "naive": (250, 500, 1000),
    "rc(naive)": (250, 500),
}
# CPU seconds on a virtual machine with 2 cores of an AMD EPYC, Python 3.11.7.
EARLIER = {
    "constant": {250: 0.27, 500: 1.00, 1000: 3.67},
    "rc(constant)": {250: 2.55, 500: 17.98},
    "random": {250: 0.44, 500: 1.74, 1000: 6.15},
    "rc(random)": {250: 5.45, 500: 42.5},
    "naive": {250: 1.39, 500: 7.51, 1000: 47.9},
    "rc(naive)": {250: 5.75, 500: 47.1},
}


def measure(quick: bool) -> dict[str, Any]:
    sizes, agents = ((20, 40), ("constant", "rc(naive)")) if quick else (SIZES, AGENTS)
    checkout = os.environ.get(LIBRARY, "")
    ours, library = [], []
    for agent in agents:
        for steps in sizes:
            short = steps <= 1000 or agent not in QUADRATIC
            ours.append(_battery(agent, steps, 3 if short and not quick else 1))
        for steps in LIBRARY_SIZES.get(agent, ()) if checkout and not quick else ():
            library.append(_battery(agent, steps, 1, checkout))
    if not library:
        library = [
            {"agent": agent, "steps": steps, "seconds": seconds, "earlier": True}
            for agent, times in EARLIER.items()
            for steps, seconds in times.items()
        ]
    return {
        "sizes": list(sizes),
        "ours": [_summary(run) for run in ours],
        "environments": _by_environment(ours),
        "library": [_summary(run) for run in library],
        **_table_1(quick),
    }


def _battery(agent: str, steps: int, repeat: int, *checkout: str) -> dict[str, Any]:
    script = str(harness.HERE / "reflection_run.py")
    command = [sys.executable, script, agent, str(steps), str(repeat), *checkout]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
    return {"agent": agent, "steps": steps, **json.loads(done.stdout)}


def _summary(run: dict[str, Any]) -> dict[str, Any]:
    """Seconds of the battery and of its two classes, and the memory that it took."""
    if "runs" not in run:
        return run
    whole = sum(s for name, _, s, _ in run["runs"] if name in WHOLE_HISTORY)
    seconds = sum(s for _, _, s, _ in run["runs"])
    return {
        "agent": run["agent"],
        "steps": run["steps"],
        "seconds": seconds,
        "steps_per_second": 50 * run["steps"] / seconds,
        "whole_history_seconds": whole,
        "other_seconds": seconds - whole,
        "grown_mib": run["peak_mib"] - run["before_mib"],
    }


def _by_environment(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of each environment and agent: microseconds a step at the most steps, and the growth."""
    rows = []
    for agent in _agents(runs):
        of_agent = [run for run in runs if run["agent"] == agent][-3:]
        steps = [run["steps"] for run in of_agent]
        for name in dict.fromkeys(name for name, *_ in of_agent[0]["runs"]):
            seconds = [sum(s for n, _, s, _ in run["runs"] if n == name) for run in of_agent]
            rows.append(
                {
                    "agent": agent,
                    "environment": name,
                    "steps": steps[-1],
                    "us_per_step": 1e6 * seconds[-1] / (2 * steps[-1]),
                    "exponent": harness.exponent(steps, seconds),
                }
            )
    return rows


def _table_1(quick: bool) -> dict[str, float]:
    began, cpu = time.perf_counter(), time.process_time()
    for agent in TABLE_1:
        for steps in (20, 40) if quick else (500, 1000):
            gm.reflection.measure(agent, steps=steps, seeds=1 if quick else 10)
    return {
        "table_1_seconds": time.perf_counter() - began,
        "table_1_cpu_seconds": time.process_time() - cpu,
    }


def markdown(result: dict[str, Any]) -> str:
    ours, library = result["ours"], result["library"]
    sizes = result["sizes"]
    shown = SHOWN if SHOWN in sizes else sizes[-1]
    header = ["agent", f"ours, {shown} steps", "the 23 alone", "library", "ratio", "the 23 grow as"]
    header += ["the other two", "library grows as", "memory"]
    rows = []
    for agent in _agents(ours):
        of_agent = [run for run in ours if run["agent"] == agent]
        theirs = [run for run in library if run["agent"] == agent]
        (shown_run,) = [run for run in of_agent if run["steps"] == shown]
        peer = [run for run in theirs if run["steps"] == shown]
        rows.append(
            [
                agent,
                _rate(shown_run),
                f"{46 * shown / shown_run['other_seconds']:,.0f}",
                _rate(peer[0]) if peer else "-",
                f"{peer[0]['seconds'] / shown_run['seconds']:.0f}x" if peer else "-",
                _growth(of_agent[-3:], "other_seconds"),
                _growth(of_agent[-3:], "whole_history_seconds"),
                _growth(theirs, "seconds"),
                f"{of_agent[-1]['grown_mib']:.1f} MiB",
            ]
        )
    speeds = [
        [agent, *(_rate(run) for run in ours if run["agent"] == agent)] for agent in _agents(ours)
    ]
    lines = [
        harness.table(header, rows),
        "",
        harness.table(["steps a second", *map(str, sizes)], speeds),
        "",
        *_remarks(result),
    ]
    return "\n".join(lines)


def _remarks(result: dict[str, Any]) -> list[str]:
    library, sizes = result["library"], result["sizes"]
    slowest = max(
        (row for row in result["environments"] if row["agent"] == "rc(naive)"),
        key=lambda row: row["us_per_step"],
    )
    clock, cpu = (result[f"table_1_{kind}"] for kind in ("seconds", "cpu_seconds"))
    lines = [
        f"- Speeds are steps a second. Growth is fitted to the last {len(sizes[-3:])} sizes, and "
        f"memory is at {sizes[-1]} steps. What costs rc(naive) most is {slowest['environment']}, "
        f"{slowest['us_per_step']:.1f} us a step.",
        f"- The scripted half of Table 1 takes {clock:.0f} s in one process, of which {cpu:.0f} s "
        f"are CPU time.",
    ]
    if library[0].get("earlier"):
        return [
            *lines,
            "- The library's times were measured earlier on a similar machine, not in this run.",
        ]
    largest = max(library, key=lambda run: run["grown_mib"])
    return [
        *lines,
        f"- The library's memory grew by {largest['grown_mib']:.0f} MiB with {largest['agent']} at "
        f"{largest['steps']} steps.",
    ]


def _agents(runs: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(run["agent"] for run in runs))


def _rate(run: dict[str, Any]) -> str:
    return f"{50 * run['steps'] / run['seconds']:,.0f}"


def _growth(runs: Sequence[dict[str, Any]], seconds: str) -> str:
    if len(runs) < 2:
        return "-"
    exponent = harness.exponent([r["steps"] for r in runs], [r[seconds] for r in runs])
    return f"steps^{exponent:.2f}"


if __name__ == "__main__":
    harness.run(__file__, __doc__, measure, markdown)
