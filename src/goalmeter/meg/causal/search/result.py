"""`SearchResult`: the best model of a measured policy that a search found."""

from __future__ import annotations

from dataclasses import dataclass

from goalmeter._types import FloatArray
from goalmeter.meg.causal.search.outcomes import OutcomeTable, Policies

# An infinite rationality is preferred to a finite one that is better by less, nats; and a
# rationality to a gap.
PREFERENCE = 1e-9


@dataclass(frozen=True, eq=False)
class SearchResult:
    """What a search found.

    Attributes:
        value: evidence of the best model, nats, never below 0 (the uniform model is one).
        rationality: b of the best model, in 1 / units of the utility; infinite where it only
            maximises or minimises; NaN where its expected utility is in a gap, one that no
            rationality attains.
        utility: E[U] of the best model, in units of the utility.
        entropy: its causal entropy, nats.
        policies: it, [C, A] for each decision.
        agreed: of the random starts that the result was tried on at the end, how many ended in
            it or in one that is as good.
        starts: how many there were.
        note: what to know of it, in a sentence.
        weights: for targets, the utility of each joint state, from -1 to 1; NaN for those that the
            decisions have no say in.
        rank: how many coordinates of the utility were fitted: of those that choices can tell
            apart, the rationality included.
    """

    value: float
    rationality: float
    utility: float
    entropy: float
    policies: Policies
    agreed: int
    starts: int
    note: str
    weights: FloatArray | None = None
    rank: int = 1


def unaffected(table: OutcomeTable) -> SearchResult:
    """The result where the decisions have no say in the utility: only the uniform model."""
    uniform = table.uniform()
    return SearchResult(
        value=0.0,
        rationality=0.0,
        utility=float(table.expected(uniform)[0]),
        entropy=float(table.entropy(uniform)),
        policies=uniform,
        agreed=0,
        starts=0,
        note="the decisions have no say in the utility",
        rank=0,
    )
