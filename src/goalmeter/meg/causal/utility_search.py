"""Search for better utilities over targets without sufficient recall."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np
from scipy.optimize import linprog, minimize

from goalmeter._types import FloatArray, IntArray
from goalmeter.meg.causal.maximisers import (
    ENTROPY_TIE,
    Candidate,
    Task,
    UtilityClass,
    candidate,
    evidence_of,
    exact,
    greatest_entropies,
    maximisers,
    near,
    near_measured,
    objectives_of,
    random_policies,
    repeated,
    slack,
    stacked,
)
from goalmeter.meg.causal.outcomes import Policies, ascend, implicit_gradient, score

# --- Branch ---------------------------------------------------------------------------------------
# For utilities U = G y that are linear in weights y, stationary policies of E[U] + H move smoothly
# with y until branches meet; with a held E[U] = u they move smoothly with y and u even where the b
# that holds them turns back. So does the evidence for them, with derivatives by the implicit
# function theorem.

_REMEMBERED = 8
# Policies that differ by more, in decisions of the measured policy, are on different branches.
_JUMP = 0.4
_TRIES = 8


class Place(NamedTuple):
    """A point of a branch; x is y [K], or y and u [K + 1]."""

    x: FloatArray
    model: Candidate
    gradient: FloatArray  # d evidence / dx


class Branch:
    """Local maxima of E[G y] + H by y, each reached from the nearest that is known."""

    def __init__(self, utilities: UtilityClass, y: FloatArray, model: Candidate) -> None:
        self.utilities = utilities
        self._known = [(y, model)]

    def find(self, x: FloatArray) -> Candidate | None:
        """The point at y = x, or None if the branch is lost on the way."""
        return _walk(self._known, x, self._step, self.utilities.plain(x).distance)

    def _step(self, x: FloatArray, start: Candidate) -> Candidate | None:
        task, b = self.utilities.task(x)
        return near(task, b, start.policies)

    def at(self, x: FloatArray) -> Place | None:
        """The point at y = x with its gradient."""
        model = self.find(x)
        if model is None:
            return None
        task, b = self.utilities.task(x)
        gradient = _gradient(task, b, model, held=False)
        return None if gradient is None else Place(x.copy(), model, gradient[:-1] / b)


class HeldBranch:
    """Stationary policies of H at E[G y] = u by y and u, x = (y, u)."""

    def __init__(self, utilities: UtilityClass, x: FloatArray, model: Candidate) -> None:
        self.utilities = utilities
        self._known = [(x, model)]

    def find(self, x: FloatArray) -> Candidate | None:
        """The point at x, or None if the branch is lost on the way."""
        return _walk(self._known, x, self._step, self.utilities.plain(x[:-1]).distance)

    def _step(self, x: FloatArray, start: Candidate) -> Candidate | None:
        return exact(self.utilities.plain(x[:-1]), float(x[-1]), start.policies, start.rationality)

    def at(self, x: FloatArray) -> Place | None:
        """The point at x with its gradient."""
        model = self.find(x)
        if model is None:
            return None
        task = self.utilities.plain(x[:-1])
        gradient = _gradient(task, model.rationality, model, held=True)
        return None if gradient is None else Place(x.copy(), model, gradient)

    def entropy_gradient(self, model: Candidate) -> FloatArray:
        """D H / dx [K + 1]: H is a maximum, so only the constraint counts."""
        b = model.rationality
        return np.append(b * self.utilities.table.expected(model.policies), -b)


def remembering(
    place_at: Callable[[FloatArray], Place | None],
) -> Callable[[FloatArray], Place | None]:
    """The same function, which keeps its last answer: optimisers ask for parts of it one by one."""
    last: tuple[bytes, Place | None] = (b"", None)

    def asked(x: FloatArray) -> Place | None:
        nonlocal last
        if x.tobytes() != last[0]:
            last = (x.tobytes(), place_at(x))
        return last[1]

    return asked


def minus_evidence(place: Place | None, unit: float, z: FloatArray) -> tuple[float, FloatArray]:
    """A loss to minimise in z = x / unit, with its gradient."""
    if place is None or not np.isfinite(place.model.evidence):
        return LOST, np.zeros_like(z)
    return -place.model.evidence, -unit * place.gradient


def _walk(
    known: list[tuple[FloatArray, Candidate]],
    x: FloatArray,
    step: Callable[[FloatArray, Candidate], Candidate | None],
    distance: Callable[[Candidate, Candidate], float],
) -> Candidate | None:
    """From the nearest known point to x, in steps that do not change the policies by much."""
    # What is reached is remembered in `known`. None if a step, however short, makes a jump.
    at, now = min(known, key=lambda point: float(np.sum((point[0] - x) ** 2)))
    done, length = 0.0, 1.0
    for _ in range(_TRIES):
        ahead = min(done + length, 1.0)
        model = step(at + ahead * (x - at), now)
        if model is None or distance(model, now) > _JUMP:
            length *= 0.5
            continue
        now, done = model, ahead
        if done == 1.0:
            known.append((x.copy(), now))
            del known[1:-_REMEMBERED]
            return now
    return None


def _gradient(task: Task, b: float, model: Candidate, *, held: bool) -> FloatArray | None:
    """D evidence / d(weights, u), [K + 1], or None where branches meet."""
    try:
        by_weights, by_utility = implicit_gradient(
            task.table, task.value, b, model.policies, task.visits, held=held
        )
    except np.linalg.LinAlgError:
        return None
    gradient = np.append(by_weights, by_utility)
    return gradient if np.isfinite(gradient).all() else None


# A rival is kept this far below, nats, so that rounding does not let it through.
_MARGIN = 5e-8
_STEPS = 50
_FINISH = 25
# The region, as a share of the size of x: at first, and where it is given up.
_FIRST = 0.3
_LEAST = 1e-6
# Evidence gained by a step that is worth no other, nats.
_GAIN = 1e-10
# Loss where there is no branch, nats.
LOST = 1e6


def uphill_held(branch: HeldBranch, start: FloatArray, rivals: list[HeldBranch]) -> Place | None:
    """Where the evidence is greatest, among places at which no rival has more entropy.

    Args:
        branch: of policies with a held utility.
        start: weights and held utility, [K + 1], where the branch has more entropy than rivals.
        rivals: branches of policies that attain the same.

    Returns:
        The best place seen, or None if the branch cannot be differentiated at the start.
    """
    now = branch.at(start)
    if now is None:
        return None
    trusted = _FIRST
    for _ in range(_STEPS):
        lead, slopes = _margins(branch, now, rivals)
        reach = trusted * float(np.abs(now.x).max())
        step = _step(now.gradient, lead, slopes, reach)
        if step is None:
            trusted *= 0.4
            continue
        hoped = float(now.gradient @ step)
        if hoped <= _GAIN or trusted < _LEAST:
            break
        new = branch.at(now.x + step)
        clear = new is not None and _margins(branch, new, rivals)[0].min(initial=0.0) >= -_MARGIN
        if new is None or not clear or new.model.evidence <= now.model.evidence:
            trusted *= 0.4
            continue
        if new.model.evidence - now.model.evidence > 0.5 * hoped:
            trusted = min(2.0 * trusted, 1.0)
        now = new
    return _finished(branch, now, rivals)


def _margins(
    branch: HeldBranch, place: Place, rivals: list[HeldBranch]
) -> tuple[FloatArray, FloatArray]:
    """By how much a place has more entropy than each rival, nats [n], with gradients [n, K + 1]."""
    lead = np.full(len(rivals), 1.0)
    slopes = np.zeros((len(rivals), len(place.x)))
    mine = branch.entropy_gradient(place.model)
    for i, rival in enumerate(rivals):
        attained = rival.find(place.x)
        # A rival that cannot attain the same is none here.
        if attained is not None:
            lead[i] = place.model.entropy - attained.entropy - _MARGIN
            slopes[i] = mine - rival.entropy_gradient(attained)
    return lead, slopes


def _step(
    gradient: FloatArray, lead: FloatArray, slopes: FloatArray, reach: float
) -> FloatArray | None:
    """The step within reach that promises most and keeps the lead; None if there is none."""
    scale = max(float(np.abs(gradient).max()), 1e-300)
    solution = linprog(
        -gradient / scale,
        A_ub=-slopes if len(slopes) else None,
        b_ub=lead if len(slopes) else None,
        bounds=[(-reach, reach)] * len(gradient),
        method="highs",
    )
    return None if solution.x is None else np.asarray(solution.x)


def _finished(branch: HeldBranch, place: Place, rivals: list[HeldBranch]) -> Place:
    """The place after a few steps that know of curvature, if they help."""
    best = place
    size = float(np.abs(place.x).max())

    @remembering
    def at(z: FloatArray) -> Place | None:
        nonlocal best
        reached = branch.at(size * z)
        if (
            reached is not None
            and reached.model.evidence > best.model.evidence
            and _margins(branch, reached, rivals)[0].min(initial=0.0) >= -_MARGIN
        ):
            best = reached
        return reached

    def lead(z: FloatArray) -> FloatArray:
        reached = at(z)
        return -np.ones(len(rivals)) if reached is None else _margins(branch, reached, rivals)[0]

    def slopes(z: FloatArray) -> FloatArray:
        reached = at(z)
        shape = (len(rivals), len(z))
        return np.zeros(shape) if reached is None else size * _margins(branch, reached, rivals)[1]

    minimize(
        lambda z: minus_evidence(at(z), size, z),
        place.x / size,
        jac=True,
        method="SLSQP",
        constraints=[{"type": "ineq", "fun": lead, "jac": slopes}] if rivals else [],
        options={"maxiter": _FINISH, "ftol": 1e-12},
    )
    return best


# --- Climb ----------------------------------------------------------------------------------------
# A branch of local maxima is followed uphill in evidence; where it ends it is checked against fresh
# starts. If a rival has more entropy at the same expected utility, the branch has stopped to
# consist
# of maximum entropy policies somewhere on the way, and what it predicts does not count.

_ROUNDS = 4
_FEW = 4
_CLIMB_STEPS = 80
_FIRST_STEP = 0.2
# Nats by which a maximiser may fall short: on a ridge it is as good as a rival by construction.
_TIE = 1e-7
# The largest multiplier that a start is given.
_LARGEST = 30.0


class Trial(NamedTuple):
    """Weights y [K] and policies that are stationary at E[G y] + H; attained: E[G y]."""

    y: FloatArray
    model: Candidate
    attained: float


class Verdict(NamedTuple):
    """What a check against fresh starts says.

    "supported": no start ended in a larger E[G y] + H. "held": some did, but in none with more
    entropy at the same E[G y], and others ended in as much. "beaten": one did, the rival, with
    the b that holds E[G y] / b; or none came near, and the rival is None.
    """

    kind: Literal["supported", "held", "beaten"]
    agreed: int
    rival: Candidate | None


def trial_of(utilities: UtilityClass, y: FloatArray, model: Candidate) -> Trial:
    """Policies that are stationary at y as a trial."""
    chance = utilities.table.probability(model.policies)
    return Trial(y, model, float(chance @ (utilities.table.features @ y)))


def check(utilities: UtilityClass, trial: Trial, n: int, rng: np.random.Generator) -> Verdict:
    """Whether policies maximise E[G y] + H, or else H at their E[G y], as far as n starts tell."""
    task, b = utilities.task(trial.y)
    mine = candidate(task, b, trial.model.policies)
    fresh = random_policies(task.table, n, rng)
    (fresh_ends,) = maximisers(task, [b], [fresh])
    reached, fresh_reached = objectives_of(b, mine, fresh_ends.best[0])
    if fresh_reached <= reached + slack(b) + _TIE:
        agreed = fresh_ends.agreed if fresh_reached >= reached - _TIE else 0
        return Verdict("supported", agreed, None)
    # The maximisers of the same utility in other sizes are starts as well: where the expected
    # utility moves smoothly with the size, one of them is near.
    sizes = np.outer([-1.0, 1.0], b * 4.0 ** np.arange(-5, 3)).reshape(-1)
    few = random_policies(task.table, _FEW, rng)
    rescaled = [ends.best[0] for ends in maximisers(task, list(sizes), [few] * len(sizes))]
    starts = stacked(
        [fresh, near_measured(task.table, task.measured), *(c.policies for c in rescaled)]
    )
    # Half of the fresh starts begin with the utility's own multiplier, half with none: the first
    # find maxima of the Lagrangian, the others plain maxima of the entropy.
    multipliers = np.zeros(starts[0].shape[2])
    multipliers[: n // 2] = min(b, _LARGEST)
    multipliers[-len(rescaled) :] = np.clip(sizes, -_LARGEST, _LARGEST)
    held = greatest_entropies(task, [mine.utility], [(starts, multipliers)])[0]
    if not held.best:
        return Verdict("beaten", 0, None)
    excess = held.best[0].entropy - mine.entropy
    if excess > 2 * ENTROPY_TIE:
        return Verdict("beaten", 0, held.best[0])
    if excess < -10 * ENTROPY_TIE:
        return Verdict("beaten", 0, None)
    return Verdict("held", min(held.agreed, n), None)


def uphill(utilities: UtilityClass, start: Trial) -> tuple[Trial, float]:
    """Follow the evidence along local maxima of E[G y] + H.

    Returns:
        The best trial on the way, not checked; and the size of the gradient there.
    """
    at = remembering(Branch(utilities, start.y, start.model).at)
    # The first step of the method has length 1: a share of y that does not overshoot.
    unit = _FIRST_STEP * float(np.linalg.norm(start.y))
    best: Place | None = None

    def loss(z: FloatArray) -> tuple[float, FloatArray]:
        nonlocal best
        place = at(unit * z)
        value, gradient = minus_evidence(place, unit, z)
        if value < LOST and (best is None or -value > best.model.evidence):
            best = place
        return value, gradient

    minimize(
        loss,
        start.y / unit,
        jac=True,
        method="L-BFGS-B",
        options={"maxfun": _CLIMB_STEPS, "ftol": 1e-14, "gtol": 1e-9, "maxcor": 20},
    )
    # The start itself may be degenerate, so that no gradient is known anywhere.
    if best is None:
        return start, np.inf
    slope = float(np.abs(best.gradient).max())
    return trial_of(utilities, best.x, best.model), slope


def along_the_ridge(
    utilities: UtilityClass, start: Trial, verdict: Verdict, n: int, rng: np.random.Generator
) -> tuple[Trial, Verdict]:
    """From maximum entropy policies to better ones, with the expected utility held.

    Returns:
        The trial and its verdict; what came in if nothing better stands the check.
    """
    rivals: list[HeldBranch] = []
    x = _held_at(start)
    for _ in range(_ROUNDS):
        place = uphill_held(HeldBranch(utilities, x, start.model), x, rivals)
        if place is None or place.model.evidence <= start.model.evidence:
            break
        at = trial_of(utilities, place.x[:-1] * place.model.rationality, place.model)
        checked = check(utilities, at, n, rng)
        if checked.kind != "beaten":
            return at, checked
        if checked.rival is None:
            break
        rivals.append(HeldBranch(utilities, _held_at(at), checked.rival))
    return start, verdict


def _held_at(trial: Trial) -> FloatArray:
    """(weights, E[U]) of a trial, in a unit in which its b is that of its policies."""
    b = trial.model.rationality
    return np.append(trial.y / b, trial.attained / b)


# --- Limits ---------------------------------------------------------------------------------------
# The policies are the limit, for b to infinity, of the maximum entropy policies of b U. A measured
# policy that is deterministic is predicted with certainty by every utility for which it is the only
# best one. Such a utility separates its expected features from those of all other policies, and is
# found by cutting planes: a linear programme for the utility, a best answer to it, and so on.

_CUTS = 40
_FIRST_CUTS = 64
_LIMITS_MARGIN = 1e-9
# A policy with less entropy than this, in nats, is deterministic.
_CERTAIN = 1e-9


class Limit(NamedTuple):
    """A direction y [K], its limit policies, and how many starts ended in as good ones."""

    y: FloatArray
    model: Candidate
    agreed: int


def limits(
    utilities: UtilityClass,
    directions: Sequence[FloatArray],
    n: int,
    ceiling: float,
    rng: np.random.Generator,
) -> Limit | None:
    """The best predictor among the limits in several directions, or None if all rule it out.

    There are n random starts for each direction y [K]. Where the ceiling, the evidence of the
    measured policy for itself, is its maximum, the policy is deterministic, and a utility that it
    alone is best for is looked for as well.
    """
    reached = [limit_at(utilities, y, n, rng) for y in directions]
    # Only a deterministic policy can be the only best one.
    if ceiling >= utilities.table.maximum - _CERTAIN:
        separating = _separating(utilities, n, rng)
        reached += [] if separating is None else [separating]
    best = max(reached, key=lambda limit: limit.model.evidence)
    return best if np.isfinite(best.model.evidence) else None


def limit_at(utilities: UtilityClass, y: FloatArray, n: int, rng: np.random.Generator) -> Limit:
    """The limit in one direction, from n random starts."""
    task, _ = utilities.task(y)
    starts = [random_policies(task.table, n, rng), near_measured(task.table, task.measured)]
    (ends,) = maximisers(task, [np.inf], [stacked(starts)])
    return Limit(y, ends.best[0], min(ends.agreed, n))


def confirmed_limit(
    utilities: UtilityClass, limit: Limit, n: int, rng: np.random.Generator
) -> Limit | None:
    """The limit after it was tried on n fresh starts; None if one of them is better."""
    task, _ = utilities.task(limit.y)
    mine = candidate(task, np.inf, limit.model.policies)
    (ends,) = maximisers(task, [np.inf], [random_policies(task.table, n, rng)])
    reached, fresh_reached = objectives_of(np.inf, mine, ends.best[0])
    if fresh_reached > reached + _LIMITS_MARGIN:
        return None
    return limit._replace(agreed=ends.agreed if fresh_reached >= reached - _LIMITS_MARGIN else 0)


def _separating(utilities: UtilityClass, n: int, rng: np.random.Generator) -> Limit | None:
    """A utility for which the measured policy is the only best one, if there is one."""
    table = utilities.table
    wanted = table.expected(utilities.measured)
    tries = random_policies(table, _FIRST_CUTS, rng)
    # Some deterministic policy is best for any utility, so these make good first cuts.
    certain = [(p == p.max(axis=1, keepdims=True)).astype(np.float64) for p in tries]
    cuts = list((wanted[:, None] - table.expected(certain)).T)
    best: Limit | None = None
    for _ in range(_CUTS):
        y = _widest(np.array(cuts))
        if y is None:
            return best
        limit = limit_at(utilities, y, n, rng)
        if best is None or limit.model.evidence > best.model.evidence:
            best = limit
        cut = wanted - table.expected(limit.model.policies)
        if limit.model.evidence >= table.maximum - _CERTAIN or np.abs(cut).max() <= _LIMITS_MARGIN:
            return best
        cuts.append(cut)
    return best


def _widest(cuts: FloatArray) -> FloatArray | None:
    """Y with the greatest least product with the cuts, no part of y above 1; None if it is 0."""
    k = cuts.shape[1]
    seen = cuts[np.abs(cuts).max(axis=1) > _LIMITS_MARGIN]
    solution = linprog(
        np.append(np.zeros(k), -1.0),
        A_ub=np.hstack([-seen, np.ones((len(seen), 1))]),
        b_ub=np.zeros(len(seen)),
        bounds=[(-1.0, 1.0)] * k + [(None, 1.0)],
        method="highs",
    )
    if solution.x is None or solution.x[-1] <= _LIMITS_MARGIN:
        return None
    return np.asarray(solution.x[:-1])


# --- Population -----------------------------------------------------------------------------------
# What the best maximiser of E[G y] + H predicts jumps with y where one branch overtakes another,
# and the best y is often at the edge of such a jump, where no gradient leads. So the search keeps
# a few parents and tries many utilities near each of them, all in one ascent; which one is a
# maximiser is decided among starts that include every kind of policy that was a maximiser nearby.

_SWEEPS = 150
_NEAR = 1e-7
# Objectives this close, in nats, are equal: ascents are not finished here.
_PARENTS = 4
_CHILDREN = 24
_GENERATIONS = 40
_FRESH = 2
_KINDS = 8
# Share of its size by which a child differs from its parent: at first, and how that goes on.
_POPULATION_FIRST = 0.5
_SHRINK, _GROW = 0.7, 1.2
# What is left is for the ridge.
_SMALLEST = 1e-4
# Policies that differ by more than this somewhere are of different kinds.
_KIND = 0.1
# Parents differ by at least this, in decisions of the measured policy.
_APART = 0.05
# Numbers in one pass, and the columns there are at least.
_PASS = 2**18
_LEAST_COLUMNS = 96


class Population(NamedTuple):
    """Utilities with the best maximiser of each."""

    y: FloatArray  # weights of the coordinates, [K, M]
    policies: Policies  # the maximisers, [C, A, M] each
    evidence: FloatArray  # of the measured policy for each of them, nats, [M]

    def take(self, chosen: Sequence[int] | IntArray) -> Population:
        """Some of them."""
        where = np.asarray(chosen, dtype=np.int64)
        policies = [p[..., where] for p in self.policies]
        return Population(self.y[:, where], policies, self.evidence[where])

    def with_more(self, more: Sequence[tuple[FloatArray, Policies, float]]) -> Population:
        """These and others."""
        out = self
        for y, policies, evidence in more:
            out = Population(
                np.concatenate([out.y, y[:, None]], axis=1),
                stacked([out.policies, policies]),
                np.append(out.evidence, evidence),
            )
        return out


def evaluated(
    utilities: UtilityClass, y: FloatArray, shared: Policies, parents: Policies | None = None
) -> Population:
    """What utilities predict.

    Utilities y are [K, M]; each has the shared starts, [C, A, n] each, and one of its parents, if
    there are any, [C, A, M] each.
    """
    table = utilities.table
    m = y.shape[1]
    begin = repeated(shared, m)
    if parents is not None:
        n = shared[0].shape[2]
        begin = [
            np.concatenate([p.reshape(*p.shape[:2], m, n), q[..., None]], axis=3).reshape(
                *p.shape[:2], -1
            )
            for p, q in zip(begin, parents, strict=True)
        ]
    n = begin[0].shape[2] // m
    value = table.features @ y
    unit = np.maximum(np.ptp(value, axis=0), 1e-300)
    value = np.repeat(value / unit, n, axis=1)
    b = np.repeat(unit, n)
    for start in range(0, m * n, most_columns(utilities)):
        part = slice(start, start + most_columns(utilities))
        climbed, _ = ascend(
            table,
            value[:, part],
            b[part],
            [p[..., part] for p in begin],
            sweeps=_SWEEPS,
            tolerance=_NEAR,
        )
        for p, new in zip(begin, climbed, strict=True):
            p[..., part] = new
    attained = score(table, value, begin)
    objective = (b * attained.utility + attained.entropy).reshape(m, n)
    evidence = evidence_of(table, utilities.visits, begin)
    tie = _TIE + 1e-14 * unit[:, None]
    equal = objective >= objective.max(axis=1, keepdims=True) - tie
    best = np.where(equal, evidence.reshape(m, n), -np.inf).argmax(axis=1) + n * np.arange(m)
    return Population(y, [p[..., best] for p in begin], evidence[best])


def most_columns(utilities: UtilityClass) -> int:
    """How many ascents to run side by side."""
    return max(_LEAST_COLUMNS, _PASS // utilities.table.n_rows)


def evolved(utilities: UtilityClass, first: Population, rng: np.random.Generator) -> Population:
    """Better utilities, from the best of the first ones and what is near them.

    Returns:
        A few parents of the last generation, the best first.
    """
    near = [p[..., :1] for p in near_measured(utilities.table, utilities.measured)]
    order = np.argsort(-first.evidence, kind="stable")
    parents = first.take(apart(utilities, first, _PARENTS))
    kinds = _kinds(first.take(order[: 4 * _KINDS]).policies)
    sizes = np.full(len(parents.evidence), _POPULATION_FIRST)
    columns = _KINDS + _FRESH + near[0].shape[2] + 1
    children = min(_CHILDREN, max(3, most_columns(utilities) // (columns * len(sizes)) - 1))
    for _ in range(_GENERATIONS):
        fresh = random_policies(utilities.table, _FRESH, rng)
        family = np.repeat(np.arange(len(sizes)), children + 1)
        y = parents.y[:, family] + _changes(parents.y, sizes, children, rng)
        inherited = [p[..., family] for p in parents.policies]
        now = evaluated(utilities, y, stacked([near, fresh, kinds]), inherited)
        # Each parent competes with its own children only: so the parents stay apart, and one that
        # is ambiguous now may still lead further than today's best.
        chosen = []
        for parent in range(len(sizes)):
            mine = np.flatnonzero(family == parent)
            best = mine[int(now.evidence[mine].argmax())]
            better = now.evidence[best] > now.evidence[mine[0]] + 1e-10
            sizes[parent] = min(sizes[parent] * (_GROW if better else _SHRINK), _POPULATION_FIRST)
            chosen.append(int(best))
        parents = now.take(chosen)
        recent = [*np.argsort(-now.evidence, kind="stable"), *range(len(now.evidence))]
        kinds = _kinds(stacked([now.take(recent).policies, kinds]))
        if sizes[int(parents.evidence.argmax())] < _SMALLEST:
            break
    return parents.take(np.argsort(-parents.evidence, kind="stable"))


def _changes(
    y: FloatArray, sizes: FloatArray, children: int, rng: np.random.Generator
) -> FloatArray:
    """What to add to each parent, [K, parents * (children + 1)]; nothing first."""
    k, n = y.shape
    length = np.linalg.norm(y, axis=0)
    noise = rng.standard_normal((k, n, children + 1)) / np.sqrt(k)
    out = noise * (sizes * length)[:, None]
    # A quarter of the children are their parents in another size.
    scaled = y[:, :, None] * np.expm1(sizes[:, None] * rng.standard_normal((n, children + 1)))
    out[:, :, 1::4] = scaled[:, :, 1::4]
    out[:, :, 0] = 0.0
    return np.asarray(out.reshape(k, -1))


def apart(utilities: UtilityClass, population: Population, n: int) -> list[int]:
    """The n best that do not predict nearly the same as a better one."""
    weights = [v.sum(axis=1) for v in utilities.visits]
    kept: list[int] = []
    for i in np.argsort(-population.evidence, kind="stable"):
        distances = [
            sum(
                float(w @ np.abs(p[..., i] - p[..., j]).sum(axis=1)) / 2
                for w, p in zip(weights, population.policies, strict=True)
            )
            for j in kept
        ]
        if min(distances, default=np.inf) > _APART:
            kept.append(int(i))
        if len(kept) == n:
            break
    return kept


def _kinds(policies: Policies) -> Policies:
    """One of each kind of policies, the first ones first, [C, A, n] each."""
    flat = np.concatenate([p.reshape(-1, p.shape[-1]) for p in policies])
    kept: list[int] = []
    for i in range(flat.shape[1]):
        if not kept or np.abs(flat[:, kept] - flat[:, [i]]).max(axis=0).min() > _KIND:
            kept.append(i)
        if len(kept) == _KINDS:
            break
    return [p[..., kept] for p in policies]
