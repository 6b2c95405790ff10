"""What a search keeps: policies that maximise something, and what they predict of the measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.meg.causal.search.outcomes import OutcomeTable, Policies

# Policies whose probabilities are all this close are the same ones.
SAME = 1e-5
# Objectives that differ by less than this, in nats, are equally good.
TIE_NATS = 1e-9
# Maximisers kept of one objective; with more than this many equal ones, the best predictors stay.
_KEPT = 8
# Numbers in one pass over a batch; beyond, it is done in pieces.
_BATCH = 2**21


@dataclass(frozen=True, eq=False)
class Candidate:
    """Policies that maximise an objective, as far as the search can tell."""

    policies: Policies  # [C, A] each
    rationality: float  # b at which they are stationary; in the task's unit
    utility: float  # E[U], in the task's unit
    entropy: float  # H, nats
    evidence: float  # of the measured policy for them, nats


@dataclass(frozen=True, eq=False)
class Task:
    """A utility in a unit in which it varies by about 1, and the policy that is to be predicted."""

    table: OutcomeTable
    value: FloatArray  # the utility of each row, [R]
    measured: Policies  # the policy, [C, A] each
    visits: Policies  # how often it comes by each context and action, [C, A] each

    def evidence(self, policies: Policies) -> FloatArray:
        """Of the measured policy for models [C, A(, B)] each, nats, [] or [B]."""
        return evidence_of(self.table, self.visits, policies)

    def distance(self, first: Candidate, second: Candidate) -> float:
        """By how much two models differ where the measured policy goes, in decisions."""
        total = 0.0
        for visits, p, q in zip(self.visits, first.policies, second.policies, strict=True):
            total += float(visits.sum(axis=1) @ np.abs(p - q).sum(axis=1)) / 2
        return total

    def batch(self) -> int:
        """How many columns to work on at once."""
        return max(1, _BATCH // self.table.n_rows)


def evidence_of(table: OutcomeTable, visits: Policies, policies: Policies) -> FloatArray:
    """E[sum_i log model_i + log|dom D_i|] over visits [C, A], for models [C, A(, B)]; nats."""
    total = np.zeros(policies[0].shape[2:])
    for terms in table.log_ratios(visits, policies):
        total = total + terms.sum(axis=(0, 1))
    return total


def random_policies(table: OutcomeTable, n: int, rng: np.random.Generator) -> Policies:
    """N starts, [C, A, n] each: logits of all sizes, from nearly uniform to nearly certain."""
    # Maximisers range from nearly uniform (small b) to nearly certain, and so do starts.
    size = np.exp(rng.uniform(np.log(0.1), np.log(10.0), size=n))
    out = []
    for c, a in zip(table.contexts, table.actions, strict=True):
        logits = size * rng.standard_normal((c, a, n))
        policy = np.exp(logits - logits.max(axis=1, keepdims=True))
        out.append(policy / policy.sum(axis=1, keepdims=True))
    return out


def near_measured(table: OutcomeTable, measured: Policies) -> Policies:
    """Starts [C, A, 4] on the way from the measured policy to the uniform one.

    Where several sets of policies are equally good (agents that must agree, on whatever), the one
    that predicts the measured policy best is the one that is looked for.
    """
    shares = np.array([0.02, 0.2, 0.6, 0.95])
    return [
        (1 - shares) * p[..., None] + shares / a
        for p, a in zip(measured, table.actions, strict=True)
    ]


def stacked(parts: Sequence[Policies]) -> Policies:
    """Policies [C, A] or [C, A, n] each, side by side: [C, A, total]."""
    return [
        np.concatenate([p if p.ndim == 3 else p[..., None] for p in column], axis=2)
        for column in zip(*parts, strict=True)
    ]


def repeated(policies: Policies, times: int) -> Policies:
    """Columns repeated as a whole: [C, A, n] to [C, A, times * n]."""
    return [np.tile(p, (1, 1, times)) for p in policies]


def column(policies: Policies, i: int) -> Policies:
    """One column, [C, A] each."""
    return [np.ascontiguousarray(p[..., i]) for p in policies]


def distinct(policies: Policies, order: Sequence[int]) -> list[int]:
    """The columns, in an order, less those that repeat an earlier one."""
    flat = np.concatenate([p.reshape(-1, p.shape[-1]) for p in policies])
    kept: list[int] = []
    for i in order:
        if not kept or np.abs(flat[:, kept] - flat[:, [i]]).max(axis=0).min() > SAME:
            kept.append(i)
    return kept


def best_of(
    candidates: list[Candidate], objective: Sequence[float], slack: float
) -> list[Candidate]:
    """Those that maximise an objective up to slack, the best predictor first, no two the same."""
    top = max(objective)
    ties = [c for c, value in zip(candidates, objective, strict=True) if value >= top - slack]
    # Definition 3.2 takes the best predictor among equally good policies.
    ties.sort(key=lambda c: -c.evidence)
    pool = stacked([c.policies for c in ties])
    return [ties[i] for i in distinct(pool, range(len(ties)))][:_KEPT]


# An infinite rationality is preferred to a finite one that is better by less, nats; and a
# rationality to a gap.
PREFERENCE = 1e-9


@dataclass(frozen=True, eq=False)
class SearchResult:
    """What a search found."""

    value: float  # evidence of the best model, nats, never below 0 (the uniform model is one)
    # b of the best model, in 1 / units of the utility; infinite where it only maximises or
    # minimises; NaN where its expected utility is in a gap, one that no rationality attains.
    rationality: float
    utility: float  # E[U] of the best model, in units of the utility
    entropy: float  # its causal entropy, nats
    policies: Policies  # it, [C, A] for each decision
    # Of the random starts that the result was tried on at the end, how many ended in it or in one
    # that is as good.
    agreed: int
    starts: int  # how many there were
    note: str  # what to know of it, in a sentence
    # For targets, the utility of each joint state, from -1 to 1; NaN for those that the decisions
    # have no say in.
    weights: FloatArray | None = None
    # How many coordinates of the utility were fitted: of those that choices can tell apart, the
    # rationality included.
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
