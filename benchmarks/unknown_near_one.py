"""No certified value contradicts 50 digits, whatever the discount and the units.

Two thousand tiny worlds (2 to 4 states, 2 or 3 actions, dense and sparse), a seventh of them for each
kind of utility, at discounts from 0.9 to 1 - 1e-9. The truth is the maximum of the evidence in 50
digits (`tests/oracles/fifty_digits.py`, which uses nothing of goalmeter). Rewards and features are
given in units from 1e-12 to 1e12. Utilities of time and state have a horizon of 3 decisions, whose
rewards are discounted; targets are those of a decision in a diagram, without a discount. All but
features and targets are measured a second time, side by side with the other worlds of their shape.

A contradiction is a truth below the value or above the bound, or a certified value that is not the
truth, by more than the tolerance that the result states and what the last digits of the world and of
the policy can change (4 units in the last place at each of T = 1 / (1 - discount) decisions, 4 eps T
times the maximum). Open is a result whose bound and value do not meet; both are true.
"""

from __future__ import annotations

import sys
from collections import defaultdict
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
WORLDS = 2000


class World(NamedTuple):
    """A world with a behaviour: arrays [S, A, S] and [S, A] ([H, S, A]), and what its class adds."""

    kind: str
    discount: float
    transition: Any
    policy: Any
    features: Any


def drawn(i: int) -> World:
    """The i-th world: kinds and discounts take turns."""
    rng = np.random.default_rng([2911, i])
    kind, discount = KINDS[i % len(KINDS)], DISCOUNTS[i // len(KINDS) % len(DISCOUNTS)]
    s, a = int(rng.integers(2, 5)), int(rng.integers(2, 4))
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
    return World(kind, discount, transition, policy, features)


def truth(world: World) -> float:
    """MEG in 50 digits."""
    kind, transition, policy = world.kind, world.transition, world.policy
    s, a = transition.shape[:2]
    start = np.eye(s)[0]
    if kind == "times":
        features = np.zeros((3, s, a, 3, s))
        for t in range(3):
            for state in range(s):
                features[t, state, :, t, state] = 1.0
        # Weights may be of any size, so their discount changes no class.
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
    elif kind == "pairs":
        features = np.eye(s * a).reshape(s, a, s * a)
    problem = exact.discounted(transition, world.discount, start, features, policy)
    return float(exact.best_evidence(problem))


def measured(world: World) -> MegResult:
    """MEG as a user asks for it."""
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


OVER: Any = {"states": "state", "pairs": "state-action", "times": "time-state"}


def side_by_side(worlds: list[World]) -> list[MegResult]:
    """The results of many worlds of one kind, measured together."""
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


def judged(numbers: list[int]) -> list[dict[str, Any]]:
    """What became of some of the worlds, alone and side by side."""
    worlds = {i: drawn(i) for i in numbers}
    truths = {i: truth(world) for i, world in worlds.items()}
    results = [(i, "alone", measured(world)) for i, world in worlds.items()]
    together = defaultdict(list)
    for i, world in worlds.items():
        if world.kind in ("known", *OVER):
            together[world.kind, world.discount, world.transition.shape].append(i)
    for members in together.values():
        each = side_by_side([worlds[i] for i in members])
        results += [(i, "together", result) for i, result in zip(members, each, strict=True)]
    return [
        {
            "world": i,
            "kind": worlds[i].kind,
            "discount": worlds[i].discount,
            "engine": engine,
            "value": result.value,
            "upper_bound": result.upper_bound,
            "truth": truths[i],
            "maximum": result.maximum,
            "certified": result.certified,
            "contradicts": contradicts(result, truths[i], worlds[i].discount),
        }
        for i, engine, result in results
    ]
