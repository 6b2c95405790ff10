"""Logged trajectories, and maximum-likelihood fits of soft-optimal models to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add
from threading import Lock
from typing import Any, NamedTuple, get_args

import numpy as np
import scipy.sparse as sp

from goalmeter._errors import InvalidParameterError
from goalmeter._types import AnyArray, ArrayLike, FloatArray, IntArray
from goalmeter.meg import preconditioners
from goalmeter.meg.behaviour import (
    EvidencePoint,
    LinearClass,
    Over,
    best_rationality,
    evidence,
    first_size,
    linear_class,
)
from goalmeter.meg.preconditioners import FeatureSpace, Operator, Space
from goalmeter.meg.soft_model import NewtonSystem, SoftModel, conjugate_gradients
from goalmeter.tabular.backup import Backup, problem
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.planning import backward, log_of_reference
from goalmeter.tabular.policies import Rewards, check_resolved, rewards_of
from goalmeter.tabular.trajectories import Trajectories, check_trajectories
from goalmeter.tabular.transition import Block

# --- Samples --------------------------------------------------------------------------------------
TrajectoriesLike = (
    Trajectories | tuple[ArrayLike, ArrayLike] | tuple[ArrayLike, ArrayLike, ArrayLike]
)
_RULED_OUT = -1e30  # stands for minus infinity where averages are taken with weights that may be 0
# Classes of more weights are climbed by products with their information alone, but for utilities
# over actions: most actions of a log's states are hardly ever seen, and the products too many.
LARGE_WEIGHTS = 100


@dataclass(frozen=True)
class TrajectoryGroup:
    """Trajectories of one MDP, as a `Behaviour`, with the class of utilities fitted to them."""

    mdp: TabularMDP
    trajectories: Trajectories
    utilities: LinearClass
    log_reference: FloatArray | None
    # The decision steps of the log's columns where they are not 0, 1, 2, ...: in a process with
    # branches several decisions belong to one step.
    levels: tuple[int, ...] | None = None
    weight: float = 1.0  # of each trajectory: 1 / n of all that are pooled

    @property
    def steps(self) -> tuple[int, ...]:
        """The decision step that each column of the log belongs to, [L]."""
        if self.levels is not None:
            return self.levels
        columns = range(self.trajectories.states.shape[1])
        return tuple(0 if self.mdp.horizon is None else t for t in columns)

    def decisions(self, step: int) -> Iterator[tuple[IntArray, IntArray, IntArray, float]]:
        """For each column of a step: trajectories, actions, states, and a decision's weight."""
        for t, at in enumerate(self.steps):
            if at == step:
                yield self.column(t)

    def column(self, t: int) -> tuple[IntArray, IntArray, IntArray, float]:
        """The trajectories that reach a column, their actions and states, a decision's weight."""
        log = self.trajectories
        at = np.flatnonzero(log.length > t)
        decay = 1.0 if self.mdp.horizon is not None else self.mdp.discount**t
        return at, log.actions[at, t], log.states[at, t], decay

    @property
    def utility(self) -> Rewards:
        """The utility of a class of one weight."""
        return self.utilities.rewards(np.ones((1, 1)))

    def weights(self, step: int, states: slice) -> FloatArray:
        """Weight that lies on each action and state: [A, n, 1]."""
        out = np.zeros((self.mdp.n_actions, self.mdp.n_states))
        for _, actions, at, decay in self.decisions(step):
            np.add.at(out, (actions, at), decay * self.weight)
        return out[:, states, None]

    def model(self, theta: FloatArray) -> SoftModel:
        """The soft-optimal model of weights [D]."""
        return SoftModel(self.mdp, self.utilities, theta, self.log_reference)

    def subset(self, index: AnyArray) -> TrajectoryGroup:
        """The group with some of its trajectories."""
        return replace(self, trajectories=self.trajectories.subset(index))

    def visits(self, *, power: int = 1) -> FloatArray:
        """Weight of each state at each decision [T, S], decays raised to a power."""
        out = np.zeros((self.mdp.steps, self.mdp.n_states))
        for t, row in enumerate(self.steps):
            _, _, states, decay = self.column(t)
            np.add.at(out[row], states, decay**power * self.weight)
        return out


def pooled(groups: Sequence[TrajectoryGroup]) -> list[TrajectoryGroup]:
    """Groups whose trajectories all count alike."""
    n = sum(len(g.trajectories) for g in groups)
    return [replace(g, weight=1.0 / n) for g in groups]


