"""Agents that are known by their answers in episodes: their mean answers and corrections."""

from __future__ import annotations

from itertools import count

import numpy as np
import pytest

import goalmeter as gm
from goalmeter._types import AnyArray, FloatArray
from goalmeter.agents.environment_agents import table_actor
from goalmeter.meg.simulator.bootstrap import Bootstrap
from goalmeter.meg.simulator.collection import Collection, estimated_agent
from goalmeter.meg.simulator.counts import AgentRecord, CountTable, Models
from goalmeter.meg.simulator.protocol import Episodes, TabularSimulator
from goalmeter.tabular import soft_plan

from .test_counts import ONE, exact_table


def episodes_of(paths: list[list[tuple[int, int, list[float]]]]) -> Episodes:
    """Episodes of (state, action, answer) from state 0, whose other fields do not matter."""
    steps, none = [step for path in paths for step in path], np.zeros(len(paths), dtype=np.int64)
    visits = np.array([step[:2] for step in steps])
    answers = np.array([step[2] for step in steps])
    lengths = np.array([len(path) for path in paths])
    return Episodes(none[:, None] * 0.0, lengths, none, none, visits, answers)


def test_an_agent_with_a_memory_by_hand() -> None:
    # It tosses a coin and repeats the first action; action 1 pays 1 in each of two decisions.
    pays = gm.TabularMDP(np.ones((1, 2, 1)), [[0.0, 1.0]], horizon=2)
    first, left, right = [0.5, 0.5], [1.0, 0.0], [0.0, 1.0]
    paths = [[(0, 0, first), (0, 0, left)], [(0, 1, first), (0, 1, right)]] * 2
    table = exact_table(pays)
    agent = estimated_agent(table, episodes_of(paths))
    assert agent.policy == pytest.approx(np.full((2, 1, 2), 0.5))
    assert agent.missing is None  # its answers vary
    # Others expect 1/2 + 2/3, and its own answer is 2/3 less, where the mean of all expects 1.
    assert agent.corrections == pytest.approx(np.array([[-0.5], [0.5]] * 2))
    assert Models(table, agent).collected(ONE) == pytest.approx(1.0)
    # Mean answers that episodes repeat exactly need no correction, and do not vary.
    plain = estimated_agent(table, episodes_of([[(0, a, first), (0, 0, left)] for a in (0, 1, 1)]))
    assert plain.missing is not None and plain.corrections == pytest.approx(0.0)
    assert Models(table, plain).collected(ONE) == pytest.approx(0.5)


def literal(table: CountTable, episodes: Episodes, without: int) -> FloatArray:
    """Mean answers in each state at each time of all episodes but one, [H, S, A]."""
    seen: dict[tuple[int, int], list[FloatArray]] = {}
    steps = count()
    for number, length in enumerate(episodes.decisions):
        for t in range(length):
            step = next(steps)
            if number != without:
                place = t, int(episodes.visits[step, 0])
                seen.setdefault(place, []).append(episodes.answers[step])

    def mean(t: int, s: int) -> AnyArray:
        times = [time for time, state in seen if state == s]
        before, after = [u for u in times if u <= t], [u for u in times if u >= t]
        if not times:
            return np.full(table.n_actions, 1.0 / table.n_actions)
        low, high = max(before or [min(times)]), min(after or [max(times)])
        ends = [np.mean(seen[u, s], axis=0) for u in (low, high)]
        share = (t - low) / (high - low) if low < t < high else 0.0
        return np.asarray((1.0 - share) * ends[0] + share * ends[1])

    rows = [[mean(t, s) for s in range(table.n_states)] for t in range(table.horizon)]
    return np.array(rows)


