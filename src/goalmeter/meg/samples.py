"""Logged trajectories as behaviour, and what a model says of each of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from goalmeter._types import AnyArray, FloatArray
from goalmeter.meg.soft_model import SoftModel
from goalmeter.meg.utility_class import LinearClass
from goalmeter.tabular.backup import Backup, problem
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.planning import backward
from goalmeter.tabular.rewards import Rewards
from goalmeter.tabular.trajectories import Trajectories
from goalmeter.tabular.transition import Block

# Stands for minus infinity where averages are taken with weights that may be 0.
_RULED_OUT = -1e30


@dataclass(frozen=True)
class SampledBehaviour:
    """Frequencies of state-action pairs at each decision: sums of weight over trajectories.

    Attributes:
        mdp: the world.
        trajectories: the log.
        weight: [N], the weight of each trajectory (1 / N of all that are pooled).
    """

    mdp: TabularMDP
    trajectories: Trajectories
    weight: FloatArray

    def weights(self, step: int, states: slice) -> FloatArray:
        """Weight that lies on each action and state: [A, n, 1]."""
        out = np.zeros((self.mdp.n_actions, self.mdp.n_states))
        if self.mdp.horizon is None:
            for t in range(self.trajectories.states.shape[1]):
                self._add(out, t, self.mdp.discount**t)
        elif step < self.trajectories.states.shape[1]:
            self._add(out, step, 1.0)
        return out[:, states, None]

    def _add(self, out: FloatArray, t: int, factor: float) -> None:
        log = self.trajectories
        at = log.length > t
        np.add.at(out, (log.actions[at, t], log.states[at, t]), factor * self.weight[at])


@dataclass(frozen=True)
class Group:
    """Trajectories of one MDP with the class of utilities that is fitted to them."""

    mdp: TabularMDP
    trajectories: Trajectories
    utilities: LinearClass
    log_reference: FloatArray | None

    def behaviour(self, weight: FloatArray) -> SampledBehaviour:
        """The behaviour with a weight for each trajectory, [N]."""
        return SampledBehaviour(self.mdp, self.trajectories, weight)

    def model(self, theta: FloatArray) -> SoftModel:
        """The soft-optimal model of weights [D]."""
        return SoftModel(self.mdp, self.utilities, theta, self.log_reference)

    def subset(self, index: AnyArray) -> Group:
        """The same with some of the trajectories."""
        return Group(self.mdp, self.trajectories.subset(index), self.utilities, self.log_reference)

    def visits(self, weight: FloatArray, *, power: int = 1) -> FloatArray:
        """Weight of each state at each decision [T, S], decays raised to a power."""
        log = self.trajectories
        out = np.zeros((self.mdp.steps, self.mdp.n_states))
        for t in range(log.states.shape[1]):
            at = log.length > t
            row = 0 if self.mdp.horizon is None else t
            np.add.at(out[row], log.states[at, t], self.decay(t) ** power * weight[at])
        return out

    def decay(self, t: int) -> float:
        """Weight of decision t as evidence."""
        return 1.0 if self.mdp.horizon is not None else self.mdp.discount**t


def evidence_by_trajectory(group: Group, model: SoftModel, *, mix: float = 0.0) -> FloatArray:
    """sum_t log(model / reference) of each trajectory, nats: [N].

    With `mix` the model is mixed with that share of the reference, decision by decision, so
    that an action it rules out costs -log(mix) nats instead of infinity.
    """
    log = group.trajectories
    out = np.zeros(len(log))
    for t in range(log.states.shape[1]):
        at = log.length > t
        step = 0 if group.mdp.horizon is None else t
        ratio = model.step(step)[1][log.actions[at, t], log.states[at, t]]
        if mix > 0:
            ratio = np.log((1.0 - mix) * np.exp(ratio) + mix)
        out[at] += group.decay(t) * ratio
    return out


def curves_by_trajectory(group: Group, utility: Rewards, rationality: FloatArray) -> FloatArray:
    """Evidence of each trajectory for a utility at G rationalities, nats: [N, G].

    Where a rationality rules an action out, a loss that no average can make good.
    """
    log = group.trajectories
    out = np.zeros((len(log), len(rationality)))
    task = problem(group.mdp, utility, rationality, group.log_reference)

    def visit(step: int, block: Block, done: Backup) -> None:
        times = range(log.states.shape[1]) if group.mdp.horizon is None else (step,)
        for t in times:
            if t < log.states.shape[1]:
                here = (log.states[:, t] >= block.start) & (log.states[:, t] < block.stop)
                at = np.flatnonzero((log.length > t) & here)
                ratio = done.log_ratio[log.actions[at, t], log.states[at, t] - block.start]
                # A trajectory is in one block at a time, so threads write to different rows.
                out[at] += group.decay(t) * ratio

    backward(task, visit, derivatives=False)
    return np.maximum(out, _RULED_OUT)


def scores_by_trajectory(group: Group, model: SoftModel) -> FloatArray:
    """Gradient in the weights of each trajectory's evidence: [N, D]."""
    log, d = group.trajectories, group.utilities.n_weights
    out = np.zeros((len(log), d))
    for step, psi in model.tangents(np.eye(d)):
        times = range(log.states.shape[1]) if group.mdp.horizon is None else (step,)
        for t in times:
            if t < log.states.shape[1]:
                at = log.length > t
                out[at] += group.decay(t) * psi[log.actions[at, t], log.states[at, t]]
    return out
