"""Laws of the environments, for any deterministic agent."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reflection.simple_agents import (
    BLIND,
    DETERMINISTIC,
    KNOWN,
    doubtful,
    hashed,
)
from reflection.test_environments import interact

from goalmeter.agents.history import Agent, Mind, RealityCheck
from goalmeter.agents.scripted import NaiveLearner, QLearner
from goalmeter.reflection.environments import BATTERY, ENVIRONMENTS, find

N = 60
SELF_PLAY = ("IgnoreRewards3", "IncentivizeZero", "CryingBaby", "CryingBaby2")
WHOLE_HISTORY = ("BackwardConsciousness", "DejaVu", "PunishSlowAgent", "PunishFastAgent")
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


@settings(max_examples=25, deadline=None)
@given(agents)
def test_agents_that_are_functions_are_deterministic(agent: Agent) -> None:
    assert total("PunishNondeterministicAgent", agent) == N - 1
    assert total("opposite(PunishNondeterministicAgent)", agent) == 1 - N
    assert total("PunishDeterministicAgent", agent) == 1 - N


@settings(max_examples=25, deadline=None)
@given(agents)
def test_the_evader_is_the_opposite_of_the_predictor(agent: Agent) -> None:
    for first, second in (
        ("AdversarialSequenceEvader", "opposite(AdversarialSequencePredictor)"),
        ("opposite(AdversarialSequenceEvader)", "AdversarialSequencePredictor"),
    ):
        assert played(first, agent) == played(second, agent)


@settings(max_examples=25, deadline=None)
@given(agents)
def test_a_reality_check_changes_nothing_where_copies_live_their_own_lives(agent: Agent) -> None:
    for name in SELF_PLAY:
        for spelled in (name, f"opposite({name})"):
            assert played(spelled, RealityCheck(agent)) == played(spelled, agent)


@settings(max_examples=25, deadline=None)
@given(agents)
def test_the_opposite_of_ignore_rewards_2_cannot_be_won(agent: Agent) -> None:
    assert total("opposite(IgnoreRewards2)", agent) == 1 - N


@settings(max_examples=25, deadline=None)
@given(agents)
def test_limited_memory_forgets_nothing_at_first(agent: Agent) -> None:
    x, _ = played("LimitedMemory", agent)
    assert [reward for reward, _ in x[:6]] == [0, 1, 1, 1, 1, 1]


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(BLIND), seeds)
def test_statements_that_one_would_play_1_are_easy_for_whoever_does_not_look(
    name: str, seed: int
) -> None:
    # It plays a in any case, so "you would play s" is true if s = a: affirming a = 1 of s = 1 is
    # right, denying a = 0 of s = 1 too, and both are wrong for s = 0.
    x, _ = played("SelfRecognition", KNOWN[name].steps, seed)
    worth = {0: 0, 1: 0, 2: -1, 3: 1, 4: -1, 5: 1}
    assert [reward for reward, _ in x[1:]] == [worth[observation] for _, observation in x[:-1]]


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_buttons(seed: int) -> None:
    x, _ = played("TemptingButton", KNOWN["constant 1"].steps, seed)
    buttons = sum(observation for _, observation in x[:-1])
    assert total("TemptingButton", KNOWN["constant 1"].steps, seed) == 2 * buttons - (N - 1)
    assert total("TemptingButton", KNOWN["constant 0"].steps, seed) == (N - 1) - 2 * buttons


def test_a_quarter_of_the_rooms_have_a_button() -> None:
    # 4000 rooms: the standard deviation of their share is 0.0068; 4 of them are allowed.
    environment, _ = find("TemptingButton")
    agent = KNOWN["constant 0"].steps
    x, _ = interact(environment, "itself", agent, agent, 0, 4000)
    assert abs(sum(observation for _, observation in x) / 4000 - 0.25) < 0.028


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_an_opposite_has_the_same_rooms(name: str) -> None:
    if name in (*SELF_PLAY, "AdversarialSequencePredictor", "AdversarialSequenceEvader"):
        return  # what is seen there is what a copy does
    first, second = (played(spelled, hashed(4).steps)[0] for spelled in (name, f"opposite({name})"))
    assert [observation for _, observation in first] == [observation for _, observation in second]


@settings(max_examples=10, deadline=None)
@given(agents, seeds)
def test_rewards_and_observations_are_those_announced(agent: Agent, seed: int) -> None:
    for name, environment in ENVIRONMENTS.items():
        for spelled in (name, f"opposite({name})"):
            x, _ = played(spelled, agent, seed, 20)
            assert {reward for reward, _ in x} <= {-1, 0, 1}
            assert {observation for _, observation in x} <= set(range(environment.n_observations))


@settings(max_examples=10, deadline=None)
@given(agents, st.booleans(), seeds)
def test_an_agent_does_what_it_does_unsimulated(agent: Agent, checked: bool, seed: int) -> None:
    agent = RealityCheck(agent) if checked else agent
    for environment in BATTERY:
        x, y = played(environment.name, agent, seed, 20)
        alone = agent.begin(environment.n_actions, environment.n_observations)
        for percept, action in zip(x, y, strict=False):
            alone.perceive(*percept)
            assert alone.act() == action
            alone.take(action)


# --- Cost -----------------------------------------------------------------------------------------


class Counting:
    """An agent that counts what its minds are asked and told."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.options = agent.options
        self.calls = 0

    def begin(self, n_actions: int, n_observations: int, **options: Any) -> Mind:
        return CountingMind(self, self.agent.begin(n_actions, n_observations, **options))


class CountingMind:
    def __init__(self, counting: Counting, mind: Mind) -> None:
        self.counting = counting
        self.mind = mind
        counting.calls += 1

    def perceive(self, reward: float, observation: int) -> None:
        self.counting.calls += 1
        self.mind.perceive(reward, observation)

    def act(self) -> int:
        self.counting.calls += 1
        return self.mind.act()

    def take(self, action: int) -> None:
        self.counting.calls += 1
        self.mind.take(action)

    def fork(self) -> CountingMind:
        return CountingMind(self.counting, self.mind.fork())


@pytest.mark.parametrize("name", [name for name in ENVIRONMENTS if name not in WHOLE_HISTORY])
def test_steps_cost_the_same_however_long_the_history(name: str) -> None:
    environment, _ = find(name)
    counting = Counting(hashed(6).steps)
    run = environment.start(counting, Random(0))
    mind = hashed(6).steps.begin(environment.n_actions, environment.n_observations)
    mind.perceive(*run.begin())
    costs: Counter[int] = Counter()
    for _ in range(2000):
        before = counting.calls
        action = mind.act()
        mind.take(action)
        mind.perceive(*run.react(action))
        costs[counting.calls - before] += 1
    # At most a fresh mind told five percepts, and four actions, and asked.
    assert max(costs) <= 11
    # Short histories of LimitedMemory: 2^4 actions by 2^5 rewards, and those before the fifth turn.
    assert all(len(value) <= 560 for value in vars(run).values() if hasattr(value, "__len__"))
