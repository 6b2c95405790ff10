"""The search for maximum entropy policies where decisions rely on each other in a circle.

E[U] is then multilinear in the policies, b E[U] + H is not concave in them, and the maximum entropy
policies of Definition 3.1 are found numerically: by ascent from many starts and continuation along
the rationality (`supported`, `curve`), and, for utilities that no rationality supports, by holding
the utility (`held`).

A caution. A policy that is a *local* maximum of the entropy at its expected utility is not a
maximum entropy policy, and may predict the measured policy better than the true one does: in the
extreme, the measured policy itself. So candidates for the same rationality, or the same utility,
compete by objective first; only the winner's evidence counts, among equals the best; and the
final one is tried against fresh random starts. The value is a lower bound on MEG provided that the
optima that were found are global; `agreed` says how many random starts ended in the final one.

Source: MEG paper (NeurIPS 2024), Definitions 3.1, 3.2 and 4.4.
"""

from __future__ import annotations

import numpy as np

from goalmeter.meg.causal.search.ascent import prospects_of
from goalmeter.meg.causal.search.candidates import (
    PREFERENCE,
    Candidate,
    SearchResult,
    Task,
    near_measured,
    random_policies,
    stacked,
    unaffected,
)
from goalmeter.meg.causal.search.curve import Curve, Node
from goalmeter.meg.causal.search.frontier import (
    Gap,
    Held,
    Supported,
    gap_curve,
    gaps,
    supported_curve,
)
from goalmeter.meg.causal.search.held import ENTROPY_TIE, greatest_entropies
from goalmeter.meg.causal.search.outcomes import OutcomeTable, Policies
from goalmeter.meg.causal.search.supported import maximisers, objectives_of, slack

# A utility of which decisions can move less than this share is one that they do not influence.
_NO_SAY = 1e-12
_ROUNDS = 6


def search_known(
    table: OutcomeTable,
    measured: Policies,
    visits: Policies | None,
    restarts: int,
    rng: np.random.Generator,
) -> SearchResult:
    """`search` with respect to a known utility, whatever its unit and origin (Definition 3.2)."""
    assert table.features.shape[1] == 1, table.features.shape
    made = _task(table, measured, table.visits(measured) if visits is None else visits, rng)
    if made is None:
        return unaffected(table)
    task, unit, origin, scale = made
    family = Supported(task, rng, scale)
    curve = supported_curve(family, restarts)
    ceiling = float(task.evidence(measured))
    curve.sharpen(ceiling - PREFERENCE)
    best, agreed = _confirmed(family, curve, restarts)
    in_gap: Gap | None = None
    note = "a rationality supports it"
    # No model predicts better than the measured policy itself, so at the ceiling gaps are not
    # searched.
    if best.evidence < ceiling - PREFERENCE:
        for gap in gaps(curve):
            inside = gap_curve(task, gap, rng, restarts)
            inside.sharpen(ceiling - PREFERENCE)
            held, agreeing = _confirmed_inside(inside, restarts)
            if held is not None and held.evidence > best.evidence + PREFERENCE:
                best, agreed, in_gap = held, agreeing, gap
    rationality = best.rationality / unit
    if in_gap is not None:
        rationality = float("nan")
        low, high = (unit * c.utility + origin for c in (in_gap.low, in_gap.high))
        note = (
            f"the best model's expected utility is in a gap, {low:.6g} to {high:.6g}, that no "
            f"rationality attains"
        )
    value = max(best.evidence, 0.0)
    if value == 0.0:
        rationality = 0.0
    return SearchResult(
        value=value,
        rationality=rationality,
        utility=unit * best.utility + origin,
        entropy=best.entropy,
        policies=best.policies,
        agreed=agreed,
        starts=restarts,
        note=note,
    )


def _task(
    table: OutcomeTable, measured: Policies, visits: Policies, rng: np.random.Generator
) -> tuple[Task, float, float, float] | None:
    """The task, with its unit and origin of utility and a typical rationality; None if no say."""
    # Units are powers of two, so that a change of the utility's unit by one changes no digit.
    utility = table.features[:, 0]
    origin = 0.5 * float(utility.min() + utility.max())
    spread = float(np.ptp(utility))
    if spread == 0.0:
        return None
    unit = 2.0 ** np.ceil(np.log2(spread))
    visits = [v / v.sum() for v in visits]
    task = Task(table, (utility - origin) / unit, measured, visits)
    tries = random_policies(table, 32, rng)
    starts = stacked([tries, near_measured(table, measured)])
    ends = maximisers(task, [np.inf, -np.inf], [starts, starts])
    attained = [end.best[0].utility for end in ends]
    say = attained[0] - attained[1]
    if say <= _NO_SAY:
        return None
    factor = 2.0 ** np.ceil(np.log2(say))
    value = task.value / factor
    largest = 0.0
    for i in range(len(tries)):
        prospects = prospects_of(table, value[:, None], tries, i)
        seen = prospects.mass.min(axis=1) > 0
        largest = max(largest, float((np.ptp(prospects.paid, axis=1) * seen).max()))
    scaled = Task(table, value, measured, visits)
    # Powers of two for the same reason.
    return scaled, float(unit * factor), origin, float(2.0 ** -np.ceil(np.log2(largest)))


def _confirmed(family: Supported, curve: Curve, restarts: int) -> tuple[Candidate, int]:
    """The best candidate that fresh random starts do not better, and how many ended in it."""
    task = family.task
    enough = float(task.evidence(task.measured)) - PREFERENCE
    for _ in range(_ROUNDS):
        node = _preferred(curve)
        best = node.maximisers[0]
        fresh = random_policies(task.table, restarts, family.rng)
        (ends,) = maximisers(task, [node.at], [fresh])
        reached, fresh_reached = objectives_of(node.at, best, ends.best[0])
        if fresh_reached <= reached + slack(node.at):
            return best, ends.agreed if fresh_reached >= reached - 10 * slack(node.at) else 0
        curve.put(node.at, ends.best)
        curve.refine(0)
        curve.sharpen(enough)
    return _preferred(curve).maximisers[0], 0


def _preferred(curve: Curve) -> Node:
    """The best node; an end of the curve where it is as good."""
    best = curve.best()
    for end in (curve.nodes[0], curve.nodes[-1]):
        if end.evidence >= best.evidence - PREFERENCE:
            return end
    return best


def _confirmed_inside(curve: Curve, restarts: int) -> tuple[Candidate | None, int]:
    """The same inside a gap; None where nothing is better than its ends."""
    family = curve.family
    assert isinstance(family, Held)
    task = family.task
    enough = float(task.evidence(task.measured)) - PREFERENCE
    for _ in range(_ROUNDS):
        node = curve.best()
        if not node.maximisers or node.at in (curve.nodes[0].at, curve.nodes[-1].at):
            return None, 0
        best = node.maximisers[0]
        fresh = random_policies(task.table, restarts, family.rng)
        multipliers = np.full(restarts, family.rationality)
        (ends,) = greatest_entropies(task, [node.at], [(fresh, multipliers)])
        entropy = ends.best[0].entropy if ends.best else -np.inf
        if entropy <= best.entropy + ENTROPY_TIE:
            return best, ends.agreed if entropy >= best.entropy - 10 * ENTROPY_TIE else 0
        curve.put(node.at, ends.best)
        curve.refine(2)
        curve.sharpen(enough)
    return None, 0
