"""Every part of the search without sufficient recall earns its place.

The search for maximum entropy policies (`goalmeter/meg/causal/search`) has parts that look for
better utilities and parts that see to it that policies are maximum entropy policies at all. Each is
switched off in turn, on random diagrams: decisions that forget, teams of two with binary choices,
members who are to match (as many policies are equally good as there are choices), and committees of
three with three choices each; their policies are random, mixed or deterministic. A value that falls
by more than 1e-6 nats is *lost*; one that is more than 1e-6 nats above that of a search with twice
as many restarts is *false*, because what it belongs to is no maximum entropy policy. Time is the
processor's, as a multiple of the whole search's. A part that the whole search never came to use on
a diagram is not run without it there: nothing would change.

A part stays if without it a value is lost, false or found much more slowly, here or elsewhere: gaps
and the starts that lean are needed by cases worked out by hand
(`tests/meg/causal/test_search.py`), limits by a committee that is not among these diagrams (seed 5,
deterministic: 0.25 nats are lost without them), where utilities that separate save time. Fresh
starts at the end stay because they say how sure the value is, the several kinds of starts because
each costs less time than it saves or a few lines. Three parts of the table did none of that and are
gone since: neighbours as starts of nodes that were solved before, equally good maximisers, larger
utilities. Without all three every value of these diagrams is the same to the last digit.
"""

from __future__ import annotations

import hashlib
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
from goalmeter.meg.causal.insufficient_recall import search
from goalmeter.meg.causal.outcomes import joint_outcomes

PACKAGE = "goalmeter.meg.causal.insufficient_recall"
SEEDS = {"forgetful": 9, "team": 9, "matching": 2, "committee": 2}
POLICIES = ("random", "mixed", "deterministic")
RESTARTS = 24
# No search is begun after so long; run again, the script goes on where it was.
MINUTES = 40
# Nats that count as lost or false.
APART = 1e-6
QUESTIONS = ("utility", "targets")

WHOLE = "nothing (the whole search)"
REFERENCE = "nothing, with twice the restarts"

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


def matching(rng: np.random.Generator, policy: str) -> Model:
    """Members who do not see each other; the outcome is how many choices there were among them.

    What all agree on is of no account, so as many policies are equally good as there are choices.
    """
    names = [f"D{i + 1}" for i in range(int(rng.integers(2, 4)))]
    sizes = {**dict.fromkeys(names, 3), "T": len(names)}
    parents: dict[str, tuple[str, ...]] = {**dict.fromkeys(names, ()), "T": tuple(names)}
    model = diagrams.filled(rng, sizes, parents, names, [("T",)], policy)
    outcome = diagrams.table(sizes, names, len(names), lambda *each: len(set(each)) - 1)
    return model._replace(cpds={**model.cpds, "T": outcome})


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
            lambda _: lambda family, curve, restarts: (curve.best().maximisers[0], 0),
        )
    ],
    "Newton's method": [("supported._exact", lambda _: lambda task, b, policies: None)],
}


def _without_random(starting: Any) -> Any:
    return lambda utilities, n, *more: starting(utilities, 0, *more)


TARGET_PARTS: dict[str, list[tuple[str, Switch]]] = {
    "weights fitted to the measured policy": [
        ("utilities.fitted_weights", lambda _: lambda u, share: np.zeros(u.basis.shape[1]))
    ],
    "single joint states as utilities": [("utilities._INDICATORS", lambda _: 0)],
    "random utilities": [("targets.starting_weights", _without_random)],
    "utilities in several sizes": [("utilities._SIZES", lambda _: 1)],
    "gradients": [("targets.uphill", lambda _: lambda u, start: (start, np.inf))],
    "generations": [("targets.evolved", lambda _: lambda u, first, rng: first.take([]))],
    "ridge": [("targets.along_the_ridge", lambda _: lambda u, s, verdict, n, rng: (s, verdict))],
    "limits": [("targets.limits", lambda _: lambda *_: None)],
    "separating utilities": [("limits._separating", lambda _: lambda u, n, rng: None)],
    "held utilities": [("climb.greatest_entropies", lambda whole: _nothing_held)],
    "check against fresh starts": [("targets.check", lambda _: _always_supported)],
    "Newton's method": [("supported._exact", lambda _: lambda task, b, policies: None)],
}