@pytest.mark.parametrize("seed", range(5))
def test_mean_answers_and_corrections_against_a_literal_computation(seed: int) -> None:
    rng = np.random.default_rng(seed)
    world = gm.TabularMDP(
        rng.dirichlet(np.ones(6), (6, 3)), rng.normal(size=(6, 3)), horizon=7, initial=0
    )
    paths = [
        [
            (int(rng.integers(6)) if t else 0, int(rng.integers(3)), [*rng.dirichlet(np.ones(3))])
            for t in range(rng.integers(1, 8))
        ]
        for _ in range(5)
    ]
    table, episodes = exact_table(world), episodes_of(paths)
    agent = estimated_agent(table, episodes)
    assert agent.corrections is not None
    assert agent.policy == pytest.approx(literal(table, episodes, without=-1))
    # By the answers of other episodes, and what each own answer gains over these.
    payoff = np.asarray(world.reward)
    everyone = Models(table, AgentRecord(agent.policy)).collected(ONE)[0, 0]
    for number, path in enumerate(paths):
        others = literal(table, episodes, without=number)
        expected = Models(table, AgentRecord(others)).collected(ONE)[0, 0] - everyone
        value, gains = np.zeros(6), 0.0
        for t in reversed(range(7)):
            q = payoff + np.einsum("pk,pk->p", table.counts, value[table.after]).reshape(6, 3)
            value = (others[t] * q).sum(axis=1)
            if t < len(path):
                gains += (np.array(path[t][2]) - others[t, path[t][0]]) @ q[path[t][0]]
        assert agent.corrections[number, 0] == pytest.approx(expected + gains)


def test_corrections_remove_the_bias_of_rarely_visited_states() -> None:
    rng = np.random.default_rng(0)
    after = rng.integers(0, 40, (40, 3, 2))
    world = gm.TabularMDP((after, np.full(after.shape, 0.5)), rng.normal(size=40), horizon=8)
    policy = np.asarray(soft_plan(world, 2.0).policy()[..., 0])
    table, actor = exact_table(world), table_actor(policy, 40, 3, 8)
    exact = Models(table, AgentRecord(policy)).collected(ONE)[0, 0]
    plain, corrected = [], []
    for seed in range(150):
        played = TabularSimulator(world, seed=seed).play(actor, 8, 0).subset(np.arange(64) < 12)
        agent = estimated_agent(table, played)
        plain.append(Models(table, AgentRecord(agent.policy)).collected(ONE)[0, 0])
        corrected.append(Models(table, agent).collected(ONE)[0, 0])
    errors, error = np.mean([plain, corrected], axis=1) - exact, np.std(corrected) / np.sqrt(150)
    assert abs(errors[1]) < 4 * error < -errors[0]


def only_actions(simulator: TabularSimulator, n_actions: int) -> None:
    """Hide the distributions of agents."""
    played, rows = simulator.play, np.eye(n_actions)

    def play(*args: AnyArray) -> Episodes:
        episodes = played(*args)
        return episodes._replace(answers=rows[episodes.visits[:, 1]])

    simulator.play = play  # type: ignore[method-assign,assignment]


@pytest.mark.parametrize("budget", [20_000, 60_000])
@pytest.mark.parametrize("actions", [False, True], ids=["answers", "actions"])
def test_an_agent_that_is_rarely_paid_is_covered(actions: bool, budget: int) -> None:
    # The soft agent reaches the goal of the larger lake in about 1% of the episodes.
    table = gm.TabularMDP.from_gymnasium("FrozenLake-v1", horizon=60, map_name="8x8")
    policy = soft_plan(table, 40.0).policy()[..., 0]
    exact, covered, widths = gm.meg.known_utility(table, policy).value, 0, []
    for seed in range(10):
        simulator = TabularSimulator(table, seed=seed)
        simulator.policy = lambda actor, horizon: None  # type: ignore[method-assign]
        if actions:
            only_actions(simulator, table.n_actions)
        actor = table_actor(policy, table.n_states, table.n_actions, 60)
        collection = Collection(simulator, actor, 60, budget, seed).run()
        bootstrap = Bootstrap(collection.table, collection.agent(), seed, collection.length)
        interval = bootstrap.measure(ONE, 0.95).interval
        assert interval is not None
        covered += interval[0] <= exact <= interval[1]
        widths.append(interval[1] - interval[0])
    assert covered >= 8
    # The mean return of as many episodes, 1% of which are paid, has a standard error of a third.
    # Rare gains of chosen actions are limited by the payoff of an episode.
    assert budget < 60_000 or np.mean(widths) < (6.0 if actions else 0.5) * exact


