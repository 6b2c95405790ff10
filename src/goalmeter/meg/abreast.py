"""A class of utilities in W worlds side by side: one soft model of all, and what each has of it.

Weights, gradients and steps are kept by world, [W, D]; the model of all worlds has the same numbers
in the order of its own class, world by world within each of a utility's axes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from goalmeter._types import BoolArray, FloatArray, IntArray
from goalmeter.meg.behaviour import PolicyBehaviour
from goalmeter.meg.soft_model import ALL, SoftModel
from goalmeter.meg.utility_class import LinearClass
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.side_by_side import side_by_side

# Entries of the tangents that are worked on at once: these arrays then stay in cache.
_TANGENTS = 100_000

_Any = TypeVar("_Any", np.float64, np.bool_)


@dataclass(frozen=True)
class Abreast:
    """Policies in W worlds of like shape, and the class of utilities that is searched in each.

    Attributes:
        worlds: of S states each.
        space: the class in one world, without features.
        mdp: the worlds side by side.
        behaviour: of the policies, in `mdp`.
        log_reference: [T, A, W * S], or None for uniform; -inf forbids an action.
        check: called before every pass; raises what ends a search.
    """

    worlds: Sequence[TabularMDP]
    space: LinearClass
    mdp: TabularMDP
    behaviour: PolicyBehaviour
    log_reference: FloatArray | None
    check: Callable[[], None]

    @property
    def n_worlds(self) -> int:
        """W."""
        return len(self.worlds)

    @property
    def utilities(self) -> LinearClass:
        """The class of all worlds together: the utilities of each are free of those of others."""
        steps, actions, states = self.space.shape
        shape = (steps, actions, self.n_worlds * states)
        return LinearClass(shape, None, self.space.discount, self.space.name)

    def model(self, theta: FloatArray) -> SoftModel:
        """The soft-optimal policies for weights [W, D]."""
        # A constant that exceeds a world's range would only cost digits.
        low, high = theta.min(axis=1, keepdims=True), theta.max(axis=1, keepdims=True)
        middle = 0.5 * (low + high)
        theta = np.where(np.abs(middle) > high - low, theta - middle, theta)
        return SoftModel(
            self.mdp, self.utilities, self.joined(theta), self.log_reference, self.check
        )

    def joined(self, weights: FloatArray) -> FloatArray:
        """Weights [W, D] or [W, D, k] in the order of the class of all worlds, [W * D, ...]."""
        n_states, tail = self.space.shape[2], weights.shape[2:]
        split = weights.reshape(self.n_worlds, -1, n_states, *tail)
        return split.swapaxes(0, 1).reshape(-1, *tail)

    def apart(self, flat: FloatArray) -> FloatArray:
        """What the class of all worlds has, [W * D], by world: [W, D]."""
        n_states = self.space.shape[2]
        split = flat.reshape(-1, self.n_worlds, n_states)
        return split.swapaxes(0, 1).reshape(self.n_worlds, -1)

    def by_world(self, values: NDArray[_Any]) -> NDArray[_Any]:
        """Values of all states [..., W * S] as [..., W, S]."""
        return values.reshape(*values.shape[:-1], self.n_worlds, -1)

    def each(self, values: BoolArray) -> BoolArray:
        """What holds for each world, [W], for each of its states: [W * S]."""
        return np.asarray(np.repeat(values, self.space.shape[2]))

    @cached_property
    def weights(self) -> list[FloatArray]:
        """What the behaviour does at each decision, [A, W, S]."""
        steps = range(self.mdp.steps)
        return [self.by_world(self.behaviour.weights(t, ALL)[..., 0]) for t in steps]

    @cached_property
    def _impossible(self) -> BoolArray:
        """Whether a world's behaviour takes an action that is forbidden, [W]."""
        out = np.zeros(self.n_worlds, dtype=bool)
        if self.log_reference is not None:
            for t, weights in enumerate(self.weights):
                prior = self.log_reference[min(t, len(self.log_reference) - 1)]
                out |= ((weights > 0) & np.isneginf(self.by_world(prior))).any(axis=(0, 2))
        return out

    def evidence(self, model: SoftModel) -> FloatArray:
        """The evidence of each world's behaviour for a model: [W], nats."""
        total = np.zeros(self.n_worlds)
        for t, weights in enumerate(self.weights):
            total += np.einsum("aws,aws->w", weights, self.by_world(model.step(t)[1]))
        return np.where(self._impossible, -np.inf, total)

    def shares(self, model: SoftModel) -> FloatArray:
        """The evidence by decision and state, [T, W, S] nats."""
        each = [w * self.by_world(model.step(t)[1]) for t, w in enumerate(self.weights)]
        return np.stack([share.sum(axis=0) for share in each])

    def information(self, model: SoftModel, states: FloatArray) -> FloatArray:
        """sum_t states_t(s) E_pi[psi psi^T] of each world, [W, D, D]; states [T, W * S]."""
        d = self.space.n_weights
        total = np.zeros((self.n_worlds, d, d))
        for chosen, t, psi in self._tangents(model):
            scale = np.sqrt(model.policy(t) * states[t])
            psi *= self.by_world(scale)[:, chosen].swapaxes(0, 1)[..., None]
            rows = psi.reshape(len(psi), -1, d)
            total[chosen] += rows.swapaxes(1, 2) @ rows
        return total

    def _tangents(self, model: SoftModel) -> Iterator[tuple[slice, int, FloatArray]]:
        """(some worlds, t, psi [W of them, A, S, D]) along every weight of each world."""
        space, n_worlds, d = self.space, self.n_worlds, self.space.n_weights
        if space.on_actions or space.shape[0] > 1 or self.mdp.horizon is None:
            unit = self.joined(np.broadcast_to(np.eye(d), (n_worlds, d, d)))
            for t, joined in model.tangents(unit):
                psi = joined.reshape(len(joined), n_worlds, -1, d)
                yield ALL, t, np.ascontiguousarray(psi.swapaxes(0, 1))
            return
        # What a state pays is the same for all of its actions, so psi is free of it.
        for chosen, matrix in self._parts:
            later = np.zeros((matrix.shape[1], d))
            for t in reversed(range(self.mdp.horizon)):
                policy = self.by_world(model.policy(t))[:, chosen].swapaxes(0, 1)
                psi = (matrix @ later).reshape(*policy.shape, d)
                mean = np.einsum("was,wask->wsk", policy, psi)
                psi -= mean[:, None]
                mean += space.discount**t * np.eye(d)
                later = mean.reshape(-1, d)
                yield chosen, t, psi

    @cached_property
    def _parts(self) -> list[tuple[slice, sp.csr_matrix]]:
        """Some worlds at a time, whose tangents stay in cache, and their rows by world and action.

        The rows are [worlds * A * S, worlds * S].
        """
        n_states, n_actions = self.space.shape[2], self.mdp.n_actions
        size = max(1, _TANGENTS // (n_actions * n_states * self.space.n_weights))
        rows = self.mdp.transition.by_action()
        order = np.arange(rows.shape[0]).reshape(n_actions, self.n_worlds, -1).swapaxes(0, 1)
        parts = []
        for start in range(0, self.n_worlds, size):
            chosen = slice(start, min(start + size, self.n_worlds))
            columns = slice(chosen.start * n_states, chosen.stop * n_states)
            parts.append((chosen, rows[order[chosen].ravel()][:, columns]))
        return parts

    def confined(self, allowed: BoolArray) -> Abreast:
        """The same worlds with only the allowed actions, [T, A, W * S]."""
        free = -np.log(self.mdp.n_actions) if self.log_reference is None else self.log_reference
        confined = replace(self, log_reference=np.where(allowed, free, -np.inf))
        # What has nothing to do with the reference was worked out already.
        for name in ("weights", "_parts"):
            if name in vars(self):
                vars(confined)[name] = vars(self)[name]
        return confined

    def take(self, chosen: IntArray) -> Abreast:
        """Some of the worlds."""
        worlds = [self.worlds[i] for i in chosen]
        mdp = side_by_side(worlds)

        def some(values: FloatArray) -> FloatArray:
            taken = self.by_world(values)[..., chosen, :]
            return taken.reshape(*taken.shape[:-2], -1)

        policy = some(self.behaviour.policy[..., 0])[..., None]
        states = some(self.behaviour.states[..., 0])[..., None]
        log_reference = None if self.log_reference is None else some(self.log_reference)
        behaviour = PolicyBehaviour(mdp, policy, states)
        return Abreast(worlds, self.space, mdp, behaviour, log_reference, self.check)
