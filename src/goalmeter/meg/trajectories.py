"""Goal-directedness from logged trajectories, with an interval, a test and a held-out value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import ArrayLike, FloatArray
from goalmeter.meg.behaviour import Yardstick, yardstick
from goalmeter.meg.inference import Inference, held_out, infer
from goalmeter.meg.likelihood import Fit, fit_class, fit_known
from goalmeter.meg.linear_utility import ACTION_WARNING, model_shares, normalised_utility
from goalmeter.meg.result import PESSIMISES, MegResult
from goalmeter.meg.samples import Group
from goalmeter.meg.utility_class import LinearClass, Over, linear_class
from goalmeter.report.numbers import general, nats, number, percent
from goalmeter.statistics.bootstrap import FEWEST
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.planning import log_policy
from goalmeter.tabular.policies import normalised_notes
from goalmeter.tabular.rewards import check_resolved, rewards_of
from goalmeter.tabular.trajectories import Trajectories, check_trajectories

TrajectoriesLike = (
    Trajectories | tuple[ArrayLike, ArrayLike] | tuple[ArrayLike, ArrayLike, ArrayLike]
)

# What is said where the correction for bias would have led below 0.
FLOORED = (
    "the estimate less its bias is below 0 and is given as 0, which MEG cannot fall below: over "
    "small true values such estimates are too high on average; `unfloored` has no floor"
)
# Nats; a smaller standard error is one of rounding.
_ALIKE = 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class TrajectoryMeg(MegResult):
    """MEG estimated from trajectories: `value` is the maximised sample average (`raw`).

    Attributes:
        n: number of trajectories.
        corrected: `raw` less its first-order bias, nats; the estimate to quote. MEG is not
            negative, so neither is this: where the bias is the larger one, it is 0. That makes it
            too high on average over small true values.
        unfloored: the same without that floor, nats; to average over many estimates.
        standard_error: of `corrected`, nats.
        interval: bootstrap interval over trajectories for the behaviour's MEG, nats; with that of
            Student's t for fewer than ten, and as far as that many may mislead where all give the
            same evidence. Of fewer than five it is 0 to the maximum.
        confidence: nominal coverage of the interval.
        likelihood_ratio: 2 n raw, the statistic of the test of rationality 0.
        degrees_of_freedom: of that test's chi-square.
        p_value: probability of so large a statistic if actions were drawn from the reference.
        held_out: cross-fitted evidence, nats a trajectory: each trajectory is scored by the
            model fitted to the others, mixed with one part in (decisions fitted + 1) of the
            reference. What the fitted goal predicts of trajectories it has not seen: far below
            `raw`, or below 0, where a rich class only overfits; NaN for a single trajectory.
    """

    # What one observation is called in a table; a subclass may count something else.
    _COUNTED = "trajectories"

    n: int
    corrected: float
    unfloored: float
    standard_error: float
    interval: tuple[float, float]
    confidence: float
    likelihood_ratio: float
    degrees_of_freedom: float
    p_value: float
    held_out: float

    @property
    def _floor(self) -> str:
        """In words, where the correction would have led below 0."""
        return "" if self.unfloored >= 0 else f" (0 for {self.unfloored:.3g})"

    @property
    def raw(self) -> float:
        """The maximised sample average, nats a trajectory; biased upwards."""
        return self.value

    def headline(self) -> list[tuple[str, str]]:
        """The estimate with its interval, its test, and what was observed."""
        low, high = self.interval
        return [
            ("MEG, estimate", f"{nats(self.corrected)} nats"),
            *(
                [("the same without a floor at 0", f"{number(self.unfloored, 4)} nats")]
                if self.unfloored < 0
                else []
            ),
            (f"{percent(self.confidence, 0)} interval", f"{nats(low)} to {nats(high)} nats"),
            (self._COUNTED, str(self.n)),
            ("held out", f"{number(self.held_out, 4)} nats"),
            ("p, against the reference", general(self.p_value, 3)),
            ("sample average, biased upwards", f"{nats(self.value)} nats"),
        ]

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return super().to_json() | {
            "n": self.n,
            "raw": self.raw,
            "corrected": self.corrected,
            "unfloored": self.unfloored,
            "standard_error": self.standard_error,
            "interval": list(self.interval),
            "confidence": self.confidence,
            "likelihood_ratio": self.likelihood_ratio,
            "degrees_of_freedom": self.degrees_of_freedom,
            "p_value": self.p_value,
            "held_out": self.held_out,
        }

    def __str__(self) -> str:
        low, high = self.interval
        lines = [
            f"MEG {self.raw:.6g} nats raw, {self.corrected:.6g} corrected for bias{self._floor}, "
            f"{self.confidence:.0%} interval [{low:.6g}, {high:.6g}]",
            f"  from {self.n} trajectories; raw is {percent(self.fraction)} of "
            f"{self.maximum:.6g}; held out {self.held_out:.6g}",
            f"  towards {self.target}, against the {self.reference}",
            f"  test of rationality 0: p = {self.p_value:.3g} "
            f"(likelihood ratio {self.likelihood_ratio:.4g}, {self.degrees_of_freedom:.3g} df)",
            f"  rationality {self.rationality:.6g}; {self.method}",
            *(f"  note: {note}" for note in self.notes),
        ]
        return "\n".join(lines)


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
    found, _ = estimate(
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
        found,
        reference="uniform policy" if reference is None else "given reference policy",
        notes=(*warned, *normalised_notes(reference=reference), *found.notes),
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

    Args:
        groups: worlds with their logs and a class of utilities each.
        known: whether the class is one known utility, whose rationality alone is fitted.
        confidence: as in `from_trajectories`, like the rest.
        resamples: bootstrap samples.
        folds: parts for the held-out value.
        rng: source of randomness; default seed 0.

    Raises:
        InvalidParameterError: options out of range.
    """
    rng = check_options(folds, resamples, rng)
    sizes = [len(g.trajectories) for g in groups]
    n = sum(sizes)
    fitter = fit_known if known else fit_class
    weights = [np.full(size, 1.0 / n) for size in sizes]
    fit = fitter(groups, weights)
    inference = infer(
        groups,
        fit,
        weights,
        confidence=confidence,
        resamples=resamples,
        rng=rng,
        maximum=sum(float(m.maximum[0]) for m in _yardsticks(groups, weights)),
    )
    outside = held_out(groups, fitter, folds=min(folds, n), rng=rng)
    return _result(groups, weights, fit, inference, outside, known), fit.theta