# A slip of 1% leads to a state in which the agent of 60 episodes was never seen.
SLIP = gm.TabularMDP(
    [[[0.0, 0.99, 0.01]] * 2, [[0.0, 1.0, 0.0]] * 2, [[0.0, 0.0, 1.0]] * 2],
    [[0.0, 0.0], [0.0, 1.0], [0.0, 5.0]],
    horizon=2,
)
ROW = [0.1, 0.9]
USUAL = [(0, 1, ROW), (1, 1, ROW)]


def test_states_that_no_episode_visited_are_part_of_the_interval() -> None:
    table = exact_table(SLIP)
    agent = estimated_agent(table, episodes_of([USUAL] * 60))
    # It is visited with a probability of 1%, and its actions differ by 5.
    assert agent.missing == pytest.approx(np.sqrt(0.01 * 25.0))
    # The best answer there pays 5, the worst 0; the answer in the other state is known.
    least, most = Models(table, agent).completions(ONE[0])[:, 0]
    assert (least, most) == pytest.approx((0.99 * 0.9, 0.99 * 0.9 + 0.01 * 5.0))
    # With the opposite utility they are exchanged.
    assert Models(table, agent).completions(-ONE[0])[:, 0] == pytest.approx((most, least))


def test_answers_that_a_single_episode_shows_are_known() -> None:
    table, once = exact_table(SLIP), [(0, 1, ROW), (2, 0, [1.0, 0.0])]
    agent = estimated_agent(table, episodes_of([*[USUAL] * 60, once]))
    assert agent.corrections is not None and not agent.corrections.any()
    assert Models(table, agent).collected(ONE) == pytest.approx(0.99 * 0.9)
    # Other episodes expect half of 5 there. Its own correction is 0, those of the nine others of
    # its part would be 0.01 times 2.5, and 2.5 less for itself, so that it is uncertain.
    part = np.zeros(61)
    part[::10], part[60] = 0.025, 0.025 - 2.5
    square = 4.0 * (np.mean(part**2) + 61 * np.mean(part) ** 2)
    assert agent.missing == pytest.approx(np.sqrt(square))
    # If it is one of a few, other episodes predict too little to call the others known.
    few = estimated_agent(table, episodes_of([*[USUAL] * 19, once]))
    assert few.corrections is not None and few.corrections.any()


def test_rare_corrections_are_those_of_the_agent_and_not_of_chance() -> None:
    # Action 1 is paid with a probability of 1%, so that it gains 0.01 and never 1.
    lottery = gm.TabularMDP(
        [[[0.0, 0.0, 1.0], [0.0, 0.01, 0.99]], *[[[0.0, 0.0, 1.0]] * 2] * 2],
        [0.0, 1.0, 0.0],
        horizon=2,
    )
    never = AgentRecord(np.array([[[1.0, 0.0]] * 3]))
    assert Models(exact_table(lottery), never).extremes(ONE[0])[:, 0] == pytest.approx((0.0, 0.01))


def test_combinations_do_not_depend_on_the_scale_of_a_utility() -> None:
    # Actions choose a place, which pays; nothing influences the weather, which pays as well.
    places, changes = [[0.9, 0.1], [0.1, 0.9]], [[0.6, 0.4], [0.4, 0.6]]
    p = np.array([[np.outer(to, change).ravel() for to in places] for change in changes * 2])
    world = gm.TabularMDP(p, np.zeros(4), horizon=6)
    actor, ends = table_actor(np.tile([0.05, 0.95], (4, 1)), 4, 2, 6), []
    for scale in (1.0, 1000.0):
        payoffs = {"place": [0.0, 0.0, 1.0, 1.0], "weather": [0.0, scale, 0.0, scale]}
        simulator = TabularSimulator(world, seed=1, utilities=payoffs)
        simulator.policy = lambda actor, horizon: None  # type: ignore[method-assign]
        only_actions(simulator, 2)
        collection = Collection(simulator, actor, 6, 2000, 1).run()
        bootstrap = Bootstrap(collection.table, collection.agent(), 1, collection.length)
        place, both = (bootstrap.measure(d, 0.95).interval for d in (np.eye(2)[:, :1], np.eye(2)))
        assert place and both
        assert np.diff(both) < 1.2 * np.diff(place)
        ends.append(both)
    assert ends[0] == pytest.approx(ends[1], abs=1e-3)
