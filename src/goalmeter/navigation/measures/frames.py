"""The same task in another frame: does the agent do as well, and does it do the same?

Pairs are grids. The published test asks whether a difference is significant, and reads "no" as "the
same"; the equivalence test asks whether it is shown to be smaller than a margin. Both are corrected
for the number of frames (Holm).

An isometry should not change what is done either, once the actions are relabelled; how often it
does not is in `agreement`.

Source: "A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
Agents", section 4.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from goalmeter._errors import InvalidTrajectoryError
from goalmeter._json import JsonFields
from goalmeter._types import FloatArray
from goalmeter.gridworld.transforms import TRANSFORMS
from goalmeter.navigation.measures.agreement import agreements
from goalmeter.navigation.measures.grids import DIFFERENCE, Grids
from goalmeter.navigation.measures.observed import Observed, observed
from goalmeter.navigation.record import Trajectory
from goalmeter.statistics.clustered import Estimate, estimate
from goalmeter.statistics.paired import Equivalence, SignedRanks, equivalence, holm, signed_ranks

METRICS = ("success", "accuracy", "spl")
MARGIN = 0.05


@dataclass(frozen=True)
class Comparison(JsonFields):
    """One metric in a frame against the original, over pairs of grids.

    Attributes:
        metric: "success", "accuracy" or "spl".
        base: mean over grids of the original.
        changed: mean in the frame.
        difference: changed less base.
        test: Wilcoxon's, as published.
        test_corrected: its p-value, corrected for the number of frames.
        equivalence: the test that they are the same to within the margin.
        equivalence_corrected: its p-value, corrected.
    """

    metric: str
    base: float
    changed: float
    difference: Estimate
    test: SignedRanks
    test_corrected: float
    equivalence: Equivalence
    equivalence_corrected: float


@dataclass(frozen=True)
class Frame(JsonFields):
    """One frame against the original.

    Attributes:
        transform: its name.
        isometry: whether nothing but labels changes.
        pairs: grids in both.
        comparisons: one for each metric.
        agreement: of relabelled answers; None unless an isometry.
        self_agreement: within each frame.
        shortfall: self_agreement less agreement.
    """

    transform: str
    isometry: bool
    pairs: int
    comparisons: tuple[Comparison, ...]
    agreement: Estimate | None
    self_agreement: Estimate | None
    shortfall: Estimate | None


@dataclass(frozen=True)
class Frames(JsonFields):
    """Every frame of a suite.

    Attributes:
        margin: within which means count as equal, in shares.
        frames: one for each transform.
    """

    margin: float
    frames: tuple[Frame, ...]


def frames(
    trajectories: Sequence[Trajectory] | Observed,
    *,
    margin: float = MARGIN,
    confidence: float = 0.95,
) -> Frames:
    """Compare every frame with the original.

    Args:
        trajectories: of the original grids and of the same grids in other frames.
        margin: of the equivalence tests, as a share: 0.05 is five points of accuracy.
        confidence: nominal coverage of intervals; tests are at 5%.

    Raises:
        InvalidTrajectoryError: there is no frame beside the original, or a frame none of whose
            grids was walked through in the original.
    """
    seen = observed(trajectories)
    names = list(dict.fromkeys(kind.transform for kind in seen.kinds))
    if None not in names or len(names) == 1:
        listed = ", ".join("the original" if name is None else name for name in names)
        raise InvalidTrajectoryError(
            f"the trajectories are in {listed}; expected the original and at least one other frame"
        )
    means = {name: _means(seen, name) for name in names}
    changed = [name for name in names if name is not None]
    compared = {
        name: _compared(means[None], means[name], name, margin, confidence) for name in changed
    }
    for metric in range(len(METRICS)):
        column = [compared[name][metric] for name in changed]
        published = holm([c.test.p_value for c in column])
        equal = holm([c.equivalence.p_value for c in column])
        for name, published_p, equal_p in zip(changed, published, equal, strict=True):
            compared[name][metric] = replace(
                compared[name][metric], test_corrected=published_p, equivalence_corrected=equal_p
            )
    return Frames(
        margin,
        tuple(
            Frame(
                name,
                TRANSFORMS[name].isometry,
                len(means[None].keys() & means[name].keys()),
                tuple(compared[name]),
                *agreements(seen, TRANSFORMS[name], confidence),
            )
            for name in changed
        ),
    )


def _means(seen: Observed, transform: str | None) -> dict[int, FloatArray]:
    """The metrics of each grid in a frame, means over its walks."""
    wanted = [number for number, kind in enumerate(seen.kinds) if kind.transform == transform]
    of_frame = seen.where(np.isin(seen.kind, wanted))
    grids = Grids(of_frame, 0.95)
    walked = of_frame.length > 0
    success = grids.means(grids.cluster, of_frame.arrived.astype(float))[0]
    accuracy, known = grids.means(grids.cluster[walked], of_frame.accuracy[walked])
    # A grid on whose walks nothing was decided has no accuracy.
    accuracy = np.where(known > 0, accuracy, np.nan)
    columns = np.stack([success, accuracy, grids.means(grids.cluster, of_frame.spl)[0]], axis=1)
    return {int(grid): values for grid, values in zip(grids.numbers, columns, strict=True)}


def _compared(
    base: dict[int, FloatArray],
    changed: dict[int, FloatArray],
    name: str,
    margin: float,
    confidence: float,
) -> list[Comparison]:
    pairs = sorted(base.keys() & changed.keys())
    if not pairs:
        raise InvalidTrajectoryError(
            f"none of the grids in the frame {name!r} was walked through in the original"
        )
    original = np.array([base[pair] for pair in pairs])
    turned = np.array([changed[pair] for pair in pairs])
    out = []
    for column, metric in enumerate(METRICS):
        known = ~np.isnan(original[:, column] + turned[:, column])
        before, after = original[known, column], turned[known, column]
        # Rounding must not make a difference of two equal means.
        difference = np.round(after - before, 12)
        out.append(
            Comparison(
                metric,
                estimate(before).value,
                estimate(after).value,
                estimate(difference, confidence=confidence, bounds=DIFFERENCE, paired=True),
                signed_ranks(difference),
                float("nan"),
                equivalence(difference, margin, bounds=DIFFERENCE),
                float("nan"),
            )
        )
    return out
