"""Logged trajectories with their worlds and classes: behaviour, and what a model says of each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, get_args

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import AnyArray, ArrayLike, FloatArray
from goalmeter.meg.soft_model import SoftModel
from goalmeter.meg.utility_class import LinearClass, Over, linear_class
from goalmeter.tabular.backup import Backup, problem
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.planning import backward, log_of_reference
from goalmeter.tabular.rewards import Rewards, check_resolved, rewards_of
from goalmeter.tabular.trajectories import Trajectories, check_trajectories
from goalmeter.tabular.transition import Block

TrajectoriesLike = (
    Trajectories | tuple[ArrayLike, ArrayLike] | tuple[ArrayLike, ArrayLike, ArrayLike]
)
# Stands for minus infinity where averages are taken with weights that may be 0.
_RULED_OUT = -1e30


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
        """The behaviour with a weight for each trajectory, [N] (1 / N of all that are pooled)."""
        return SampledBehaviour(self, weight)

    def model(self, theta: FloatArray) -> SoftModel:
        """The soft-optimal model of weights [D]."""
        return SoftModel(self.mdp, self.utilities, theta, self.log_reference)

    def subset(self, index: AnyArray) -> Group:
        """The group with some of its trajectories."""
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


@dataclass(frozen=True)
class SampledBehaviour:
    """How often each pair is used at each decision: sums of the trajectories' weights [N]."""

    group: Group
    weight: FloatArray

    @property
    def mdp(self) -> TabularMDP:
        """The world that the log comes from."""
        return self.group.mdp

    def weights(self, step: int, states: slice) -> FloatArray:
        """Weight that lies on each action and state: [A, n, 1]."""
        group, log = self.group, self.group.trajectories
        out = np.zeros((group.mdp.n_actions, group.mdp.n_states))
        for t in group.columns(step):
            at = log.length > t
            np.add.at(
                out, (log.actions[at, t], log.states[at, t]), group.decay(t) * self.weight[at]
            )
        return out[:, states, None]


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


def group_trajectories(
    mdp: Any, trajectories: Any, *, utility: Any = None, unknown: Any = None, reference: Any = None
) -> list[Group]:
    """Check the arguments of `from_trajectories` and pair each world with its log and class."""
    many = not isinstance(mdp, TabularMDP)
    worlds = list(mdp) if many else [mdp]
    logs = list(trajectories) if many else [trajectories]
    if len(worlds) != len(logs) or not worlds:
        raise InvalidParameterError(
            f"got {len(worlds)} MDPs and {len(logs)} sets of trajectories, "
            f"expected one set for each MDP"
        )
    if many and reference is not None:
        raise InvalidParameterError(
            "reference is given with several MDPs, expected None: a policy fits one MDP only"
        )
    groups = []
    classes = _classes(worlds, utility, unknown, many)
    for world, log, utilities in zip(worlds, logs, classes, strict=True):
        checked = check_trajectories(world, _as_trajectories(log))
        log_reference = log_of_reference(world, reference)
        groups.append(Group(world, checked, utilities, log_reference))
    counts = {g.utilities.n_weights for g in groups}
    if len(counts) > 1:
        raise InvalidParameterError(
            f"the MDPs' utility classes have {sorted(counts)} weights, expected the same "
            f"number in each, since one weight vector is fitted to all"
        )
    return groups


def _as_trajectories(log: Any) -> Trajectories:
    if isinstance(log, Trajectories):
        return log
    if isinstance(log, (tuple, list)) and len(log) in (2, 3):
        return Trajectories(*log)
    raise InvalidParameterError(
        f"trajectories is {type(log).__name__}, expected Trajectories, or a tuple "
        f"(states, actions) or (states, actions, length)"
    )


def _classes(worlds: list[TabularMDP], utility: Any, unknown: Any, many: bool) -> list[LinearClass]:
    """The class of utilities of each world; a known utility is a class of one weight."""
    if utility is not None and unknown is not None:
        raise InvalidParameterError("utility and unknown are both given, expected one of them")
    if isinstance(unknown, str) and unknown not in get_args(Over):
        raise InvalidParameterError(
            f"unknown is {unknown!r}, expected one of {', '.join(map(repr, get_args(Over)))}, or "
            f"features [S, D] or [S, A, D]"
        )
    if isinstance(unknown, str):
        return [linear_class(world, None, unknown) for world in worlds]  # type: ignore[arg-type]
    shared = utility if unknown is None else unknown
    each = list(shared) if many and shared is not None else [shared] * len(worlds)
    if len(each) != len(worlds):
        raise InvalidParameterError(
            f"got {len(worlds)} MDPs and {len(each)} utilities or feature matrices, expected one "
            f"for each MDP"
        )
    if unknown is not None:
        return [linear_class(world, features) for world, features in zip(worlds, each, strict=True)]
    name = "the reward" if utility is None else "the given utility"
    rewards = [rewards_of(world, u) for world, u in zip(worlds, each, strict=True)]
    for unscaled in rewards:
        check_resolved(unscaled)
    normalised = [unscaled.normalised() for unscaled in rewards]
    # One rationality for all worlds takes one unit for all.
    unit = max(float(own_unit[0]) for _, own_unit in normalised)
    out = []
    for scaled, own_unit in normalised:
        matrix = scaled.array.reshape(-1, 1) * (float(own_unit[0]) / unit)
        out.append(LinearClass(scaled.array.shape[:3], matrix, scaled.discount, name, unit))
    return out
