"""The table of what an agent answers in each state that was met, and whether there is one."""

from __future__ import annotations

import copy
from functools import partial

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.meg.simulator.agents.acting import Actor, told
from goalmeter.meg.simulator.states.met_states import MetStates
from goalmeter.meg.simulator.worlds.guarded_calls import answer_of, begin_of, in_state

# How often a caller's function is asked about each state, and by how much its answers may differ.
_ASKED, _ALIKE = 3, 1e-6


class AnswersByState:
    """What one agent answers in the states of one environment.

    Args:
        states: those that were met.
        n_actions: A.
        first: what the agent calls the first action.

    Attributes:
        differ: whether it was seen to answer a state with different distributions.
        table: its distribution at each decision in each state, [T, S, A] with T = 1 unless it
            depends on the decision's number; None if it was never asked for, or there is none.
    """

    def __init__(self, states: MetStates, n_actions: int, first: int) -> None:
        self._states, self._n_actions, self._first = states, n_actions, first
        self._rows: dict[int, FloatArray] = {}
        self.table: FloatArray | None = None
        self.differ = False

    @property
    def covers_all(self) -> bool:
        """Whether the table has every state that was met."""
        return self.table is not None and self.table.shape[1] == len(self._states)

    def compare(self, state: int, row: FloatArray) -> None:
        """Note if a caller's function gave another distribution, [A], in the same state before."""
        first = self._rows.setdefault(state, row)
        self.differ |= bool((np.abs(first - row) > _ALIKE).any())

    def ask(self, actor: Actor, horizon: int) -> None:
        """Ask an agent without memory in every state, and make the table of what it answers."""
        self.table = self._asked(actor, horizon)

    def remarks(self, actor: Actor) -> list[str]:
        """What a reader has to know of the agent's answers."""
        if self.differ:
            return [
                f"{actor.name} answered the same state with different distributions, so what it "
                f"collects is bounded by its episodes and not computed"
            ]
        if self._states.observations_differ:
            return [
                "the same state showed different observations, so what the agent collects is "
                "bounded by its episodes and not computed"
            ]
        if self.table is not None and not actor.is_function:
            return [
                f"what {actor.name} collects was computed from its answers: this rests on its "
                f"answering an observation always alike, as it did whenever it was asked"
            ]
        return []

    def _asked(self, actor: Actor, horizon: int) -> FloatArray | None:
        times = range(horizon) if actor.timed else range(1)
        rows = np.zeros((len(times), len(self._states), self._n_actions))
        for state, observation in enumerate(self._states.observations):
            # A walker of our worlds looks at the state, not at the observation.
            self._states.put_back(state)
            where = partial(in_state, state)
            answer = begin_of(actor, np.random.default_rng(0), where)
            for t in times:
                for _ in range(1 if actor.is_function else _ASKED):
                    # An agent may change in place what it is shown.
                    shown = copy.deepcopy(observation)
                    answered = answer_of(answer, shown, t, actor.name, where)
                    row = told(answered, self._n_actions, actor.name, self._first)[1]
                    if row is None:
                        return None
                    if not actor.is_function:
                        self.compare(state, row)
                if self.differ:
                    return None
                rows[t, state] = row
        return rows
