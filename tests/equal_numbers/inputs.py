"""The files that the commands read: worlds, policies, causal models, agents and one environment.

They are written with NumPy and as text, without goalmeter, so that two checkouts read the same
bytes. Everything random comes from one seed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

_S, _A, _H, _D, _N = 6, 3, 5, 2, 12

# Example 1; then two decisions, of which the second sees the first, and of which neither sees the
# other.
_MOUSE, _RECALL, _TEAM = (
    Path(__file__).with_name(f"{name}.bif").read_text("utf-8")
    for name in ("mouse", "recall", "team")
)
_AGENT = '''"""Two agents as functions of the history."""

import hashlib


def agent(history, n_actions, n_observations):
    """Win-stay, lose-shift."""
    if not history.actions:
        return 0
    won = history.percepts[-1].reward > 0
    return (history.actions[-1] + (not won)) % n_actions


def hashed(history, n_actions, n_observations):
    """An action drawn by the history."""
    text = repr((history.percepts, history.actions)).encode()
    return hashlib.sha256(text).digest()[0] % n_actions


def broken(history, n_actions, n_observations):
    """Fails after some steps."""
    if len(history.actions) > 3:
        raise RuntimeError("the agent is broken")
    return 0
'''
_MIND = '''"""Win-stay, lose-shift as a mind."""


class Stay:
    def __init__(self, seed):
        pass

    def begin(self, n_actions, n_observations):
        return StayMind(n_actions, None, 0)


class StayMind:
    def __init__(self, n_actions, last, choice):
        self.n_actions, self.last, self.choice = n_actions, last, choice

    def perceive(self, reward, observation):
        if self.last is not None:
            self.choice = (self.last + (reward <= 0)) % self.n_actions

    def act(self):
        return self.choice

    def take(self, action):
        self.last = action

    def fork(self):
        return StayMind(self.n_actions, self.last, self.choice)
'''
_ENVIRONMENT = '''"""Hindsight: act as if every reward had come two turns late."""

from collections import deque

from goalmeter.reflection.environments import Agreement


class Hindsight(Agreement):
    """Pays for acting as if every reward had come two turns late."""

    def begin(self):
        self.late = deque([0, 0])
        return super().begin()

    def tell(self, action, reward):
        self.late.append(reward)
        self.copy.take(action)
        self.copy.perceive(self.late.popleft(), 0)
'''


def write(folder: Path) -> None:
    """Write every input file into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    _arrays(folder)
    texts = {
        "mouse.bif": _MOUSE,
        "always.bif": _MOUSE.replace("0.8, 0.2", "1, 0").replace("0.2, 0.8", "0, 1"),
        "recall.bif": _RECALL,
        "team.bif": _TEAM,
        "unsummed.bif": _MOUSE.replace("0.8, 0.2", "0.8, 0.3"),
        "unfinished.bif": _MOUSE[:200],
        "my_agent.py": _AGENT,
        "stay.py": _MIND,
        "hindsight.py": _ENVIRONMENT,
        "seen.csv": "S,D\n" + "left,left\n" * 8 + "left,right\n" * 2 + "right,right\n" * 9,
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    cheese: dict[str, Any] = {"variables": ["T"], "values": [1, -1]}
    utilities = {
        "u.json": [cheese],
        "both.json": [cheese, {"variables": ["S", "D"], "values": [[1, 0], [0, 1]]}],
        "team.json": [{"variables": ["T"], "values": [2, -1]}],
        "unknown.json": [{"variables": ["Q"], "values": [1, -1]}],
    }
    for name, utility in utilities.items():
        (folder / name).write_text(json.dumps(utility), encoding="utf-8")


def _arrays(folder: Path) -> None:
    rng = np.random.default_rng(20261122)
    transition = rng.dirichlet(np.full(_S, 0.6), size=(_S, _A))
    reward = rng.normal(size=_S)
    initial = rng.dirichlet(np.ones(_S))
    stationary = rng.dirichlet(np.full(_A, 0.5), size=_S)
    by_step = rng.dirichlet(np.full(_A, 0.7), size=(_H, _S))
    states, actions = _walks(rng, transition, initial, stationary)
    next_state = rng.integers(0, _S, size=(_S, _A, 2))
    next_state[..., 1] = (next_state[..., 0] + 1) % _S
    world = {"transition": transition, "reward": reward, "initial": initial}
    arrays = {
        "world": world | {"horizon": np.int64(_H)},
        "rewards_of_actions": world
        | {"reward": rng.normal(size=(_S, _A)), "horizon": np.int64(_H)},
        "discounted": world | {"discount": np.float64(0.9)},
        "sparse": {
            "next_state": next_state,
            "probability": np.broadcast_to([0.8, 0.2], next_state.shape).copy(),
            "reward": reward,
            "initial": np.int64(0),
            "horizon": np.int64(_H),
        },
        "policy": {"policy": stationary},
        "policy_by_step": {"policy": by_step},
        "uniform": {"policy": np.full((_S, _A), 1 / _A)},
        "features": {"features": rng.normal(size=(_S, _D))},
        "trajectories": {"states": states, "actions": actions},
        "shorter": {
            "states": states,
            "actions": actions,
            "length": rng.integers(2, _H + 1, size=_N),
        },
        "too_wide": {"policy": np.full((_S, _A + 1), 1 / (_A + 1))},
    }
    for name, contents in arrays.items():
        np.savez(folder / f"{name}.npz", **contents)
    # A pickle inside: must be refused, not loaded.
    objects = np.array([{"a": 1}], dtype=object)
    np.savez(folder / "objects.npz", transition=objects, reward=objects, horizon=objects)
    (folder / "damaged.npz").write_bytes((folder / "world.npz").read_bytes()[:300])


def _walks(
    rng: np.random.Generator,
    transition: np.ndarray[Any, Any],
    initial: np.ndarray[Any, Any],
    policy: np.ndarray[Any, Any],
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    states = np.zeros((_N, _H), dtype=np.int64)
    actions = np.zeros((_N, _H), dtype=np.int64)
    for walk in range(_N):
        state = rng.choice(_S, p=initial)
        for step in range(_H):
            action = rng.choice(_A, p=policy[state])
            states[walk, step], actions[walk, step] = state, action
            state = rng.choice(_S, p=transition[state, action])
    return states, actions