def evidence_by_trajectory(
    group: TrajectoryGroup, model: SoftModel, *, mix: float = 0.0
) -> FloatArray:
    """sum_t log(model / reference) of each trajectory, nats: [N]."""
    # With a share `mix` of the reference, an action that the model rules out costs -log(mix).
    out = np.zeros(len(group.trajectories))
    for t, step in enumerate(group.steps):
        at, actions, states, decay = group.column(t)
        ratio = model.step(step)[1][actions, states]
        if mix > 0:
            ratio = np.log((1.0 - mix) * np.exp(ratio) + mix)
        out[at] += decay * ratio
    return out


def curves_by_trajectory(group: TrajectoryGroup, rationality: FloatArray) -> FloatArray:
    """Evidence of each trajectory for a known utility at G rationalities, nats: [N, G]."""
    # Where a rationality rules an action out, a loss that no average can make good.
    out = np.zeros((len(group.trajectories), len(rationality)))
    task = problem(group.mdp, group.utility, rationality, group.log_reference)
    # A branching process has a trajectory in several blocks at a time, and blocks are threads'.
    writing = Lock()

    def visit(step: int, block: Block, done: Backup) -> None:
        for at, actions, states, decay in group.decisions(step):
            here = (states >= block.start) & (states < block.stop)
            ratio = done.log_ratio[actions[here], states[here] - block.start]
            with writing:
                out[at[here]] += decay * ratio

    backward(task, visit, derivatives=False)
    return np.maximum(out, _RULED_OUT)


def scores_by_trajectory(group: TrajectoryGroup, model: SoftModel) -> FloatArray:
    """Gradient in the weights of each trajectory's evidence: [N, D]."""
    n, d = len(group.trajectories), group.utilities.n_weights
    if d > LARGE_WEIGHTS and n < d:
        # One pass forwards for each trajectory, instead of one backwards for each weight.
        def weights(step: int) -> FloatArray:
            used = np.zeros((group.mdp.n_actions, group.mdp.n_states, n))
            for at, actions, states, decay in group.decisions(step):
                np.add.at(used, (actions, states, at), decay)
            return used

        return model.adjoint(weights).T
    out = np.zeros((n, d))
    for step, psi in model.tangents(np.eye(d)):
        for at, actions, states, decay in group.decisions(step):
            out[at] += decay * psi[actions, states]
    return out


def group_trajectories(
    mdp: Any, trajectories: Any, *, utility: Any = None, unknown: Any = None, reference: Any = None
) -> list[TrajectoryGroup]:
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
    classes = _classes(worlds, utility, unknown, many)
    groups = []
    for world, log, utilities in zip(worlds, logs, classes, strict=True):
        if isinstance(log, (tuple, list)) and len(log) in (2, 3):
            log = Trajectories(*log)
        if not isinstance(log, Trajectories):
            raise InvalidParameterError(
                f"trajectories is {type(log).__name__}, expected Trajectories, or a tuple "
                f"(states, actions) or (states, actions, length)"
            )
        checked = check_trajectories(world, log)
        groups.append(
            TrajectoryGroup(world, checked, utilities, log_of_reference(world, reference))
        )
    counts = {g.utilities.n_weights for g in groups}
    if len(counts) > 1:
        raise InvalidParameterError(
            f"the MDPs' utility classes have {sorted(counts)} weights, expected the same "
            f"number in each, since one weight vector is fitted to all"
        )
    return groups


def _classes(worlds: list[TabularMDP], utility: Any, unknown: Any, many: bool) -> list[LinearClass]:
    """The class of utilities of each world; a known utility is a class of one weight."""
    if utility is not None and unknown is not None:
        raise InvalidParameterError("utility and unknown are both given, expected one of them")
    if isinstance(unknown, str):
        if unknown not in get_args(Over):
            raise InvalidParameterError(
                f"unknown is {unknown!r}, expected one of {', '.join(map(repr, get_args(Over)))}, "
                f"or features [S, D] or [S, A, D]"
            )
        over: Any = unknown
        return [linear_class(world, None, over) for world in worlds]
    shared = utility if unknown is None else unknown
    each = list(shared) if many and shared is not None else [shared] * len(worlds)
    if len(each) != len(worlds):
        raise InvalidParameterError(
            f"got {len(worlds)} MDPs and {len(each)} utilities or feature matrices, expected one "
            f"for each MDP"
        )
    if unknown is not None:
        return list(map(linear_class, worlds, each))
    name = "the reward" if utility is None else "the given utility"
    rewards = list(map(rewards_of, worlds, each))
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


