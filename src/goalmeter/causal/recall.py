"""Which decisions must be made with which others in mind, and whether backward induction is exact.

Decision D relies on decision D' if the best policy of D may depend on the policy of D': if a cause
of D' alone, a dummy parent, is not d-separated from the utility that D can influence, given D and
what D observes. If no decisions rely on each other in a circle (sufficient recall), the decisions
can be planned one after the other. MDPs have sufficient recall, and so has every agent that
remembers what it saw and did; an agent that forgets, or a team whose members do not see each
other, has not.

Source: Koller and Milch, Multi-agent influence diagrams (2003), s-reachability; Lauritzen and
Nilsson, Representing and solving decision problems with limited information (2001). That soft
planning needs no more than hard planning: see docs/mathematics.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Literal, NamedTuple

from goalmeter.causal.network import CausalBayesianNetwork
from goalmeter.causal.separation import bayes_ball

Kind = Literal["none", "single", "sufficient", "insufficient"]


class Recall(NamedTuple):
    """What the graph says about planning a set of decisions for a utility."""

    # "none" if no decision influences the utility, "single" if one does, "sufficient" or
    # "insufficient" recall if several do.
    kind: Kind
    decisions: tuple[str, ...]  # those that influence the utility, causes first
    reliance: dict[str, tuple[str, ...]]  # decision -> the others that it relies on
    # Decisions that rely on each other in a circle, each once; empty but for "insufficient".
    circle: tuple[str, ...]


def recall_of(
    network: CausalBayesianNetwork, decisions: Sequence[str], scopes: Sequence[Sequence[str]]
) -> Recall:
    """Read off the graph how decisions can be planned.

    `scopes` are the variables that each additive factor of the utility reads.
    """
    below = {d: network.descendants(d) | {d} for d in decisions}
    acting = tuple(
        d
        for d in sorted(decisions, key=network.order.index)
        if any(below[d].intersection(scope) for scope in scopes)
    )
    parents = {x: network.parents(x) for x in network.variables}
    children = {x: network.children(x) for x in network.variables}
    reliance: dict[str, tuple[str, ...]] = {}
    for d in acting:
        # A factor that the decision cannot influence is a constant to it, whatever others do.
        influenced = {x for scope in scopes if below[d].intersection(scope) for x in scope}
        # A decision whose policy the query may depend on is one that this decision relies on.
        ball = bayes_ball(parents, children, influenced, (d, *parents[d]))
        reliance[d] = tuple(e for e in acting if e != d and e in ball.requisite)
    if len(acting) < 2:
        return Recall("single" if acting else "none", acting, reliance, ())
    try:
        TopologicalSorter(reliance).prepare()
    except CycleError as error:
        # The first of the circle is its last again.
        circle = tuple(reversed(error.args[1]))[:-1]
        return Recall("insufficient", acting, reliance, circle)
    return Recall("sufficient", acting, reliance, ())
