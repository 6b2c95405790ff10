"""Logged trajectories as behaviour, and what a model says of each of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from threading import Lock

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
        steps: the decision step that each column of the log belongs to, [L].
    """

    mdp: TabularMDP
    trajectories: Trajectories
    weight: FloatArray
    steps: tuple[int, ...]

    def weights(self, step: int, states: slice) -> FloatArray:
        """Weight that lies on each action and state: [A, n, 1]."""
        out = np.zeros((self.mdp.n_actions, self.mdp.n_states))
        for t, at in enumerate(self.steps):
            if at == step:
                self._add(out, t, 1.0 if self.mdp.horizon is not None else self.mdp.discount**t)
        return out[:, states, None]

    def _add(self, out: FloatArray, t: int, factor: float) -> None:
        log = self.trajectories
        at = log.length > t
        np.add.at(out, (log.actions[at, t], log.states[at, t]), factor * self.weight[at])


@dataclass(frozen=True)
class Group:
    """Trajectories of one MDP with the class of utilities that is fitted to them.

    `levels` [L] are the decision steps of the log's columns where they are not 0, 1, 2, ...: in a
    process with branches several decisions belong to one step.
    """

    mdp: TabularMDP
    trajectories: Trajectories
    utilities: LinearClass
    log_reference: FloatArray | None
    levels: tuple[int, ...] | None = None

    @property
    def steps(self) -> tuple[int, ...]:
        """The decision step that each column of the log belongs to, [L]."""
        if self.levels is not None:
            return self.levels
        columns = range(self.trajectories.states.shape[1])
        return tuple(0 if self.mdp.horizon is None else t for t in columns)

    def columns(self, step: int) -> list[int]:
        """The columns of the log that belong to a decision step."""
        return [t for t, at in enumerate(self.steps) if at == step]

    def behaviour(self, weight: FloatArray) -> SampledBehaviour:
        """The behaviour with a weight for each trajectory, [N]."""
        return SampledBehaviour(self.mdp, self.trajectories, weight, self.steps)

    def model(self, theta: FloatArray) -> SoftModel:
        """The soft-optimal model of weights [D]."""
        return SoftModel(self.mdp, self.utilities, theta, self.log_reference)

    def subset(self, index: AnyArray) -> Group:
        """The same with some of the trajectories."""
        return replace(self, trajectories=self.trajectories.subset(index))

    def visits(self, weight: FloatArray, *, power: int = 1) -> FloatArray:
        """Weight of each state at each decision [T, S], decays raised to a power."""
        log = self.trajectories
        out = np.zeros((self.mdp.steps, self.mdp.n_states))
        for t, row in enumerate(self.steps):
            at = log.length > t
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
    for t, step in enumerate(group.steps):
        at = log.length > t
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
    # A branching process has a trajectory in several blocks at a time, and blocks are threads'.
    writing = Lock()

    def visit(step: int, block: Block, done: Backup) -> None:
        for t in group.columns(step):
            in_block = (log.states[:, t] >= block.start) & (log.states[:, t] < block.stop)
            at = np.flatnonzero((log.length > t) & in_block)
            ratio = done.log_ratio[log.actions[at, t], log.states[at, t] - block.start]
            with writing:
                out[at] += group.decay(t) * ratio

    backward(task, visit, derivatives=False)
    return np.maximum(out, _RULED_OUT)


def scores_by_trajectory(group: Group, model: SoftModel) -> FloatArray:
    """Gradient in the weights of each trajectory's evidence: [N, D]."""
    log, d = group.trajectories, group.utilities.n_weights
    out = np.zeros((len(log), d))
    for step, psi in model.tangents(np.eye(d)):
        for t in group.columns(step):
            at = log.length > t
            out[at] += group.decay(t) * psi[log.actions[at, t], log.states[at, t]]
    return out