# --- Likelihood -----------------------------------------------------------------------------------
# With sampled transitions the evidence is the average log-likelihood of the logged actions. It is
# not exactly concave (sampled successors differ from expected ones), so the known utility's
# rationality is checked against a scan, and a class's weights are a local maximum, reached from 0.

_DONE = 1e-9
_LIKELIHOOD_MAX_STEPS = 120
# Fractions of a step that are tried before it is damped, and by how much: in scaled weights, whose
# own information is 1.
_SHORTEST, _LIKELIHOOD_LEAST_DAMPED, _LIKELIHOOD_MOST_DAMPED = 0.02, 1e-6, 1e3
# Multiples of the best rationality at which each trajectory's evidence is worked out.
_SCAN = np.geomspace(1 / 256, 256, 49)
_CLOSE = np.linspace(0.0, 2.0, 65)
# Sizes for a utility in its own scale, in case the best one was missed.
_ANYWHERE = np.geomspace(1e-3, 1e4, 57)


@dataclass(frozen=True)
class Fit:
    """The weights with the highest likelihood that a search came to."""

    theta: FloatArray  # [D]; for a known utility, D = 1, its rationality, possibly infinite
    models: list[SoftModel]  # the fitted one of each group
    value: float  # average evidence, nats a trajectory
    infinite: bool  # whether the maximum lies at infinity
    # For a known utility the evidence of each trajectory at a grid of rationalities, [N, G] nats.
    curves: FloatArray | None = None


def fit_known(groups: Sequence[TrajectoryGroup]) -> Fit:
    """The rationality that predicts trajectories best, for classes of one weight."""
    from scipy.optimize import minimize_scalar

    def evaluate(b: FloatArray) -> EvidencePoint:
        tasks = [problem(g.mdp, g.utility, b, g.log_reference) for g in groups]
        return reduce(add, map(evidence, tasks, groups))

    at_zero = evaluate(np.zeros(1))
    best = best_rationality(evaluate, at_zero)
    value = float(evaluate(best).value[0])
    # Rationalities of both signs, wide apart far out and close around the best one: [G].
    near = best[0] if np.isfinite(best[0]) and best[0] != 0 else float(first_size(at_zero)[0])
    wide = np.concatenate([_SCAN * abs(near), _ANYWHERE])
    grid = np.unique(np.concatenate([[-np.inf, 0.0, np.inf], -wide, wide, near * _CLOSE]))
    curves = np.concatenate([curves_by_trajectory(g, grid) for g in groups])
    # The best of all: the root of the slope, or a better one that the grid shows.
    heights = curves.mean(axis=0)
    top = int(heights.argmax())
    if heights[top] > value + 1e-9:
        if np.isfinite(grid[top]):
            low, high = grid[max(top - 1, 1)], grid[min(top + 1, len(grid) - 2)]
            optimum = minimize_scalar(
                lambda b: -float(evaluate(np.array([b])).value[0]),
                bounds=(low, high),
                method="bounded",
                options={"xatol": 1e-10 * abs(high - low)},
            )
            best, value = np.array([optimum.x]), -float(optimum.fun)
        else:
            best, value = grid[top : top + 1], float(heights[top])
    models = [fitted_model(g, best) for g in groups]
    return Fit(best, models, value, bool(np.isinf(best[0])), curves)