def _nothing_held(task: Any, utilities: Any, starts: Any) -> Any:
    module = importlib.import_module(f"{PACKAGE}.supported")
    return [module.Maximisers([], 0) for _ in utilities]


def _always_supported(utilities: Any, trial: Any, n: int, rng: Any) -> Any:
    module = importlib.import_module(f"{PACKAGE}.climb")
    return module.Verdict("supported", 0, None)


@contextmanager
def replaced(switches: Sequence[tuple[str, Switch]]) -> Iterator[None]:
    """Some names of the package replaced for a while."""
    undo: list[tuple[Any, str, Any]] = []
    try:
        for name, switch in switches:
            owner, last = place(name)
            whole = getattr(owner, last)
            undo.append((owner, last, whole))
            setattr(owner, last, switch(whole))
        yield
    finally:
        for owner, last, whole in undo:
            setattr(owner, last, whole)


def place(name: str) -> tuple[Any, str]:
    """The module or class of the package that holds a name, and its last part."""
    module, *path, last = name.split(".")
    owner: Any = importlib.import_module(f"{PACKAGE}.{module}")
    for step in path:
        owner = getattr(owner, step)
    return owner, last


def counting(names: Sequence[str], used: set[str]) -> list[tuple[str, Switch]]:
    """Switches that leave functions as they are and note which are called; constants always are."""

    def switch(name: str) -> Switch:
        def wrapped(whole: Any) -> Any:
            def call(*args: Any, **options: Any) -> Any:
                used.add(name)
                return whole(*args, **options)

            return call

        return wrapped

    constants = {name for name in names if not callable(getattr(*place(name)))}
    used |= constants
    return [(name, switch(name)) for name in names if name not in constants]


def solve(model: Model, question: str, restarts: int) -> tuple[float, float]:
    """The value, nats, and the processor's seconds."""
    network = network_of(model)
    goal: Any = utility_of(network, list(model.factors)) if question == "utility" else ("T",)
    began = time.process_time()
    table = joint_outcomes(network, model.decisions, goal)
    measured = table.policies(network)
    rng = np.random.default_rng(0)
    result = search(table, measured, restarts=restarts, rng=rng)
    return float(result.value), time.process_time() - began


def models(quick: bool) -> Iterator[tuple[str, Model]]:
    """The random diagrams by name."""
    makers = {m.__name__: m for m in (*diagrams.INSUFFICIENT, matching, committee)}
    # The small ones first, so that a run that is broken off has most of them.
    for name, count in ({"forgetful": 1} if quick else SEEDS).items():
        for i in range(count):
            policy = POLICIES[i % len(POLICIES)]
            yield f"{name} {i} {policy}", makers[name](np.random.default_rng(i), policy)


