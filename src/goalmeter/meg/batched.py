"""Newton search for the best utility of a small linear class, in one world or in many at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from goalmeter._types import BoolArray, FloatArray, IntArray
from goalmeter.meg.behaviour import Behaviour, LinearClass, PolicyBehaviour
from goalmeter.meg.certificate import Bounds, matching_certificates
from goalmeter.meg.faces import Face
from goalmeter.meg.soft_model import ALL, SoftModel, Spectrum, closed_reference
from goalmeter.tabular.batched import side_by_side
from goalmeter.tabular.mdp import TabularMDP

# Weights, gradients and steps are stored by world, [W, D]; the joint model of all worlds has the
# same numbers in the order of its own class, world by world within each axis of a utility.

# Entries of the tangents that are worked on at once: these arrays then stay in cache.
_TANGENTS = 100_000
# Weights of the behaviour are stored up to this many entries.
_STORED_ENTRIES = 2**22

_Any = TypeVar("_Any", np.float64, np.bool_)


@dataclass(frozen=True)
class Worlds:
    """Behaviours in W worlds of like shape, and the class of utilities that is searched in each.

    Attributes:
        worlds: W worlds of S states each.
        space: the class in one world; without features where there are several worlds.
        mdp: the worlds side by side, or the only one.
        behaviour: in `mdp`.
        log_reference: [T, A, W * S], or None for uniform; -inf forbids an action.
        check: called before every pass; raises what ends a search.
    """

    worlds: Sequence[TabularMDP]
    space: LinearClass
    mdp: TabularMDP
    behaviour: Behaviour
    log_reference: FloatArray | None
    check: Callable[[], None] | None = None

    @classmethod
    def single(cls, model: SoftModel, behaviour: Behaviour) -> Worlds:
        """The world, class and reference of one model."""
        mdp, space = model.mdp, model.utilities
        return cls([mdp], space, mdp, behaviour, model.log_reference, model.check)

    @property
    def n_worlds(self) -> int:
        """W."""
        return len(self.worlds)

    @cached_property
    def utilities(self) -> LinearClass:
        """The class of all worlds together: the utilities of each are free of those of others."""
        if self.n_worlds == 1:
            return self.space
        steps, actions, states = self.space.shape
        return replace(self.space, shape=(steps, actions, self.n_worlds * states))

    def model(self, theta: FloatArray) -> SoftModel:
        """The soft-optimal policies for weights [W, D]."""
        if self.n_worlds == 1:
            measured: Behaviour | None = self.behaviour
        else:
            # A constant that exceeds a world's range would only cost digits.
            low, high = theta.min(axis=1, keepdims=True), theta.max(axis=1, keepdims=True)
            middle = 0.5 * (low + high)
            theta = np.where(np.abs(middle) > high - low, theta - middle, theta)
            measured = None
        weights, reference = self.joined(theta), self.log_reference
        return SoftModel(self.mdp, self.utilities, weights, reference, self.check, measured)

    def joined(self, weights: FloatArray) -> FloatArray:
        """Weights [W, D] or [W, D, k] in the order of the class of all worlds, [W * D, ...]."""
        if self.n_worlds == 1:
            return np.asarray(weights[0])
        n_states, tail = self.space.shape[2], weights.shape[2:]
        split = weights.reshape(self.n_worlds, -1, n_states, *tail)
        return split.swapaxes(0, 1).reshape(-1, *tail)

    def apart(self, flat: FloatArray) -> FloatArray:
        """Weights in the order of the class of all worlds, [W * D], by world: [W, D]."""
        if self.n_worlds == 1:
            return flat[None]
        split = flat.reshape(-1, self.n_worlds, self.space.shape[2])
        return split.swapaxes(0, 1).reshape(self.n_worlds, -1)

    def by_world(self, values: NDArray[_Any]) -> NDArray[_Any]:
        """Values of all states [..., W * S] as [..., W, S]."""
        return values.reshape(*values.shape[:-1], self.n_worlds, -1)

    def each(self, values: BoolArray) -> BoolArray:
        """Values of the worlds, [W], for each of their states: [W * S]."""
        return np.asarray(np.repeat(values, self.space.shape[2]))

    def weights(self, t: int) -> FloatArray:
        """Uses of each action by the behaviour at decision t, [A, W, S]."""
        if self._stored is not None:
            return self._stored[t]
        return self.by_world(self.behaviour.weights(t, ALL)[..., 0])

    @cached_property
    def _stored(self) -> list[FloatArray] | None:
        steps = self.mdp.steps
        if steps * self.mdp.n_actions * self.mdp.n_states > _STORED_ENTRIES:
            return None
        return [self.by_world(self.behaviour.weights(t, ALL)[..., 0]) for t in range(steps)]

    @cached_property
    def visited(self) -> FloatArray:
        """Occupancy of the behaviour, [T, W * S]."""
        steps = range(self.mdp.steps)
        return np.stack([self.weights(t).sum(axis=0).reshape(-1) for t in steps])

    @cached_property
    def _impossible(self) -> BoolArray:
        """Whether a world's behaviour takes an action that is forbidden, [W]."""
        out = np.zeros(self.n_worlds, dtype=bool)
        if self.log_reference is not None:
            for t in range(self.mdp.steps):
                prior = self.log_reference[min(t, len(self.log_reference) - 1)]
                forbidden = np.isneginf(self.by_world(prior))
                out |= ((self.weights(t) > 0) & forbidden).any(axis=(0, 2))
        return out

    def evidence(self, model: SoftModel) -> FloatArray:
        """The evidence of each world's behaviour for a model: [W], nats."""
        if self.n_worlds == 1:
            return np.array([model.evidence(self.behaviour)])
        total = np.zeros(self.n_worlds)
        for t in range(self.mdp.steps):
            log_ratio = self.by_world(model.step(t)[1])
            total += np.einsum("aws,aws->w", self.weights(t), log_ratio)
        return np.where(self._impossible, -np.inf, total)

    def gradient(self, model: SoftModel) -> FloatArray:
        """The gradient of each world's evidence, [W, D]."""
        return self.apart(model.gradient(self.behaviour))

    def information(self, model: SoftModel, states: FloatArray) -> FloatArray:
        """sum_t states_t(s) E_pi[psi psi^T] of each world, [W, D, D]; states [T, W * S]."""
        if self.n_worlds == 1:
            return model.information(states)[None]
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
        """Worlds whose tangents fit in cache, and their rows [worlds * A * S, worlds * S]."""
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

    def confined(self, allowed: BoolArray) -> Worlds:
        """The same worlds with only the allowed actions, [T, A, W * S]."""
        closed = closed_reference(self.log_reference, self.mdp.n_actions, allowed)
        confined = replace(self, log_reference=closed)
        # What does not depend on the reference is computed once.
        for name in ("_stored", "_parts"):
            if name in vars(self):
                vars(confined)[name] = vars(self)[name]
        return confined

    def take(self, chosen: IntArray) -> Worlds:
        """Some of the worlds."""
        if chosen.size == self.n_worlds:
            return self
        assert isinstance(self.behaviour, PolicyBehaviour)
        worlds = [self.worlds[i] for i in chosen]
        mdp = side_by_side(worlds)

        def some(values: FloatArray) -> FloatArray:
            taken = self.by_world(values)[..., chosen, :]
            return taken.reshape(*taken.shape[:-2], -1)

        policy = some(self.behaviour.policy[..., 0])[..., None]
        states = some(self.behaviour.states[..., 0])[..., None]
        log_reference = None if self.log_reference is None else some(self.log_reference)
        behaviour = PolicyBehaviour(mdp, policy, states)
        return Worlds(worlds, self.space, mdp, behaviour, log_reference, self.check)


