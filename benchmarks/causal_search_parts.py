"""Every part of the search without sufficient recall earns its place.

The search for maximum entropy policies (`goalmeter/meg/causal/search`) has parts that look for
better utilities and parts that see to it that policies are maximum entropy policies at all. Each
is switched off in turn, on random diagrams: decisions that forget, teams of two with binary
choices, and committees of three with three choices each, whose policies are random, mixed or
deterministic. A value that falls by more than 1e-6 nats is *lost*; one that is more than 1e-6 nats
above that of a search with four times as many restarts is *false*, because what it belongs to is
no maximum entropy policy. Time is the processor's, as a multiple of the whole search's. A part
stays if without it a value is lost, false or found much more slowly.
"""

from __future__ import annotations

import importlib
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import harness
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from causal.models import network_of
from oracles import random_diagrams as diagrams
from oracles.causal_model import Model

from goalmeter.causal import utility_of

PACKAGE = "goalmeter.meg.causal.search"
SEEDS = {"forgetful": 24, "team": 24, "committee": 12}
POLICIES = ("random", "mixed", "deterministic")
RESTARTS = 24
# Nats that count as lost or false.
APART = 1e-6
QUESTIONS = ("utility", "targets")

# What a part's function is replaced by, made from the function itself.
Switch = Callable[[Any], Any]


def committee(rng: np.random.Generator, policy: str) -> Model:
    """Three members with three choices each, who see a private signal and not each other."""
    names = ["D1", "D2", "D3"]
    sizes = {"S": 3, **{f"O{i}": 2 for i in (1, 2, 3)}, **dict.fromkeys(names, 3), "T": 4}
    parents: dict[str, tuple[str, ...]] = {"S": ()}
    parents |= {f"O{i}": ("S",) for i in (1, 2, 3)} | {f"D{i}": (f"O{i}",) for i in (1, 2, 3)}
    parents["T"] = ("D1", "D2", "D3", "S")
    return diagrams.filled(rng, sizes, parents, names, [("T",)], policy)


def _uniform_starts(_: Any) -> Any:
    """Uniform policies in place of starts near the measured one."""
    return lambda table, measured: [np.repeat(p[..., None], 4, axis=2) for p in table.uniform()]


def _uniform_leaning(_: Any) -> Any:
    return lambda task, at: [np.repeat(p[..., None], len(at), axis=2) for p in task.table.uniform()]


# Part -> (module.name, switch) of everything that belongs to it. A module's import counts as its
# name, so that a part can be switched off for one of those who use it.
UTILITY_PARTS: dict[str, list[tuple[str, Switch]]] = {
    "starts that lean towards the measured policy": [("frontier.leaning", _uniform_leaning)],
    "starts near the measured policy": [
        ("frontier.near_measured", _uniform_starts),
        ("known.near_measured", _uniform_starts),
    ],
    "neighbours as starts": [("curve.Curve._spread", lambda _: lambda self, changed: None)],
    "rationalities between unlinked ones": [
        ("curve.Curve.refine", lambda _: lambda self, fresh: None)
    ],
    "the best rationality between neighbours": [
        ("curve.Curve.sharpen", lambda _: lambda self, enough: None)
    ],
    "utilities in gaps": [("known.gaps", lambda _: lambda curve: [])],
    "fresh starts at the end": [
        (
            "known._confirmed",
            lambda _: lambda family, curve, restarts: (curve.best().found[0], 0),
        )
    ],
    "Newton's method": [("supported._exact", lambda _: lambda task, b, policies: None)],
}


def _without_random(starting: Any) -> Any:
    return lambda utilities, n, *rest: starting(utilities, 0, *rest)


TARGET_PARTS: dict[str, list[tuple[str, Switch]]] = {
    "weights fitted to the measured policy": [
        ("starts.fitted_weights", lambda _: lambda u, share: np.zeros(u.basis.shape[1]))
    ],
    "single joint states as utilities": [("starts._INDICATORS", lambda _: 0)],
    "random utilities": [("targets.starting_weights", _without_random)],
    "utilities in several sizes": [("starts._SIZES", lambda _: 1)],
    "gradients": [("targets.uphill", lambda _: lambda u, start: (start, np.inf))],
    "generations": [("targets.evolved", lambda _: lambda u, first, rng: first.take([]))],
    "ridge": [("targets.along_the_ridge", lambda _: lambda u, s, verdict, n, rng: (s, verdict))],
    "equally good maximisers": [("targets._refreshed", lambda _: lambda u, best, n, rng: best)],
    "larger utilities": [("targets._scaled", lambda _: lambda u, t, v, n, rng: (t, v))],
    "limits": [("targets.limits", lambda _: lambda *_: None)],
    "separating utilities": [("limits._separating", lambda _: lambda u, n, rng: None)],
    "held utilities": [("climb.greatest_entropies", lambda whole: _nothing_held)],
    "check against fresh starts": [("targets.check", lambda _: _always_supported)],
    "Newton's method": [("supported._exact", lambda _: lambda task, b, policies: None)],
}


def _nothing_held(task: Any, utilities: Any, starts: Any) -> Any:
    module = importlib.import_module(f"{PACKAGE}.supported")
    return [module.Found([], 0) for _ in utilities]


def _always_supported(utilities: Any, trial: Any, n: int, rng: Any) -> Any:
    module = importlib.import_module(f"{PACKAGE}.climb")
    return module.Verdict("supported", 0, None)


