"""Linear classes of utilities: weights to utilities, visits to feature expectations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from goalmeter._errors import InvalidParameterError, InvalidUtilityError
from goalmeter._types import ArrayLike, FloatArray
from goalmeter.tabular._validation import as_floats, wrong_shape
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.rewards import Rewards

Over = Literal["state", "state-action", "time-state"]


@dataclass(frozen=True)
class LinearClass:
    """Utilities that are linear in D weights, as arrays [T, A or 1, S].

    Attributes:
        shape: (T, A or 1, S) of one utility of the class.
        matrix: features [(A or 1) * S, D], action-major; None where every entry of the
            utility is a weight of its own (D = T * (A or 1) * S).
        discount: weight of a decision's utility per step.
        name: the class in words, as a target of goal-directedness.
        unit: what a weight of 1 is worth in units of the utility that was given.
    """

    shape: tuple[int, int, int]
    matrix: FloatArray | None
    discount: float
    name: str
    unit: float = 1.0

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
    """The class of utilities to maximise over.

    Args:
        mdp: the world.
        features: [S, D] (linear in state features) or [S, A, D] (state-action features);
            None for all utilities of the kind that `over` names.
        over: "state", "state-action", or "time-state" (a utility over states for each
            decision step of a finite horizon); only without features.
    """
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
            raise wrong_shape(
                "features", array.shape, f"{expected}D at least 1", InvalidUtilityError
            )
        # Neither an offset nor the unit of a feature changes the class.
        array = Rewards(array.reshape(1, 1, -1, d), 1.0).normalised()[0].array.reshape(array.shape)
        if array.ndim == 2:
            name = f"some utility linear in {d} state features"
            return LinearClass((1, 1, s), np.ascontiguousarray(array), discount, name)
        matrix = np.ascontiguousarray(array.transpose(1, 0, 2)).reshape(a * s, d)
        name = f"some utility linear in {d} state-action features"
        return LinearClass((1, a, s), matrix, discount, name)
    if over == "state":
        return LinearClass((1, 1, s), None, discount, "some utility over states")
    if over == "state-action":
        return LinearClass((1, a, s), None, discount, "some utility over state-action pairs")
    if over == "time-state":
        if h is None:
            raise InvalidParameterError(
                "over is 'time-state' and the MDP has no horizon, expected a finite horizon; "
                "stationary policies of the infinite problem have no decision steps"
            )
        return LinearClass((h, 1, s), None, discount, "some time-dependent utility over states")
    raise InvalidParameterError(
        f"over is {over!r}, expected 'state', 'state-action' or 'time-state'"
    )
