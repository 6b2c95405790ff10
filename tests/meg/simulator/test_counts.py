"""MEG of worlds that are known by counts, against exact values, and its intervals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import goalmeter as gm
from goalmeter._types import FloatArray
from goalmeter.agents.environment_agents import table_actor
from goalmeter.meg.simulator.bootstrap import Bootstrap
from goalmeter.meg.simulator.collection import Collection
from goalmeter.meg.simulator.counts import AgentRecord, CountTable, Models
from goalmeter.meg.simulator.protocol import TabularSimulator
from goalmeter.tabular import epsilon_greedy, optimal_policy, soft_plan

ONE = np.ones((1, 1))


def exact_table(mdp: gm.TabularMDP) -> CountTable:
    """The table of a world with its probabilities as counts."""
    after, share = mdp.transition.to_successors()
    n_states, n_actions, width = share.shape
    reward = np.broadcast_to(mdp.reward.reshape(n_states, -1), (n_states, n_actions))
    return CountTable(
        np.where(share > 0, after, n_states).reshape(-1, width),
        np.repeat(reward.reshape(-1, 1, 1), width, axis=1),
        share.reshape(-1, width),
        (share > 0).sum(axis=2).ravel() == 1,
        mdp.initial,
        n_actions,
        mdp.horizon or 0,
    )


def slippery_lake(horizon: int = 30) -> gm.TabularMDP:
    """FrozenLake, whose goal pays once."""
    return gm.TabularMDP.from_gymnasium("FrozenLake-v1", horizon=horizon, is_slippery=True)


def greedy(mdp: gm.TabularMDP, epsilon: float) -> FloatArray:
    return np.asarray(epsilon_greedy(optimal_policy(mdp), epsilon))


def mouse() -> gm.TabularMDP:
    """Example 1 of the paper."""
    stay = [[0, 1, 0], [0, 1, 0]], [[0, 0, 1], [0, 0, 1]]
    return gm.TabularMDP([[[0, 1, 0], [0, 0, 1]], *stay], [0, 1, -1], horizon=2)


def test_the_mouse_by_hand() -> None:
    # MEG = log 2 - entropy of (0.8, 0.2), at b with e^b / (e^b + e^-b) = 0.8.
    policy = np.array([[[0.8, 0.2], [0.5, 0.5], [0.5, 0.5]]])
    best = Models(exact_table(mouse()), AgentRecord(policy=policy)).maximise(ONE)
    expected = np.log(2) + 0.8 * np.log(0.8) + 0.2 * np.log(0.2)
    assert best.value[0] == pytest.approx(expected, abs=1e-12)
    assert best.weights[0, 0] == pytest.approx(np.log(2), abs=1e-6)


WORLDS = {
    "cliff world": (gm.cliff_world(1), 0.1),
    "cliff world, optimal": (gm.cliff_world(1), 0.0),
    "slippery lake": (slippery_lake(), 0.2),
    "slippery lake, random": (slippery_lake(), 0.98),
}


@pytest.mark.parametrize("name", WORLDS)
def test_the_true_probabilities_have_the_exact_value(name: str) -> None:
    mdp, epsilon = WORLDS[name]
    policy = greedy(mdp, epsilon)
    exact = gm.meg.known_utility(mdp, policy).value
    stacked = policy if policy.ndim == 3 else policy[None]
    models = Models(exact_table(mdp), AgentRecord(policy=stacked))
    assert models.maximise(ONE).value[0] == pytest.approx(exact, abs=1e-9)


def test_an_agent_that_avoids_has_a_negative_rationality() -> None:
    mdp = gm.cliff_world(1)
    policy = np.asarray(soft_plan(mdp, -0.2).policy()[..., 0])
    exact = gm.meg.known_utility(mdp, policy)
    best = Models(exact_table(mdp), AgentRecord(policy=policy)).maximise(ONE)
    assert best.value[0] == pytest.approx(exact.value, abs=1e-9)
    assert best.weights[0, 0] == pytest.approx(-0.2, abs=1e-6)


def test_returns_suffice() -> None:
    # MEG depends on the agent through its expected return only.
    mdp = slippery_lake()
    table, policy = exact_table(mdp), np.asarray(greedy(mdp, 0.2))
    models = Models(table, AgentRecord(policy if policy.ndim == 3 else policy[None]))
    free = np.full((1, mdp.n_states, mdp.n_actions), 1.0 / mdp.n_actions)
    more = models.collected(ONE) - Models(table, AgentRecord(free)).collected(ONE)
    other = AgentRecord(free, began=np.zeros(1, dtype=np.int64), corrections=more)
    value = Models(table, other).maximise(ONE).value[0]
    assert value == pytest.approx(models.maximise(ONE).value[0], abs=1e-9)


def test_a_search_that_begins_far_away_finds_the_same() -> None:
    # There the soft policy is greedy, so that there is no curvature.
    prizes = gm.TabularMDP(np.ones((1, 3, 1)), [[1.0, 0.9, 0.0]], horizon=1)
    models = Models(exact_table(prizes), AgentRecord(np.array([[[0.8, 0.1, 0.1]]])))
    best, far = models.maximise(ONE), models.maximise(ONE, near=np.array([1e5]))
    assert best.value[0] > 0.05
    assert far.value == pytest.approx(best.value, abs=1e-8)


def test_returns_that_few_episodes_lack_are_part_of_the_interval() -> None:
    # Two actions, one of which pays 1: MEG of a mean return J is log 2 - entropy of (J, 1 - J).
    pays = gm.TabularMDP(np.ones((1, 2, 1)), [[0.0, 1.0]], horizon=1)
    policy, none = np.array([[[1.0, 0.0]]]), np.zeros(97, dtype=np.int64)
    never = AgentRecord(policy, none, np.zeros((97, 1)))
    estimate = Bootstrap(exact_table(pays), never, 0).measure(ONE, 0.95)
    # By the rule of three J is at most 3 / 100.
    entropy = -(0.03 * np.log(0.03) + 0.97 * np.log(0.97))
    assert estimate.interval == pytest.approx((np.log(2) - entropy, np.log(2)), abs=1e-4)
    known = Bootstrap(exact_table(pays), AgentRecord(policy), 0)
    assert known.measure(ONE, 0.95).beyond == (0.0, 0.0)
    # Returns that no policy has do not make a difference larger than log 2 per decision.
    wide = replace(estimate, plain=4.5, resampled=np.linspace(0.0, 9.0, 200))
    wide = replace(wide, paid=np.ones(200, dtype=bool))
    none_paid = replace(wide, plain=0.0, resampled=0.0 * wide.resampled)
    assert wide.minus(none_paid, 0.95)[1] == -none_paid.minus(wide, 0.95)[0] == np.log(2)


def test_the_influence_is_the_derivative() -> None:
    mdp = slippery_lake(12)
    policy = greedy(mdp, 0.2)
    agent = AgentRecord(policy=policy if policy.ndim == 3 else policy[None])
    table = exact_table(mdp)
    models = Models(table, agent)
    best = models.maximise(ONE)
    effect = models.influence(best.weights[:, 0]).outcomes
    for pair in np.flatnonzero((table.counts > 0).sum(axis=1) > 1)[:12]:
        k, other = np.flatnonzero(table.counts[pair])[:2]
        step, counts = 1e-6, table.counts.copy()
        counts[pair, k] += step
        counts[pair, other] -= step
        value = Models(replace(table, counts=counts), agent).maximise(ONE).value[0]
        slope = (value - best.value[0]) / step
        assert slope == pytest.approx(effect[pair, k] - effect[pair, other], rel=1e-3, abs=1e-4)


# --- Collection and intervals ---------------------------------------------------------------------


def collected(
    mdp: gm.TabularMDP, policy: FloatArray, budget: int, *, restores: bool = True
) -> Collection:
    simulator = TabularSimulator(mdp, seed=3)
    simulator.returns_to_states = restores
    actor = table_actor(policy, mdp.n_states, mdp.n_actions, mdp.horizon or 0)
    out = Collection(simulator, actor, mdp.horizon or 0, budget, 3).run()
    assert out is not None
    return out


def test_restored_states_are_sampled_within_the_budget() -> None:
    mdp = slippery_lake()
    out = collected(mdp, greedy(mdp, 0.2), 20_000)
    assert 19_000 <= sum(out.steps.values()) <= 20_000
    pilot, final = out.tables()
    exact = exact_table(mdp)
    reached = pilot.total > 0
    # Every action of a reached state was tried, and both parts have draws of every random pair.
    assert np.array_equal(reached.reshape(-1, 4).any(axis=1), reached.reshape(-1, 4).all(axis=1))
    assert (final.total[pilot.random] > 0).all()
    assert not (pilot.certain & ~exact.certain).any()
    # The pairs that matter have more draws than the others.
    assert final.total[final.total > 0].max() > 2 * final.total[final.total > 0].min()


def test_without_random_steps_the_whole_budget_is_spent_on_episodes() -> None:
    # Only the start is random.
    mdp = mouse().replace(initial=[0.6, 0.2, 0.2])
    policy = np.array([[0.8, 0.2], [0.5, 0.5], [0.5, 0.5]])
    out = collected(mdp, policy, 20_000)
    assert sum(out.steps.values()) > 0.9 * 20_000
    interval = Bootstrap(out.table, out.agent(), 0).measure(ONE, 0.95).interval
    exact = gm.meg.known_utility(mdp, policy).value
    assert interval is not None and interval[0] < exact < interval[1]


def test_more_states_than_the_budget_can_sample() -> None:
    mdp = slippery_lake()
    simulator = TabularSimulator(mdp, seed=0)
    actor = table_actor(greedy(mdp, 0.2), mdp.n_states, 4, 30)
    assert not Collection(simulator, actor, 30, 500, 0).run().complete


@pytest.mark.parametrize("restores", [True, False])
def test_the_interval_holds_the_exact_value(restores: bool) -> None:
    mdp = slippery_lake()
    policy = greedy(mdp, 0.2)
    exact = gm.meg.known_utility(mdp, policy).value
    out = collected(mdp, policy, 60_000, restores=restores)
    estimate = Bootstrap(out.table, out.agent(), 0).measure(ONE, 0.95)
    assert estimate.interval is not None
    assert estimate.interval[0] < exact < estimate.interval[1]
    width = estimate.interval[1] - estimate.interval[0]
    assert width == pytest.approx(2 * 1.96 * estimate.standard_error, rel=0.3)
    assert width < 0.3 * exact


def test_a_deterministic_world_has_no_error() -> None:
    mdp = mouse()
    policy = np.array([[0.8, 0.2], [0.5, 0.5], [0.5, 0.5]])
    out = collected(mdp, policy, 1_000)
    estimate = Bootstrap(out.table, out.agent(), 0).measure(ONE, 0.95)
    exact = gm.meg.known_utility(mdp, policy).value
    assert estimate.interval == pytest.approx((exact, exact), abs=1e-9)
    assert estimate.steps_to_halve == 0


def test_untried_actions_are_excluded_and_reported() -> None:
    mdp = slippery_lake()
    policy = greedy(mdp, 0.2)
    agent = AgentRecord(policy=policy if policy.ndim == 3 else policy[None])
    table = exact_table(mdp)
    counts = 1000 * table.counts
    counts[:2] = 0.0
    table = replace(table, counts=counts, starts=100 * table.starts)
    estimate = Bootstrap(table, agent, 0).measure(ONE, 0.95)
    assert min(estimate.untried) > 0.01
    assert estimate.interval is None
    # A state without any tried action has the value of free choice.
    counts[:4] = 0.0
    assert Models(replace(table, counts=counts), agent).maximise(ONE).value[0] == 0


def test_differences_and_the_best_combination() -> None:
    mdp = slippery_lake()
    policy = greedy(mdp, 0.2)
    agent = AgentRecord(policy=policy if policy.ndim == 3 else policy[None])
    one = exact_table(mdp)
    # A second utility that pays every decision, and a third that is the sum of both.
    other = np.where(one.after[..., None] < mdp.n_states, 1.0, 0.0)
    table = replace(
        one,
        paid=np.concatenate([one.paid, other, one.paid + other], axis=2),
        counts=np.round(500 * one.counts),
        starts=100 * one.starts,
    )
    bootstrap = Bootstrap(table, agent, 1)
    first, second, third = (bootstrap.measure(e[:, None], 0.95) for e in np.eye(3))
    best = bootstrap.measure(np.eye(3), 0.95)
    assert best.plain >= max(first.plain, second.plain, third.plain) - 1e-6
    low, high = first.minus(second, 0.95)
    assert low < first.value - second.value < high
    assert first.minus(first, 0.95) == (0.0, 0.0)