def measure(quick: bool) -> dict[str, Any]:
    """Values and times of the whole search and of it less each part."""
    cache = Path(tempfile.gettempdir()) / f"causal-search-parts-{digest()}.jsonl"
    runs: dict[tuple[str, str, str], tuple[float, float, list[str]]] = {}
    # A run that was broken off goes on where it was, unless it is a smoke run.
    if cache.exists() and not quick:
        for line in cache.read_text().splitlines():
            model, question, part, *run = json.loads(line)
            runs[model, question, part] = (run[0], run[1], run[2])
    if not runs:
        solve(next(models(True))[1], "targets", 2)  # pays for what is loaded once
    began = time.monotonic()
    for name, model, question, part in tasks(quick):
        if (name, question, part) in runs:
            continue
        if time.monotonic() - began > 60 * MINUTES:
            break
        restarts = 2 if quick else 2 * RESTARTS if part == REFERENCE else RESTARTS
        used: set[str] = set()
        switches = switches_of(question, part)
        if part == WHOLE:
            parts = UTILITY_PARTS if question == "utility" else TARGET_PARTS
            switches = counting([n for each in parts.values() for n, _ in each], used)
        elif switches:
            value, seconds, called = runs[name, question, WHOLE]
            if not set(called) & {n for n, _ in switches}:
                runs[name, question, part] = value, seconds, []
                continue
        with replaced(switches):
            try:
                value, seconds = solve(model, question, restarts)
            except Exception as error:  # what the others cannot do without this part
                print(name, question, part, repr(error), file=sys.stderr)
                value, seconds = float("nan"), float("nan")
        runs[name, question, part] = value, seconds, sorted(used)
        if not quick:
            with cache.open("a") as file:
                file.write(json.dumps([name, question, part, value, seconds, sorted(used)]) + "\n")
    return {"diagrams": len({m for m, _, _ in runs}), "parts": summary(runs, quick)}


def tasks(quick: bool) -> Iterator[tuple[str, Model, str, str]]:
    """Every diagram, question and part, the whole search first; a diagram's are together."""
    for name, model in models(quick):
        for question in QUESTIONS:
            parts = list(UTILITY_PARTS if question == "utility" else TARGET_PARTS)
            for part in (WHOLE, REFERENCE, *(parts[:2] if quick else parts)):
                yield name, model, question, part


def digest() -> str:
    """A short name for the search as it is, so that runs of another one are not mixed in."""
    package = importlib.import_module(PACKAGE)
    files = sorted(Path(str(package.__file__)).parent.glob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def summary(
    runs: dict[tuple[str, str, str], tuple[float, float, list[str]]], quick: bool
) -> list[dict[str, Any]]:
    """One row for each part of each question, over the diagrams on which every part was run."""
    by_question: dict[str, dict[str, list[str]]] = {}
    for name, _, question, part in tasks(quick):
        by_question.setdefault(question, {}).setdefault(part, []).append(name)
    rows = []
    for question, parts in by_question.items():
        done = [m for m in parts[WHOLE] if all((m, question, p) in runs for p in parts)]
        whole = np.array([runs[m, question, WHOLE][0] for m in done])
        best = np.maximum(whole, [runs[m, question, REFERENCE][0] for m in done])
        for part in parts:
            value = np.array([runs[m, question, part][0] for m in done])
            names = {n for n, _ in switches_of(question, part)}
            calls = [not names or names & set(runs[m, question, WHOLE][2]) for m in done]
            # Written so that a search that broke down, whose value is NaN, counts as lost.
            rows.append(
                {
                    "question": question,
                    "without": part,
                    "n": len(done),
                    "used": sum(map(bool, calls)),
                    "lost": int((~(whole - value <= APART)).sum()),
                    "most_lost": float(np.nanmax(whole - value, initial=0.0)),
                    "false": int((value > best + APART).sum()),
                    "most_false": float(np.nanmax(value - best, initial=0.0)),
                    "time": float(
                        np.nansum([runs[m, question, part][1] for m in done])
                        / max(sum(runs[m, question, WHOLE][1] for m in done), 1e-9)
                    ),
                }
            )
    return rows


def switches_of(question: str, part: str) -> list[tuple[str, Switch]]:
    """What belongs to a part; nothing to the whole search."""
    return (UTILITY_PARTS if question == "utility" else TARGET_PARTS).get(part, [])


def markdown(result: dict[str, Any]) -> str:
    """The table."""
    header = ["question", "without", "used in", "lost", "most, nats", "false", "most, nats", "time"]
    rows = [
        [
            row["question"],
            row["without"],
            f"{row['used']} of {row['n']}",
            str(row["lost"]),
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
