"""No certified value contradicts 50 digits, whatever the discount and the units.

Tiny worlds (2 to 4 states, 2 or 3 actions) are drawn at random, a seventh of them for each kind of
utility; a fifth of the policies are deterministic. The truth is the maximum of the evidence in 50
digits (`tests/oracles/fifty_digits.py`, which shares no code with goalmeter). Rewards and features
have units from 1e-12 to 1e12. Utilities of time and state have a horizon of 3 decisions with
discounted rewards; targets belong to one decision in a diagram, without a discount. Half of the
other worlds, except those with features, are measured in batches.

A contradiction is a truth below the value or above the bound, or a certified value that differs
from the truth, by more than the tolerance of the result and what the last digits of the world and
of the policy can change: 4 eps T times the maximum, with T = 1 / (1 - discount) decisions. An open
result has a value and a bound that do not meet.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import harness
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from oracles import fifty_digits as exact

import goalmeter as gm
from goalmeter.meg import MegResult

DISCOUNTS = (0.9, 0.99, 0.999, 0.9999, 0.99999, *(1.0 - 10.0**-k for k in range(6, 10)))
KINDS = ("known", "states", "pairs", "features", "pair features", "times", "targets")
SHAPES = ((2, 2), (3, 2), (4, 3))
OVER: Any = {"states": "state", "pairs": "state-action", "times": "time-state"}
WORLDS = 2000


class World(NamedTuple):
    """A world with a policy [S, A] or [H, S, A] and features [S, A, D], and how it is measured."""

    kind: str
    discount: float
    together: bool
    transition: Any
    policy: Any
    features: Any


def drawn(i: int) -> World:
    """The i-th world: discounts take turns, then kinds, then engines."""
    rng = np.random.default_rng([2911, i])
    discount, turn = DISCOUNTS[i % len(DISCOUNTS)], i // len(DISCOUNTS)
    kind = KINDS[turn % len(KINDS)]
    together = kind in ("known", *OVER) and turn // len(KINDS) % 2 == 1
    s, a = SHAPES[int(rng.integers(len(SHAPES)))]
    transition = rng.dirichlet(np.full(s, rng.choice([0.1, 0.3, 1.0])), size=(s, a))
    shape = (3, s) if kind == "times" else (s,)
    policy = rng.dirichlet(np.full(a, rng.choice([0.1, 0.3, 1.0, 5.0])), size=shape)
    if rng.random() < 0.2:
        policy = np.eye(a)[policy.argmax(axis=-1)]
    unit = 10.0 ** rng.uniform(-12, 12)
    columns = 1 if kind == "known" else 2
    features = unit * rng.normal(size=(s, a, columns))
    if kind == "features" or (kind == "known" and rng.random() < 0.5):
        features = features[:, :1].repeat(a, axis=1)
    return World(kind, discount, together, transition, policy, features)


def truth(world: World) -> float:
    """MEG in 50 digits."""
    kind, transition, policy = world.kind, world.transition, world.policy
    s, a = transition.shape[:2]
    start = np.eye(s)[0]
    if kind == "times":
        # What the start pays tells no actions apart, and a discount changes no class of any size.
        features = np.zeros((3, s, a, 2, s))
        for t in (1, 2):
            for state in range(s):
                features[t, state, :, t - 1, state] = 1.0
        return float(
            exact.best_evidence(
                exact.finite(transition, 3, start, features.reshape(3, s, a, -1), policy)
            )
        )
    if kind == "targets":
        contexts = np.full(s, 1.0 / s)
        return float(exact.best_evidence(exact.decisions(contexts, transition, policy)))
    features = world.features
    if kind == "states":
        features = np.broadcast_to(np.eye(s)[:, None], (s, a, s))
    problem = exact.discounted(transition, world.discount, start, features, policy)
    # Utilities over states and actions, log policy for example, predict any policy as it is.
    return float((exact.predictability if kind == "pairs" else exact.best_evidence)(problem))


def measured(world: World) -> MegResult:
    """Measure one world as a user would."""
    if world.kind == "targets":
        return _target(world)
    mdp = table(world)
    if world.kind == "known":
        return gm.meg.known_utility(mdp, world.policy)
    if world.kind == "features":
        return gm.meg.unknown_utility(mdp, world.policy, features=world.features[:, 0])
    if world.kind == "pair features":
        return gm.meg.unknown_utility(mdp, world.policy, features=world.features)
    return gm.meg.unknown_utility(mdp, world.policy, over=OVER[world.kind])


def side_by_side(worlds: list[World]) -> list[MegResult]:
    """Measure many worlds of one kind in one batch."""
    mdps, policies = [table(world) for world in worlds], [world.policy for world in worlds]
    if worlds[0].kind == "known":
        return gm.meg.known_utility_many(mdps, policies)
    return gm.meg.unknown_utility_many(mdps, policies, over=OVER[worlds[0].kind])


def table(world: World) -> gm.TabularMDP:
    """The world as goalmeter has it."""
    reward = world.features[..., 0]
    horizon = 3 if world.kind == "times" else None
    return gm.TabularMDP(
        world.transition, reward, horizon=horizon, discount=world.discount, initial=0
    )


def _target(world: World) -> MegResult:
    """The decision D that sees X, and its target T."""
    s, a = world.transition.shape[:2]
    names = {"X": range(s), "D": range(a), "T": range(s)}
    network = gm.causal.CausalBayesianNetwork(
        {name: [str(i) for i in states] for name, states in names.items()},
        {"D": ["X"], "T": ["X", "D"]},
        {"X": np.full(s, 1.0 / s), "D": world.policy, "T": world.transition},
    )
    return gm.meg.targets(network, ["D"], ["T"])


def contradicts(result: MegResult, true: float, discount: float) -> bool:
    """Whether the truth is not where a result says that it is."""
    decisions = 1.0 / (1.0 - discount)
    last = 4.0 * np.finfo(float).eps * decisions * result.maximum
    room = result.tolerance + last
    inside = result.value - room <= true <= result.upper_bound + room
    right = abs(result.value - true) <= max(result.gap, 0.0) + room
    return not inside or (result.certified and not right)


def judged(numbers: Sequence[int]) -> list[dict[str, Any]]:
    """Measure some of the worlds and compare them with the truth."""
    worlds = {i: drawn(i) for i in numbers}
    results = {i: measured(world) for i, world in worlds.items() if not world.together}
    groups = defaultdict(list)
    for i, world in worlds.items():
        if world.together:
            groups[world.kind, world.discount, world.transition.shape].append(i)
    for members in groups.values():
        each = side_by_side([worlds[i] for i in members])
        results |= dict(zip(members, each, strict=True))
    rows = []
    for i, world in worlds.items():
        result, true = results[i], truth(world)
        rows.append(
            {
                "world": i,
                "kind": world.kind,
                "discount": world.discount,
                "together": world.together,
                "value": result.value,
                "upper_bound": result.upper_bound,
                "truth": true,
                "gap_share": max(result.gap, 0.0) / result.maximum,
                "certified": bool(result.certified),
                "contradicts": bool(contradicts(result, true, world.discount)),
            }
        )
    return rows


def measure(quick: bool) -> dict[str, Any]:
    """All worlds, part by part."""
    return summary([row for part in parts(quick) for row in judged(part)])


def parts(quick: bool = False) -> list[range]:
    """Numbers of the worlds, one discount at a time, in two halves; a batch is within one part."""
    n = len(DISCOUNTS)
    if quick:
        # Every kind at 0.9999.
        return [range(3, n * len(KINDS), n)]
    half = n * (WORLDS // 2 // n)
    ends = (half, WORLDS)
    return [
        range(first + k, end, n)
        for first, end in zip((0, half), ends, strict=True)
        for k in range(n)
    ]


def summary(judgements: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts for each kind and discount, and the worlds with a contradiction."""
    groups = defaultdict(list)
    for row in judgements:
        groups[row["kind"], row["discount"]].append(row)
    rows = [
        {
            "kind": kind,
            "discount": discount,
            "worlds": len(group),
            "batched": sum(row["together"] for row in group),
            "certified": sum(row["certified"] for row in group),
            "contradictions": [row for row in group if row["contradicts"]],
            "largest_gap": max(row["gap_share"] for row in group),
        }
        for (kind, discount), group in sorted(groups.items())
    ]
    return {"rows": rows}


