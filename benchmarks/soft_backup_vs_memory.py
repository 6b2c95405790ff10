"""A soft backup of a large MDP costs a few times its unavoidable reads and stores no policy.

Random sparse MDPs (A = 4 actions, K = 4 successors drawn from all states), horizon 100, from
10^2 to 10^6 states; all cores. Ours is `goalmeter.tabular.planning.backward`: the hard and the soft
value of every state, exact at every rationality, without and with the two derivatives that
measuring needs. It is compared, in the same process, with two bounds and a naive planner:

* stream: the time to read the bytes that one backup has to read and write once (probabilities 8 B
  and indices 4 B a transition, row pointers, rewards, value columns) at the bandwidth measured
  with all cores, in main memory. It assumes that finding a successor's value is free.
* gather: the same, plus reading every value column at the successors' indices by `numpy.take` on
  all cores. Random successors are not contiguous, and no planner avoids these reads.
* naive: dense, one problem, policy stored (`baselines/naive_planner.py`), where it fits.

Finally, the complete `known_utility` at the largest size, in its own process: time and peak memory,
compared with twice the MDP plus one value per state and decision step. The occupancy of the policy
[H, S] must be stored: it is computed forwards in time and used backwards, once for each rationality
tried. The policies of the model [H, S, A] are recomputed, never stored.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import harness
import numpy as np
from baselines.naive_planner import soft_values
from sparse_worlds import ACTIONS, SUCCESSORS, sparse_world

import goalmeter as gm
from goalmeter.tabular.backup import problem
from goalmeter.tabular.planning import backward
from goalmeter.tabular.policies import rewards_of
from goalmeter.tabular.transition import Block

HORIZON = 100
RATIONALITY = 0.5
NAIVE_STATES = 1_000
COLUMNS = {"values": 2, "values and derivatives": 4}


def measure(quick: bool) -> dict[str, Any]:
    horizon = 5 if quick else HORIZON
    sizes = [100, 1_000, 20_000] if quick else [10**k for k in range(2, 7)]
    before = bandwidth(quick)
    rows = [_measure_size(n, horizon, quick) for n in sizes]
    after = bandwidth(quick)
    speed = max(before, after)
    for row in rows:
        for name, columns in COLUMNS.items():
            part = row[name]
            stream = streamed_bytes(row["states"], row["transitions"], columns) / speed
            part["stream_bound_seconds"] = stream
            part["gather_bound_seconds"] = stream + columns * row["gather_column_seconds"]
            part["over_stream"] = part["seconds"] / stream
            part["over_gather"] = part["seconds"] / part["gather_bound_seconds"]
    return {
        "horizon": horizon,
        "threads": _threads(),
        "bytes_per_second": {"before": before, "after": after},
        "sizes": rows,
        "growth_exponent": {name: _exponents(rows, name) for name in COLUMNS},
        "known_utility": _in_own_process(sizes[-1], horizon),
    }


def bandwidth(quick: bool) -> float:
    """Bytes a second that all cores together read from main memory, by the faster of two ways."""
    threads = _threads()
    parts = np.array_split(np.ones((4 if quick else 64) * 2**20), threads)
    best = math.inf
    with ThreadPoolExecutor(threads) as pool:
        for reduce in (np.sum, np.max):
            for _ in range(7):
                began = time.perf_counter()
                list(pool.map(reduce, parts))
                best = min(best, time.perf_counter() - began)
    return sum(p.nbytes for p in parts) / best


def streamed_bytes(states: int, transitions: int, columns: int) -> int:
    """What a backup has to read or write at least once."""
    matrix = 12 * transitions + 4 * ACTIONS * states
    return matrix + 8 * states + 2 * 8 * columns * states


def _measure_size(states: int, horizon: int, quick: bool) -> dict[str, Any]:
    mdp = sparse_world(states, horizon)
    task = problem(mdp, rewards_of(mdp), np.array([RATIONALITY]))
    calls = [lambda: backward(task, derivatives=False), lambda: backward(task), gather_column(mdp)]
    # Many short runs where a run is short; the largest takes some ten seconds.
    repeat = 2 if quick else max(3, min(200, 200_000 // states))
    if states <= NAIVE_STATES:
        P, R = mdp.transition.to_dense(), np.array(mdp.reward)
        calls.append(lambda: soft_values(P, R, RATIONALITY, horizon))
        repeat = min(repeat, 9)
    times = harness.interleaved(calls, repeat)
    row: dict[str, Any] = {
        "states": states,
        "transitions": mdp.transition.n_entries,
        "mdp_bytes": mdp.transition.nbytes,
        "values": {"seconds": times[0] / horizon},
        "values and derivatives": {"seconds": times[1] / horizon},
        "gather_column_seconds": times[2],
    }
    if states <= NAIVE_STATES:
        row["naive_seconds"] = times[3] / horizon
    return row


def gather_column(mdp: gm.TabularMDP) -> Any:
    """A call that reads one value column at the index of every successor, on all threads."""
    values = np.random.default_rng(0).random(mdp.n_states)
    indices_of = {block.start: _indices(block) for block in mdp.transition.blocks}
    size = max(indices.size for indices in indices_of.values())

    def take(block: Block) -> None:
        indices = indices_of[block.start]
        # mode="clip" is the only one that does not go through a buffer of its own.
        np.take(values, indices, out=np.empty(size)[: indices.size], mode="clip")

    return lambda: mdp.transition.map_blocks(take)


def _indices(block: Block) -> np.ndarray[Any, Any]:
    if isinstance(block.matrix, np.ndarray):
        return np.nonzero(block.matrix)[1]
    return np.asarray(block.matrix.indices)


def _exponents(rows: list[dict[str, Any]], name: str) -> dict[str, float]:
    """Slope of log time against log S: least squares over all sizes, and the last two."""
    x = np.log([row["states"] for row in rows])
    y = np.log([row[name]["seconds"] for row in rows])
    return {
        "overall": float(np.polyfit(x, y, 1)[0]),
        "last": float((y[-1] - y[-2]) / (x[-1] - x[-2])),
    }


def _threads() -> int:
    return int(os.environ.get("GOALMETER_THREADS") or harness.cores())


def _in_own_process(states: int, horizon: int) -> dict[str, Any]:
    command = [sys.executable, str(Path(__file__).resolve()), "--child", str(states), str(horizon)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"known_utility of {states} states failed:\n{done.stderr}")
    return dict(json.loads(done.stdout))


def child(states: int, horizon: int) -> None:
    """Time and peak memory of `known_utility`; the policy prefers rewarding successors."""
    import resource

    at_start = _status("VmRSS")
    mdp = sparse_world(states, horizon)
    later = mdp.transition.expect_all(np.array(mdp.reward))
    weight = np.exp(2.0 * later)
    policy = np.ascontiguousarray((weight / weight.sum(axis=0)).T)
    del later, weight
    built = _status("VmRSS")
    # Linux: 5 sets the high-water mark back to what is used now.
    Path("/proc/self/clear_refs").write_text("5")
    began = time.perf_counter()
    result = gm.meg.known_utility(mdp, policy)
    seconds = time.perf_counter() - began
    mdp_bytes = mdp.transition.nbytes + mdp.reward.nbytes + mdp.initial.nbytes
    stored = 8 * states * horizon
    print(
        json.dumps(
            {
                "states": states,
                "horizon": horizon,
                "seconds": seconds,
                "value": result.value,
                "upper_bound": result.upper_bound,
                "rationality": result.rationality,
                "interpreter_bytes": at_start,
                "built_bytes": built,
                "peak_bytes": _status("VmHWM"),
                "peak_bytes_with_building": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
                * 1024,
                "mdp_bytes": mdp_bytes,
                "policy_bytes": policy.nbytes,
                "occupancy_bytes": stored,
                "allowed_bytes": 2 * mdp_bytes + stored,
                "policies_would_take_bytes": stored * ACTIONS,
            }
        )
    )


def _status(key: str) -> int:
    """A line of /proc/self/status, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024
    raise KeyError(key)


