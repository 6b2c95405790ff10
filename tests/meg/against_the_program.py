"""Both engines held to the literal convex program, on as many random tiny worlds as wanted.

    PYTHONPATH=src:tests python -m meg.against_the_program 4000 [first seed]

The program computes the support of its optimum by a linear program that misses masses below 1e-7
and then says too much; where it lies above a bound, the best utility that BFGS finds decides.
"""

from __future__ import annotations

import sys
from collections import Counter

import numpy as np
from meg.instances import Awkward, awkward

from goalmeter.meg import MegResult, linear

CLASSES = ("state", "time-state", "state-action")
# Of the oracle's value, nats; and what certified means.
_ORACLE, _CERTIFIED = 1e-7, 1e-6


def instance(seed: int) -> Awkward:
    """An awkward instance without features, in half of which some states absorb or actions tie."""
    made, rng = awkward(seed), np.random.default_rng([seed, 1])
    over = CLASSES[seed % 3]
    if made.horizon is None and over == "time-state":
        over = "state"
    transition = made.P.copy()
    if rng.random() < 0.5:
        states, actions, _ = transition.shape
        absorbing = rng.integers(states)
        transition[absorbing] = np.eye(states)[absorbing]
        state, (one, two) = rng.integers(states), rng.integers(actions, size=2)
        transition[state, one] = transition[state, two]
    return made._replace(P=transition, features=None, over=over)


def measured(made: Awkward, *, large: bool) -> MegResult:
    """The result of the dense engine, or of the one for large classes."""
    before = linear._LARGE_WEIGHTS
    linear._LARGE_WEIGHTS = 0 if large else 10**9
    try:
        return made.measure()
    finally:
        linear._LARGE_WEIGHTS = before


def verdict(made: Awkward, results: list[MegResult]) -> str:
    """What the literal program says of results: "agreed", or in which way they do not.

    "agreed below" is where a linear program of the oracle misses small masses, and BFGS agrees.
    """
    try:
        optimum = made.primal()
    except RuntimeError:  # the oracle's linear program failed
        optimum = np.inf
    if any(result.value > optimum + _ORACLE for result in results):
        return "value above the optimum"
    if all(optimum <= result.upper_bound + _ORACLE for result in results):
        return "agreed"
    reached = made.dual()
    if any(result.upper_bound < reached - _ORACLE for result in results):
        return "bound below what a utility reaches"
    if any(result.certified and result.value < reached - _CERTIFIED for result in results):
        return "certified below what a utility reaches"
    return "agreed below"


def main(count: int = 300, first: int = 0) -> int:
    """Print how many agreed, and every seed that did not; the number of contradictions."""
    verdicts: Counter[str] = Counter()
    closed: Counter[str] = Counter()
    bad = 0
    for seed in range(first, first + count):
        made = instance(seed)
        results = [measured(made, large=large) for large in (False, True)]
        said = verdict(made, results)
        verdicts[said] += 1
        for name, result in zip(("dense", "large"), results, strict=True):
            closed[name] += int(result.gap <= _CERTIFIED)
            if result.gap > _CERTIFIED:
                print(f"seed {seed}, {name}: open by {result.gap:.1e} nats", flush=True)
        if not said.startswith("agreed"):
            bad += 1
            print(f"seed {seed}: {said}", *((r.value, r.upper_bound) for r in results), flush=True)
    print(f"{count} instances: {dict(verdicts)}, closed {dict(closed)}")
    return bad


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:3])) > 0)
