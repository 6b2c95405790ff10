"""The best model of a policy where decisions rely on each other in a circle, by search.

`joint_outcomes` makes the table that is searched over, `search` the search; how it works is in
this folder's README. Nothing else of the package is imported from outside it.
"""

from goalmeter.meg.causal.search.best_model import planned_evidence as planned_evidence
from goalmeter.meg.causal.search.best_model import search as search
from goalmeter.meg.causal.search.candidates import SearchResult as SearchResult
from goalmeter.meg.causal.search.outcomes import OutcomeTable as OutcomeTable
from goalmeter.meg.causal.search.outcomes import Policies as Policies
from goalmeter.meg.causal.search.outcomes import joint_outcomes as joint_outcomes

__all__ = [
    "OutcomeTable",
    "Policies",
    "SearchResult",
    "joint_outcomes",
    "planned_evidence",
    "search",
]
