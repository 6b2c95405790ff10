"""The divergence of two lists of answers in its most literal form, and all of its relabellings."""

from __future__ import annotations

import math
from itertools import combinations


def entropy(shares: list[float]) -> float:
    return -sum(share * math.log(share) for share in shares if share > 0)


def shares(answers: list[str], names: list[str]) -> list[float]:
    return [sum(answer == name for answer in answers) / len(answers) for name in names]


def divergence(first: list[str], second: list[str]) -> float:
    names = sorted({*first, *second})
    p, q = shares(first, names), shares(second, names)
    middle = [(a + b) / 2 for a, b in zip(p, q, strict=True)]
    return entropy(middle) - (entropy(p) + entropy(q)) / 2


def mean_over_relabellings(first: list[str], second: list[str]) -> float:
    pooled = first + second
    found = []
    for chosen in combinations(range(len(pooled)), len(first)):
        one = [pooled[i] for i in chosen]
        other = [pooled[i] for i in range(len(pooled)) if i not in chosen]
        found.append(divergence(one, other))
    return sum(found) / len(found)
