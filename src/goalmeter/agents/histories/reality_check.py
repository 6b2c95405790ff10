"""The reality check of an agent: it freezes where its past actions are not what it would do."""

from __future__ import annotations

from typing import Any

from goalmeter.agents.histories.adapters import HistoryFunction, as_agent
from goalmeter.agents.histories.protocol import Agent, Mind, options_of, refuse_unknown


class RealityCheck:
    """The reality check of an agent pi (Definition 8).

        rc(x_1)             = pi(x_1)
        rc(x_1 y_1 ... x_n) = pi(x_1 y_1 ... x_n)  if y_i = rc(x_1 y_1 ... x_i) for all i < n,
                              pi(x_1)              otherwise.

    Until the first action that is not its own, rc is pi (Proposition 9.1), so a mind needs pi's
    mind and pi's first action only; once frozen it needs the action alone, and lets pi's mind go.
    The frozen action answers the first percept of the history at hand, which in a simulation may
    not be the first percept of the real one.

    Args:
        inner: pi; an agent, or a function of the history.
        forward_options: assume what pi can assume, such as a learning rate. The authors' library
            does not, so that IncentivizeLearningRate pays -1 to every reality check; False is so.

    Raises:
        InvalidParameterError: pi is no agent.

    Source: Definition 8 and Proposition 9.
    """

    def __init__(self, inner: Agent | HistoryFunction, *, forward_options: bool = True) -> None:
        self.inner = as_agent(inner)
        self.options = options_of(self.inner) if forward_options else frozenset()

    def __repr__(self) -> str:
        forwards = self.options == options_of(self.inner)
        return f"RealityCheck({self.inner!r}{'' if forwards else ', forward_options=False'})"

    def begin(self, n_actions: int, n_observations: int, **options: Any) -> Mind:
        """A mind at the empty history; takes the settings that the inner agent takes."""
        if options:
            refuse_unknown(self, options, self.options)
        inner = self.inner.begin(n_actions, n_observations, **options)
        # Whoever does the same at every history is its own reality check.
        return inner if getattr(inner, "settled", False) else _CheckedMind(inner, None, None)


class _CheckedMind:
    __slots__ = ("_first", "_inner", "_known", "settled")

    def __init__(self, inner: Mind | None, first: int | None, known: int | None) -> None:
        self._inner = inner  # None: frozen
        self._first = first  # pi(x_1), once an action was taken
        self._known = known  # what it does here, if it was asked or is frozen
        self.settled = inner is None  # see `environments.base.replay`

    def perceive(self, reward: float, observation: int) -> None:
        inner = self._inner
        if inner is not None:
            inner.perceive(reward, observation)
            self._known = None

    def act(self) -> int:
        known = self._known
        if known is None:
            assert self._inner is not None  # a frozen mind knows what it does
            self._known = known = self._inner.act()
        return known

    def take(self, action: int) -> None:
        inner = self._inner
        if inner is None:
            return
        choice = self._known
        if choice is None:
            choice = inner.act()
        if self._first is None:
            self._first = choice
        if choice == action:
            inner.take(action)
        else:
            self._inner = None
            self._known = self._first
            self.settled = True

    def fork(self) -> _CheckedMind:
        inner = self._inner
        copy = None if inner is None else inner.fork()
        return _CheckedMind(copy, self._first, self._known)