def fit_class(groups: Sequence[TrajectoryGroup]) -> Fit:
    """Weights of a class that predict trajectories best, by damped scoring steps."""
    utilities = groups[0].utilities
    if utilities.n_weights > LARGE_WEIGHTS and not utilities.on_actions:
        return _fit_large(groups)
    visits = [g.visits() for g in groups]
    theta = np.zeros(utilities.n_weights)
    models, value = _models_at(groups, theta)
    damping = 0.0
    for _ in range(_LIKELIHOOD_MAX_STEPS):
        pairs = zip(models, groups, strict=True)
        gradient = np.sum([m.gradient(g) for m, g in pairs], axis=0)
        system = NewtonSystem(list(zip(models, visits, strict=True)), exact=False)
        step = system.solve(gradient, damping=damping)
        rise = float(gradient @ step)
        if rise <= _DONE:
            break
        size, better = 1.0, None
        while better is None and damping <= _LIKELIHOOD_MOST_DAMPED:
            trial, reached = _models_at(groups, theta + size * step)
            if reached >= value + 1e-4 * size * rise:
                better = (theta + size * step, trial, reached)
            elif size > _SHORTEST:
                size /= 2
            else:
                # Directions that the logs hardly tell apart promise steps far beyond where the
                # promise holds: they are kept short, the others stay as they are.
                damping = max(10 * damping, _LIKELIHOOD_LEAST_DAMPED)
                step = system.solve(gradient, damping=damping)
                rise, size = float(gradient @ step), 1.0
        if better is None:
            break
        if size == 1.0:
            damping = damping / 10 if damping > _LIKELIHOOD_LEAST_DAMPED else 0.0
        theta, models, value = better
    return Fit(theta, models, value, _diverges(models, visits, step))


def _diverges(models: list[SoftModel], visits: list[FloatArray], step: FloatArray) -> bool:
    """Whether a step at the optimum still changes log-probabilities where the data are."""
    for model, seen in zip(models, visits, strict=True):
        for t, psi in model.tangents(step[:, None]):
            if (np.abs(psi[..., 0]) * (seen[t] > 0)).max() > 0.3:
                return True
    return False


def fitted_model(group: TrajectoryGroup, theta: FloatArray) -> SoftModel:
    """The model of fitted weights; at infinity, free choice among the actions that are optimal."""
    if not np.isinf(theta).any():
        return group.model(theta)
    model = group.model(np.zeros(1))
    return model.confined(model.regrets(np.sign(theta)) <= 0)


# --- Large classes --------------------------------------------------------------------------------
# Damped steps with the information of the states that the log visits (Fisher's scoring) lead to a
# maximum. Where nothing is left to chance and all logs are whole, the evidence is that of a policy,
# whose second derivative has the states that the *model* visits: steps with these go first.

_MAX_STEPS = 200
_LEAST = 1e-14
_ACCURACY, _LAST_ACCURACY, _CG_STEPS, _MANY_PRODUCTS = 1e-2, 1e-6, 200, 60
_LEAST_SHARE, _GOOD_SHARE, _HALF = 0.1, 0.3, 0.55  # as in `goalmeter.meg.visit_matching`
_ROUNDING, _LEAST_DAMPED, _MOST_DAMPED = 1e-14, 1e-14, 1e3
# Damping below which a step promises what there is to gain, and a range of weights beyond which
# digits are lost.
_UNDAMPED, _WIDEST = 1e-3, 1e6


def _fit_large(groups: Sequence[TrajectoryGroup]) -> Fit:
    """The weights of the highest likelihood, from 0, to where a step promises next to nothing."""
    parts = [_Part.of(g, alone=len(groups) == 1) for g in groups]
    theta = np.zeros(groups[0].utilities.n_weights)
    evaluate = partial(_models_at, [part.group for part in parts])
    models, value = evaluate(theta)
    step = np.zeros_like(theta)
    damping, by_log, accuracy = 1.0, not all(part.telescopes for part in parts), _ACCURACY
    for _ in range(_MAX_STEPS):
        step, rise = _damped_step(parts, models, damping, by_log, accuracy)
        better = _longest_gain(evaluate, theta, value, step, rise)
        if better is None or rise <= _DONE:
            if damping > _UNDAMPED and better is not None:
                damping *= 0.1
            elif better is None and rise > _DONE and damping < _MOST_DAMPED:
                damping = 8.0 * max(damping, 1e-6)
            elif not by_log:
                by_log, damping = True, 1e-6
            elif accuracy == _ACCURACY:
                # A rough solution may miss the little that there is to gain where little is known.
                accuracy = _LAST_ACCURACY
            else:
                break
            continue
        theta, models, after, length = better
        gain, value = after - value, after
        if length < 1.0:
            damping = 2.0 * max(damping, 1e-6)
        else:
            damping = max((0.1 if gain > _GOOD_SHARE * rise else 0.5) * damping, _LEAST_DAMPED)
    fitted = [g.model(theta) for g in groups]
    seen = [g.visits() for g in groups]
    return Fit(theta, fitted, value, _diverges(fitted, seen, step))


