"""Soft-optimal models of a linear class of utilities, and their Newton systems."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import numpy as np

from goalmeter._types import BoolArray, FloatArray
from goalmeter.meg.behaviour import Behaviour, LinearClass, decisions, rounding
from goalmeter.tabular.backup import Backup, problem
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.planning import ONE_WORLD, SoftPlan, StationarySolver, Sums, plan, resolved
from goalmeter.tabular.policies import Rewards
from goalmeter.tabular.transition import Block

# --- Soft model -----------------------------------------------------------------------------------
# The evidence of a behaviour x for the model of weights theta is f(theta) = E_x[sum log pi/ref].
# For a policy's behaviour it is concave, and with W the expected features still to come,
#
#     psi(s, a) = (features(s, a) + E[W(s')]) . v - W(s) . v      (derivative of log pi along v)
#     gradient  = features expected by x - features expected by pi
#     -Hessian  = sum_t E_pi[psi psi^T]
#
# `tangents` gives psi for directions v, backwards in time; `adjoint` sums feature visits
# forwards in time, and is the transpose of `tangents`.

# Policies of up to this many entries are kept, and derivatives while they are used; up to fewer
# logarithms of policies too. Larger ones are recomputed at each use.
_KEPT_ENTRIES = 2**27
_KEPT_LOGARITHMS = 2**24
ALL = slice(None)


class SoftModel:
    """The soft-optimal policy of a utility class's weights theta [D] at rationality 1."""

    # `log_reference` is [T, A, S]; -inf in it forbids an action. `check`, called before every pass
    # and decision, raises what ends a search. The evidence of `measured` is a product of planning.

    def __init__(
        self,
        mdp: TabularMDP,
        utilities: LinearClass,
        theta: FloatArray,
        log_reference: FloatArray | None,
        check: Callable[[], None] | None = None,
        measured: Behaviour | None = None,
    ) -> None:
        self._check = check or (lambda: None)
        self._measured = measured
        self._evidence: dict[tuple[int, int], float] = {}
        self._own_information: FloatArray | None = None
        self._check()
        self.mdp, self.utilities = mdp, utilities
        self.theta, self.log_reference = theta, log_reference
        rewards = _without_offset(utilities.rewards(theta[:, None]))
        task = problem(mdp, rewards, np.ones(1), log_reference)
        entries = mdp.steps * mdp.n_actions * mdp.n_states
        self._keep = entries <= _KEPT_ENTRIES
        self._keep_logarithms = self._keep and entries <= _KEPT_LOGARITHMS
        self._policies: dict[int, FloatArray] = {}
        self._logarithms: dict[int, FloatArray] = {}
        # At a finite rationality a difference that is rounding weighs no more than that: no actions
        # are tied, however large the weights are.
        task = task._replace(tie=np.zeros(1))
        if self._keep and len(mdp.transition.blocks) > 1 and mdp.horizon is not None:
            shape = mdp.n_actions, mdp.n_states
            self._policies = {t: np.empty(shape) for t in range(mdp.horizon)}
        self._task = task
        # What planning works out on the way is what is asked for first.
        self._planned: SoftPlan | None = plan(task, self._keep_step)
        if self._keep and not self._keep_logarithms and mdp.horizon is not None:
            # Policies are all that a search asks for; values take as much room as one of four
            # actions, and are worked out again for who asks for logarithms.
            self._planned = None

    def _keep_step(self, t: int, block: Block, done: Backup) -> None:
        """Keep what a backup of a block has; blocks may come from several threads."""
        log_ratio = done.log_ratio[..., 0]
        if self._measured is not None:
            weights = self._measured.weights(t, block.states)[..., 0]
            self._evidence[t, block.start] = self._weighed(t, block.states, weights, log_ratio)
        if len(self.mdp.transition.blocks) == 1:
            if self._keep:
                self._policies[t] = done.policy[..., 0]
            if self._keep_logarithms:
                self._logarithms[t] = log_ratio
        elif self._keep:
            self._policies[t][:, block.states] = done.policy[..., 0]

    def at(self, theta: FloatArray) -> SoftModel:
        """The model of other weights, in the same world and under the same reference."""
        return self._like(self.utilities, theta, self.log_reference)

    def restated(self, utilities: LinearClass) -> SoftModel:
        """The model of the same weights where a class is stated otherwise."""
        return self._like(utilities, self.theta, self.log_reference)

    def _like(
        self, utilities: LinearClass, theta: FloatArray, log_reference: FloatArray | None
    ) -> SoftModel:
        return SoftModel(self.mdp, utilities, theta, log_reference, self._check, self._measured)

    def forget(self) -> None:
        """Let go of the policies that are kept; what is asked for again is worked out again."""
        self._policies, self._logarithms = {}, {}

    def _plan(self) -> SoftPlan:
        if self._planned is None:
            self._planned = plan(self._task)
        return self._planned

    def step(self, t: int) -> tuple[FloatArray, FloatArray]:
        """Policy and log(policy / reference) at decision t: [A, S] each."""
        if t in self._logarithms:
            return self._policies[t], self._logarithms[t]
        done = self._plan().backup_at(t)
        policy, log_ratio = done.policy[..., 0], done.log_ratio[..., 0]
        if self._keep:
            self._policies[t] = policy
        if self._keep_logarithms:
            self._logarithms[t] = log_ratio
        return policy, log_ratio

    def policy(self, t: int) -> FloatArray:
        """The policy at decision t, [A, S], where its logarithm is not needed."""
        kept = self._policies.get(t)
        return self.step(t)[0] if kept is None else kept

    @cached_property
    def states(self) -> FloatArray:
        """State occupancy of the model [H or 1, S] (discounted for the infinite problem)."""
        mdp = self.mdp
        if mdp.horizon is None:
            # The exact solution is non-negative; rounding may leave -1e-18.
            return np.maximum(self._solver.solve(mdp.initial, transpose=True), 0.0)[None]
        out = np.empty((mdp.horizon, mdp.n_states))
        out[0] = mdp.initial
        for t in range(mdp.horizon - 1):
            out[t + 1] = mdp.transition.push(self.policy(t) * out[t])
        return out

    @cached_property
    def _solver(self) -> StationarySolver:
        under = self.mdp.transition.under(self.policy(0))
        return StationarySolver(under, self.mdp.discount)

    def evidence(self, behaviour: Behaviour) -> float:
        """f(theta) for one behaviour; -inf if it takes a forbidden action."""
        if behaviour is self._measured and self.mdp.horizon is not None:
            # In the order of decisions and blocks, whichever thread was first.
            return float(sum(self._evidence[key] for key in sorted(self._evidence)))
        return float(
            sum(
                self._weighed(t, ALL, behaviour.weights(t, ALL)[..., 0], self.step(t)[1])
                for t in range(self.mdp.steps)
            )
        )

    def _weighed(self, t: int, states: slice, weights: FloatArray, log_ratio: FloatArray) -> float:
        """Weights [A, n] times log pi / reference, summed; -inf if a forbidden action has any."""
        if self.log_reference is None:
            # All logarithms are finite, so that what has no weight does no harm.
            return float(np.vdot(weights, log_ratio))
        used = weights > 0
        prior = self.log_reference[min(t, len(self.log_reference) - 1), :, states]
        if np.isneginf(prior[used]).any():
            return -np.inf
        return float(weights[used] @ log_ratio[used])

    def divergence(self) -> float:
        """KL(model) = E_model[sum log model / reference], nats: what the model costs itself."""
        total = 0.0
        for t in range(self.mdp.steps):
            policy, log_ratio = self.step(t)
            weights = policy * self.states[t]
            used = weights > 0
            total += float(weights[used] @ log_ratio[used])
        return total

    def rounding(self, behaviour: Behaviour, n_worlds: int = 1) -> FloatArray:
        """Estimate the rounding error of the evidence in each of W worlds: [W], nats."""
        # Rounding moves the policy away from the soft-optimal one: an error in a value counts where
        # model and behaviour differ.
        plan, least = self._plan(), rounding(self.mdp)
        if self.mdp.horizon is None:
            return np.maximum(least, self._stationary_rounding(plan, n_worlds))
        total = np.zeros(n_worlds)
        for t in range(self.mdp.horizon):
            differs = np.abs(behaviour.weights(t, ALL)[..., 0] - self.policy(t) * self.states[t])
            size = (np.abs(plan.hard[t]) + np.abs(plan.soft[t])).reshape(n_worlds, -1).max(axis=1)
            total += differs.sum(axis=0).reshape(n_worlds, -1).sum(axis=1) * size
        return np.maximum(least, np.finfo(float).eps * total)

    def verified(self, behaviour: Behaviour, sums: Sums = ONE_WORLD) -> FloatArray:
        """Evaluate the evidence again in each of W worlds, as `known_utility` does: [W], nats."""
        # The utility is centred and scaled first, so the floating-point operations differ.
        rewards, unit = self.utilities.rewards(self.theta[:, None]).normalised()
        task = problem(self.mdp, rewards, unit, self.log_reference)
        planned, total = plan(task._replace(tie=np.zeros(1))), np.zeros(sums.n_worlds)
        for t in range(self.mdp.steps):
            weights = behaviour.weights(t, ALL)
            log_ratio = np.where(weights > 0, planned.backup_at(t).log_ratio, 0.0)
            total += sums.total((weights * log_ratio).sum(axis=0))
        return total

    def _stationary_rounding(self, plan: SoftPlan, n_worlds: int) -> FloatArray:
        """Bound the error of the evidence by the residual of the Bellman equation: [W], nats."""
        # A constant residual changes no policy, so the error is at most the range of the residual
        # times the number of decisions, 1 / (1 - discount).
        mdp = self.mdp

        def by_world(values: FloatArray) -> FloatArray:
            apart = values.reshape(*values.shape[:-1], n_worlds, -1)
            middle = 0.5 * (apart.min(axis=-1) + apart.max(axis=-1))
            while middle.ndim > 1:
                middle = 0.5 * (middle.min(axis=0) + middle.max(axis=0))
            return np.asarray((apart - middle[:, None]).reshape(values.shape))

        # Centred values have more digits than those that are checked.
        values = by_world((plan.hard + plan.soft)[0, :, 0])
        paid = by_world(self._task.rewards.array[0, ..., 0])
        logits = mdp.discount * mdp.transition.expect_all(values) + paid
        free = -np.log(mdp.n_actions) if self.log_reference is None else self.log_reference[0]
        again = np.logaddexp.reduce(logits + free, axis=0)
        left = np.ptp((again - values).reshape(n_worlds, -1), axis=1)
        size = np.abs(values).max() + np.abs(paid).max()
        return np.asarray(decisions(mdp) * (left + np.finfo(float).eps * size))

    def gradient(self, behaviour: Behaviour) -> FloatArray:
        """df/dtheta for one behaviour: [D]."""
        return self.adjoint(lambda t: behaviour.weights(t, ALL))[:, 0]

    def tangents(self, directions: FloatArray) -> Iterator[tuple[int, FloatArray]]:
        """(t, psi [A, S, k]) for directions [D, k], the last decision first."""
        rewards = self.utilities.rewards(directions)
        if self.mdp.horizon is None:
            yield 0, self._stationary_tangent(rewards)
            return
        later = np.zeros((self.mdp.n_states, directions.shape[1]))
        for t in reversed(range(self.mdp.horizon)):
            self._check()
            value = self.mdp.transition.expect_all(later)
            paid = rewards.discount**t * rewards.at(t, ALL)
            if len(paid) > 1:
                value += paid
            later = np.einsum("as,ask->sk", self.policy(t), value)
            value -= later
            if len(paid) == 1:
                # What all actions of a state are paid alike tells none of them apart.
                later += paid[0]
            yield t, value

    def tangent(self, direction: FloatArray) -> Callable[[int], FloatArray]:
        """The psi [A, S] of a direction [D] at decision t, to be asked for once and changed."""
        mdp, on_actions = self.mdp, self.utilities.on_actions
        rewards = self.utilities.rewards(direction[:, None])
        if mdp.horizon is None:
            stationary = self._stationary_tangent(rewards)[..., 0]
            return lambda t: stationary
        expect = mdp.transition.expect_all

        def paid(t: int) -> FloatArray:
            return np.asarray(rewards.discount**t * rewards.at(t, ALL)[..., 0])

        # Where psi takes too much room it is worked out again from what is expected of the
        # direction from each state on, [H + 1, S].
        psi = np.empty((mdp.horizon if self._keep else 0, mdp.n_actions, mdp.n_states))
        values = np.zeros((0 if self._keep else mdp.horizon + 1, mdp.n_states))
        later = np.zeros(mdp.n_states)
        for t in reversed(range(mdp.horizon)):
            self._check()
            gains = expect(later)
            if on_actions:
                gains += paid(t)
            mean = np.einsum("as,as->s", self.policy(t), gains)
            # Utilities over states pay all actions alike, which psi does not feel.
            later = mean if on_actions else mean + paid(t)[0]
            if self._keep:
                np.subtract(gains, mean, out=psi[t])
            else:
                values[t] = later
        if self._keep:
            return psi.__getitem__
        return lambda t: np.asarray(expect(values[t + 1]) + paid(t) - values[t])

    def _stationary_tangent(self, rewards: Rewards) -> FloatArray:
        now = rewards.at(0, ALL)
        policy = self.policy(0)
        mean = np.einsum("as,ask->sk", policy, np.broadcast_to(now, (*policy.shape, now.shape[-1])))
        later = self._solver.solve(mean)
        value = self.mdp.discount * self.mdp.transition.expect_all(later) + now
        return np.asarray(value - later)

    def adjoint(self, weights: Callable[[int], FloatArray]) -> FloatArray:
        """sum_t weights(t) . psi_t as a function of the direction: [D, k]; weights [A, S, k]."""
        if self.mdp.horizon is None:
            now = weights(0)
            moved = self.mdp.discount * self.mdp.transition.push(now) - now.sum(axis=0)
            carried = self._solver.solve(moved, transpose=True)
            mass = now + carried * self.policy(0)[..., None]
            visits = self.utilities.visits(mass.shape[-1])
            self.utilities.tally(visits, 0, mass)
            return self.utilities.collect(visits)
        arriving: FloatArray | None = None
        for t in range(self.mdp.horizon):
            self._check()
            now = weights(t)
            if arriving is None:
                arriving = np.zeros(now.shape[1:])
                visits = self.utilities.visits(now.shape[-1])
            # What arrives in a state and is not spent there goes on under the model's own policy.
            mass = now + (arriving - now.sum(axis=0)) * self.policy(t)[..., None]
            self.utilities.tally(visits, t, mass)
            arriving = self.mdp.transition.push(mass)
        return self.utilities.collect(visits)

    def information(self, states: FloatArray) -> FloatArray:
        """sum_t states_t(s) E_pi[psi psi^T], [D, D]; for small D."""
        # A certificate and the step after it ask for the same matrix.
        if states is self.states and self._own_information is not None:
            return self._own_information
        d = self.utilities.n_weights
        total = np.zeros((d, d))
        for rows in self._roots(states):
            total += rows.T @ rows
        if states is self.states:
            self._own_information = total
        return total

    def information_root(self) -> FloatArray:
        """R [D, D] with R^T R the model's own information; for small D."""
        # A root holds eigenvalues down to the square of the rounding that the matrix itself has,
        # which is what utilities of very different sizes need.
        root = np.zeros((0, self.utilities.n_weights))
        for rows in self._roots(self.states):
            # The rows of all decisions so far, folded into one triangle: R^T R is never formed.
            root = np.asarray(np.linalg.qr(np.vstack([root, rows]), mode="r"))
        return root

    def _roots(self, states: FloatArray) -> Iterator[FloatArray]:
        """Rows [A S, D] of each decision whose R^T R adds up to `information(states)`."""
        d = self.utilities.n_weights
        for t, psi in self.tangents(np.eye(d)):
            scale = np.sqrt(self.policy(t) * states[t])
            yield (psi * scale[..., None]).reshape(-1, d)

    def curve(self, direction: FloatArray, states: FloatArray) -> FloatArray:
        """`information(states)` times a direction [D]: [D]."""
        if self.mdp.horizon is None:
            return self.curves(direction[:, None], states)[:, 0]
        # `tangents` and then `adjoint`, for one direction: with psi of mean 0 under the policy,
        # what leaves a state under it is what arrived there.
        psi, on_actions, steps = self.tangent(direction), self.utilities.on_actions, self.mdp.steps
        visits = self.utilities.visits(1)
        arriving = np.zeros(self.mdp.n_states)
        for t in range(steps):
            self._check()
            mass = psi(t)
            mass *= states[t]
            mass += arriving
            mass *= self.policy(t)
            self.utilities.tally(visits, t, (mass if on_actions else arriving[None])[..., None])
            if t + 1 < steps:
                arriving = self.mdp.transition.push(mass)
        return self.utilities.collect(visits)[:, 0]

    def curves(self, directions: FloatArray, states: FloatArray) -> FloatArray:
        """`information(states)` times k directions [D, k]: [D, k]."""
        psi = dict(self.tangents(directions))
        return self.adjoint(lambda t: psi[t] * (self.policy(t) * states[t])[..., None])

    def feature_squares(self, states: FloatArray) -> FloatArray:
        """sum_t states_t(s) E_pi[features^2], [D]: what scales `information`, cheaply."""
        visits = self.utilities.visits(1)
        for t in range(self.mdp.steps):
            self.utilities.tally(visits, t, (self.policy(t) * states[t])[..., None])
        return self.utilities.collect(visits, squared=True)[:, 0]

    def occupancy_change(self, psi: dict[int, FloatArray]) -> FloatArray:
        """Derivative of `states` along the direction that psi [A, S, 1] belongs to."""
        out = np.zeros_like(self.states)
        if self.mdp.horizon is None:
            moved = self.mdp.transition.push(psi[0][..., 0] * self.policy(0) * self.states[0])
            return self._solver.solve(self.mdp.discount * moved, transpose=True)[None]
        for t in range(self.mdp.horizon - 1):
            mass = self.policy(t) * (psi[t][..., 0] * self.states[t] + out[t])
            out[t + 1] = self.mdp.transition.push(mass)
        return out

    def confined(self, allowed: BoolArray) -> SoftModel:
        """The model of the same weights that may only take the allowed actions [T, A, S]."""
        free = -np.log(self.mdp.n_actions) if self.log_reference is None else self.log_reference
        closed = np.where(allowed, free, -np.inf)
        return self._like(self.utilities, self.theta, closed)

    def regrets(self, direction: FloatArray, *, exact: bool = False) -> FloatArray:
        """What each action gives up of the best attainable value of a direction: [T, A, S]."""
        # In units of the step itself, not discounted; infinite for forbidden actions. Ties are 0
        # or, with a finite horizon, what rounding left if `exact`.
        # Ties are relative to the size of rewards, to which an offset would only add.
        rewards = _without_offset(self.utilities.rewards(direction[:, None]))
        task = problem(self.mdp, rewards, np.full(1, np.inf), self.log_reference)
        if exact and self.mdp.horizon is not None:
            task = task._replace(tie=np.zeros(1))
        hard = plan(resolved(task))
        out = np.stack([hard.backup_at(t).gap[..., 0] for t in range(self.mdp.steps)])
        if self.log_reference is not None:
            out[np.broadcast_to(np.isneginf(self.log_reference), out.shape)] = np.inf
        return out


