"""MDPs from Gymnasium: the same returns as in the environment, and clear refusals."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from goalmeter._errors import (
    GoalmeterError,
    InvalidModelError,
    InvalidParameterError,
    MissingExtraError,
)
from goalmeter._types import FloatArray
from goalmeter.tabular import TabularMDP, expected_return

gymnasium = pytest.importorskip("gymnasium")

Outcome = tuple[float, int, float, bool]


class Table(gymnasium.Env[int, int]):  # type: ignore[name-defined, misc]
    """An environment that is nothing but its table."""

    def __init__(self, P: Any, start: Any = None) -> None:
        self.P = P
        if start is not None:
            self.initial_state_distrib = np.array(start)


def literal_return(env: Any, policy: FloatArray, horizon: int) -> float:
    """Expected return by the environment's own rules: the episode ends when it terminates."""
    table, n_states = env.unwrapped.P, len(env.unwrapped.P)
    later = [0.0] * n_states
    for _ in range(horizon):
        now = [0.0] * n_states
        for s in range(n_states):
            for a in range(len(table[s])):
                for p, z, r, terminated in table[s][a]:
                    now[s] += policy[s, a] * p * (r + (0.0 if terminated else later[z]))
        later = now
    return float(np.dot(env.unwrapped.initial_state_distrib, later))


def random_policy(mdp: TabularMDP, seed: int = 0) -> FloatArray:
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(mdp.n_actions), size=mdp.n_states)


@pytest.mark.parametrize(
    ("name", "options", "horizon", "size"),
    [
        ("FrozenLake-v1", {}, 100, (16, 4)),
        ("FrozenLake-v1", {"is_slippery": False}, 100, (16, 4)),
        ("FrozenLake8x8-v1", {"max_episode_steps": 30}, 30, (64, 4)),
        ("CliffWalking-v1", {"horizon": 15}, 15, (48, 4)),
        ("CliffWalking-v1", {"is_slippery": True, "horizon": 15}, 15, (48, 4)),
        ("Taxi-v4", {"horizon": 12}, 12, (500, 6)),
        ("Taxi-v4", {"is_rainy": True, "horizon": 12}, 12, (500, 6)),
    ],
)
def test_returns_are_those_of_the_environment(
    name: str, options: dict[str, Any], horizon: int, size: tuple[int, int]
) -> None:
    mdp = TabularMDP.from_gymnasium(name, **options)
    assert (mdp.horizon, (mdp.n_states, mdp.n_actions)) == (horizon, size)
    options.pop("horizon", None)
    env = gymnasium.make(name, **options)
    policy = random_policy(mdp)
    assert expected_return(mdp, policy).mean == pytest.approx(
        literal_return(env, policy, horizon), abs=1e-12
    )
    env.close()


# From state 0, action 0 stays (reward 1) or ends the episode in state 1 (reward 3), half each;
# action 1 ends it in state 1 (reward 2).
ENDING: list[list[list[Outcome]]] = [
    [[(0.5, 0, 1.0, False), (0.5, 1, 3.0, True)], [(1.0, 1, 2.0, True)]],
    [[(1.0, 1, 9.0, True)], [(1.0, 0, 9.0, False)]],
]


@pytest.mark.parametrize("why", ["a transition that goes on", "a start"])
def test_a_last_state_that_is_also_visited_gets_a_state_behind_it(why: str) -> None:
    # State 1 is the last state of some episodes and an ordinary one of others: what follows it
    # depends on how it was entered, so the end needs a state of its own.
    table = [[*row] for row in ENDING]
    start = [1.0, 0.0]
    if why == "a start":
        start = [0.5, 0.5]
    else:
        table[0][1] = [(1.0, 1, 2.0, False)]
    mdp = TabularMDP.from_gymnasium(Table(table, start), horizon=3)
    P = mdp.transition.to_dense()
    assert mdp.n_states == 3
    assert P[0, 0].tolist() == [0.5, 0.0, 0.5]
    assert P[0, 1].tolist() == ([0, 0, 1] if why == "a start" else [0, 1, 0])
    assert P[1].tolist() == [[0, 0, 1], [1, 0, 0]]
    assert P[2].tolist() == [[0, 0, 1], [0, 0, 1]]
    assert mdp.reward.tolist() == [[2.0, 2.0], [9.0, 9.0], [0.0, 0.0]]
    assert mdp.initial.tolist() == [*start, 0.0]
    policy = random_policy(mdp)
    expected = literal_return(Table(table, start), policy, 3)
    assert expected_return(mdp, policy).mean == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize("name", ["max_steps", "max_episode_steps"])
def test_the_worlds_own_time_limit_is_the_horizon(name: str) -> None:
    env = Table(ENDING, [1.0, 0.0])
    setattr(env, name, 9)
    mdp = TabularMDP.from_gymnasium(env)
    assert mdp.horizon == 9 and "horizon 9" in repr(mdp)
    assert TabularMDP.from_gymnasium(env, horizon=4).horizon == 4
    # Of several limits the first to end an episode counts.
    assert TabularMDP.from_gymnasium(gymnasium.wrappers.TimeLimit(env, 7)).horizon == 7
    assert TabularMDP.from_gymnasium(gymnasium.wrappers.TimeLimit(env, 70)).horizon == 9


STAY: list[Outcome] = [(1.0, 0, 0.0, False)]


@pytest.mark.parametrize(
    ("env", "options", "error", "message"),
    [
        (
            "CartPole-v1",
            {},
            InvalidModelError,
            r"CartPole-v1: .* does not expose its transition .*build TabularMDP\(transition, rew",
        ),
        (
            "CliffWalking-v1",
            {},
            InvalidParameterError,
            "CliffWalking-v1: the environment has no time limit.*give horizon=H",
        ),
        (
            Table([[STAY], [STAY, STAY]], [1, 0]),
            {},
            InvalidModelError,
            r"P\[1\] is indexed by \[0, 1\], expected the actions 0, .* the same in every state",
        ),
        (
            Table([[[(1.0, 1, 0.0, False)]]], [1]),
            {},
            InvalidModelError,
            r"P\[0\]\[0\]\[0\] leads to state 1, expected 0\.\.0",
        ),
    ],
)
def test_a_clear_refusal(
    env: Any, options: dict[str, Any], error: type[GoalmeterError], message: str
) -> None:
    with pytest.raises(error, match=message):
        TabularMDP.from_gymnasium(env, **options)


def test_without_gymnasium_the_error_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'goalmeter\[rl\]'"):
        TabularMDP.from_gymnasium("FrozenLake-v1")
