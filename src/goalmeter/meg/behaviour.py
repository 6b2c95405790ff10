"""Observed behaviour, linear classes of utilities, and evidence for soft-optimal models.

Behaviour is a set of weights on (decision step, action, state). The naive plug-in of maximum causal
entropy is the comparison that MEG replaces.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, TypedDict

import numpy as np

from goalmeter._errors import InvalidParameterError, InvalidPolicyError, InvalidUtilityError
from goalmeter._types import ArrayLike, FloatArray
from goalmeter.tabular.arrays import as_floats, wrong_shape
from goalmeter.tabular.backup import Backup, SoftProblem, problem
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.planning import ONE_WORLD, Sums, backward, log_of_reference, state_occupancy
from goalmeter.tabular.policies import Rewards, check_policy, rewards_of
from goalmeter.tabular.transition import Block

# --- Behaviour ------------------------------------------------------------------------------------
# Every measure is an expectation over behaviour of log(model / reference). The behaviour is a
# policy, whose weights are its occupancy, or logged trajectories, whose weights are frequencies.

# Rounding may widen what counts as certified up to this share of the maximum, and no further.
ROUNDING_SHARE = 1e-6


class Behaviour(Protocol):
    """Weights of B behaviours in one MDP."""

    @property
    def mdp(self) -> TabularMDP:
        """The world that the behaviour is in."""

    def weights(self, step: int, states: slice) -> FloatArray:
        """Expected (discounted, for the infinite problem) uses of each action: [A, n, B]."""


@dataclass(frozen=True)
class PolicyBehaviour:
    """The weights of B policies [T, A, S, B] with their occupancy [H or 1, S, B]."""

    mdp: TabularMDP
    policy: FloatArray
    states: FloatArray

    def weights(self, step: int, states: slice) -> FloatArray:
        """Occupancy times policy: [A, n, B]."""
        now = self.policy[min(step, len(self.policy) - 1), :, states]
        return np.asarray(now * self.states[step, states])


def behaviour_of(mdp: TabularMDP, policies: list[ArrayLike]) -> PolicyBehaviour:
    """The behaviour of policies, each [S, A] or [H, S, A], checked."""
    checked = [
        check_policy(mdp, p, "policy" if len(policies) == 1 else f"policies[{i}]")
        for i, p in enumerate(policies)
    ]
    if len(checked) == 1:
        stacked = checked[0][..., None]
    else:
        shape = (max(len(c) for c in checked), mdp.n_actions, mdp.n_states)
        stacked = np.stack([np.broadcast_to(c, shape) for c in checked], axis=-1)
    return PolicyBehaviour(mdp, stacked, state_occupancy(mdp, stacked))


def yardstick(
    behaviour: Behaviour,
    log_reference: FloatArray | None,
    tells_apart: FloatArray,
    sums: Sums = ONE_WORLD,
) -> tuple[FloatArray, FloatArray]:
    """The maximum and the ceiling of a MEG (see `MegResult`), in W worlds if `sums` says so."""
    # A decision can matter if its actions lead to different distributions over states and it is
    # not the last of a horizon, or if the utility itself tells its actions apart ([T, S, B or 1]).
    mdp = behaviour.mdp
    maximum: FloatArray | float = 0.0
    ceiling: FloatArray | float = 0.0
    # Block by block, like all passes: the arrays [A, n, B] of a block stay in cache.
    for step in range(mdp.steps):
        for states in (block.states for block in mdp.transition.blocks):
            weights = behaviour.weights(step, states)
            if log_reference is None:
                log_prior = np.full((1, 1, 1), -np.log(mdp.n_actions))
            else:
                log_prior = log_reference[min(step, len(log_reference) - 1), :, states, None]
                bad = (weights > 0) & np.isneginf(log_prior)
                if bad.any():
                    action, state, _ = np.argwhere(bad)[0]
                    raise InvalidPolicyError(
                        f"reference[{states.start + state}, {action}] is 0 at decision {step}, but "
                        f"the measured behaviour takes that action there, so the evidence would be "
                        f"infinite; give every action the agent uses a positive reference "
                        f"probability"
                    )
            matters = tells_apart[min(step, len(tells_apart) - 1), states]
            # What the last action of a horizon leads to is never paid.
            if step + 1 != mdp.horizon:
                matters = np.maximum(matters, mdp.active_states()[states, None])
            total = weights.sum(axis=0)
            least = np.where(np.isneginf(log_prior), np.inf, log_prior).min(axis=0)
            maximum = maximum - sums.total(matters * total * least)
            with np.errstate(divide="ignore", invalid="ignore"):
                each = weights * (np.log(weights / total) - log_prior)
            ceiling = ceiling + sums.total(matters * np.where(weights > 0, each, 0.0).sum(axis=0))
    return np.asarray(maximum), np.asarray(ceiling)


class Bracket(TypedDict):
    """The fields of a `MegResult` that hold a value between its bounds, all nats."""

    value: float
    upper_bound: float
    maximum: float
    ceiling: float


def bracketed(value: float, bound: float, maximum: float, ceiling: float) -> Bracket:
    """The value and a proven bound of a behaviour, neither above what any could score."""
    ceiling = min(ceiling, maximum)
    value = min(max(value, 0.0), maximum)
    # If the value exceeds the bound, one of them is wrong, and only the maximum is a bound.
    bound = min(max(bound, 0.0), maximum)
    bound = maximum if value > bound else bound
    return Bracket(value=value, upper_bound=bound, maximum=maximum, ceiling=ceiling)


def reconciled(bound: float, value: float, maximum: float) -> float:
    """Return a bound that rounding may have left below the value; the maximum if by more."""
    room = max(1e-8, ROUNDING_SHARE * maximum)
    return max(bound, value) if value <= bound + room else maximum


def decisions(mdp: TabularMDP) -> float:
    """Return the expected number T of decisions, discounted in the infinite problem."""
    return 1.0 / (1.0 - mdp.discount) if mdp.horizon is None else float(mdp.horizon)


def rounding(mdp: TabularMDP) -> float:
    """What rounding can add up to, nats: values of up to T log(A), summed over T decisions."""
    return float(np.finfo(float).eps * np.log(mdp.n_actions) * decisions(mdp) ** 2)


def certifying(tolerance: float, error: float, maximum: float) -> float:
    """The tolerance, or room for twice an error of rounding where that stays small."""
    # An error above a millionth of the maximum leaves a result uncertified, since the number may
    # then be nothing but the error.
    return max(tolerance, min(2.0 * error, ROUNDING_SHARE * maximum))


# --- Utility class --------------------------------------------------------------------------------
Over = Literal["state", "state-action", "time-state"]


@dataclass(frozen=True)
class LinearClass:
    """Utilities that are linear in D weights, as arrays [T, A or 1, S]."""

    shape: tuple[int, int, int]  # (T, A or 1, S) of one utility of the class
    # Features [(A or 1) * S, D], action-major; None where every entry is a weight of its own.
    matrix: FloatArray | None
    discount: float  # weight of a decision's utility per step
    name: str  # the class in words, as a target of goal-directedness
    unit: float = 1.0  # what a weight of 1 is worth in units of the utility that was given

    @property
    def n_weights(self) -> int:
        """D, the number of weights."""
        return int(np.prod(self.shape)) if self.matrix is None else self.matrix.shape[1]

    @property
    def on_actions(self) -> bool:
        """Whether a utility of the class can tell actions apart in themselves."""
        return self.shape[1] > 1

    def tells_apart(self) -> FloatArray:
        """1.0 where some utility of the class pays actions differently, else 0.0: [T, S, 1]."""
        t, a, s = self.shape
        if self.matrix is None:
            return np.full((1, s, 1), float(self.on_actions))
        differs = np.ptp(self.matrix.reshape(t, a, s, -1), axis=1).max(axis=-1) > 0
        return np.asarray(differs, dtype=np.float64)[..., None]

    def centred(self, weights: FloatArray) -> FloatArray:
        """Subtract an offset that exceeds the range of weights [D]; features are left alone."""
        if self.matrix is not None:
            return weights
        by_step = weights.reshape(self.shape[0], -1)
        middle, width = by_step.mean(axis=1, keepdims=True), np.ptp(by_step, axis=1, keepdims=True)
        return np.where(np.abs(middle) > width, by_step - middle, by_step).ravel()

    def rewards(self, weights: FloatArray) -> Rewards:
        """The utilities of B weight vectors [D, B]."""
        flat = weights if self.matrix is None else self.matrix @ weights
        return Rewards(flat.reshape(*self.shape, weights.shape[1]), self.discount)

    def visits(self, batch: int) -> FloatArray:
        """An empty tally of visits [T, A or 1, S, B], to be filled by `tally`."""
        return np.zeros((*self.shape, batch))

    def tally(self, visits: FloatArray, step: int, mass: FloatArray) -> None:
        """Add the mass [A, S, B] that decision `step` puts on state-action pairs."""
        # A class over states has one entry for all actions of a state.
        weight = self.discount**step
        added = mass if self.on_actions else mass.sum(axis=0, keepdims=True)
        visits[min(step, self.shape[0] - 1)] += weight * added

    def collect(self, visits: FloatArray, *, squared: bool = False) -> FloatArray:
        """Expectations [D, B] of the features of a tally, or of their squares."""
        flat = visits.reshape(-1, visits.shape[-1])
        if self.matrix is None:
            return flat
        return (self.matrix**2 if squared else self.matrix).T @ flat


def linear_class(
    mdp: TabularMDP, features: ArrayLike | None = None, over: Over = "state"
) -> LinearClass:
    """The class of utilities to maximise over, linear in features or of a kind of `over`."""
    s, a, h = mdp.n_states, mdp.n_actions, mdp.horizon
    # In the infinite problem the planner discounts; here it would count twice.
    discount = 1.0 if h is None else mdp.discount
    if features is not None:
        if over != "state":
            raise InvalidParameterError(
                f"over is {over!r} and features are given, expected one of the two; features "
                f"[S, A, D] span utilities over state-action pairs"
            )
        array = as_floats(features, "features", InvalidUtilityError)
        d = array.shape[-1] if array.ndim else 0
        if array.shape not in ((s, d), (s, a, d)) or d == 0:
            expected = f"[{s}, D] (state features) or [{s}, {a}, D] (state-action features), with "
            expected += "D at least 1"
            raise wrong_shape("features", array.shape, expected, InvalidUtilityError)
        # Neither an offset nor the unit of a feature changes the class.
        array = Rewards(array.reshape(1, 1, -1, d), 1.0).normalised()[0].array.reshape(array.shape)
        if array.ndim == 2:
            name = f"some utility linear in {d} state features"
            return LinearClass((1, 1, s), np.ascontiguousarray(array), discount, name)
        matrix = np.ascontiguousarray(array.transpose(1, 0, 2)).reshape(a * s, d)
        name = f"some utility linear in {d} state-action features"
        return LinearClass((1, a, s), matrix, discount, name)
    if over == "time-state" and h is None:
        raise InvalidParameterError(
            "over is 'time-state' and the MDP has no horizon, expected a finite horizon; "
            "stationary policies of the infinite problem have no decision steps"
        )
    shapes: dict[str, tuple[tuple[int, int, int], str]] = {
        "state": ((1, 1, s), "some utility over states"),
        "state-action": ((1, a, s), "some utility over state-action pairs"),
        "time-state": ((h or 1, 1, s), "some time-dependent utility over states"),
    }
    if over not in shapes:
        raise InvalidParameterError(
            f"over is {over!r}, expected 'state', 'state-action' or 'time-state'"
        )
    shape, name = shapes[over]
    return LinearClass(shape, None, discount, name)


# --- Evidence -------------------------------------------------------------------------------------
# f is concave in b and its slope is M(b) - c, with M(b) > 0 the regret of the model, falling to 0
# as b grows, and c the regret of the behaviour. If c = 0 the optimum lies at infinity. Otherwise
# log M(b) = log c is solved by Newton steps, guarded by a bracket: M falls like an exponential, so
# its log is close to a line.

# Slopes at b = 0 below this share of the regrets are rounding: the optimum is b = 0.
ZERO_SLOPE = 1e-13
# Newton steps square the relative error: after one this small, the rest is rounding.
_LAST_STEP = 1e-7
_NARROW = 1e-13
MOST_STEPS = 200


@dataclass(frozen=True)
class EvidencePoint:
    """f(b) = E[sum log(pi_b / reference)] of B behaviours and derivatives in b >= 0: [B]."""

    # The slope is the regret that the model of rationality b would have less that of the behaviour
    # (MEG paper, section 5). Of a policy the former is `start_loss`; of samples not exactly.

    value: FloatArray
    model_loss: FloatArray
    loss: FloatArray
    curvature: FloatArray
    start_loss: FloatArray

    @property
    def slope(self) -> FloatArray:
        """df/db."""
        return np.asarray(self.model_loss - self.loss)

    def __add__(self, other: EvidencePoint) -> EvidencePoint:
        """Evidence of independent behaviours under one rationality."""
        return EvidencePoint(*map(np.add, vars(self).values(), vars(other).values()))


@dataclass(frozen=True)
class Shares:
    """Where the evidence comes from, nats; of W worlds [H, W] and [W * S, 1]."""

    by_step: FloatArray  # [H, B]
    by_state: FloatArray  # [S, B]


def model_evidence(task: SoftProblem, loss: FloatArray, sums: Sums = ONE_WORLD) -> EvidencePoint:
    """Slope and curvature for policies whose regret is known; cheaper, and without the value."""
    start = backward(task)
    assert start.loss is not None and start.spread is not None
    expected, spread = (sums.at_start(task.mdp.initial, x) for x in (start.loss, start.spread))
    return EvidencePoint(np.full_like(expected, np.nan), expected, loss, -spread, expected)


def evidence(
    task: SoftProblem, behaviour: Behaviour, shares: Shares | None = None, sums: Sums = ONE_WORLD
) -> EvidencePoint:
    """Evidence of behaviours for the models of `task`, [B] or of W worlds; fills in `shares`."""
    mdp, batch = task.mdp, task.rationality.shape[0] * sums.n_worlds
    blocks = mdp.transition.blocks
    # One row of sums a block: threads never add to the same number, and the order is fixed.
    tally = np.zeros((len(blocks), 4, batch))
    row = {block.start: i for i, block in enumerate(blocks)}
    by_step = np.zeros((len(blocks), mdp.steps, batch if shares is not None else 0))

    def visit(step: int, block: Block, done: Backup) -> None:
        assert done.loss is not None and done.next_loss is not None
        assert done.spread is not None and done.next_spread is not None
        weights = behaviour.weights(step, block.states)
        total = tally[row[block.start]]
        share = np.where(weights > 0, weights * done.log_ratio, 0.0).sum(axis=0)
        total[0] += sums.total(share)
        total[1] += sums.dot(weights, done.loss - done.next_loss)
        total[2] += task.weight(step) * sums.dot(weights, done.gap)
        total[3] += sums.dot(weights, done.next_spread - done.spread)
        if shares is not None:
            by_step[row[block.start], step] = sums.total(share)
            shares.by_state[block.states] += share

    with np.errstate(invalid="ignore"):
        start = backward(task, visit)
    if shares is not None:
        shares.by_step[...] = by_step.sum(axis=0)
    value, model_loss, loss, curvature = tally.sum(axis=0)
    assert start.loss is not None
    return EvidencePoint(value, model_loss, loss, curvature, sums.at_start(mdp.initial, start.loss))


Evaluate = Callable[[FloatArray], EvidencePoint]


def first_size(at_zero: EvidencePoint) -> FloatArray:
    """Where a Newton step from 0 leads; 1 where the evidence is not concave there."""
    # Utilities are normalised, so 1 is a sensible size. Logs that stop early can be convex at 0.
    bends = at_zero.curvature < 0
    return np.where(bends, np.abs(at_zero.slope) / np.where(bends, -at_zero.curvature, 1.0), 1.0)


def best_rationality(evaluate: Evaluate, at_zero: EvidencePoint) -> FloatArray:
    """Argmax over b in [-inf, inf] of the evidence of B behaviours: [B]."""
    # `evaluate` gives slopes with respect to |b|; the slope at zero decides the sign.
    scale = at_zero.model_loss + at_zero.loss
    sign = np.where(np.abs(at_zero.slope) <= ZERO_SLOPE * scale, 0.0, np.sign(at_zero.slope))
    # A utility that no choice influences: nothing is lost whatever is chosen.
    sign = np.where(at_zero.start_loss <= 0.0, 0.0, sign)
    size = np.where(sign == 0, 0.0, first_size(at_zero))
    low, high = np.zeros_like(size), np.full_like(size, np.inf)
    open_ = sign != 0
    for _ in range(MOST_STEPS):
        if not open_.any():
            break
        now = evaluate(sign * size)
        # A behaviour that gives nothing up is explained ever better by larger b.
        infinite = open_ & (now.loss <= 0.0)
        size = np.where(infinite, np.inf, size)
        open_ &= ~infinite
        rising = now.slope > 0
        low = np.where(open_ & rising, size, low)
        high = np.where(open_ & ~rising, size, high)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            # Newton's step for log M(b) = log c, in which M' is the curvature.
            step = -now.model_loss * np.log(now.model_loss / now.loss) / now.curvature
            guess = size + step
            middle = np.where(np.isinf(high), 4.0 * size, 0.5 * (low + high))
        inside = np.isfinite(guess) & (guess > low) & (guess < high)
        settled = inside & (np.abs(step) <= _LAST_STEP * size)
        settled |= (now.slope == 0) | (high - low <= _NARROW * size)
        size = np.where(
            open_, np.where(settled | inside, np.where(inside, guess, size), middle), size
        )
        open_ &= ~settled
    return np.asarray(sign * size)


# --- Plug in --------------------------------------------------------------------------------------
class PlugIn(NamedTuple):
    """How well a utility predicts a policy at rationality 1, nats."""

    accuracy: float  # E[sum_t log pi_1(a_t | s_t)] over all decisions, at most 0
    evidence: float  # the same less the reference's; unlike a MEG it can be negative


def mce_plug_in(
    mdp: TabularMDP,
    policy: ArrayLike,
    *,
    utility: ArrayLike | None = None,
    reference: ArrayLike | None = None,
) -> PlugIn:
    """Predictive accuracy of a utility put straight into the soft-optimal policy.

    For comparison only: it is not invariant to the utility's scale. Arguments are those of
    `known_utility`. Source: MEG paper (NeurIPS 2024), section 3, "Comparison to MCE IRL", eq. 2.

    Example: the optimal mouse, for U and for 2 U (-0.13 and -0.018 in the paper, which counts
    the first of the two decisions; the second adds log 1/2 to accuracy and 0 to evidence).
        >>> stay = [[0, 1, 0], [0, 1, 0]], [[0, 0, 1], [0, 0, 1]]
        >>> mouse = TabularMDP([[[0, 1, 0], [0, 0, 1]], *stay], [0, 1, -1], horizon=2)
        >>> optimal = [[1, 0], [0.5, 0.5], [0.5, 0.5]]
        >>> [round(mce_plug_in(mouse, optimal, utility=u).evidence - float(np.log(2)), 3)
        ...  for u in ([0, 1, -1], [0, 2, -2])]
        [-0.127, -0.018]
    """
    log_reference = log_of_reference(mdp, reference)
    behaviour = behaviour_of(mdp, [policy])
    task = problem(mdp, rewards_of(mdp, utility), np.ones(1), log_reference)
    gained = float(evidence(task, behaviour).value[0])
    prior = np.full((1, 1, 1), -np.log(mdp.n_actions)) if log_reference is None else log_reference
    # What the reference itself says of the behaviour: evidence is what the model adds to it.
    base = 0.0
    for step in range(mdp.steps):
        weights = behaviour.weights(step, slice(None))[..., 0]
        now = prior[min(step, len(prior) - 1)]
        base += float((weights * np.where(weights > 0, now, 0.0)).sum())
    return PlugIn(base + gained, gained)
