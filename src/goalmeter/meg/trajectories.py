"""Goal-directedness from logged trajectories, with an interval, a test and a held-out value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import ArrayLike, FloatArray
from goalmeter.meg.behaviour import reconciled, yardstick
from goalmeter.meg.inference import Inference, held_out, infer
from goalmeter.meg.likelihood import fit_class, fit_known
from goalmeter.meg.linear_utility import ACTION_WARNING, model_shares, normalised_utility
from goalmeter.meg.result import FLOORED, PESSIMISES, TrajectoryMeg
from goalmeter.meg.samples import Group, TrajectoriesLike, group_trajectories
from goalmeter.statistics.fitted import FEWEST
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.policies import normalised_notes

# Nats; a smaller standard error is one of rounding.
_ALIKE = 1e-9


def from_trajectories(
    mdp: TabularMDP | Sequence[TabularMDP],
    trajectories: TrajectoriesLike | Sequence[TrajectoriesLike],
    *,
    utility: ArrayLike | Sequence[ArrayLike] | None = None,
    unknown: str | ArrayLike | Sequence[ArrayLike] | None = None,
    reference: ArrayLike | None = None,
    confidence: float = 0.95,
    resamples: int = 2000,
    folds: int = 5,
    rng: np.random.Generator | None = None,
) -> TrajectoryMeg:
    """MEG of the policy behind logged trajectories, whose dynamics are known.

    Several MDPs with their trajectories may be given as lists: one rationality, or one weight
    vector, is then fitted to all of them, and values are averages over all trajectories.

    Args:
        mdp: the world, or a list of worlds.
        trajectories: `Trajectories`, or (states [N, L], actions [N, L][, length [N]]); a list
            of them for a list of worlds.
        utility: known utility as in `known_utility`; default each MDP's reward.
        unknown: None for the known utility; "state", "state-action" or "time-state" for all
            utilities of that kind; or features [S, D] or [S, A, D] for a linear class (a
            list of them, one a world, with the same D).
        reference: policy that scores 0; default uniform. One world only.
        confidence: nominal coverage of the interval.
        resamples: bootstrap samples.
        folds: parts that trajectories are split into for the held-out value.
        rng: source of randomness for resamples and folds; default seed 0.

    Returns:
        A `TrajectoryMeg`. Its `upper_bound` is the evidence that a model which knew every
        sampled frequency would score: no utility of any class can exceed it on these data.

    Raises:
        InvalidTrajectoryError: trajectories that the MDP cannot have produced.
        InvalidParameterError: options out of range or lists of different lengths.

    Source: MEG paper (NeurIPS 2024), section 3 (expectations replaced by averages); the
    correction is that of Takeuchi's information criterion, of which parameters / (2 n) is the
    well-specified case.
    """
    groups = group_trajectories(
        mdp, trajectories, utility=utility, unknown=unknown, reference=reference
    )
    result, _ = estimate(
        groups,
        known=unknown is None,
        confidence=confidence,
        resamples=resamples,
        folds=folds,
        rng=rng,
    )
    on_actions = any(g.utilities.on_actions for g in groups)
    warned = [ACTION_WARNING] if unknown is not None and on_actions else []
    return replace(
        result,
        reference="uniform policy" if reference is None else "given reference policy",
        notes=(*warned, *normalised_notes(reference=reference), *result.notes),
    )


def estimate(
    groups: Sequence[Group],
    *,
    known: bool,
    confidence: float,
    resamples: int,
    folds: int,
    rng: np.random.Generator | None,
) -> tuple[TrajectoryMeg, FloatArray]:
    """Fit one goal to groups of trajectories, and say what the sample supports; and its weights.

    `known` is whether the class is one known utility, whose rationality alone is fitted; the other
    options, and errors, are those of `from_trajectories`.
    """
    rng = check_options(folds, resamples, rng)
    sizes = [len(g.trajectories) for g in groups]
    n = sum(sizes)
    fitter = fit_known if known else fit_class
    weights = [np.full(size, 1.0 / n) for size in sizes]
    fit = fitter(groups, weights)
    measures = [
        yardstick(g.behaviour(w), g.log_reference, g.utilities.tells_apart())
        for g, w in zip(groups, weights, strict=True)
    ]
    maximum = sum(float(m.maximum[0]) for m in measures)
    # The ceiling of a sample is a model that knows every sampled frequency.
    ceiling = min(sum(float(m.ceiling[0]) for m in measures), maximum)
    inference = infer(
        groups, fit, weights, confidence=confidence, resamples=resamples, rng=rng, maximum=maximum
    )
    outside = held_out(groups, fitter, folds=min(folds, n), rng=rng)
    value = max(fit.value, 0.0)
    shares = [
        model_shares(m, g.behaviour(w)) for g, m, w in zip(groups, fit.models, weights, strict=True)
    ]
    utilities = groups[0].utilities
    if known:
        rationality, utility = float(fit.theta[0]) / utilities.unit, None
        method = "maximum likelihood in the rationality"
    else:
        utility, rationality = normalised_utility(utilities, fit.theta)
        # A class whose best weights are all 0 diverges nowhere.
        rationality = float("inf") if fit.infinite and rationality else rationality
        method = "maximum likelihood in the weights (a local maximum)"
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
        by_step=_padded_sum([s[0] for s in shares]),
        by_state=shares[0][1] if single else np.zeros(0),
        utility=utility if single else None,
        notes=_notes(n, value, rationality, inference),
        n=n,
        held_out=outside,
        **inference._asdict(),
    )
    return result, fit.theta


def check_options(
    folds: int, resamples: int, rng: np.random.Generator | None
) -> np.random.Generator:
    """The source of randomness; raises `InvalidParameterError` if an option is out of range."""
    rng = np.random.default_rng(0) if rng is None else rng
    if not isinstance(rng, np.random.Generator):
        raise InvalidParameterError(
            f"rng is {rng!r}, expected a generator: np.random.default_rng(seed)"
        )
    whole = isinstance(folds, int) and isinstance(resamples, int)
    if not whole or folds < 2 or resamples < 100:
        raise InvalidParameterError(
            f"folds is {folds} and resamples {resamples}, expected at least 2 and 100, both whole"
        )
    return rng


def _notes(n: int, value: float, rationality: float, inference: Inference) -> tuple[str, ...]:
    notes = [PESSIMISES] if rationality < 0 else []
    if n == 1:
        notes.append("one trajectory supports no interval and no held-out value")
    elif n < FEWEST:
        notes.append(
            f"fewer than {FEWEST} trajectories support no interval: it is 0 to the maximum"
        )
    elif inference.standard_error <= _ALIKE:
        evidence = "the same evidence" if value > 0 else "no evidence"
        notes.append(
            f"every trajectory gives {evidence}, so there is no spread to judge by; kinds of "
            f"behaviour not seen in n trajectories may still make up 3 / n of them, and the "
            f"interval says how far that many could mislead"
        )
    return tuple([*notes, FLOORED] if inference.unfloored < 0 else notes)


def _padded_sum(parts: list[FloatArray]) -> FloatArray:
    out = np.zeros(max(len(p) for p in parts))
    for part in parts:
        out[: len(part)] += part
    return out
