"""Best utility of a small linear class, searched in many worlds at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from goalmeter._types import BoolArray, FloatArray, IntArray
from goalmeter.meg.behaviour import ROUNDING_SHARE, LinearClass, PolicyBehaviour
from goalmeter.meg.certificate import BOUND_FACTOR, matching_certificates
from goalmeter.meg.faces import exposes, survivors
from goalmeter.meg.linear import FAR, IDLE_SHARE, IDLE_STEPS, NEAR, POLISHING_STEPS
from goalmeter.meg.result import TimeIsUp
from goalmeter.meg.soft_model import ALL, FLOOR, NULL_SHARE, SoftModel
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.planning import Sums, side_by_side

# Weights, gradients and steps are kept by world, [W, D]; the model of all worlds has the same
# numbers in the order of its own class, world by world within each of a utility's axes.

# Entries of the tangents that are worked on at once: these arrays then stay in cache.
_TANGENTS = 100_000

_Any = TypeVar("_Any", np.float64, np.bool_)


@dataclass(frozen=True)
class WorldBatch:
    """Policies in W worlds of like shape, and the class of utilities that is searched in each."""

    worlds: Sequence[TabularMDP]  # of S states each
    space: LinearClass  # the class in one world, without features
    mdp: TabularMDP  # the worlds side by side
    behaviour: PolicyBehaviour  # of the policies, in `mdp`
    log_reference: FloatArray | None  # [T, A, W * S]; -inf forbids an action
    check: Callable[[], None]  # called before every pass; raises what ends a search

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

    @cached_property
    def weights(self) -> list[FloatArray]:
        """What the behaviour does at each decision, [A, W * S]."""
        return [self.behaviour.weights(t, ALL)[..., 0] for t in range(self.mdp.steps)]

    @cached_property
    def _impossible(self) -> BoolArray:
        if self.log_reference is None:
            return np.zeros(self.n_worlds, dtype=bool)
        taken = np.stack(self.weights) > 0
        impossible = self.by_world(taken & np.isneginf(self.log_reference))
        return np.asarray(impossible.any(axis=(0, 1, 3)))

    def evidence(self, model: SoftModel) -> FloatArray:
        """The evidence of each world's behaviour for a model: [W], nats."""
        total = np.zeros(self.n_worlds)
        for t, weights in enumerate(map(self.by_world, self.weights)):
            total += np.einsum("aws,aws->w", weights, self.by_world(model.step(t)[1]))
        return np.where(self._impossible, -np.inf, total)

    def shares(self, model: SoftModel) -> FloatArray:
        """The evidence by decision and state, [T, W, S] nats."""
        each = [w * model.step(t)[1] for t, w in enumerate(self.weights)]
        return self.by_world(np.stack([share.sum(axis=0) for share in each]))

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
        """Some worlds at a time, whose tangents stay in cache; their rows [W * A * S, W * S]."""
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

    def confined(self, allowed: BoolArray) -> WorldBatch:
        """The same worlds with only the allowed actions, [T, A, W * S]."""
        free = -np.log(self.mdp.n_actions) if self.log_reference is None else self.log_reference
        confined = replace(self, log_reference=np.where(allowed, free, -np.inf))
        # What has nothing to do with the reference was worked out already.
        for name in ("weights", "_parts"):
            if name in vars(self):
                vars(confined)[name] = vars(self)[name]
        return confined

    def take(self, chosen: IntArray) -> WorldBatch:
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
        return WorldBatch(worlds, self.space, mdp, behaviour, log_reference, self.check)


# --- Newton steps ---------------------------------------------------------------------------------
# What keeps a damped system regular where the information is null; its solutions are steps on the
# way, so they need not be exact.
_REGULAR = 1e-12


