"""`TabularMDP`: a finite Markov decision process, validated once and immutable afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from goalmeter._errors import InvalidModelError, InvalidParameterError
from goalmeter._text import shown
from goalmeter._types import ArrayLike, FloatArray
from goalmeter.tabular._validation import (
    as_array,
    as_floats,
    as_initial,
    naming,
    read_only,
    wrong_shape,
)
from goalmeter.tabular.files import read_mdp, write_mdp
from goalmeter.tabular.gymnasium_table import read_environment
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
    def branching(
        cls,
        transition: Transition,
        initial: FloatArray,
        *,
        horizon: int | None,
        discount: float = 1.0,
    ) -> TabularMDP:
        """A process in which a decision may lead to several others at once, or to none.

        Values of everything that follows are added up, and occupancies are expected numbers of
        decisions. Influence diagrams are such processes (`goalmeter.causal.contexts`), and so are
        many worlds side by side (`goalmeter.tabular.side_by_side`).

        The transition has expected numbers of successors: all actions of a state, and all states
        of a kind, lead to as many. `initial` [S] has those of first decisions in each state, and
        the horizon is the number of decisions on the longest branch.
        """
        # Around the constructor, whose checks want distributions.
        mdp, put = cls.__new__(cls), object.__setattr__
        put(mdp, "transition", transition)
        put(mdp, "reward", read_only(np.zeros(transition.n_states)))
        put(mdp, "initial", read_only(initial))
        put(mdp, "horizon", _as_horizon(horizon))
        put(mdp, "discount", _as_discount(discount, mdp.horizon))
        put(mdp, "_active", None)
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
        if unknown := [name for name in changes if name not in known]:
            raise InvalidParameterError(
                f"replace got {unknown[0]!r}, expected one of {', '.join(known)}"
            )
        return TabularMDP(**{**{name: getattr(self, name) for name in known}, **changes})

    @classmethod
    def from_npz(cls, path: str | Path) -> TabularMDP:
        """Read an MDP file (format: `goalmeter.tabular.files`).

        Raises:
            InvalidFileError: the file is missing, not a readable .npz, or lacks an array.
            InvalidModelError, InvalidParameterError: the arrays are not a well-formed MDP.
        """
        arguments = read_mdp(path)
        with naming(path):
            return cls(**arguments)

    def to_npz(self, path: str | Path) -> Path:
        """Write an MDP file (format: `goalmeter.tabular.files`); returns its path."""
        return write_mdp(self, path)

    @classmethod
    def from_gymnasium(
        cls,
        env: str | Env[Any, Any],
        *,
        horizon: int | None = None,
        initial: ArrayLike | int | None = None,
        **make_options: Any,
    ) -> TabularMDP:
        """The MDP of a Gymnasium environment that exposes its transition table.

        Such environments are FrozenLake, Taxi and CliffWalking, and any other whose unwrapped
        environment has `P[state][action]`, a list of (probability, next state, reward, terminated).
        An outcome listed more than once counts as often as it is listed.

        Rewards become their expectation given state and action, [S, A]. Every policy's expected
        return is then that of the environment, but the variance of its return is not, unless the
        reward never depends on the next state.

        An episode that terminates becomes an absorbing state without reward. If the states in
        which episodes terminate cannot be visited otherwise (by a start there or by a transition
        that does not terminate), they are made absorbing themselves and the states keep their
        meaning. Otherwise one absorbing state is added behind the others, with index S, and every
        terminating transition leads there. Only states that an episode can reach count, so Taxi
        keeps its 500 states.

        Wrappers that change observations, rewards or actions are not seen; the time limit is.

        Args:
            env: an id (made with `gymnasium.make(env, **make_options)` and closed again), or an
                environment (left open and as it is).
            horizon: number of decisions; default the environment's own time limit: that of its
                registration, of a `TimeLimit` around it, or its attribute `max_steps` or
                `max_episode_steps`; where there are several, the one that ends an episode first.
                The result's text shows it. For the infinite discounted problem use
                `.replace(horizon=None, discount=...)` on the result.
            initial: a state or a distribution over the table's states [S]; default the
                environment's `initial_state_distrib`.
            make_options: options of `gymnasium.make`, such as `is_slippery=False`.

        Raises:
            InvalidModelError: the environment has no transition table, the table is malformed or
                does not describe all of the dynamics, or it names no initial distribution.
            InvalidParameterError: an unknown id or option, or neither horizon nor time limit.
            MissingExtraError: Gymnasium is not installed.
        """
        name, arguments = read_environment(env, horizon=horizon, initial=initial, **make_options)
        with naming(name):
            return cls(**arguments)

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
        next_state = as_array(transition[0], "next_state")
        probability = as_floats(transition[1], "probability", InvalidModelError)
        return Transition.from_successors(next_state, probability)
    return Transition.from_dense(as_floats(transition, "transition", InvalidModelError))


def _as_reward(reward: ArrayLike, n_states: int, n_actions: int) -> FloatArray:
    array = as_floats(reward, "reward", InvalidModelError)
    if array.shape not in ((n_states,), (n_states, n_actions)):
        expected = f"[{n_states}] (one for each state) or [{n_states}, {n_actions}] (one for each "
        raise wrong_shape("reward", array.shape, f"{expected}state and action)", InvalidModelError)
    return read_only(array.copy())


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
            f"horizon is {shown(horizon)}, expected at most {MAX_HORIZON:g} decisions; for more, "
            f"take the infinite problem: discount < 1 and no horizon"
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