# --- Faces ----------------------------------------------------------------------------------------
# Behaviour that never takes certain actions may be predicted ever better by ever larger utilities.
# The supremum is then the best evidence among models that are confined to the actions which are
# optimal for the diverging direction, and those models have a finite optimum (or diverge again,
# inside the face). The direction is read off a Newton step: far out, a step lowers the
# log-probability of each action that is dying out by about one.
#
# A face is accepted only when it is proven: a direction for which all its policies are equally
# good, and every action outside is worse.
#
# Source: the multi-dimensional form of the limit rationality -> infinity (see
# `goalmeter.tabular.backup`); facial reduction of the maximum-entropy dual.

# A Newton step that lowers the log-probability of an unused action by this much is killing it.
DYING = 0.3
# Relative to the direction's largest entry: ties inside the face, and clear losses outside.
TIE = 1e-8
CLEAR = 1e-5


class Faces(NamedTuple):
    """The faces of F of W worlds.

    `places` [F] are the worlds, `allowed` [T, A, F, S] the actions inside, `direction` [F, D] with
    a largest entry of 1, and `value` the evidence of the model inside [F], nats.
    """

    places: IntArray
    allowed: BoolArray
    direction: FloatArray
    value: FloatArray


def find_face(
    model: SoftModel, step: FloatArray, psi: dict[int, FloatArray], behaviour: Behaviour
) -> Face | None:
    """Return the face that a model's Newton step [D] diverges towards; None if none is proven.

    `psi` are the step's tangents, t -> [A, S, 1]; the behaviour must stay inside the face.
    """
    worlds = Worlds.single(model, behaviour)
    theta, wanted = model.theta[None], np.ones(1, dtype=bool)
    faces = find_faces(worlds, model, theta, step[None], psi, wanted)
    if faces is None or not faces.places.size:
        return None
    return Face(model.confined(faces.allowed[:, :, 0]), faces.direction[0])


