"""`TabularMDP`: a finite Markov decision process, validated once and immutable afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from goalmeter._errors import InvalidModelError, InvalidParameterError
from goalmeter._types import AnyArray, ArrayLike, FloatArray
from goalmeter.tabular._validation import (
    as_floats,
    check_distributions,
    normalised_rows,
    read_only,
    shape_text,
)
from goalmeter.tabular.transition import Transition

if TYPE_CHECKING:
    from gymnasium import Env


# Measures keep a number for each state and decision, so a longer horizon could not be measured.
MAX_HORIZON = 10_000_000


class TabularMDP:
    """A finite Markov decision process with rewards on states or on state-action pairs.

    The agent makes decisions t = 0, 1, ... in states s_t and collects the reward of s_t (and
    a_t) at each of them; nothing is collected after the last action. Two kinds of horizon:

    * `horizon=H`: H decisions, time-dependent policies allowed. With `discount` g the utility
      is sum_t g^t reward(s_t, a_t). The discount is part of the utility alone: every decision
      is a whole piece of evidence about the agent (Definition 3.2 of the MEG paper).
    * `horizon=None` and `discount` g < 1: the infinite discounted problem with stationary
      policies. Decision t then weighs g^t in the utility and in the evidence alike, which is
      what keeps both sums finite.

    Args:
        transition: P [S, A, S], or sparse successor lists (next_state [S, A, K] of integers,
            probability [S, A, K]), or the `transition` of another MDP.
        reward: [S] or [S, A], in reward units.
        horizon: number of decisions, at least 1; None for the infinite discounted problem.
        initial: a state, or a distribution over states [S].
        discount: in (0, 1].

    Raises:
        InvalidModelError: shapes that do not fit, rows that do not sum to 1 within 1e-9,
            negative probabilities, NaN or infinity.
        InvalidParameterError: horizon or discount outside the ranges above.

    Source: "Measuring Goal-Directedness" (NeurIPS 2024), Definition 5.1.

    Example: action 0 stays where it is, action 1 moves to state 1, which pays 1.
        >>> transition = [[[1, 0], [0, 1]], [[0, 1], [0, 1]]]
        >>> TabularMDP(transition, reward=[0, 1], horizon=3)
        TabularMDP(2 states, 2 actions, 4 transitions, reward [S] in [0, 1], horizon 3)
    """

    __slots__ = ("_active", "discount", "horizon", "initial", "reward", "transition")

    transition: Transition
    reward: FloatArray
    initial: FloatArray
    horizon: int | None
    discount: float
    _active: FloatArray | None

    def __init__(
        self,
        transition: ArrayLike | tuple[ArrayLike, ArrayLike] | Transition,
        reward: ArrayLike,
        *,
        horizon: int | None = None,
        initial: ArrayLike | int = 0,
        discount: float = 1.0,
    ) -> None:
        put = object.__setattr__
        put(self, "transition", _as_transition(transition))
        put(self, "reward", _as_reward(reward, self.n_states, self.n_actions))
        put(self, "initial", as_initial(initial, self.n_states))
        put(self, "horizon", _as_horizon(horizon))
        put(self, "discount", _as_discount(discount, self.horizon))
        put(self, "_active", None)

    @classmethod
    def branching(cls, transition: Transition, initial: FloatArray, *, horizon: int) -> TabularMDP:
        """A process in which a decision may lead to several others at once, or to none.

        Values of everything that follows are added up, and occupancies are expected numbers of
        decisions. Influence diagrams are such processes (`goalmeter.causal.contexts`).

        Args:
            transition: expected numbers of successors; all actions of a state, and all states of
                a kind, lead to as many.
            initial: expected number of first decisions in each state, [S].
            horizon: number of decisions on the longest branch.
        """
        mdp = cls.__new__(cls)
        values = {
            "transition": transition,
            "reward": read_only(np.zeros(transition.n_states)),
            "initial": read_only(initial),
            "horizon": _as_horizon(horizon),
            "discount": 1.0,
            "_active": None,
        }
        for name, value in values.items():
            object.__setattr__(mdp, name, value)
        return mdp

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(
            f"a TabularMDP is immutable, so {name!r} cannot be set; "
            f"make a changed copy with mdp.replace({name}=...)"
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError("a TabularMDP is not pickled; write it with mdp.to_npz(path)")

    @property
    def n_states(self) -> int:
        """Number of states, S."""
        return self.transition.n_states

    @property
    def n_actions(self) -> int:
        """Number of actions, A."""
        return self.transition.n_actions

    @property
    def steps(self) -> int:
        """Distinct decision steps: the horizon, or 1 for the stationary infinite problem."""
        return 1 if self.horizon is None else self.horizon

    def active_states(self) -> FloatArray:
        """1.0 for states whose actions lead to different distributions, else 0.0: [S].

        A decision taken elsewhere (in an absorbing state, say) influences no utility over
        states, so it carries no evidence and is not counted in a MEG's maximum.
        """
        active = self._active
        if active is None:
            active = read_only(self.transition.actions_differ().astype(np.float64))
            object.__setattr__(self, "_active", active)
        return active

    def replace(self, **changes: Any) -> TabularMDP:
        """A copy with some of the constructor's arguments changed; shares what is not."""
        known = ("transition", "reward", "horizon", "initial", "discount")
        for name in changes:
            if name not in known:
                raise InvalidParameterError(
                    f"replace got {name!r}, expected one of {', '.join(known)}"
                )
        return TabularMDP(**{**{name: getattr(self, name) for name in known}, **changes})

    @classmethod
    def from_npz(cls, path: str | Path) -> TabularMDP:
        """Read an MDP file (format: `goalmeter.tabular.files`)."""
        from goalmeter.tabular.files import load_mdp

        return load_mdp(path)

    def to_npz(self, path: str | Path) -> Path:
        """Write an MDP file (format: `goalmeter.tabular.files`); returns its path."""
        from goalmeter.tabular.files import save_mdp

        return save_mdp(self, path)

    @classmethod
    def from_gymnasium(
        cls, env: str | Env[Any, Any], *, horizon: int | None = None, **make_options: Any
    ) -> TabularMDP:
        """From a Gymnasium environment that exposes its transition table.

        Without a horizon the environment's own time limit is taken; the MDP's text shows it.
        See `goalmeter.tabular.gymnasium_table.mdp_from_gymnasium`.
        """
        from goalmeter.tabular.gymnasium_table import mdp_from_gymnasium

        return mdp_from_gymnasium(env, horizon=horizon, **make_options)

    def __repr__(self) -> str:
        kind = "[S]" if self.reward.ndim == 1 else "[S, A]"
        parts = [
            f"{self.n_states} states",
            f"{self.n_actions} actions",
            f"{self.transition.n_entries} transitions",
            f"reward {kind} in [{self.reward.min():g}, {self.reward.max():g}]",
            f"horizon {self.horizon}" if self.horizon is not None else "infinite horizon",
        ]
        if self.discount != 1.0:
            parts.append(f"discount {self.discount:g}")
        return f"TabularMDP({', '.join(parts)})"