@contextmanager
def without(switches: Sequence[tuple[str, Switch]]) -> Iterator[None]:
    """Some parts switched off for a while."""
    undo: list[tuple[Any, str, Any]] = []
    try:
        for name, switch in switches:
            module, *path, last = name.split(".")
            owner: Any = importlib.import_module(f"{PACKAGE}.{module}")
            for step in path:
                owner = getattr(owner, step)
            whole = getattr(owner, last)
            undo.append((owner, last, whole))
            setattr(owner, last, switch(whole))
        yield
    finally:
        for owner, last, whole in undo:
            setattr(owner, last, whole)


def solve(model: Model, question: str, restarts: int) -> tuple[float, float]:
    """The value, nats, and the processor's seconds."""
    outcomes = importlib.import_module(f"{PACKAGE}.outcomes")
    network = network_of(model)
    began = time.process_time()
    rng = np.random.default_rng(0)
    if question == "utility":
        utility = utility_of(network, list(model.factors))
        table = outcomes.utility_outcomes(network, model.decisions, utility)
        search = importlib.import_module(f"{PACKAGE}.known").search_known
    else:
        table = outcomes.target_outcomes(network, model.decisions, ("T",))
        search = importlib.import_module(f"{PACKAGE}.targets").search_targets
    result = search(table, table.policies(network), restarts=restarts, rng=rng)
    return float(result.value), time.process_time() - began


def models(quick: bool) -> Iterator[tuple[str, Model]]:
    """The random diagrams by name."""
    makers = {m.__name__: m for m in (*diagrams.INSUFFICIENT, committee)}
    for i in range(max(SEEDS.values())):
        for name, count in SEEDS.items():
            if i < (0 if quick and name == "committee" else 1 if quick else count):
                policy = POLICIES[i % len(POLICIES)]
                yield f"{name} {i} {policy}", makers[name](np.random.default_rng(i), policy)


def measure(quick: bool) -> dict[str, Any]:
    """Values and times of the whole search and of it less each part."""
    cache = Path(tempfile.gettempdir()) / f"causal-search-parts-{harness.commit()[:12]}.jsonl"
    known: dict[tuple[str, str, str], tuple[float, float]] = {}
    # A run that was broken off goes on where it was, unless it is a smoke run.
    if cache.exists() and not quick:
        for line in cache.read_text().splitlines():
            model, question, part, value, seconds = json.loads(line)
            known[model, question, part] = value, seconds
    for name, model in models(quick):
        for question in QUESTIONS:
            parts = UTILITY_PARTS if question == "utility" else TARGET_PARTS
            chosen = list(parts.items())[:2] if quick else list(parts.items())
            runs = [("", [], RESTARTS), ("reference", [], 4 * RESTARTS)]
            for part, switches, restarts in [*runs, *((p, s, RESTARTS) for p, s in chosen)]:
                if (name, question, part) in known:
                    continue
                with without(switches):
                    try:
                        found = solve(model, question, 4 if quick else restarts)
                    except Exception as error:  # what the other parts cannot do without it
                        print(name, question, part, repr(error), file=sys.stderr)
                        found = (float("nan"), float("nan"))
                known[name, question, part] = found
                if not quick:
                    with cache.open("a") as file:
                        file.write(json.dumps([name, question, part, *found]) + "\n")
    return {"diagrams": len({m for m, _, _ in known}), "parts": summary(known)}


def summary(known: dict[tuple[str, str, str], tuple[float, float]]) -> list[dict[str, Any]]:
    """One row for each part of each question."""
    rows = []
    for question in QUESTIONS:
        whole = {m: r for (m, q, part), r in known.items() if q == question and part == ""}
        reference = {m: r for (m, q, p), r in known.items() if q == question and p == "reference"}
        parts = dict.fromkeys(p for _, q, p in known if q == question)
        for part in parts:
            found = {m: r for (m, q, p), r in known.items() if q == question and p == part}
            both = [m for m in found if m in whole and m in reference]
            value = np.array([found[m][0] for m in both])
            best = np.array([max(whole[m][0], reference[m][0]) for m in both])
            lost = np.array([whole[m][0] for m in both]) - value
            rows.append(
                {
                    "question": question,
                    "without": part,
                    "n": len(both),
                    "lost": int((~(lost <= APART)).sum()),
                    "most_lost": float(np.nanmax(lost, initial=0.0)),
                    "false": int((value > best + APART).sum()),
                    "most_false": float(np.nanmax(value - best, initial=0.0)),
                    "time": float(
                        np.nansum([found[m][1] for m in both]) / sum(whole[m][1] for m in both)
                    ),
                    "seconds": float(np.nansum([found[m][1] for m in both])),
                }
            )
    return rows


def markdown(result: dict[str, Any]) -> str:
    """The table."""
    header = ["question", "without", "lost", "most, nats", "false", "most, nats", "time"]
    names = {"": "nothing (the whole search)", "reference": "nothing, with 96 restarts"}
    rows = [
        [
            row["question"],
            names.get(row["without"], row["without"]),
            f"{row['lost']} of {row['n']}",
            f"{row['most_lost']:.2g}",
            str(row["false"]),
            f"{row['most_false']:.2g}",
            f"{row['time']:.2f}",
        ]
        for row in result["parts"]
    ]
    return harness.table(header, rows)


if __name__ == "__main__":
    harness.run(__file__, __doc__, measure, markdown)
