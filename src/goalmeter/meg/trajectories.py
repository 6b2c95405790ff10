"""Goal-directedness estimated from logged trajectories."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypedDict, Unpack

import numpy as np

from goalmeter import statistics
from goalmeter._errors import InvalidParameterError, shown
from goalmeter._types import ArrayLike, FloatArray
from goalmeter.meg import likelihood
from goalmeter.meg.behaviour import reconciled, yardstick
from goalmeter.meg.likelihood import Fit, TrajectoriesLike, TrajectoryGroup
from goalmeter.meg.linear import ACTION_WARNING, model_shares, normalised_utility
from goalmeter.meg.result import FLOORED, PESSIMISES, TrajectoryMeg, reference_name
from goalmeter.meg.soft_model import ALL, SoftModel
from goalmeter.statistics.intervals import FEWEST
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.policies import normalised_notes

# --- Logged information ---------------------------------------------------------------------------
# A log visits few of the states that there are, and only these have a part in the information: rows
# of psi_t(s, a) = features + E[W_(t+1)(s')] - W_t(s) are worked out where there is weight, with W_t
# [S, D] the expected features still to come.


def information_of(model: SoftModel, states: FloatArray) -> FloatArray:
    """`model.information(states)` for states [T, S] most of which have no weight."""
    d = model.utilities.n_weights
    if d <= likelihood.LARGE_WEIGHTS or model.mdp.horizon is None:
        return model.information(states)
    mdp, utilities = model.mdp, model.utilities
    rewards = utilities.rewards(np.eye(d))
    rows = mdp.transition.by_action()
    place = np.arange(mdp.n_actions)[:, None] * mdp.n_states
    later = np.zeros((mdp.n_states, d))
    total = np.zeros((d, d))
    for t in reversed(range(mdp.steps)):
        policy = model.policy(t)
        paid = rewards.discount**t * rewards.at(t, ALL)
        used = np.flatnonzero(states[t])
        value = np.asarray(rows[(place + used).ravel()] @ later)
        value = value.reshape(mdp.n_actions, len(used), d) + paid[:, used]
        psi = value - np.einsum("as,asd->sd", policy[:, used], value)
        psi *= np.sqrt(policy[:, used] * states[t, used])[..., None]
        flat = psi.reshape(-1, d)
        total += flat.T @ flat
        if t > 0:
            mean = paid[0] if len(paid) == 1 else np.einsum("as,asd->sd", policy, paid)
            later = np.asarray(mdp.transition.under(policy) @ later) + mean
    return total


# --- Inference ------------------------------------------------------------------------------------
# Scores and information are formed as dense matrices over the weights.
MAX_WEIGHTS = 4_000
# Eigenvalues of the information below this share of the largest count as unidentified.
_NULL_SHARE = 1e-8

Fitter = Callable[[Sequence[TrajectoryGroup]], Fit]


class ResamplingOptions(TypedDict, total=False):
    """Options of what is estimated from a sample: its interval, its test, its held-out value."""

    confidence: float
    resamples: int
    folds: int
    rng: np.random.Generator | None


def infer(
    groups: Sequence[TrajectoryGroup],
    fit: Fit,
    *,
    confidence: float,
    resamples: int,
    rng: np.random.Generator,
    maximum: float,
) -> dict[str, Any]:
    """Correct, bound and test a fit, as fields of `TrajectoryMeg`; `maximum` as there."""
    # With e_i the evidence of trajectory i at the fit, s_i its score, H the information and J the
    # variance of the scores, the maximised average exceeds the truth by tr(H^-1 J) / (2 n) to first
    # order. `replicates` are the maxima that bootstrap samples would be fitted to.
    d = groups[0].utilities.n_weights
    if d > MAX_WEIGHTS:
        raise InvalidParameterError(
            f"the utility class has {d} weights, expected at most {MAX_WEIGHTS} for an "
            f"estimate from trajectories; pass features [S, D] that span fewer utilities"
        )
    pairs = list(zip(groups, fit.models, strict=True))
    evidence = np.concatenate([likelihood.evidence_by_trajectory(g, m) for g, m in pairs])
    scores = np.concatenate([likelihood.scores_by_trajectory(g, m) for g, m in pairs])
    n = len(evidence)
    values, vectors = np.linalg.eigh(_information(groups, fit.models))
    # Directions that the data do not identify would turn rounding into variance.
    keep = values > max(_NULL_SHARE * float(values[-1]), 1e-20)
    inverse = np.asarray((vectors[:, keep] / values[keep]) @ vectors[:, keep].T)
    bias = float(((scores @ inverse) * scores).sum()) / n / (2 * n)
    raw = max(fit.value, 0.0)
    draws = statistics.resample_weights(n, resamples, rng)
    # A bootstrap sample is not fitted anew: of a class its maximum is that of the quadratic at the
    # fit, of a known utility the highest of the curves.
    if fit.curves is None:
        mean = draws @ scores
        replicates = draws @ evidence + 0.5 * ((mean @ inverse) * mean).sum(axis=1)
    else:
        replicates = (draws @ fit.curves).max(axis=1)
    null = [g.model(np.zeros(d)) for g in groups]
    at_null = variance = _information(groups, null)
    if any(g.mdp.horizon is None for g in groups):
        # Independent decisions: the score's variance weighs each by its squared decay, which is 1
        # where there is a horizon.
        variance = _information(groups, null, power=2)
    test = statistics.likelihood_ratio_test(2 * n * raw, at_null, variance)
    return corrected_fields(raw, bias, evidence, replicates, test, maximum, confidence)


def corrected_fields(
    raw: float,
    bias: float,
    evidence: FloatArray,
    replicates: FloatArray,
    test: statistics.LikelihoodRatioTest,
    maximum: float,
    confidence: float,
) -> dict[str, Any]:
    """Return what the evidence [N] and the bootstrap [R] of a sample say, as fields of a result."""
    n = len(evidence)
    unfloored = raw - bias
    corrected = max(unfloored, 0.0)
    ends = statistics.percentile_interval(replicates, bias, n, confidence)
    bounds = (0.0, max(maximum, raw))
    low, high = statistics.widened_for_few(ends, evidence, corrected, bounds, confidence)
    if test.p_value > 1.0 - confidence:
        # Not told apart from the reference at this level, so 0 is among the credible values;
        # near 0 the evidence is quadratic in the sample and the bootstrap alone would miss it.
        low = 0.0
    return {
        "n": n,
        "corrected": corrected,
        "unfloored": unfloored,
        "standard_error": float(evidence.std(ddof=1) / np.sqrt(n)) if n > 1 else float("nan"),
        "interval": (low, max(high, corrected)),
        "confidence": confidence,
        "likelihood_ratio": test.statistic,
        "degrees_of_freedom": test.degrees_of_freedom,
        "p_value": test.p_value,
    }


def held_out(
    groups: Sequence[TrajectoryGroup], fitter: Fitter, *, folds: int, rng: np.random.Generator
) -> float:
    """Cross-fitted evidence, nats a trajectory; NaN if there are too few to split."""
    sizes = [len(g.trajectories) for g in groups]
    n = sum(sizes)
    if n < 2:
        return float("nan")
    parts = np.split(rng.permutation(n) % folds, np.cumsum(sizes)[:-1])
    total = 0.0
    for k in range(folds):
        train = [(g, f != k) for g, f in zip(groups, parts, strict=True)]
        fitted = [(g.subset(keep), i) for i, (g, keep) in enumerate(train) if keep.any()]
        decisions = sum(int(g.trajectories.length.sum()) for g, _ in fitted)
        # Every part is scored by a fit that has not seen it, worlds without training data included.
        fit = fitter(likelihood.pooled([g for g, _ in fitted]))
        models = {i: m for (_, i), m in zip(fitted, fit.models, strict=True)}
        for i, (group, keep) in enumerate(train):
            if keep.all():
                continue
            model = models[i] if i in models else likelihood.fitted_model(group, fit.theta)
            test = group.subset(~keep)
            total += float(
                likelihood.evidence_by_trajectory(test, model, mix=1.0 / (decisions + 1)).sum()
            )
    return total / n


def _information(
    groups: Sequence[TrajectoryGroup], models: Sequence[SoftModel], *, power: int = 1
) -> FloatArray:
    parts = zip(groups, models, strict=True)
    return np.asarray(sum(information_of(m, g.visits(power=power)) for g, m in parts))


# --- Trajectories ---------------------------------------------------------------------------------
# Nats; a smaller standard error is one of rounding.
_ALIKE = 1e-9


def from_trajectories(
    mdp: TabularMDP | Sequence[TabularMDP],
    trajectories: TrajectoriesLike | Sequence[TrajectoriesLike],
    *,
    utility: ArrayLike | Sequence[ArrayLike] | None = None,
    unknown: str | ArrayLike | Sequence[ArrayLike] | None = None,
    reference: ArrayLike | None = None,
    **resampling: Unpack[ResamplingOptions],
) -> TrajectoryMeg:
    """MEG of the policy behind logged trajectories, whose dynamics are known.

    Several MDPs may be given as a list: one rationality, or one weight vector, is then fitted to
    all of them, and values are averages over all trajectories.

    Args:
        mdp: the world, or a list of worlds.
        trajectories: `Trajectories`, or (states [N, L], actions [N, L][, length [N]]); a list
            of them for a list of worlds.
        utility: known utility as in `known_utility`; default each MDP's reward.
        unknown: None for the known utility; "state", "state-action" or "time-state" for all
            utilities of that kind; or features [S, D] or [S, A, D] for a linear class (a
            list of them, one a world, with the same D).
        reference: policy that scores 0; default uniform. One world only.
        confidence: nominal coverage of the interval, default 0.95.
        resamples: bootstrap samples, default 2000.
        folds: parts that trajectories are split into for the held-out value, default 5.
        rng: source of randomness for resamples and folds; default seed 0.

    Returns:
        A `TrajectoryMeg`. Its `upper_bound` is the evidence that a model which knew every
        sampled frequency would score: no utility of any class can exceed it on these data.

    Source: MEG paper (NeurIPS 2024), section 3 (expectations replaced by averages); the
    correction is that of Takeuchi's information criterion, of which parameters / (2 n) is the
    well-specified case.
    """
    groups = likelihood.group_trajectories(
        mdp, trajectories, utility=utility, unknown=unknown, reference=reference
    )
    result, _ = estimate(groups, known=unknown is None, **resampling)
    on_actions = any(g.utilities.on_actions for g in groups)
    warned = [ACTION_WARNING] if unknown is not None and on_actions else []
    return replace(
        result,
        reference=reference_name(reference is not None),
        notes=(*warned, *normalised_notes(reference=reference), *result.notes),
    )


def estimate(
    groups: Sequence[TrajectoryGroup],
    *,
    known: bool,
    confidence: float = 0.95,
    resamples: int = 2000,
    folds: int = 5,
    rng: np.random.Generator | None = None,
) -> tuple[TrajectoryMeg, FloatArray]:
    """Fit one goal to groups of trajectories, with what the sample supports; and its weights."""
    rng = check_options(folds, resamples, rng)
    groups = likelihood.pooled(groups)
    n = sum(len(g.trajectories) for g in groups)
    fitter = likelihood.fit_known if known else likelihood.fit_class
    fit = fitter(groups)
    measures = [yardstick(g, g.log_reference, g.utilities.tells_apart()) for g in groups]
    maximum = sum(float(most[0]) for most, _ in measures)
    # The ceiling of a sample is a model that knows every sampled frequency.
    ceiling = min(sum(float(ceiling[0]) for _, ceiling in measures), maximum)
    inference = infer(
        groups, fit, confidence=confidence, resamples=resamples, rng=rng, maximum=maximum
    )
    outside = held_out(groups, fitter, folds=min(folds, n), rng=rng)
    value = max(fit.value, 0.0)
    shares = [model_shares(m, g) for g, m in zip(groups, fit.models, strict=True)]
    utilities = groups[0].utilities
    if known:
        rationality, utility = float(fit.theta[0]) / utilities.unit, None
        method = "maximum likelihood in the rationality"
    else:
        utility, rationality = normalised_utility(utilities, fit.theta)
        # A class whose best weights are all 0 diverges nowhere.
        rationality = float("inf") if fit.infinite and rationality else rationality
        method = "maximum likelihood in the weights (a local maximum)"
    by_step = np.zeros(max(len(steps) for steps, _ in shares))
    for steps, _ in shares:
        by_step[: len(steps)] += steps
    # A utility over states means nothing across worlds whose states differ.
    single = len(groups) == 1
    result = TrajectoryMeg(
        value=min(value, maximum),
        upper_bound=min(reconciled(ceiling, value, maximum), maximum),
        maximum=maximum,
        ceiling=ceiling,
        rationality=rationality,
        target=utilities.name,
        method=method,
        tolerance=1e-6,
        by_step=by_step,
        by_state=shares[0][1] if single else np.zeros(0),
        utility=utility if single else None,
        notes=(
            *([PESSIMISES] if rationality < 0 else []),
            *sample_notes("trajectory", inference, inference["standard_error"] <= _ALIKE, value),
        ),
        held_out=outside,
        **inference,
    )
    return result, fit.theta


def check_options(
    folds: int, resamples: int, rng: np.random.Generator | None
) -> np.random.Generator:
    """Check options and return the source of randomness."""
    rng = np.random.default_rng(0) if rng is None else rng
    if not isinstance(rng, np.random.Generator):
        raise InvalidParameterError(
            f"rng is {shown(rng)}, expected a generator: np.random.default_rng(seed)"
        )
    whole = isinstance(folds, int) and isinstance(resamples, int)
    if not whole or folds < 2 or resamples < 100:
        raise InvalidParameterError(
            f"folds is {shown(folds)} and resamples {shown(resamples)}, expected at least 2 and "
            f"100, both whole"
        )
    return rng


def sample_notes(
    noun: str, inference: dict[str, Any], alike: bool, value: float
) -> tuple[str, ...]:
    """Return what a reader of an estimate needs; `alike` if all observations say the same."""
    n, nouns = inference["n"], {"trajectory": "trajectories"}.get(noun, f"{noun}s")
    notes = []
    if n == 1:
        notes.append(f"one {noun} supports no interval and no held-out value")
    elif n < FEWEST:
        notes.append(f"fewer than {FEWEST} {nouns} support no interval: it is 0 to the maximum")
    elif alike:
        evidence = "the same evidence" if value > 0 else "no evidence"
        notes.append(
            f"every {noun} gives {evidence}, so there is no spread to judge by; kinds of "
            f"behaviour not seen in n {nouns} may still make up 3 / n of them, and the interval "
            f"says how far that many could mislead"
        )
    return tuple([*notes, FLOORED] if inference["unfloored"] < 0 else notes)
