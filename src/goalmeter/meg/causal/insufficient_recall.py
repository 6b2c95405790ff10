"""Decisions without sufficient recall: the best of all utilities over targets, and results.

All utilities over the joint states of targets are linear in their weights, U = G y, of which only
what changes policies is kept. Many are tried, the evidence is followed uphill from the best, and
the best directions are searched as known utilities of any size. See docs/notes/mathematics.md.

Source: MEG paper (NeurIPS 2024), Definitions 4.2 to 4.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from scipy.optimize import linprog, minimize

from goalmeter._names import listed
from goalmeter._types import FloatArray
from goalmeter.causal.diagram import Utility
from goalmeter.meg.behaviour import reconciled
from goalmeter.meg.causal.outcomes import (
    MAX_UNKNOWNS,
    JointOutcomes,
    Linearised,
    ascend,
    joint_outcomes,
    safe_log,
)
from goalmeter.meg.causal.result import CausalMeg, DecisionQuery, in_model
from goalmeter.meg.causal.search import (
    EQUAL,
    Family,
    PolicyCandidate,
    SearchResult,
    near_measured,
    no_say,
    random_policies,
    search_known,
    stacked,
)
from goalmeter.meg.result import PESSIMISES

# --- Search ---------------------------------------------------------------------------------------
# Coordinates in which expected utility varies by less than this share of the most are rounding.
_NULL_SHARE = 1e-9
# Random starts for each utility at first; numbers in one pass over all of them, and utilities at
# least.
_FEW, _MOST, _LEAST = 8, 2**20, 48
_INDICATORS, _SIZES = 12, 8
# Typical differences in expected utility, in nats.
_SMALLEST_SIZE, _LARGEST_SIZE = 0.2, 40.0
# Shares of the uniform policy that the measured one is mixed with, to have logarithms.
_MIXED = (0.02, 0.1, 0.3)
_CLIMBS, _CLIMB_STEPS, _FIRST_STEP = 6, 80, 0.2
# Utilities near others: generations, how many of each, and their least relative distance.
_GENERATIONS, _CHILDREN, _SMALLEST_STEP = 30, 16, 1e-3
# In decisions of the measured policy: the least difference of starts, and of new results; a larger
# one in a single step leaves the branch.
_APART, _NEW, _LEAP = 0.05, 1e-3, 0.4
# Nats by which a maximiser may fall short: on a ridge it is as good as a rival by construction.
_TIE = 1e-7
_CUTS, _FIRST_CUTS = 40, 64
# The logs of policies that a unit of weight moves by less stay as they are.
_STILL = 1e-4
_LOST = 1e6
_ENDLESS = (
    "what is shown of the utility can be as large as one likes: the supremum is approached, and "
    "other differences in the utility, that are not shown, stay finite"
)


class UtilityTrial(NamedTuple):
    """Weights y [K] and policies that maximise E[G y] + H."""

    y: FloatArray
    model: PolicyCandidate


def _ordered(trials: Sequence[UtilityTrial]) -> list[UtilityTrial]:
    return sorted(trials, key=lambda trial: -trial.model.evidence)


class _TargetSearch:
    """The search for the best of all utilities that are linear in features."""

    def __init__(
        self, table: JointOutcomes, measured: FloatArray, visits: FloatArray, rng: Generator
    ) -> None:
        self.rng = rng
        n = 2 * min(table.features.shape[1], len(table.weight)) + 32
        tries = random_policies(table, n, rng)
        self.near = near_measured(table, measured)
        expected = table.expected(np.concatenate([tries, self.near], axis=1))
        expected = expected - expected.mean(axis=1, keepdims=True)
        vectors, sizes, _ = np.linalg.svd(expected / np.sqrt(n), full_matrices=False)
        keep = sizes > max(_NULL_SHARE * sizes[0], 1e-14)
        # Weights of each coordinate, [D, K]; a step in any moves expected utility by about 1.
        self.basis = vectors[:, keep] / sizes[keep]
        features = table.features @ self.basis
        if keep.any():
            features = features - 0.5 * (features.min(axis=0) + features.max(axis=0))
        self.table = replace(table, features=features, targets=None)
        self.plain = Family(self.table, np.zeros(len(table.weight)), measured, visits, rng)

    def family(self, y: FloatArray) -> tuple[Family, float]:
        """Return the utility G y in a unit of its own, and the b that stands for 1."""
        value = self.table.features @ y
        spread = float(np.ptp(value))
        unit = float(2.0 ** np.ceil(np.log2(spread))) if spread > 0 else 1.0
        return replace(self.plain, value=value / unit), unit

    def maximiser(self, y: FloatArray, start: PolicyCandidate) -> UtilityTrial:
        """Return the end of an ascent at y."""
        family, b = self.family(y)
        return UtilityTrial(y, family.maximise([b], [stacked([start])])[0][0][0])

    def first_weights(self, n: int, most: int) -> list[FloatArray]:
        """About `most` weights y [K] to begin with, n random ones among them."""
        # Those at which the measured policy is most nearly stationary; some joint states of the
        # targets alone, wanted or unwanted, and random ones, each in several sizes.
        inverse = np.linalg.pinv(self.basis)
        states = self.rng.permutation(inverse.shape[1])[:_INDICATORS]
        directions = [sign * inverse[:, t] for t in states for sign in (1.0, -1.0)]
        directions += list(self.rng.standard_normal((n, len(inverse))))
        sizes = min(max(most // len(directions), 1), _SIZES)
        out = [self.fitted_weights(share) for share in _MIXED]
        for direction in directions[: most // sizes]:
            unit = direction / max(float(np.linalg.norm(direction)), 1e-300)
            spread = np.geomspace(_SMALLEST_SIZE, _LARGEST_SIZE, sizes + 1)[:-1]
            # Not the same sizes in every direction.
            spread = spread * (_LARGEST_SIZE / _SMALLEST_SIZE) ** (self.rng.random() / sizes)
            out += [size * unit for size in spread]
        return [y for y in out if np.isfinite(y).all() and np.abs(y).max(initial=0.0) > 0]

    def fitted_weights(self, share: float) -> FloatArray:
        """The weights y [K] at which the measured policy, mixed a little, is most stationary."""
        # Weighted least squares in the logs of the policy; exact where it is soft-optimal.
        table = self.table
        mixed = (1 - share) * self.plain.measured + share / table.choices
        at = Linearised(table, np.zeros(len(table.weight)), 0.0, mixed)
        # With no utility the answers are what is left to say of later decisions.
        left = safe_log(mixed) - at.answers
        weight = np.sqrt(table.sums(self.plain.visits) * mixed)
        rows = weight[:, None] * at.paid_features()
        wanted = weight * at.centred(left[:, None])[:, 0]
        return np.asarray(np.linalg.lstsq(rows, wanted, rcond=1e-8)[0])

    def evaluated(
        self, weights: Sequence[FloatArray], kinds: Sequence[UtilityTrial] = ()
    ) -> list[UtilityTrial]:
        """Return the maximisers of many utilities, the best predictors first."""
        random = random_policies(self.table, _FEW, self.rng)
        shared = stacked([trial.model for trial in kinds], random, self.near)
        n, batch, out = shared.shape[1], max(12, 2**18 // (12 * len(self.table.weight))), []
        for begin in range(0, len(weights), batch):
            y = np.stack(weights[begin : begin + batch], axis=1)
            value = self.table.features @ y
            unit = np.maximum(np.ptp(value, axis=0), 1e-300)
            value, b = np.repeat(value / unit, n, axis=1), np.repeat(unit, n)
            starts = np.tile(shared, (1, y.shape[1]))
            climbed, _ = ascend(self.table, value, b, starts, sweeps=150, tolerance=1e-7)
            utility, entropy = self.table.score(value, climbed)
            objective = (b * utility + entropy).reshape(-1, n)
            evidence = self.plain.evidence(climbed)
            tie = _TIE + 1e-14 * unit[:, None]
            equal = objective >= objective.max(axis=1, keepdims=True) - tie
            best = np.where(equal, evidence.reshape(-1, n), -np.inf).argmax(axis=1)
            for i, k in enumerate(best + n * np.arange(len(best))):
                attained = float(utility[k]), float(entropy[k]), float(evidence[k])
                model = PolicyCandidate(climbed[:, k].copy(), unit[i], *attained)
                out.append(UtilityTrial(y[:, i], model))
        return _ordered(out)

    def uphill(self, start: UtilityTrial) -> UtilityTrial:
        """Follow the evidence along local maxima of E[G y] + H; the best on the way."""
        # The first step of the method has length 1: a share of y that does not overshoot.
        unit = _FIRST_STEP * float(np.linalg.norm(start.y))
        best, known = start, [start]

        def loss(z: FloatArray) -> tuple[float, FloatArray]:
            nonlocal best
            trial = self._followed(known, unit * z)
            if trial is None or not np.isfinite(trial.model.evidence):
                return _LOST, np.zeros_like(z)
            known[1:] = [*known[1:], trial][-8:]
            if trial.model.evidence > best.model.evidence:
                best = trial
            family, b = self.family(trial.y)
            at = Linearised(self.table, family.value, b, trial.model.policies)
            try:
                # The family's value is G y / b, so weights count b times as much.
                slope = at.gradient(self.plain.visits) / b
            except np.linalg.LinAlgError:
                return _LOST, np.zeros_like(z)
            if not np.isfinite(slope).all():
                return _LOST, np.zeros_like(z)
            return -trial.model.evidence, -unit * slope

        options = {"maxfun": _CLIMB_STEPS, "ftol": 1e-14, "gtol": 1e-9, "maxcor": 20}
        minimize(loss, start.y / unit, jac=True, method="L-BFGS-B", options=options)
        return best

    def _followed(self, known: Sequence[UtilityTrial], y: FloatArray) -> UtilityTrial | None:
        """Return the branch at y, from the nearest known point; None if it is lost on the way."""
        now = min(known, key=lambda trial: float(np.sum((trial.y - y) ** 2)))
        begin, done, length = now.y, 0.0, 1.0
        for _ in range(8):
            ahead = min(done + length, 1.0)
            family, b = self.family(begin + ahead * (y - begin))
            (model,) = family.polished(b, stacked([now.model]), np.array([b]))
            if self.plain.distance(model, now.model) > _LEAP:
                length *= 0.5
                continue
            now, done = UtilityTrial(begin + ahead * (y - begin), model), ahead
            if done == 1.0:
                return now
        return None

    def evolved(self, parents: list[UtilityTrial]) -> list[UtilityTrial]:
        """Better utilities near others, across the jumps where no gradient leads."""
        size = 0.5
        for _ in range(_GENERATIONS):
            children = [
                trial.y + size * np.linalg.norm(trial.y) * self.rng.standard_normal(len(trial.y))
                for trial in parents
                for _ in range(_CHILDREN)
            ]
            before = parents[0].model.evidence
            pool = self.evaluated([trial.y for trial in parents] + children, parents)
            parents = self.distinct(pool)
            size *= 1.2 if parents[0].model.evidence > before + 1e-10 else 0.7
            if size < _SMALLEST_STEP:
                break
        return parents

    def agreed(self, trial: UtilityTrial, n: int) -> int | None:
        """Return how many fresh starts end as well as a trial; None if one ends better."""
        family, b = self.family(trial.y)
        mine = family.candidate(b, trial.model.policies)
        ((best, agreed),) = family.maximise([b], [random_policies(self.table, n, self.rng)])
        reached, fresh = family.objectives_of(b, [mine, best[0]])
        if fresh > reached + family.slack(b) + _TIE:
            return None
        return agreed if fresh >= reached - _TIE else 0

    def distinct(self, trials: Sequence[UtilityTrial]) -> list[UtilityTrial]:
        """Return the first few that do not predict nearly the same as an earlier one."""
        kept: list[UtilityTrial] = []
        for trial in trials:
            distances = [self.plain.distance(trial.model, other.model) for other in kept]
            if min(distances, default=np.inf) > _APART:
                kept.append(trial)
            if len(kept) == _CLIMBS:
                break
        return kept

    def separating(self, n: int) -> FloatArray | None:
        """A direction in which the measured deterministic policy is the only best one, or None."""
        table, k = self.table, self.table.features.shape[1]
        wanted = table.expected(self.plain.measured)
        tries = random_policies(table, _FIRST_CUTS, self.rng)
        # Some deterministic policy is best for any utility, so these make good first cuts.
        certain = [p == p.max(axis=1, keepdims=True) for p in table.split(tries)]
        sure = np.concatenate([p.reshape(-1, _FIRST_CUTS) for p in certain]).astype(np.float64)
        cuts = list((wanted[:, None] - table.expected(sure)).T)
        starts = np.concatenate([tries[:, -n:], self.near], axis=1)
        for _ in range(_CUTS):
            seen = np.array([cut for cut in cuts if np.abs(cut).max() > 1e-9])
            # The y, no part of it above 1, with the greatest least product with the cuts.
            solution = linprog(
                np.append(np.zeros(k), -1.0),
                A_ub=np.hstack([-seen, np.ones((len(seen), 1))]),
                b_ub=np.zeros(len(seen)),
                bounds=[(-1.0, 1.0)] * k + [(None, 1.0)],
                method="highs",
            )
            if solution.x is None or solution.x[-1] <= 1e-9:
                return None
            y = np.asarray(solution.x[:-1])
            best = self.family(y)[0].maximise([np.inf], [starts])[0][0][0]
            cut = wanted - table.expected(best.policies)
            if best.evidence >= table.maximum - EQUAL or np.abs(cut).max() <= 1e-9:
                return y
            cuts.append(cut)
        return None

    def endless_part(self, trial: UtilityTrial) -> FloatArray | None:
        """Return the part of the weights [K] that could be of any larger size, if there is one."""
        # It no longer moves what the model says of the measured policy, and the evidence needs it.
        family, b = self.family(trial.y)
        if len(trial.model.policies) > MAX_UNKNOWNS:
            return None
        at = Linearised(self.table, family.value, b, trial.model.policies)
        try:  # d(logs of stationary policies) / d(weights of the features, times b), [K, D]
            moves = at.centred(np.asarray(np.linalg.solve(at.matrix, at.paid_features())))
        except np.linalg.LinAlgError:
            return None
        weighted = np.sqrt(self.plain.visits)[:, None] * moves
        _, sizes, directions = np.linalg.svd(weighted, full_matrices=True)
        still = np.ones(len(directions), dtype=bool)
        still[: len(sizes)] = sizes <= _STILL
        part = directions[still].T @ (directions[still] @ trial.y)
        if not np.abs(part).max(initial=0.0) > 0:
            return None
        least = trial.model.evidence - EQUAL
        if self.maximiser(trial.y - 0.9 * part, trial.model).model.evidence >= least:
            return None
        more = self.maximiser(trial.y + part, trial.model)
        return part if more.model.evidence >= least else None

    def shown(self, y: FloatArray) -> tuple[FloatArray, float]:
        """Weights of the joint states from -1 to 1, NaN where there is no say, and their scale."""
        weights = self.basis @ y
        size = float(np.abs(weights).max())
        reach = np.abs(self.basis).max(axis=1)
        shown = weights / size if size > 0 else weights
        return np.where(reach > 1e-9 * reach.max(), shown, np.nan), size

    def result(self, y: FloatArray, found: SearchResult) -> SearchResult:
        """Return a result for G y in terms of the weights that are shown."""
        if found.rationality < 0:
            y, found = -y, found._replace(rationality=-found.rationality)
        weights, size = self.shown(y)
        attained = np.linalg.pinv(self.basis) @ np.nan_to_num(weights)
        return found._replace(
            rationality=found.rationality * size,
            utility=float(self.table.expected(found.policies) @ attained),
            weights=weights,
            rank=self.basis.shape[1],
        )


def search_targets(
    table: JointOutcomes, measured: FloatArray, visits: FloatArray, restarts: int, rng: Generator
) -> SearchResult:
    """Find the best model for the best of all utilities over the joint states of targets."""
    targets = _TargetSearch(table, measured, visits, rng)
    k = targets.basis.shape[1]
    if not k:
        return no_say(table)._replace(weights=np.full(table.features.shape[1], np.nan))
    ceiling = targets.plain.ceiling
    indifferent = no_say(table)._replace(utility=0.0, weights=targets.shown(np.zeros(k))[0], rank=k)
    if ceiling <= EQUAL:
        return indifferent._replace(note="no model predicts better than the uniform one")

    def along(y: FloatArray, starts: int = restarts) -> SearchResult:
        direction = replace(targets.table, features=(targets.table.features @ y)[:, None])
        return targets.result(y, search_known(direction, measured, visits, starts, rng))

    if k == 1:
        return along(np.ones(1))
    # Only a deterministic policy can be the only best one.
    separating = targets.separating(_FEW) if ceiling >= table.maximum - EQUAL else None
    if separating is not None:
        result = along(separating)
        if result.value >= ceiling - EQUAL:
            return result
    most = max(_LEAST, _MOST // (12 * len(table.weight)))
    first = targets.evaluated(targets.first_weights(restarts, most))
    tried: list[tuple[UtilityTrial, int | None]] = []
    again = 0
    for start in targets.distinct(first):
        end = targets.uphill(targets.maximiser(start.y, start.model))
        # Climbs that end where earlier ones did are not worth their time.
        distance = [targets.plain.distance(end.model, other.model) for other, _ in tried]
        again += min(distance, default=np.inf) < _NEW
        if again >= 2:
            break
        tried.append((end, targets.agreed(end, restarts)))
        if tried[-1][1] is not None and end.model.evidence >= ceiling - EQUAL:
            break
    ends = _ordered([*(end for end, _ in tried), *first])
    if any(agreed is None for _, agreed in tried):
        for trial in targets.evolved(targets.distinct(ends)):
            tried.append((trial, targets.agreed(trial, restarts)))
    results = []
    supported = [(trial, agreed) for trial, agreed in tried if agreed is not None]
    if supported:
        trial, agreed = max(supported, key=lambda pair: pair[0].model.evidence)
        model, part = trial.model, targets.endless_part(trial)
        finite = (model.evidence, 1.0, 0.0, model.entropy, model.policies)
        note = "supported by a utility of finite size"
        found = targets.result(trial.y, SearchResult(*finite, agreed, restarts, note))
        if part is not None:
            weights = targets.shown(part)[0]
            found = found._replace(rationality=np.inf, note=_ENDLESS, weights=weights)
        results.append(found)
    results.append(along(ends[0].y, min(restarts, _FEW)))
    # An infinite rationality is preferred, then a finite one, then a gap.
    top = max(result.value for result in results) - EQUAL
    best = [result for result in results if result.value >= top]
    best.sort(key=lambda r: (not np.isinf(r.rationality), np.isnan(r.rationality)))
    if best[0].value <= EQUAL:
        note = "no utility was found that predicts better than uniform"
        return indifferent._replace(note=note)
    return best[0]


# --- Results --------------------------------------------------------------------------------------
def search(
    table: JointOutcomes,
    measured: FloatArray,
    *,
    visits: FloatArray | None = None,
    restarts: int = 24,
    rng: Generator,
) -> SearchResult:
    """Find the maximum entropy policies that predict a policy [K] best, by default its visits."""
    frequencies = table.frequencies(table.visits(measured) if visits is None else visits)
    find = search_known if table.targets is None else search_targets
    return find(table, measured, frequencies, restarts, rng)


def searched(query: DecisionQuery, *, restarts: int, rng: Generator | None) -> CausalMeg:
    """Return MEG by search: of a known utility or towards targets (Definitions 3.2, 4.4)."""
    assert query.goal is not None
    table = joint_outcomes(query.network, query.recall.decisions, query.goal)
    measured = table.policies(query.network)
    rng = np.random.default_rng(0) if rng is None else rng
    result = search(table, measured, restarts=restarts, rng=rng)
    return CausalMeg(**fields_of(query, table, table.visits(measured), measured, result))


def fields_of(
    query: DecisionQuery,
    table: JointOutcomes,
    visits: FloatArray,
    measured: FloatArray,
    result: SearchResult,
) -> dict[str, Any]:
    """Return the fields of a `CausalMeg`; `measured` is the policy that predicts visits best."""
    # The measured policy predicts itself best, so no model of any goal scores more.
    ceiling = float(table.evidence(visits, measured))
    shares = table.shares(visits, result.policies)
    by_decision = {d: float(s.sum()) for d, s in zip(query.recall.decisions, shares, strict=True)}
    notes = [
        f"a lower bound, provided that the maximum entropy policies found are the true ones: "
        f"{listed(query.recall.circle)} rely on each other in a circle (insufficient recall), so "
        f"no order of planning is exact and these policies were searched for numerically",
        f"{result.agreed} of {result.starts} fresh random starts ended in the model that is "
        f"reported, none in a better one; {result.note}",
    ]
    if result.rationality < 0:
        notes.append(PESSIMISES)
    goal = None
    if not isinstance(query.goal, Utility):
        assert result.weights is not None
        goal = query.goal_of(result.weights)
    return {
        "value": result.value,
        "upper_bound": reconciled(ceiling, result.value, table.maximum),
        "maximum": table.maximum,
        "ceiling": ceiling,
        "rationality": result.rationality,
        "target": query.name,
        "goal": goal,
        "method": f"numerical search for maximum entropy policies, {result.starts} random restarts",
        "tolerance": 1e-6,
        "by_step": np.array(list(by_decision.values())),
        "by_state": np.concatenate(shares),
        "notes": tuple(notes),
        **in_model(query, by_decision),
    }