def markdown(result: dict[str, Any]) -> str:
    """How many were certified and how large gaps are, by kind and discount; the contradictions."""
    rows = result["rows"]
    discounts = sorted({row["discount"] for row in rows})

    def cell(kind: str, discount: float) -> str:
        some = [r for r in rows if r["discount"] == discount and kind in (r["kind"], "all")]
        return f"{sum(r['certified'] for r in some)} of {sum(r['worlds'] for r in some)}"

    def total(name: str) -> int:
        return sum(row[name] for row in rows)

    header = ["certified", *(f"1 − {1.0 - g:.0e}" for g in discounts)]
    body = [[kind, *(cell(kind, g) for g in discounts)] for kind in (*KINDS, "all")]
    gaps = [max(r["largest_gap"] for r in rows if r["discount"] == g) for g in discounts]
    body.append(["largest gap / maximum", *(f"{gap:.0e}" for gap in gaps)])
    wrong = sum(len(row["contradictions"]) for row in rows)
    opened = total("worlds") - total("certified")
    return (
        f"{harness.table(header, body)}\n\n- Contradictions: {wrong} of {total('worlds')} "
        f"({total('certified')} certified, {opened} open; {total('batched')} in batches)."
    )


if __name__ == "__main__":
    harness.run(__file__, __doc__, measure, markdown)