def _without_offset(rewards: Rewards) -> Rewards:
    """Subtract an offset that exceeds the range of utilities: it would only cost digits."""
    low, high = rewards.array.min(), rewards.array.max()
    middle = 0.5 * (low + high)
    return (
        Rewards(rewards.array - middle, rewards.discount) if abs(middle) > high - low else rewards
    )


# --- Newton ---------------------------------------------------------------------------------------
# The information matrix is formed for up to this many weights, and for more where an exact
# solution is wanted and forming it takes no more than this many multiplications; beyond,
# conjugate gradients use products with it alone.
DIRECT_WEIGHTS, DIRECT_WORK = 160, 4e11
# Eigenvalues below this share of the largest belong to directions that change no policy.
NULL_SHARE = 1e-13
# Nor does a weight matter whose own information is this small: features are counted in visits,
# of which there is one a step, so anything below is a rounded zero.
FLOOR = 1e-20
_CG_STEPS = 400
_STEP_ACCURACY = 1e-3  # relative residual that is good enough for a step on the way


class NewtonSystem:
    """Solves with the information of models that share their weights, where it is not null."""

    def __init__(
        self, parts: Sequence[tuple[SoftModel, FloatArray]], *, exact: bool = True
    ) -> None:
        self._parts = parts
        self._accuracy = 1e-12 if exact else _STEP_ACCURACY
        d = parts[0][0].utilities.n_weights
        rows = sum(m.mdp.steps * m.mdp.n_actions * m.mdp.n_states for m, _ in parts)
        self._direct = d <= DIRECT_WEIGHTS or (exact and rows * d**2 <= DIRECT_WORK)

    @cached_property
    def _information(self) -> FloatArray:
        return np.asarray(sum(m.information(states) for m, states in self._parts))

    @cached_property
    def _unit(self) -> FloatArray:
        """The unit that each weight is scaled by [D]; 0 for weights that do not matter."""
        # Scaled by their own information, states that are rarely visited count like any other, in
        # the damping and in what is taken for zero.
        if self._direct:
            information = np.diagonal(self._information)
        else:
            information = np.sum([m.feature_squares(states) for m, states in self._parts], axis=0)
        return np.where(information > FLOOR, 1.0 / np.sqrt(np.maximum(information, FLOOR)), 0.0)

    @cached_property
    def _spectrum(self) -> tuple[FloatArray, FloatArray]:
        scaled = self._information * self._unit * self._unit[:, None]
        values, vectors = np.linalg.eigh(scaled)
        keep = values > max(NULL_SHARE * values[-1], FLOOR)
        return values[keep], vectors[:, keep]

    def solve(self, right: FloatArray, *, damping: float = 0.0) -> FloatArray:
        """The vector v [D] with (information + damping) . v = right [D], in scaled weights."""
        target = self._unit * right
        if self._direct:
            values, vectors = self._spectrum
            return np.asarray(self._unit * (vectors @ ((vectors.T @ target) / (values + damping))))
        solution = conjugate_gradients(
            lambda v: self._scaled_product(v) + damping * v, target, self._accuracy
        )
        return np.asarray(self._unit * solution)

    def _scaled_product(self, direction: FloatArray) -> FloatArray:
        scaled = self._unit * direction
        return np.asarray(self._unit * sum(m.curve(scaled, states) for m, states in self._parts))

    def ignored(self, direction: FloatArray) -> FloatArray:
        """The part of a direction [D] along which no policy changes."""
        kept = np.where(self._unit > 0, direction / np.where(self._unit > 0, self._unit, 1.0), 0.0)
        # Twice, because one projection leaves what it rounds away.
        for _ in range(2):
            if self._direct:
                _, vectors = self._spectrum
                kept = kept - vectors @ (vectors.T @ kept)
            else:
                seen = self._scaled_product(kept)
                kept = kept - conjugate_gradients(self._scaled_product, seen, 1e-13)
        return np.where(self._unit > 0, kept * self._unit, direction)