def _as_transition(transition: Any) -> Transition:
    if isinstance(transition, Transition):
        return transition
    if isinstance(transition, tuple) and len(transition) == 2:
        next_state = _as_array(transition[0], "next_state")
        probability = as_floats(transition[1], "probability", InvalidModelError)
        return Transition.from_successors(next_state, probability)
    return Transition.from_dense(as_floats(transition, "transition", InvalidModelError))


def _as_array(value: Any, name: str) -> AnyArray:
    try:
        return np.asarray(value)
    except ValueError as cause:
        raise InvalidModelError(f"{name} is not an array of numbers: {cause}") from cause


def _as_reward(reward: ArrayLike, n_states: int, n_actions: int) -> FloatArray:
    array = as_floats(reward, "reward", InvalidModelError)
    if array.shape not in ((n_states,), (n_states, n_actions)):
        raise InvalidModelError(
            f"reward has shape {shape_text(array.shape)}, expected [{n_states}] (one for each "
            f"state) or [{n_states}, {n_actions}] (one for each state and action)"
        )
    return read_only(array.copy())


def as_initial(initial: ArrayLike | int, n_states: int) -> FloatArray:
    """A state, or a distribution over states, as a checked distribution [S]."""
    array = _as_array(initial, "initial")
    if array.ndim == 0 and array.dtype.kind in "iu":
        state = int(array)
        if not 0 <= state < n_states:
            raise InvalidModelError(f"initial is state {state}, expected 0..{n_states - 1}")
        mass = np.zeros(n_states)
        mass[state] = 1.0
        return read_only(mass)
    mass = as_floats(initial, "initial", InvalidModelError)
    if mass.shape != (n_states,):
        raise InvalidModelError(
            f"initial has shape {shape_text(mass.shape)}, expected a state (an integer) or a "
            f"distribution of shape [{n_states}]"
        )
    check_distributions(mass, "initial", InvalidModelError)
    return read_only(normalised_rows(mass))


def _as_horizon(horizon: int | None) -> int | None:
    if horizon is None:
        return None
    number = isinstance(horizon, (int, float, np.integer, np.floating))
    # NaN and infinity are no whole numbers: the remainder of both is NaN.
    if not number or isinstance(horizon, bool) or not (horizon % 1 == 0 and horizon >= 1):
        raise InvalidParameterError(
            f"horizon is {horizon!r}, expected a whole number of decisions, at least 1"
        )
    if horizon > MAX_HORIZON:
        raise InvalidParameterError(
            f"horizon is {horizon:g}, expected at most {MAX_HORIZON:g} decisions; for more, take "
            f"the infinite problem: discount < 1 and no horizon"
        )
    return int(horizon)


def _as_discount(discount: float, horizon: int | None) -> float:
    number = isinstance(discount, (int, float, np.integer, np.floating))
    if not number or not 0.0 < discount <= 1.0:
        raise InvalidParameterError(f"discount is {discount!r}, expected a number in (0, 1]")
    if horizon is None and discount >= 1.0:
        raise InvalidParameterError(
            "horizon is missing and discount is 1, so the utility is an infinite sum; "
            "give horizon=H for H decisions, or discount < 1 for the infinite discounted problem"
        )
    return float(discount)