def scaled(information: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The unit of each weight [W, D], 0 for those that do not matter, and matrices in these."""
    diagonal = np.diagonal(information, axis1=1, axis2=2)
    matters = diagonal > FLOOR
    unit = np.where(matters, 1.0 / np.sqrt(np.where(matters, diagonal, 1.0)), 0.0)
    return unit, information * unit[:, None, :] * unit[:, :, None]


@dataclass(frozen=True)
class Spectrum:
    """W scaled matrices by their eigenvalues and vectors."""

    unit: FloatArray
    inverse: FloatArray  # of the eigenvalues [W, D]; 0 for those that are null
    vectors: FloatArray

    @classmethod
    def of(cls, unit: FloatArray, matrices: FloatArray) -> Spectrum:
        """Of what `scaled` gives."""
        values, vectors = np.linalg.eigh(matrices)
        keep = values > np.maximum(NULL_SHARE * values[:, -1:], FLOOR)
        inverse = np.where(keep, 1.0 / np.where(keep, values, 1.0), 0.0)
        return cls(unit, inverse, vectors)

    def solve(self, right: FloatArray) -> FloatArray:
        """The exact Newton steps [W, D] of right sides [W, D]."""
        target = np.einsum("wdk,wd->wk", self.vectors, self.unit * right)
        return np.asarray(self.unit * np.einsum("wdk,wk->wd", self.vectors, self.inverse * target))

    def ignored(self, directions: FloatArray) -> FloatArray:
        """The parts of directions [W, D] along which no policy changes."""
        matters = self.unit > 0
        kept = np.where(matters, directions / np.where(matters, self.unit, 1.0), 0.0)
        # Twice, because one projection leaves what it rounds away.
        for _ in range(2):
            seen = np.einsum("wdk,wd->wk", self.vectors, kept)
            seen = np.where(self.inverse > 0, seen, 0.0)
            kept = kept - np.einsum("wdk,wk->wd", self.vectors, seen)
        return np.where(matters, kept * self.unit, directions)


def find_faces(
    batch: WorldBatch,
    model: SoftModel,
    theta: FloatArray,
    step: FloatArray,
    psi: dict[int, FloatArray],
    wanted: BoolArray,
) -> list[tuple[int, BoolArray, FloatArray, float]]:
    """The faces that exact Newton steps [W, D] diverge towards, in the wanted worlds [W]."""
    # Each with its world, the actions inside [T, A, S], a direction and the evidence inside, nats.
    everywhere, shrinks = survivors(model, psi, batch.weights, batch.n_worlds)
    places = np.flatnonzero(wanted & shrinks)
    if not places.size:
        return []
    allowed = batch.by_world(everywhere)[:, :, places]
    some, theta, step = batch.take(places), theta[places], step[places]
    flat = allowed.reshape(*allowed.shape[:2], -1)
    inside, outside = some.confined(flat), some.model(theta)
    confined = inside.model(theta)
    spectrum = Spectrum.of(*scaled(inside.information(confined, confined.states)))
    exists, direction = np.zeros(places.size, dtype=bool), np.zeros_like(theta)
    for candidate in (step, theta):
        tried = spectrum.ignored(candidate)
        size = np.abs(tried).max(axis=1)
        sound = np.isfinite(size) & (size > 0)
        unit = np.where(sound[:, None], tried / np.where(sound, size, 1.0)[:, None], 0.0)
        joined = some.joined(unit)
        fresh = ~exists & sound
        fresh &= exposes(outside, confined, joined, flat, some.weights, places.size)
        direction[fresh], exists = unit[fresh], exists | fresh
        if exists.all():
            break
    value = inside.evidence(confined)
    return [
        (int(places[k]), allowed[:, :, k], direction[k], float(value[k]))
        for k in np.flatnonzero(exists)
    ]


# --- Search ---------------------------------------------------------------------------------------
# Each world goes through the steps that it would go through alone: damped Newton steps, and near
# the optimum a certificate after each. The interpreter's overhead is paid once for all worlds.
# Worlds that are through leave; those whose search is of another kind (an optimum at infinity that
# is not proven here, a plateau) are left to the single search.

# A world that takes more rounds than this is not like the others, and goes on alone.
MOST_ROUNDS = 60
# Gain (nats) of a polishing step that is followed by no other: many worlds wait for the last one.
_POLISHED = 1e-11
_SAME_INFORMATION = 3  # so many of these steps are taken with the information at the first
_LEAST_DAMPED, _MOST_DAMPED = 1e-14, 1e12


class WorldSearch:
    """Searches of the best utility of each of W worlds, and where they are."""

    def __init__(self, batch: WorldBatch, tolerance: float, ceiling: FloatArray) -> None:
        n, d = batch.n_worlds, batch.space.n_weights
        self._batch, self._tolerance, self._ceiling = batch, tolerance, ceiling
        self.theta, self.value = np.zeros((n, d)), np.zeros(n)
        # For utilities whose weights sum to at most `size` in absolute value (0: for all).
        self.bound, self.size = ceiling.copy(), np.zeros(n)
        self.closed = ceiling <= tolerance  # whose bound is within the tolerance
        self.error = np.zeros(n)  # rounding error of the values, nats
        # Of an optimum at infinity the actions [T, A, S] of the last face, and the utility that
        # leads to the first one.
        self.faces: dict[int, BoolArray] = {}
        self.direction = np.zeros((n, d))
        self.stopped = False  # time was over before the others were through
        # Newton steps, those in a row that gained next to nothing, and the last one's gain, nats.
        self.steps, self._idle = np.zeros(n, np.int64), np.zeros(n, np.int64)
        self._gain, self._damping = np.full(n, np.inf), np.ones(n)
        # KL and residual of each policy tried (see `Certificate`); infinite without a proof.
        self._certificates: list[tuple[FloatArray, FloatArray]] = []

    def groups(self, chosen: IntArray) -> Iterator[tuple[IntArray, WorldBatch]]:
        """Chosen worlds with what is allowed in them: those without a face, then the others."""
        plain = np.array([i for i in chosen if i not in self.faces], dtype=np.int64)
        if plain.size:
            all_worlds = plain.size == self._batch.n_worlds
            yield plain, self._batch if all_worlds else self._batch.take(plain)
        faced = np.array([i for i in chosen if i in self.faces], dtype=np.int64)
        if faced.size:
            allowed = np.stack([self.faces[i] for i in faced], axis=2)
            confined = self._batch.take(faced).confined(allowed.reshape(*allowed.shape[:2], -1))
            yield faced, confined

    def run(self) -> None:
        """Search all worlds, until the batch's check says that time is up."""
        try:
            place = self._ascend(self._batch, np.arange(len(self.value)))
            while place.size:
                # Worlds that came to a face go on inside it, together.
                ((_, within),) = self.groups(place)
                place = self._ascend(within, place)
            for chosen, closed in self.groups(np.flatnonzero(self.closed)):
                self._polish(closed, chosen)
        except TimeIsUp:
            # After every round it holds what was reached by then.
            self.stopped = True

    def end(self) -> None:
        """What is worked out of the best so far takes passes, which nothing must cut short."""
        self._batch = replace(self._batch, check=lambda: None)

    def _ascend(self, batch: WorldBatch, place: IntArray) -> IntArray:
        """Rounds of a step in each world of a batch; returns those that came to a face."""
        # `place` are the batch's worlds among all; worlds that are through are left behind.
        model, ends, faced = batch.model(self.theta[place]), self.closed[place], []
        for _ in range(MOST_ROUNDS):
            if ends.all():
                break
            if 3 * ends.sum() >= len(ends):
                kept = np.flatnonzero(~ends)
                batch, place = batch.take(kept), place[kept]
                model, ends = batch.model(self.theta[place]), np.zeros(len(kept), dtype=bool)
            self.steps[place[~ends]] += 1
            gradient = batch.apart(model.gradient(batch.behaviour))
            far = np.repeat(self._gain[place] > FAR, batch.space.shape[2])
            visited = batch.behaviour.states[..., 0]
            states = np.where(far, 0.5 * (model.states + visited), model.states)
            unit, matrices = scaled(batch.information(model, states))
            near = ~ends & (self._gain[place] <= NEAR)
            if near.any():
                step = np.zeros_like(gradient)
                step[near] = Spectrum.of(unit[near], matrices[near]).solve(gradient[near])
                psi = dict(model.tangents(batch.joined(step)[:, None]))
                proven = matching_certificates(model, psi, batch.n_worlds)
                visits = batch.apart(model.utilities.collect(proven.visits)[:, 0])
                residual = np.abs(gradient - visits).max(axis=1) + proven.lost
                holds = proven.holds & near
                kl, missed = np.full(len(self.value), np.inf), np.zeros(len(self.value))
                kl[place[holds]], missed[place[holds]] = proven.kl[holds], residual[holds]
                self._certificates.append((kl, missed))
                ends |= self._close(place)
                theta, open_ = self.theta[place], near & ~ends
                for i, allowed, direction, inside in find_faces(
                    batch, model, theta, step, psi, open_
                ):
                    world = int(place[i])
                    # A face holds the limit of ever better models, so it cannot be worse than this.
                    if inside >= self.value[world] - self._tolerance:
                        if world not in self.faces:
                            self.direction[world] = direction
                        self.faces[world], self.value[world] = allowed, inside
                        faced.append(world)
                        ends[i] = True
            moving = ~ends
            if moving.any():
                model, moved = self._climb(batch, place, gradient, unit, matrices, moving)
                stuck = moving & ~moved
                ends |= stuck & (self._gain[place] <= NEAR)
                self._gain[place[stuck]] = 0.0
                gains = self._gain[place] >= IDLE_SHARE * self._tolerance
                self._idle[place[moved & gains]] = 0
                self._idle[place[moved & ~gains]] += 1
                ends |= self._idle[place] >= IDLE_STEPS
            # What was proven before the step may be enough for where it led.
            ends |= self._close(place)
        return np.array(sorted(faced), dtype=np.int64)

    def _close(self, place: IntArray) -> BoolArray:
        """The worlds whose least bound, for utilities up to a thousand times theirs, is close."""
        size = BOUND_FACTOR * np.maximum(1.0, np.abs(self.theta[place]).sum(axis=1))
        bound, needed = self._ceiling[place], np.zeros(len(size))
        for kl, residual in self._certificates:
            upper = kl[place] + size * residual[place]
            better = upper < bound
            bound = np.where(better, upper, bound)
            needed = np.where(better, np.where(residual[place] > 0, size, 0.0), needed)
        self.bound[place], self.size[place] = bound, needed
        closed = bound - self.value[place] <= self._tolerance
        self.closed[place] |= closed
        return np.asarray(closed)

    def _climb(
        self,
        batch: WorldBatch,
        place: IntArray,
        gradient: FloatArray,
        unit: FloatArray,
        matrices: FloatArray,
        moving: BoolArray,
    ) -> tuple[SoftModel, BoolArray]:
        """A damped Newton step of each world that moves, tried with more damping until it gains."""
        # Returns the model of the steps that were taken, and which worlds took one.
        pending, moved = moving.copy(), np.zeros_like(moving)
        reached: SoftModel | None = None
        theta, damping = self.theta[place], self._damping[place]
        while True:
            pending &= damping < _MOST_DAMPED
            if not pending.any():
                break
            step = np.zeros_like(theta)
            # In scaled weights: (matrices + damping) . step = gradient.
            added = np.maximum(damping[pending], _REGULAR)[:, None, None]
            systems = matrices[pending] + added * np.eye(step.shape[1])
            right = (unit[pending] * gradient[pending])[..., None]
            step[pending] = unit[pending] * np.linalg.solve(systems, right)[..., 0]
            promised = (gradient * step).sum(axis=1)
            trial = batch.model(theta + step)
            gain = batch.evidence(trial) - self.value[place]
            taken = pending & (gain > 0.1 * promised)
            pending &= ~taken
            theta[taken] += step[taken]
            self.theta[place] = theta
            self.value[place[taken]] += gain[taken]
            self._gain[place[taken]] = gain[taken]
            eased = damping * np.where(gain > 0.4 * promised, 0.1, 0.5)
            damping = np.where(taken, np.maximum(eased, _LEAST_DAMPED), damping)
            damping = np.where(pending, 4.0 * np.maximum(damping, 1e-10), damping)
            moved |= taken
            # The worlds that stay where they are have the same model in the trial.
            reached = None if pending.any() else trial
        self._damping[place] = damping
        return reached or batch.model(theta), moved

    def _polish(self, batch: WorldBatch, closed: IntArray) -> None:
        """More steps of closed worlds: a certified value leaves the weights half its digits."""
        theta, value = self.theta[closed], self.value[closed]
        model = batch.model(theta)
        most = self.bound[closed] + model.rounding(batch.behaviour, closed.size)
        for step in range(POLISHING_STEPS):
            # So near an optimum the information hardly changes; where it does, it is far out.
            if step == 0 or step >= _SAME_INFORMATION:
                spectrum = Spectrum.of(*scaled(batch.information(model, model.states)))
            trial_theta = theta + spectrum.solve(batch.apart(model.gradient(batch.behaviour)))
            trial = batch.model(trial_theta)
            reached = batch.evidence(trial)
            better = (reached >= value) & (reached <= most)
            going = better & (reached - value > _POLISHED)
            places = closed[better]
            self.theta[places], self.value[places] = trial_theta[better], reached[better]
            if not going.any():
                break
            theta, value, model = trial_theta, reached, trial
            if step + 1 >= _SAME_INFORMATION and not going.all():
                kept = np.flatnonzero(going)
                closed, most = closed[kept], most[kept]
                theta, value = theta[kept], value[kept]
                batch = batch.take(kept)
                model = batch.model(theta)

    def verify(self, batch: WorldBatch, model: SoftModel, chosen: IntArray) -> None:
        """Evaluate worlds again; reopen those whose value and bound do not agree."""
        value, bound = self.value[chosen], self.bound[chosen]
        rounded = model.rounding(batch.behaviour, chosen.size)
        again = model.verified(batch.behaviour, Sums(chosen.size))
        self.error[chosen] = error = np.maximum(rounded, np.abs(again - value))
        resolved = error <= np.maximum(self._tolerance, ROUNDING_SHARE * bound)
        agrees = np.abs(bound - value) <= np.maximum(self._tolerance, error)
        self.closed[chosen] &= resolved & agrees
