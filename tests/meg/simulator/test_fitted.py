"""MEG from fitted soft values, in worlds whose table is hidden from it."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from meg.simulator.worlds import Corridor, gymnasium, table

from goalmeter._errors import InvalidParameterError
from goalmeter._types import FloatArray
from goalmeter.meg import from_simulator, known_utility
from goalmeter.meg.simulator.checks import Check, pooled_value, spread_of_fits, upper_bounds
from goalmeter.meg.simulator.protocol import FreeChoice, reference_of
from goalmeter.meg.simulator.soft_values import (
    ActionSet,
    KernelFeatures,
    RecordedSteps,
    Recorder,
    SoftValues,
    _soft_value,
)
from goalmeter.meg.simulator.states import UNDECLARED
from goalmeter.tabular import TabularMDP, soft_plan

HORIZON = 8


class Shown(Corridor):
    """The corridor, of which a noisy position and an irrelevant number are shown."""

    def __init__(self, slip: float = 0.0) -> None:
        super().__init__()
        self.observation_space = gymnasium.spaces.Box(-9, 9, (2,), np.float32)
        self._slip, self._noise = slip, np.random.default_rng(0)

    def slips(self) -> bool:
        return self._slip > 0 and bool(self.np_random.random() < self._slip)

    def shown(self) -> Any:
        # Noise of a generator of its own: the dynamics do not use it.
        noise = self._noise.normal(size=2)
        return np.array([self.cell + 0.02 * noise[0], noise[1]], dtype=np.float32)


class Policy:
    """An agent that acts by the hidden state; a row of probabilities for each decision."""

    def __init__(self, env: Shown, rows: np.ndarray) -> None:
        self._env, self._rows = env, rows

    def begin(self, generator: np.random.Generator) -> Any:
        decisions = iter(self._rows)
        return lambda observation: next(decisions)[self._env.cell]


def agent(mdp: TabularMDP, rationality: float) -> np.ndarray:
    return np.asarray(soft_plan(mdp, rationality).policy()[..., 0])


@pytest.mark.parametrize(("slip", "method"), [(0.0, "Monte Carlo"), (0.3, "fresh episodes")])
def test_the_interval_contains_the_value_of_a_hidden_table(slip: float, method: str) -> None:
    mdp, env = table(slip, HORIZON), Shown(slip)
    rows = agent(mdp, 1.0)
    exact = known_utility(mdp, rows)
    result = from_simulator(
        env, Policy(env, rows), horizon=HORIZON, budget=16_000, chance="generator"
    )
    assert method in result.method
    assert result.interval[0] <= exact.value <= result.interval[1]
    assert result.interval[1] - result.interval[0] < 0.8 * exact.value
    assert result.rationality == pytest.approx(exact.rationality, rel=0.5)
    assert result.guaranteed is None and "states are not counted" in result.notes[0]
    assert not any("rare episodes" in note for note in result.notes)


def test_a_note_names_the_risk_where_soft_policies_gain_nothing() -> None:
    # Free choice does not reach the top of the hill, and the agent swings up.
    def swings(seen: FloatArray) -> FloatArray:
        row = np.full(3, 0.08)
        row[2 if seen[1] >= 0 else 0] = 0.84
        return row

    result = from_simulator("MountainCar-v0", swings, chance="generator", budget=40_000)
    assert result.interval[0] > 1.0
    assert any("missed rare episodes with a high return" in note for note in result.notes)


def test_free_choice_and_avoidance_are_told_from_pursuit() -> None:
    mdp, env = table(0.0, HORIZON), Shown()
    free = np.full((HORIZON, 4, 2), 0.5)
    options: dict[str, Any] = {"horizon": HORIZON, "budget": 8_000, "chance": "generator"}
    result = from_simulator(env, Policy(env, free), **options)
    assert result.interval[0] == 0 and result.value < 0.1
    away = agent(mdp, -1.0)
    result = from_simulator(env, Policy(env, away), guarantee=True, **options)
    exact = known_utility(mdp, away)
    assert result.rationality < 0 and result.signed < 0
    assert result.interval[0] <= exact.value <= result.interval[1]
    assert result.guaranteed is not None
    assert result.guaranteed[0] <= exact.value <= result.guaranteed[1]
    # Bounds at negative rationalities do not lower the estimate (with this seed they did).
    result = from_simulator(env, Policy(env, away), seed=1, **options)
    assert 0.5 * exact.value < result.interval[0] <= exact.value <= result.interval[1]


def test_a_random_step_that_is_met_late_ends_the_use_of_particles() -> None:
    class Late(Shown):
        """Going left ends an episode, and from cell 12 on steps are random."""

        def step(self, action: int) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
            at_random = self.cell >= 12 and self.np_random.random() < 0.5
            self.cell = 12 + at_random if self.cell >= 12 else self.cell + action
            return self.shown(), float(action), action == 0, False, {}

    # The agent chooses freely. With this seed particles are the first to get there.
    even = np.array([0.5, 0.5])
    options: dict[str, Any] = {"horizon": 20, "budget": 8_000, "chance": "generator"}
    result = from_simulator(Late(), lambda seen: even, seed=2, **options)
    assert "fresh episodes" in result.method and result.interval[0] == 0


def test_undeclared_randomness_is_neither_copied_nor_restored() -> None:
    mdp, env = table(0.0, HORIZON), Shown()
    rows = agent(mdp, 1.0)
    runs = [
        from_simulator(Shown(), Policy(env, rows), horizon=HORIZON, budget=3_000)
        for env in (env, env)
    ]
    assert runs[0].chance == UNDECLARED and "fresh episodes" in runs[0].method


def test_equal_seeds_give_equal_numbers() -> None:
    env = gymnasium.make("CartPole-v1")
    right = np.array([0.3, 0.7])
    options: dict[str, Any] = {"horizon": 12, "budget": 3_000}
    first, again = (from_simulator(env, lambda seen: right, **options) for _ in range(2))
    assert first.interval == again.interval
    other = from_simulator(env, lambda seen: right, seed=1, **options)
    assert other.interval != first.interval
    # The agent prefers one action, so an upper end of 0 would be wrong.
    assert first.interval[1] > 0.5


def test_without_an_estimate_an_error_says_why() -> None:
    env, pendulum = gymnasium.make("CartPole-v1"), gymnasium.make("Pendulum-v1")
    with pytest.raises(InvalidParameterError, match="a budget of at least 10,000 steps"):
        from_simulator(env, lambda seen: [0.5, 0.5], horizon=100, budget=2_000)
    drawn = SimpleNamespace(draw=lambda rng: rng.normal(size=1), name="normal")
    options: dict[str, Any] = {"horizon": 5, "budget": 1_000}
    with pytest.raises(InvalidParameterError, match=r"states are not counted.*quantile function"):
        from_simulator(pendulum, lambda seen: np.zeros(1), reference=drawn, **options)
    shown = Shown()
    shown.observation_space = gymnasium.spaces.Space()  # like those of other packages
    with pytest.raises(InvalidParameterError, match="not vectors of fixed length"):
        from_simulator(shown, lambda seen: [0.5, 0.5], **options)


# --- Parts ----------------------------------------------------------------------------------------
def every_step(mdp: TabularMDP, repeats: int) -> tuple[RecordedSteps, np.ndarray]:
    """Every action in every state of a deterministic table, shown as unit vectors."""
    state, action = (each.ravel() for each in np.indices((mdp.n_states, mdp.n_actions)))
    after = mdp.transition.to_dense()[state, action].argmax(axis=1)
    rows = np.tile(np.arange(len(state)), repeats)
    unit = np.eye(mdp.n_states, dtype=np.float32)
    never = np.zeros(len(rows), dtype=bool)
    paid = np.asarray(mdp.reward)[state][rows]
    steps = RecordedSteps(
        unit[state[rows]], action[rows], paid[:, None], unit[after[rows]], never, 0 * rows
    )
    return steps, paid


def test_with_every_step_the_fit_is_the_exact_soft_value() -> None:
    mdp, b = table(0.0, HORIZON), 0.7
    steps, paid = every_step(mdp, 200)
    # Which half has a step does not depend on its state or action.
    steps = steps.subset(order := np.random.default_rng(0).permutation(len(paid)))
    features = KernelFeatures(steps.seen, None, np.random.default_rng(0))
    assert features.is_table
    generator = np.random.default_rng(0)
    actions = ActionSet(FreeChoice(2, 0))
    rationalities = np.array([b, 2 * b])
    fit = SoftValues(features, actions, steps, paid[order], rationalities, HORIZON, generator)
    plan = soft_plan(mdp, b)
    start = np.eye(4, dtype=np.float32)[:1]
    for t in (0, HORIZON - 1):
        _, log_ratio, _ = fit.policy(np.eye(4, dtype=np.float32)[:3], t, 0, generator)
        exact = np.log(2 * np.asarray(plan.policy()[t, :3, :, 0]))
        np.testing.assert_allclose(log_ratio, exact, atol=0.02)
    # W = log mean exp of b times the return over all sequences of actions.
    returns = []
    for sequence in range(2**HORIZON):
        cell, total = 0, 0.0
        for t in range(HORIZON):
            total -= cell < 3
            if cell < 3:
                cell = max(cell + (1 if sequence >> t & 1 else -1), 0)
        returns.append(total)
    exact_start = math.log(np.exp(b * np.array(returns)).mean())
    np.testing.assert_allclose(fit.start(start)[..., 0], exact_start, atol=0.05)


def test_errors_of_both_halves_cancel_to_second_order() -> None:
    generator = np.random.default_rng(0)
    q, (own, other) = np.array([0.0, 1.0, -2.0]), 0.4 * generator.normal(size=(2, 200_000, 3))
    exact, first = math.log(np.exp(q).mean()), q + own
    noisy = np.log(np.exp(first).mean(axis=1))
    assert noisy.mean() - exact > 0.02  # half the variance over actions
    assert _soft_value(first, q + other).mean() == pytest.approx(exact, abs=0.003)
    np.testing.assert_allclose(_soft_value(q[None], q[None]), exact)


def test_an_end_matters_where_all_steps_pay_the_same() -> None:
    # Two decisions, each costs 1; action 1 ends the episode: exp(-1) against exp(-2).
    action, seen = np.arange(400) // 2 % 2, np.zeros((400, 1), dtype=np.float32)
    paid = np.full(400, -1.0)
    steps = RecordedSteps(seen, action, paid[:, None], seen, action == 1, np.zeros(400, dtype=int))
    generator = np.random.default_rng(0)
    features, actions = KernelFeatures(seen, None, generator), ActionSet(FreeChoice(2, 0))
    fit = SoftValues(features, actions, steps, paid, np.array([1.0]), 2, generator)
    _, log_ratio, _ = fit.policy(seen[:1], 0, 0, generator)
    np.testing.assert_allclose(log_ratio[0, 1] - log_ratio[0, 0], 1.0, atol=0.01)


def test_the_learnt_map_drops_what_does_not_matter() -> None:
    generator = np.random.default_rng(1)
    seen = generator.normal(size=(2_000, 3)).astype(np.float32)
    action = generator.integers(2, size=2_000)
    utility = np.where(action == 1, np.sign(seen[:, 0]), 0.0)
    never = np.zeros(2_000, dtype=bool)
    steps = RecordedSteps(seen, action, utility[:, None], seen, never, np.zeros(2_000, dtype=int))
    features = KernelFeatures(seen, None, generator)
    actions = ActionSet(FreeChoice(2, 0))
    fit = SoftValues(features, actions, steps, utility, np.array([1.0]), 2, generator)
    size = np.linalg.norm(fit.map(steps.subset(slice(200))), axis=0)
    assert size[0] > 3 * size[1:].max()


def test_episodes_at_one_rationality_bound_the_soft_value_at_all() -> None:
    # One decision between payoffs of 0 and 1: W(b) = log((1 + exp(b)) / 2), with the slope p(b).
    b = np.linspace(-3.0, 5.0, 17)
    p, soft = 1.0 / (1.0 + np.exp(-1.0)), math.log((1.0 + math.e) / 2.0)
    check = Check(1.0, np.full((4, 1), soft), np.full((4, 1), p), 0.0, np.full(2, soft), False)
    exact = np.log((1.0 + np.exp(b)) / 2.0)
    bound, errors = check.along(b)
    assert (bound <= exact + 1e-12).all() and bound[8] == pytest.approx(exact[8])
    assert not np.allclose(bound, exact, atol=0.1) and not errors.any()
    spread = check._replace(weights=soft + np.arange(4.0)[:, None]).along(b)[1]
    np.testing.assert_allclose(spread, np.arange(4.0).std(ddof=1) / 2.0)
    assert check._replace(weights=np.full((1, 1), soft)).along(b)[1].min() == math.inf
    # Two particles that chose freely have weights exp(b R), which give W(b) at every b.
    returns = np.tile([0.0, 1.0], (4, 1))
    np.testing.assert_allclose(check._replace(weights=returns, returns=returns).along(b)[0], exact)


def test_groups_of_particles_with_one_start_are_pooled() -> None:
    # The mean weights of groups estimate exp W without bias, so their mean does.
    weights = np.random.default_rng(0).lognormal(-0.5, 1.0, size=(4_000, 25, 1))
    values, returns = np.log(weights), np.zeros((25, 1))
    groups = [Check(1.0, each, returns, 0.0, np.zeros(2), True) for each in values]
    estimates = np.array([each.corrected for each in groups])
    assert estimates.mean() == pytest.approx(0.0, abs=0.03)
    errors = [each.estimate[1] for each in groups]
    assert np.mean(errors) == pytest.approx(estimates.std(), rel=0.2)
    assert values.mean() == pytest.approx(-0.5, abs=0.02)
    # Where the groups may have different starts, the difference to their mean is unknown.
    apart = [each._replace(pooled=False, variance=0.1) for each in groups]
    apart = [each._replace(fitted=np.full(2, each.corrected)) for each in apart]
    assert np.mean([each.corrected + each.unknown for each in apart]) == pytest.approx(0, abs=0.06)
    assert apart[0].unknown > 0.3
    assert pooled_value(apart, np.ones(1))[0] == -math.inf
    # A group that missed everything does not matter, and one group is only as good as its weights.
    missed = np.append(values[0], [[-50.0]], axis=0)
    failed = groups[0]._replace(weights=missed, returns=np.zeros((26, 1)))
    assert failed.corrected == pytest.approx(groups[0].corrected, abs=0.06)
    single = groups[0]._replace(weights=values[0][:1], returns=np.zeros((1, 1)), variance=0.25)
    assert single.estimate[1] == pytest.approx(0.5) and single.shortfall == pytest.approx(0.125)


def test_particles_of_near_rationalities_are_pooled() -> None:
    # Each particle has the weight exp(w + (b - its rationality) return) at b, and is multiplied by
    # 1 - |b / its rationality - 1| / 0.25. The groups have two and three particles.
    generator = np.random.default_rng(0)
    groups = generator.normal(size=(2, 6, 2)), generator.normal(size=(2, 4, 3))
    places = 1.0, 1.2
    checks = [
        Check(place, *each, 0.0, np.zeros(2), True)
        for place, each in zip(places, groups, strict=True)
    ]
    for b in (0.85, 1.1, 1.3):
        share, means, variances = np.zeros(2), np.zeros(2), np.zeros(2)
        for i, (place, (logs, returns)) in enumerate(zip(places, groups, strict=True)):
            share[i] = logs.size * max(1.0 - abs(b / place - 1.0) / 0.25, 0.0)
            weights = np.exp(logs + (b - place) * returns).mean(axis=1)
            means[i], variances[i] = weights.mean(), weights.var(ddof=1) / len(weights)
        share /= share.sum()
        mean = share @ means
        within = share**2 @ variances / mean**2
        between = share @ (means / mean - 1.0) ** 2 / max(1.0 / (share @ share) - 1.0, 1.0)
        exact = np.log(mean), max(within, between) ** 0.5, 1.0 / (share**2 @ [1 / 6, 1 / 4])
        np.testing.assert_allclose(np.stack(pooled_value(checks, np.array([b])))[:, 0], exact)
    # Both checks bound the soft value anywhere, but they estimate it only where they are near.
    far = np.array([0.5, 2.0])
    value, errors, _ = pooled_value(checks, far)
    assert (value == -math.inf).all() and (errors == math.inf).all()
    assert np.isfinite(upper_bounds(checks, 1.0, np.array([0.5, 2.0, 400.0]), 3.0)).all()


def test_fits_that_differ_more_than_their_episodes_make_the_error_larger() -> None:
    # Soft values of -1, 0 and 1 by three fits: their standard deviation is 1.
    returns = np.zeros((4, 1))
    checks = [
        Check(1.0, np.full((4, 1), value), returns, 0.0, np.full(2, value), False)
        for value in (-1.0, 0.0, 1.0)
    ]
    assert max(each.estimate[1] for each in checks) == 0.0
    assert spread_of_fits(checks, 1.0) == pytest.approx(1.0)
    # A fit at another rationality is compared there: with returns of 10 it agrees with the second.
    other = Check(0.9, np.full((4, 1), -1.0), returns + 10.0, 0.0, np.zeros(2), False)
    assert spread_of_fits([checks[1], other], 1.0) == pytest.approx(0.0, abs=1e-12)
    # Far rationalities tell nothing, nor does a single fit.
    far = other._replace(rationality=2.0)
    assert spread_of_fits([checks[1], far], 1.0) == 0.0


def test_a_pool_finds_a_soft_value_that_jumps_between_two_rationalities() -> None:
    # A return of 20 has the probability exp(-15) under free choice, all others are 0. The soft
    # value is nearly 0 below b = 0.75 and nearly 20 b - 15 above it, where the agent's return is.
    def soft(b: FloatArray) -> FloatArray:
        return np.log1p(np.exp(20.0 * b - 15.0) - math.exp(-15.0))

    def check(b: float) -> Check:
        # Particles of a perfect twisted proposal: 1,000 in 4 groups, all with the same weight.
        rewarded = np.exp(20.0 * b - 15.0 - soft(np.array([b])))
        returns = np.where(np.arange(1_000) < 1_000 * rewarded, 20.0, 0.0)
        returns = np.random.default_rng(0).permutation(returns).reshape(4, 250)
        value = soft(np.array([b]))
        return Check(b, np.full((4, 250), value[0]), returns, 0.0, np.tile(value, 2), True)

    b = np.linspace(0.65, 0.85, 41)
    checks = [check(0.64), check(0.86)]
    meg = (10.0 * b - soft(b)).max()
    bound = upper_bounds(checks, 10.0, b, 3.0).max()
    # Lines through both values, with the mean return of the particles as slope, bound it worse.
    lines = [each.estimate[0] + (b - each.rationality) * each.returns.mean() for each in checks]
    assert meg <= bound < meg + 0.1 < (10.0 * b - np.max(lines, axis=0)).max() - 0.2


def test_returns_that_are_alike_by_chance_do_not_make_a_bound_too_low() -> None:
    # Each start pays a normal amount, with mean 10 and deviation 3: W(b) = 10 b.
    generator = np.random.default_rng(0)

    def check(b: float, starts: FloatArray) -> Check:
        weights = np.full((4, 1), 10.0 * b)
        return Check(b, weights, starts[:, None], 0.0, np.zeros(2), False)

    checks = [check(0.1 * k, generator.normal(10.0, 3.0, size=4)) for k in range(1, 8)]
    lucky = check(0.4, np.full(4, 12.9))
    b = np.array([0.2, 0.4, 1.6])
    # An agent that gets 12 has MEG 2 b.
    assert (upper_bounds([*checks, lucky], 12.0, b, 3.0) >= 2.0 * b).all()
    assert upper_bounds([lucky], 12.0, b, 3.0)[2] < 0.0


@pytest.mark.parametrize(
    ("shape", "kind", "pixel"),
    [((64, 64, 3), np.uint8, 84), ((3, 20, 33), np.uint8, 255), ((40, 40, 12), np.float32, 0.5)],
)
def test_images_are_averaged(shape: tuple[int, int, int], kind: Any, pixel: float) -> None:
    recorder = Recorder(gymnasium.spaces.Box(0, 255 if kind is np.uint8 else 1, shape, kind))
    shown = recorder.flattened(np.full(shape, pixel, kind))
    assert shown.shape == (16 * 16 * min(shape),) and shown.dtype == kind
    assert (shown == pixel).all()
    half = np.full(shape, pixel, kind)
    half[: shape[0] // 2, : shape[1] // 2] = 0
    assert 0 < recorder.flattened(half).mean() < pixel


def test_candidates_have_the_density_of_the_reference() -> None:
    space = gymnasium.spaces.Box(-1.0, 3.0, (2,))
    actions = ActionSet(reference_of("uniform", space))
    generator = np.random.default_rng(0)
    drawn = actions.candidates(400, generator)
    assert drawn.shape == (400, 16, 2) and drawn.min() >= -1.0 and drawn.max() <= 3.0
    # Each candidate is uniform over the states, and the mean in each state is near the middle.
    np.testing.assert_allclose(np.quantile(drawn[:, 3, 1], [0.25, 0.75]), [0.0, 2.0], atol=0.3)
    assert np.abs(drawn.mean(axis=1) - 1.0).max() < 0.2
    normal = ActionSet(reference_of("gaussian(0.5,1)", space)).candidates(
        400, np.random.default_rng(0)
    )
    assert normal.std() == pytest.approx(0.5, abs=0.05)