def check_options(
    folds: int, resamples: int, rng: np.random.Generator | None
) -> np.random.Generator:
    """The source of randomness, once the options of an estimate are found to be in range.

    Raises:
        InvalidParameterError: options out of range.
    """
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
    groups = [
        Group(
            world,
            check_trajectories(world, _as_trajectories(log)),
            classes,
            None if reference is None else log_policy(world, reference, "reference"),
        )
        for world, log, classes in zip(
            worlds, logs, _classes(worlds, utility, unknown, many), strict=True
        )
    ]
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
    given = utility if unknown is None else unknown
    each = list(given) if many and given is not None else [given] * len(worlds)
    if len(each) != len(worlds):
        raise InvalidParameterError(
            f"got {len(worlds)} MDPs and {len(each)} utilities or feature matrices, expected one "
            f"for each MDP"
        )
    if unknown is not None:
        return [linear_class(world, features) for world, features in zip(worlds, each, strict=True)]
    name = "the reward" if utility is None else "the given utility"
    utilities = [rewards_of(world, own) for world, own in zip(worlds, each, strict=True)]
    for every in utilities:
        check_resolved(every)
    pairs = [every.normalised() for every in utilities]
    # One rationality for all worlds takes one unit for all.
    unit = max(float(own[0]) for _, own in pairs)
    return [
        LinearClass(
            rewards.array.shape[:3],
            rewards.array.reshape(-1, 1) * (float(own[0]) / unit),
            rewards.discount,
            name,
            unit,
        )
        for rewards, own in pairs
    ]


def _result(
    groups: Sequence[Group],
    weights: list[FloatArray],
    fit: Fit,
    inference: Inference,
    outside: float,
    known: bool,
) -> TrajectoryMeg:
    measures = _yardsticks(groups, weights)
    value = max(fit.value, 0.0)
    shares = [
        model_shares(m, g.behaviour(w)) for g, m, w in zip(groups, fit.models, weights, strict=True)
    ]
    maximum = sum(float(m.maximum[0]) for m in measures)
    ceiling = min(sum(float(m.ceiling[0]) for m in measures), maximum)
    single = len(groups) == 1
    if known:
        rationality = float(fit.theta[0]) / groups[0].utilities.unit
        found = None
        method = "maximum likelihood in the rationality"
    else:
        found, rationality = normalised_utility(groups[0].utilities, fit.theta)
        rationality = float("inf") if fit.infinite and rationality else rationality
        method = "maximum likelihood in the weights (a local maximum)"
    notes = []
    if rationality < 0:
        notes.append(PESSIMISES)
    count = sum(len(g.trajectories) for g in groups)
    if count == 1:
        notes.append("one trajectory supports no interval and no held-out value")
    elif count < FEWEST:
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
    if inference.unfloored < 0:
        notes.append(FLOORED)
    return TrajectoryMeg(
        value=min(value, maximum),
        upper_bound=min(max(ceiling, value), maximum),
        maximum=maximum,
        ceiling=ceiling,
        rationality=rationality,
        target=groups[0].utilities.name,
        method=method,
        tolerance=1e-6,
        by_step=_padded_sum([s[0] for s in shares]),
        by_state=shares[0][1] if single else np.zeros(0),
        utility=found if single else None,
        notes=tuple(notes),
        n=count,
        held_out=outside,
        **inference._asdict(),
    )


def _yardsticks(groups: Sequence[Group], weights: Sequence[FloatArray]) -> list[Yardstick]:
    return [
        yardstick(g.behaviour(w), g.log_reference, g.utilities.tells_apart())
        for g, w in zip(groups, weights, strict=True)
    ]


def _padded_sum(parts: list[FloatArray]) -> FloatArray:
    out = np.zeros(max(len(p) for p in parts))
    for part in parts:
        out[: len(part)] += part
    return out