def find_faces(
    worlds: Worlds,
    model: SoftModel,
    theta: FloatArray,
    step: FloatArray,
    psi: dict[int, FloatArray],
    wanted: BoolArray,
) -> Faces | None:
    """The faces that exact Newton steps [W, D] diverge towards, in the wanted worlds [W].

    `model` is that of the weights theta, `psi` the tangents of the step. None if there are none.
    """
    everywhere, shrinks = _survivors(worlds, model, psi)
    places = np.flatnonzero(wanted & shrinks)
    if not places.size:
        return None
    allowed = worlds.by_world(everywhere)[:, :, places]
    some, theta, step = worlds.take(places), theta[places], step[places]
    flat = allowed.reshape(*allowed.shape[:2], -1)
    inside = some.confined(flat)
    outside = model if some is worlds else some.model(theta)
    confined = inside.model(theta)
    spectrum = Spectrum.of(inside.information(confined, confined.states))
    exists, direction = np.zeros(places.size, dtype=bool), np.zeros_like(theta)
    for candidate in (step, theta):
        tried = spectrum.ignored(candidate)
        size = np.abs(tried).max(axis=1)
        sound = np.isfinite(size) & (size > 0)
        unit = np.where(sound[:, None], tried / np.where(sound, size, 1.0)[:, None], 0.0)
        fresh = ~exists & sound
        if fresh.any():
            fresh &= _exposes(some, outside, confined, unit, flat)
        direction[fresh], exists = unit[fresh], exists | fresh
        if exists.all():
            break
    value = inside.evidence(confined)
    return Faces(places[exists], allowed[:, :, exists], direction[exists], value[exists])


def _survivors(
    worlds: Worlds, model: SoftModel, psi: dict[int, FloatArray]
) -> tuple[BoolArray, BoolArray]:
    """Actions [T, A, W * S] that are not dying out, and the worlds where some are [W]."""
    allowed = np.empty((worlds.mdp.steps, worlds.mdp.n_actions, worlds.mdp.n_states), dtype=bool)
    shrinks = np.zeros(worlds.n_worlds, dtype=bool)
    for t in range(worlds.mdp.steps):
        policy = model.policy(t)
        unused = worlds.weights(t).reshape(policy.shape) <= 0
        alive = ~((psi[t][..., 0] < -DYING) & unused)
        # A state where everything dies is not visited any more; leave it as it is.
        alive |= ~alive.any(axis=0)
        dying = ~alive & (policy > 0) & (model.states[t] > 0)
        shrinks |= worlds.by_world(dying).any(axis=(0, 2))
        # What the behaviour does stays open, however little of it and however sure the model is
        # that it does not: ruling it out would cost everything.
        allowed[t] = (alive & (policy > 0)) | ~unused
        allowed[t] |= ~allowed[t].any(axis=0)
    return allowed, shrinks


def _exposes(
    worlds: Worlds,
    model: SoftModel,
    confined: SoftModel,
    direction: FloatArray,
    allowed: BoolArray,
) -> BoolArray:
    """Whether exactly the allowed actions are optimal for a direction, where it matters: [W]."""
    regrets = model.regrets(worlds.joined(direction))
    out = np.ones(worlds.n_worlds, dtype=bool)
    for t in range(worlds.mdp.steps):
        # It matters where the face goes, and where the behaviour goes: small chances may be too
        # small for the face's own numbers.
        reached = (confined.states[t] > 0) | (worlds.visited[t] > 0)
        wrong = np.where(allowed[t], regrets[t] > TIE, regrets[t] < CLEAR) & reached
        out &= ~worlds.by_world(wrong).any(axis=(0, 2))
    return out


# --- Search ---------------------------------------------------------------------------------------
# Each world takes damped Newton steps (Levenberg-Marquardt), and near the optimum tries a
# certificate after each. The interpreter's overhead of hundreds of small passes is paid once for
# all worlds. Worlds that are finished leave the batch.

