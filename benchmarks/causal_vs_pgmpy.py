"""MEG in a standard network takes a few times its query in pgmpy, more in large networks.

Networks of the bnlearn repository, as pgmpy ships them. In each, eight decisions and targets drawn
with a seed: any variable as the decision, any of its descendants as the target. `targets` is the
whole of `gm.meg.targets`: the graph, the order, P(target | decision, its observations), the best of
all utilities and its proven bound. The peer is pgmpy's `VariableElimination`, asked for the same
conditional distribution in the same network, all contexts in one query, with its default order;
`prepare` creates the object, once per network, `query` is one query. `our query` is the same
distribution from a network without cached results. Imports and reading files are not counted. Both
sides' probabilities must agree; `refused` counts pairs that are too large for goalmeter.
"""

from __future__ import annotations

import importlib.util
import logging
import statistics
import time
import warnings
from pathlib import Path
from typing import Any

import harness
import numpy as np

import goalmeter as gm
from goalmeter.causal.contexts import neutral_network

NETWORKS = (
    "asia",
    "child",
    "insurance",
    "water",
    "alarm",
    "barley",
    "hailfinder",
    "hepar2",
    "win95pts",
    "andes",
    "diabetes",
    "pigs",
    "munin",
)
PAIRS = 8
COLUMNS = ("prepare", "query", "our_query", "targets")


def measure(quick: bool) -> dict[str, Any]:
    spec = importlib.util.find_spec("pgmpy")
    if spec is None or spec.origin is None:
        return {"pgmpy": None, "networks": []}
    logging.disable(logging.WARNING)
    # Importing it warns of what it will remove.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pgmpy
        import pgmpy.inference

    folder = Path(spec.origin).parent / "utils" / "example_models"
    names = NETWORKS[:1] if quick else NETWORKS
    rows = [_network(folder / f"{name}.bif.gz", quick) for name in names]
    return {"pgmpy": pgmpy.__version__, "networks": rows}


def _network(path: Path, quick: bool) -> dict[str, Any]:
    network = gm.CausalBayesianNetwork.from_bif(path)
    descendants = {d: sorted(network.descendants(d)) for d in network.variables}
    possible = [(d, t) for d in network.variables for t in descendants[d]]
    drawn = np.random.default_rng(0).choice(len(possible), 2 if quick else PAIRS, replace=False)
    pairs = [_pair(network, *possible[i], quick) for i in drawn]
    done = [pair for pair in pairs if not pair["refused"]]
    return {
        "network": path.name.split(".")[0],
        "variables": len(network.variables),
        "pairs": pairs,
        "refused": len(pairs) - len(done),
        "median": {c: statistics.median(p["seconds"][c] for p in done) for c in COLUMNS},
        "times_query": harness.geometric_mean(
            [p["seconds"]["targets"] / p["seconds"]["query"] for p in done]
        ),
        "times_both": harness.geometric_mean(
            [
                p["seconds"]["targets"] / (p["seconds"]["prepare"] + p["seconds"]["query"])
                for p in done
            ]
        ),
        "differ_by": max(p["differ_by"] for p in done),
    }


def _pair(
    network: gm.CausalBayesianNetwork, decision: str, target: str, quick: bool
) -> dict[str, Any]:
    from pgmpy.inference import VariableElimination

    evidence = (*network.parents(decision), decision)
    began = time.perf_counter()
    try:
        value = gm.meg.targets(network, [decision], [target]).value
    except gm.GoalmeterError as refusal:
        return {"decision": decision, "target": target, "refused": str(refusal)}
    rounds = 1 if quick else harness.enough(time.perf_counter() - began, budget=0.2)
    # The decision is uniform on both sides: what follows a choice is asked for, however rare.
    model = neutral_network(network, [decision]).to_pgmpy()
    inference = VariableElimination(model)
    # A network remembers what it was asked, so that each turn gets a new one.
    fresh = [neutral_network(network, [decision]) for _ in range(rounds + 1)]

    def query() -> Any:
        return inference.query([*evidence, target], show_progress=False)

    def our_query() -> Any:
        return fresh.pop().elimination.conditional((target,), evidence)

    theirs, ours = query(), our_query()
    axes = [theirs.variables.index(x) for x in (*evidence, target)]
    joint = theirs.values.transpose(axes)
    total = joint.sum(axis=-1, keepdims=True)
    possible = np.broadcast_to(total > 0, joint.shape)
    differ = np.abs(np.divide(joint, total, out=np.zeros_like(joint), where=total > 0) - ours)
    times = harness.interleaved(
        [
            lambda: VariableElimination(model),
            query,
            our_query,
            lambda: gm.meg.targets(network, [decision], [target]),
        ],
        rounds,
        warm_up=False,
    )
    return {
        "decision": decision,
        "target": target,
        "refused": "",
        "value": value,
        "contexts_and_actions": int(np.prod([network.size(x) for x in evidence])),
        "differ_by": float(differ[possible].max()),
        "seconds": dict(zip(COLUMNS, times, strict=True)),
    }


def markdown(result: dict[str, Any]) -> str:
    header = ["network", "variables", "pgmpy: prepare", "query", "our query", "targets"]
    header += ["targets / query", "targets / (prepare + query)", "differ by", "refused"]
    rows = [
        [
            row["network"],
            str(row["variables"]),
            *(harness.short(row["median"][c]) for c in COLUMNS),
            f"{row['times_query']:.2g}",
            f"{row['times_both']:.2g}",
            f"{row['differ_by']:.0e}",
            f"{row['refused']} of {len(row['pairs'])}",
        ]
        for row in result["networks"]
    ]
    lines = [harness.table(header, rows), ""]
    if not rows:
        return lines[0] + "\n\n- pgmpy is not installed, so that there was nothing to compare with."
    query, both = (
        harness.geometric_mean([row[k] for row in result["networks"]])
        for k in ("times_query", "times_both")
    )
    lines.append(
        f"- pgmpy {result['pgmpy']}. Medians over {PAIRS} pairs a network; ratios are geometric "
        f"means over pairs. Over all networks `targets` takes {query:.2g} times one query, and "
        f"{both:.2g} times making the inference object and asking it once."
    )
    return "\n".join(lines)


if __name__ == "__main__":
    harness.run(__file__, __doc__, measure, markdown)
