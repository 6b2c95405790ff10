"""Laws of the environments, for any deterministic agent."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from reflection.simple_agents import (
    DETERMINISTIC,
    doubtful,
    hashed,
)
from reflection.test_environments import interact

from goalmeter.agents.history import Agent, RealityCheck
from goalmeter.agents.scripted import NaiveLearner, QLearner
from goalmeter.reflection.environments import ENVIRONMENTS, find

N = 60
SELF_PLAY = ("IgnoreRewards3", "IncentivizeZero", "CryingBaby", "CryingBaby2")
seeds = st.integers(0, 2**20)
agents: st.SearchStrategy[Agent] = st.one_of(
    st.sampled_from([simple.steps for simple in DETERMINISTIC]),
    st.builds(lambda seed: hashed(seed).steps, seeds),
    st.builds(lambda seed: doubtful(seed).steps, seeds),
    st.builds(NaiveLearner, seeds),
    st.builds(QLearner, seeds),
)


def played(spelled: str, agent: Agent, seed: int = 0, n: int = N) -> Any:
    """x_1 ... x_n and y_1 ... y_{n-1}."""
    environment, is_opposite = find(spelled)
    return interact(environment, "literal" if is_opposite else "itself", agent, agent, seed, n)


def total(spelled: str, agent: Agent, seed: int = 0) -> float:
    return sum(reward for reward, _ in played(spelled, agent, seed)[0])


@settings(max_examples=15, deadline=None)
@given(agents)
def test_agents_that_are_functions_are_deterministic(agent: Agent) -> None:
    assert total("PunishNondeterministicAgent", agent) == N - 1
    assert total("opposite(PunishNondeterministicAgent)", agent) == 1 - N
    assert total("PunishDeterministicAgent", agent) == 1 - N
    assert total("opposite(IgnoreRewards2)", agent) == 1 - N


@settings(max_examples=15, deadline=None)
@given(agents)
def test_the_evader_is_the_opposite_of_the_predictor(agent: Agent) -> None:
    for first, second in (
        ("AdversarialSequenceEvader", "opposite(AdversarialSequencePredictor)"),
        ("opposite(AdversarialSequenceEvader)", "AdversarialSequencePredictor"),
    ):
        assert played(first, agent) == played(second, agent)


@settings(max_examples=15, deadline=None)
@given(agents)
def test_a_reality_check_changes_nothing_where_copies_live_their_own_lives(agent: Agent) -> None:
    for name in SELF_PLAY:
        for spelled in (name, f"opposite({name})"):
            assert played(spelled, RealityCheck(agent)) == played(spelled, agent)


@settings(max_examples=6, deadline=None)
@given(agents, st.booleans(), seeds)
def test_an_agent_is_unchanged_by_being_simulated_and_percepts_are_those_announced(
    agent: Agent, checked: bool, seed: int
) -> None:
    agent = RealityCheck(agent) if checked else agent
    for name, environment in ENVIRONMENTS.items():
        for spelled in (name, f"opposite({name})"):
            x, y = played(spelled, agent, seed, 20)
            assert {reward for reward, _ in x} <= {-1, 0, 1}
            assert {observation for _, observation in x} <= set(range(environment.n_observations))
            alone = agent.begin(environment.n_actions, environment.n_observations)
            for percept, action in zip(x, y, strict=False):
                alone.perceive(*percept)
                assert alone.act() == action
                alone.take(action)
