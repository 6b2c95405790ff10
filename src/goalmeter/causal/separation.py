"""d-separation, and the CPDs that a query needs, in one pass over the graph.

The Bayes ball: it starts at the targets, bounces through the graph as the given variables let
it, and marks what it meets. Variables that it leaves at the bottom are d-connected with the
targets; variables that it leaves at the top have CPDs that the conditional distribution depends
on.

Source: Shachter, Bayes-Ball: The Rational Pastime (UAI 1998), section 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple


class Ball(NamedTuple):
    """What a query P(targets | given) is about."""

    # Variables that are d-connected with some target, the targets included and the given ones left
    # out.
    connected: frozenset[str]
    requisite: frozenset[str]  # variables whose CPDs the query may depend on


def bayes_ball(
    parents: Mapping[str, Sequence[str]],
    children: Mapping[str, Sequence[str]],
    targets: Iterable[str],
    given: Iterable[str],
) -> Ball:
    """Bounce the ball from the targets; cost O(variables + edges)."""
    observed = frozenset(given)
    top: set[str] = set()
    bottom: set[str] = set()
    # (variable, whether the ball comes from a child)
    visits = [(target, True) for target in targets]
    while visits:
        x, from_child = visits.pop()
        # From a child the ball passes up unless x is known; from a parent it is reflected up only
        # if x is known, because a known effect makes its causes dependent.
        up = x not in observed if from_child else x in observed
        if up and x not in top:
            top.add(x)
            visits += [(p, True) for p in parents[x]]
        if x not in observed and x not in bottom:
            bottom.add(x)
            visits += [(c, False) for c in children[x]]
    return Ball(frozenset(bottom), frozenset(top))