class _Part(NamedTuple):
    """One of the worlds that share their weights, with its log."""

    group: TrajectoryGroup
    seen: FloatArray  # the weight of each state at each decision, [T, S]
    share: float  # of all weight: what a model visits is weighted like what it stands for
    target: FloatArray  # visits of the log, [T, A or 1, S, 1]
    space: Space

    @classmethod
    def of(cls, group: TrajectoryGroup, *, alone: bool) -> _Part:
        utilities = group.utilities
        if not alone and utilities.matrix is None and utilities.shape[0] == 1:
            # A feature for every entry of a utility that does not depend on time.
            every: Any = sp.identity(utilities.n_weights, format="csr")
            group = replace(group, utilities=replace(utilities, matrix=every))
        start = preconditioners.counted(group.model(np.zeros(utilities.n_weights)))
        group = replace(group, utilities=start.utilities)
        target = preconditioners.behaviour_entries(group.utilities, group)
        share = float(np.full(len(group.trajectories), group.weight).sum())
        return cls(group, group.visits(), share, target, preconditioners.space_of(start, target))

    @property
    def telescopes(self) -> bool:
        """Whether the log's evidence is that of a policy, but for where it starts."""
        mdp = self.group.mdp
        return (
            mdp.horizon is not None
            and self.group.levels is None
            and mdp.transition.n_entries == mdp.n_actions * mdp.n_states
            and bool((self.group.trajectories.length == mdp.horizon).all())
        )


def _models_at(
    groups: Sequence[TrajectoryGroup], theta: FloatArray
) -> tuple[list[SoftModel], float]:
    models = [group.model(theta) for group in groups]
    pairs = zip(models, groups, strict=True)
    return models, float(sum(model.evidence(group) for model, group in pairs))


def _damped_step(
    parts: Sequence[_Part], models: list[SoftModel], damping: float, by_log: bool, accuracy: float
) -> tuple[FloatArray, float]:
    """A damped step [D], and what its slope promises, nats."""
    pairs = list(zip(models, parts, strict=True))
    gradient = np.sum([m.gradient(part.group) for m, part in pairs], axis=0)
    states = [part.seen if by_log else m.states * part.share for m, part in pairs]
    scale = np.zeros_like(gradient)
    for m, part in pairs:
        wanted = m.utilities.collect(part.target)[:, 0]
        scale += part.space.scale(m, part.share * preconditioners.model_visits(m), wanted)
    added = damping * (scale + _LEAST) + _LEAST
    products = 0

    def product(v: FloatArray) -> FloatArray:
        nonlocal products
        products += 1
        felt = [m.curve(v, now) for m, now in zip(models, states, strict=True)]
        return np.asarray(np.sum(felt, axis=0) + added * v)

    spaces = [part.space for part in parts]
    formed = [s for s in spaces if isinstance(s, FeatureSpace) and s.forms]
    nearly: Operator = lambda right: right / (scale + added)  # noqa: E731
    if len(parts) == 1:
        visits = preconditioners.model_visits(models[0]) + _LEAST
        nearly = spaces[0].preconditioner(models[0], visits, added, states[0])
    elif len(formed) == len(parts):
        each = zip(formed, models, states, strict=True)
        system = np.sum([space.nearly(m, now) for space, m, now in each], axis=0)
        system[np.diag_indices_from(system)] += added
        nearly = preconditioners.by_cholesky(system)
    step = conjugate_gradients(product, gradient, accuracy, nearly, _CG_STEPS)
    if products > _MANY_PRODUCTS and len(models) == 1:
        spaces[0].give_up()
    return step, float(gradient @ step)


def _longest_gain(
    evaluate: Callable[[FloatArray], tuple[list[SoftModel], float]],
    theta: FloatArray,
    value: float,
    step: FloatArray,
    rise: float,
) -> tuple[FloatArray, list[SoftModel], float, float] | None:
    """Weights, models, evidence and length of the longest part of a step that gains."""
    for length in (1.0, 0.5, 0.25):
        trial, reached = evaluate(theta + length * step)
        if reached - value <= _LEAST_SHARE * length * rise - _ROUNDING * max(1.0, abs(value)):
            continue
        while reached - value > _HALF * length * rise and length >= 1.0:
            longer = theta + 2.0 * length * step
            if np.ptp(longer) > _WIDEST:
                break
            further, more = evaluate(longer)
            if not more > reached:
                break
            trial, reached, length = further, more, 2.0 * length
        return theta + length * step, trial, reached, length
    return None
