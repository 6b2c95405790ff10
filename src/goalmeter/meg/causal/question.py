"""What is asked of a causal model: which decisions, in which world, and what the graph says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from goalmeter._errors import InvalidModelError, InvalidParameterError
from goalmeter._names import listed
from goalmeter.causal.contexts import DecisionProcess, decision_process
from goalmeter.causal.diagram import InfluenceDiagram
from goalmeter.causal.network import CausalBayesianNetwork
from goalmeter.causal.recall import Recall, recall_of
from goalmeter.causal.utility import Utility

Model = CausalBayesianNetwork | InfluenceDiagram
Do = Mapping[str, object]


@dataclass(frozen=True)
class Question:
    """A checked question."""

    # The model under the intervention; its CPDs of the decisions are the policy.
    network: CausalBayesianNetwork
    decisions: tuple[str, ...]  # the candidate decisions
    utility: Utility | None  # the diagram's own, if the model is a diagram with utilities
    do: dict[str, object]  # the intervention

    def recall(self, scopes: Sequence[Sequence[str]]) -> Recall:
        """What the graph says about planning the decisions for factors with these variables."""
        return recall_of(self.network, self.decisions, scopes)

    def process(
        self,
        scopes: Sequence[Sequence[str]],
        recall: Recall,
        neutral: CausalBayesianNetwork | None = None,
    ) -> DecisionProcess:
        """The decisions as a process, for factors with these variables; recall is theirs."""
        return decision_process(self.network, self.decisions, scopes, neutral, recall)


def ask(model: Model, decisions: Sequence[str] | None, do: Do | None = None) -> Question:
    """Check the model, the decisions and the intervention."""
    if hasattr(model, "get_cpds"):
        # A pgmpy model; its class is not imported to ask.
        model = CausalBayesianNetwork.from_pgmpy(model)
    if isinstance(model, InfluenceDiagram):
        network = model.network
        utility = model.utility if model.utilities else None
        chosen = model.decisions if decisions is None else decisions
    elif isinstance(model, CausalBayesianNetwork):
        network, utility, chosen = model, None, () if decisions is None else decisions
    else:
        raise InvalidModelError(
            f"the model is {type(model).__name__}, expected a CausalBayesianNetwork, an "
            f"InfluenceDiagram or a pgmpy model; CausalBayesianNetwork.from_bif reads a file"
        )
    names = _each_once(network, chosen, "decision")
    if do is not None and not isinstance(do, Mapping):
        raise InvalidParameterError(
            f"an intervention is {do!r}, expected a mapping {{variable: state}}"
        )
    settings = dict(do or {})
    for x in settings:
        if x in names:
            raise InvalidParameterError(
                f"do sets the decision {x!r}, expected other variables: a decision that is set "
                f"is nobody's choice, so it says nothing about a goal"
            )
    return Question(network.do(settings) if settings else network, names, utility, settings)


def check_targets(question: Question, targets: Any) -> tuple[str, ...]:
    """The target variables as a tuple."""
    names = _each_once(question.network, targets, "target")
    for x in names:
        if x in question.decisions:
            raise InvalidParameterError(
                f"the target {x!r} is one of the decisions, expected other variables: with respect "
                f"to utilities of its own choices every deterministic policy is maximally "
                f"goal-directed, so the number would say nothing; name what the choice is for"
            )
    return names


def _each_once(network: CausalBayesianNetwork, names: Any, noun: str) -> tuple[str, ...]:
    checked = network.check_names(names, noun)
    if not checked or len(set(checked)) < len(checked):
        raise InvalidParameterError(
            f"{noun}s are {listed(checked) or 'missing'}, expected one or more, each of them once"
        )
    return checked


def target_name(names: Sequence[str]) -> str:
    """The class of all utilities over targets, in words."""
    return f"some utility over {listed(names)}"


def utility_name(utility: Utility) -> str:
    """A known utility, in words."""
    return f"the given utility over {listed(utility.variables)}"