# Of many worlds, one that takes more rounds than this is not like the others, and goes on alone.
MOST_ROUNDS = 60
# So many steps in a row that gain less than this share of the tolerance end the search.
IDLE_STEPS = 4
IDLE_SHARE = 1e-2
# Gain of the last step (nats) below which a certificate or a face is worth looking for.
NEAR = 1e-2
# Above this gain the optimum is far away, and full Newton steps are not to be trusted.
FAR = 0.3
_LEAST_DAMPED, _MOST_DAMPED = 1e-14, 1e12
# Steps that follow a certificate, until one gains less than this (nats); of many worlds more,
# because all wait for the last one, and the first few with the same information.
POLISHING_STEPS = 30
_POLISHED, _POLISHED_TOGETHER = 1e-14, 1e-11
_SAME_INFORMATION = 3


@dataclass
class SearchState:
    """Progress of the searches of W worlds. All arrays [W] or [W, D]; values in nats.

    `faces` are the actions [T, A, S] of the last face of a world, and `directions` the utilities
    that lead to its faces, the first one first.
    """

    theta: FloatArray
    value: FloatArray
    bounds: list[Bounds]
    tolerance: float
    faces: dict[int, BoolArray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        n_worlds = len(self.value)
        self.directions: list[list[FloatArray]] = [[] for _ in range(n_worlds)]
        self.damping, self.gain = np.ones(n_worlds), np.full(n_worlds, np.inf)
        self.idle, self.steps = np.zeros((2, n_worlds), dtype=np.int64)
        self.closed = np.zeros(n_worlds, dtype=bool)

    def groups(self, worlds: Worlds, chosen: IntArray) -> Iterator[tuple[IntArray, Worlds]]:
        """Chosen worlds with what is allowed in them: those without a face, then the others."""
        faced = np.isin(chosen, list(self.faces))
        if not faced.all():
            yield chosen[~faced], worlds.take(chosen[~faced])
        if faced.any():
            allowed = np.stack([self.faces[i] for i in chosen[faced]], axis=2)
            confined = worlds.take(chosen[faced]).confined(allowed.reshape(*allowed.shape[:2], -1))
            yield chosen[faced], confined

    def close(self, place: IntArray) -> BoolArray:
        """Update and return which of some worlds have a bound within the tolerance."""
        for i in place:
            upper = self.bounds[i].at(self.theta[i]).upper
            self.closed[i] |= upper - self.value[i] <= self.tolerance
        return self.closed[place]


def ascend(
    worlds: Worlds,
    state: SearchState,
    most: int,
    hear: Callable[[SoftModel], None] | None = None,
) -> SoftModel:
    """Search in each world, inside its faces too, until it closes, stalls or took `most` steps.

    `hear` is called before each round with the model so far. Returns the last model.
    """
    within, place = worlds, np.arange(worlds.n_worlds)
    while True:
        model, place = _rounds(within, place, state, most, hear)
        if not place.size:
            return model
        # Worlds that came to a face go on inside it, together.
        ((_, within),) = state.groups(worlds, place)


def _rounds(
    worlds: Worlds,
    place: IntArray,
    state: SearchState,
    most: int,
    hear: Callable[[SoftModel], None] | None,
) -> tuple[SoftModel, IntArray]:
    """Take a step in each world after the other; return the model, and the worlds with a face."""
    model, faced = worlds.model(state.theta[place]), np.zeros(0, dtype=np.int64)
    going = ~state.close(place)
    while True:
        going &= (state.steps[place] < most) & (state.idle[place] < IDLE_STEPS)
        if not going.any():
            return model, np.sort(faced)
        if 3 * (~going).sum() >= len(going):
            chosen = np.flatnonzero(going)
            worlds, place, going = worlds.take(chosen), place[chosen], going[chosen]
            model = worlds.model(state.theta[place])
        if hear is not None:
            hear(model)
        state.steps[place[going]] += 1
        gradient, gain = worlds.gradient(model), state.gain[place]
        # Where the model hardly goes yet and the behaviour does, Newton steps are wild; counting
        # the behaviour's own visits tames them, as long as there is far to go.
        states, far = model.states, gain > FAR
        if far.any():
            states = np.where(worlds.each(far), 0.5 * (states + worlds.visited), states)
        spectrum = Spectrum.of(worlds.information(model, states))
        near = going & (gain <= NEAR)
        if near.any():
            step = np.where(near[:, None], spectrum.solve(gradient), 0.0)
            psi = dict(model.tangents(worlds.joined(step)[:, None]))
            proven = matching_certificates(model, psi, gradient, worlds.apart)
            for i in np.flatnonzero(near):
                if (certificate := proven[i]) is not None:
                    state.bounds[place[i]].add(certificate)
            going &= ~state.close(place)
            faces = find_faces(worlds, model, state.theta[place], step, psi, near & going)
            if faces is not None:
                entered = _enter(place, state, faces)
                faced = np.concatenate([faced, place[entered]])
                going[entered] = False
        if going.any():
            model, moved = _climb(worlds, place, state, gradient, spectrum, going)
            stuck = going & ~moved
            going &= ~(stuck & (gain <= NEAR))
            # No step gains, so this is the optimum: it remains to be certified.
            state.gain[place[stuck]] = 0.0
            idle = state.gain[place] < IDLE_SHARE * state.tolerance
            count = np.where(idle, state.idle[place] + 1, 0)
            state.idle[place] = np.where(moved, count, state.idle[place])
        # What was proven before the step may be enough for where it led.
        going &= ~state.close(place)


def _enter(place: IntArray, state: SearchState, faces: Faces) -> IntArray:
    """Move to the faces that are not worse than the models outside; return which worlds moved."""
    # A face holds the limit of ever better models, so it cannot be worse than this one.
    good = faces.value >= state.value[place[faces.places]] - state.tolerance
    for slot in np.flatnonzero(good):
        i = int(place[faces.places[slot]])
        state.value[i] = faces.value[slot]
        state.directions[i].append(faces.direction[slot])
        state.faces[i] = faces.allowed[:, :, slot]
    return faces.places[good]


def _climb(
    worlds: Worlds,
    place: IntArray,
    state: SearchState,
    gradient: FloatArray,
    spectrum: Spectrum,
    moving: BoolArray,
) -> tuple[SoftModel, BoolArray]:
    """Take a damped Newton step in each world that moves, with more damping until it gains.

    Returns the model of the steps that were taken, and which worlds took one.
    """
    pending, moved = moving.copy(), np.zeros_like(moving)
    reached: SoftModel | None = None
    while True:
        damping, theta = state.damping[place], state.theta[place]
        pending &= damping < _MOST_DAMPED
        if not pending.any():
            break
        step = np.where(pending[:, None], spectrum.solve(gradient, damping), 0.0)
        promised = (gradient * step).sum(axis=1)
        trial = worlds.model(theta + step)
        gain = worlds.evidence(trial) - state.value[place]
        taken = pending & (gain > 0.1 * promised)
        refused = pending & ~taken
        # Below the least damping, it no longer touches what is not null.
        eased = np.maximum(damping * np.where(gain > 0.4 * promised, 0.1, 0.5), _LEAST_DAMPED)
        state.damping[place] = np.where(
            taken, eased, np.where(refused, 4.0 * np.maximum(damping, 1e-10), damping)
        )
        state.theta[place[taken]] += step[taken]
        state.value[place[taken]] += gain[taken]
        state.gain[place[taken]] = gain[taken]
        moved |= taken
        # The worlds that stay where they are have the same model in the trial.
        reached = None if refused.any() else trial
        pending = refused
    return reached or worlds.model(state.theta[place]), moved


def polish(worlds: Worlds, place: IntArray, state: SearchState, most: FloatArray) -> None:
    """Take more steps in worlds that closed: a certified value leaves the weights half its digits.

    Values must not exceed `most` [W], nats.
    """
    least = _POLISHED if worlds.n_worlds == 1 else _POLISHED_TOGETHER
    same = 1 if worlds.n_worlds == 1 else _SAME_INFORMATION
    theta, value = state.theta[place], state.value[place]
    model = worlds.model(theta)
    for number in range(POLISHING_STEPS):
        # So near an optimum the information hardly changes; where it does, the optimum is far out.
        if number == 0 or number >= same:
            spectrum = Spectrum.of(worlds.information(model, model.states))
        trial_theta = theta + spectrum.solve(worlds.gradient(model))
        trial = worlds.model(trial_theta)
        reached = worlds.evidence(trial)
        better = (reached >= value) & (reached <= most)
        going = better & (reached - value > least)
        state.theta[place[better]] = trial_theta[better]
        state.value[place[better]] = reached[better]
        if not going.any():
            break
        theta, value, model = trial_theta, reached, trial
        if number + 1 >= same and not going.all():
            chosen = np.flatnonzero(going)
            worlds, place, most = worlds.take(chosen), place[chosen], most[chosen]
            theta, value = theta[chosen], value[chosen]
            model = worlds.model(theta)