def markdown(result: dict[str, Any]) -> str:
    rows = []
    for row in result["sizes"]:
        lean, full = row["values"], row["values and derivatives"]
        naive = row.get("naive_seconds")
        rows.append(
            [
                f"{row['states']:,}",
                harness.short(lean["seconds"]),
                f"{lean['seconds'] / row['states'] * 1e9:.0f} ns",
                f"{lean['over_stream']:.1f}x",
                f"{lean['over_gather']:.1f}x",
                harness.short(full["seconds"]),
                f"{full['over_stream']:.1f}x",
                f"{full['over_gather']:.1f}x",
                "-" if naive is None else f"{naive / lean['seconds']:.0f}x",
            ]
        )
    header = [
        "states",
        "values",
        "per state",
        "/ stream",
        "/ gather",
        "with derivatives",
        "/ stream",
        "/ gather",
        "naive / values",
    ]
    memory = result["known_utility"]
    peak = memory["peak_bytes"] - memory["interpreter_bytes"] - memory["policy_bytes"]

    def mb(name: str) -> str:
        return f"{memory[name + '_bytes'] / 1e6:.0f}"

    speed = max(result["bytes_per_second"].values()) / 1e9
    growth = result["growth_exponent"]
    return "\n".join(
        [
            harness.table(header, rows),
            "",
            f"- {result['threads']} threads; {speed:.1f} GB/s read from main memory; "
            f"{ACTIONS} actions, {SUCCESSORS} successors, {result['horizon']} steps.",
            *(
                f"- Growth of {name}: time ~ S^{e['overall']:.2f} over all sizes, "
                f"S^{e['last']:.2f} between the last two."
                for name, e in growth.items()
            ),
            f"- `known_utility` of {memory['states']:,} states, {memory['horizon']} decisions: "
            f"{harness.short(memory['seconds'])}; value {memory['value']:.6g} nats, bound "
            f"{memory['upper_bound'] - memory['value']:.1e} above it.",
            f"- Its peak memory: {peak / 1e6:.0f} MB besides the interpreter and the policy that "
            f"was handed in ({mb('policy')} MB); of it the MDP {mb('mdp')} MB and the occupancy "
            f"{mb('occupancy')} MB. Twice the MDP plus one value a state and step would be "
            f"{mb('allowed')} MB. Storing policies would take {mb('policies_would_take')} MB more.",
        ]
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(int(sys.argv[2]), int(sys.argv[3]))
    else:
        harness.run(__file__, __doc__, measure, markdown)