def newton_step(model: SoftModel, gradient: FloatArray) -> tuple[FloatArray, dict[int, FloatArray]]:
    """The exact Newton step of one model [D], and its tangents t -> [A, S, 1]."""
    step = NewtonSystem([(model, model.states)]).solve(gradient)
    return step, dict(model.tangents(step[:, None]))


def conjugate_gradients(
    product: Callable[[FloatArray], FloatArray],
    right: FloatArray,
    accuracy: float,
    precondition: Callable[[FloatArray], FloatArray] | None = None,
    steps: int = _CG_STEPS,
    ended: Callable[[FloatArray, FloatArray], bool] | None = None,
) -> FloatArray:
    """Least-norm solution of a consistent semi-definite system by conjugate gradients."""
    # The accuracy is in the norm of the preconditioner, which nearly inverts the system; `ended` is
    # asked whether a solution so far with its residual will do, arrays that are overwritten.
    # SciPy's `cg` has no rule for singular systems: on the null space's doorstep its step is a
    # ratio of two roundings. Here the iteration ends when curvature along it is lost.
    x = np.zeros_like(right)
    residual = right.copy()
    nearly = residual if precondition is None else precondition(residual)
    step = nearly.copy()
    size = float(residual @ nearly)
    goal = accuracy**2 * size
    for _ in range(steps):
        # Asked first, so that it sees the last solution too.
        if ended is not None and ended(x, residual):
            break
        # Not even positive: what is left of the residual is rounding in the preconditioner.
        if size <= goal or size <= 0.0:
            break
        moved = product(step)
        bend = float(step @ moved)
        if bend <= 0.0:
            break
        x += (size / bend) * step
        residual -= (size / bend) * moved
        nearly = residual if precondition is None else precondition(residual)
        fresh = float(residual @ nearly)
        step = nearly + (fresh / size) * step
        size = fresh
    return x
