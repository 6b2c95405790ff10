"""What an agent did, as weights on (decision step, action, state), and what that could score.

Every measure is an expectation over behaviour of log(model / reference). The behaviour is a
policy, whose weights are its occupancy, or logged trajectories, whose weights are frequencies;
the measures see nothing but the weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypedDict

import numpy as np

from goalmeter._errors import InvalidPolicyError
from goalmeter._types import ArrayLike, FloatArray
from goalmeter.tabular.evaluation import state_occupancy
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.policies import check_policy
from goalmeter.tabular.side_by_side import ONE_WORLD, Sums

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


@dataclass(frozen=True)
class Yardstick:
    """What behaviours could score at most, whatever the utility; both [B], nats."""

    maximum: FloatArray
    ceiling: FloatArray


def yardstick(
    behaviour: Behaviour,
    log_reference: FloatArray | None,
    tells_apart: FloatArray,
    sums: Sums = ONE_WORLD,
) -> Yardstick:
    """The maximum and the ceiling of a MEG (see `MegResult`).

    A decision can matter if its actions lead to different distributions over states and it is
    not the last of a horizon, or if the utility itself tells its actions apart.

    Args:
        behaviour: the weights.
        log_reference: [T, A, S] or None for uniform.
        tells_apart: 1.0 where a utility pays actions differently, else 0.0: [T, S, B or 1].
        sums: of each world, where W stand side by side: [W] then takes the place of [B].
    """
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
                _check_reference(weights, log_prior, step, states)
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
    return Yardstick(np.asarray(maximum), np.asarray(ceiling))


def _check_reference(weights: FloatArray, log_prior: FloatArray, step: int, states: slice) -> None:
    bad = (weights > 0) & np.isneginf(log_prior)
    if bad.any():
        action, state, _ = np.argwhere(bad)[0]
        raise InvalidPolicyError(
            f"reference[{states.start + state}, {action}] is 0 at decision {step}, but the "
            f"measured behaviour takes that action there, so the evidence would be infinite; "
            f"give every action the agent uses a positive reference probability"
        )


class Bracket(TypedDict):
    """The fields of a `MegResult` that hold a value between its bounds, all nats."""

    value: float
    upper_bound: float
    maximum: float
    ceiling: float


def bracketed(value: float, bound: float, measure: Yardstick, i: int = 0) -> Bracket:
    """The value and the bound of a behaviour, neither above what any behaviour could score.

    The bound is a proven one, with what rounding may add to it; the measure is that of B
    behaviours, of which i is meant, or of one that stands for all.
    """
    maximum = float(measure.maximum[i % len(measure.maximum)])
    ceiling = min(float(measure.ceiling[i % len(measure.ceiling)]), maximum)
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
    """What rounding can add up to, nats: values of up to T log(A), summed over T decisions.

    Fitted weights may give rise to larger values: see `SoftModel.rounding`.
    """
    return float(np.finfo(float).eps * np.log(mdp.n_actions) * decisions(mdp) ** 2)


def certifying(tolerance: float, error: float, maximum: float) -> float:
    """The tolerance, or room for twice an error of rounding where that stays small."""
    # An error above a millionth of the maximum leaves a result uncertified, since the number may
    # then be nothing but the error.
    return max(tolerance, min(2.0 * error, ROUNDING_SHARE * maximum))
