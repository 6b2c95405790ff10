"""A goal that was fitted in one world, planned for and scored in another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.causal.contexts import DecisionProcess
from goalmeter.meg.behaviour import behaviour_of
from goalmeter.meg.soft_model import SoftModel
from goalmeter.meg.utility_class import LinearClass

# Actions that give up no more than this of a diverging utility are optimal for it.
_TIE = 1e-8


@dataclass(frozen=True)
class Hypothesis:
    """A goal as it was fitted: weights, and the directions that diverge before them."""

    weights: FloatArray
    directions: list[FloatArray]

    def planned(self, process: DecisionProcess, utilities: LinearClass) -> SoftModel:
        """What an agent with this goal would do in a world."""
        model = SoftModel(process.mdp, utilities, self.weights, process.log_uniform)
        for direction in self.directions:
            model = model.confined(model.regrets(direction / np.abs(direction).max()) <= _TIE)
        return model


def one_weight(rationality: float) -> Hypothesis:
    """A known utility with its rationality as a class of one weight."""
    if np.isinf(rationality):
        return Hypothesis(np.zeros(1), [np.sign([rationality])])
    return Hypothesis(np.array([rationality]), [])


def score_of(process: DecisionProcess, model: SoftModel) -> float:
    """Evidence of the measured policy for a model, nats."""
    return model.evidence(behaviour_of(process.mdp, [process.policy()]))
