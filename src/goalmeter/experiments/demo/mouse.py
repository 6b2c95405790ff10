"""The paper's mouse as causal models, measured: what the demo's causal page shows."""

from __future__ import annotations

from typing import Any, NamedTuple

import goalmeter as gm
from goalmeter.causal import CausalBayesianNetwork
from goalmeter.meg.causal import CausalMeg, Interventions, Sensitivity

SIDES = ("left", "right")
OUTCOMES = ("cheese", "none")
# How often a mouse takes the side that it goes for.
POLICIES = {"cheese 8 times in 10": 0.8, "always cheese": 1.0, "random": 0.5}
TARGETS: tuple[tuple[str, ...], ...] = (("T",), ("S",), ("M",), ("S", "M"))
FOLLOWED = {"follows the cheese": "S", "follows the bell": "B"}
GOALS = {"cheese": "T", "bell": "R"}
WORLDS: dict[str, dict[str, object]] = {
    "bell moved": {"B": "left"},
    "both moved": {"S": "left"},
}


class Mouse(NamedTuple):
    """Everything that the page shows.

    Attributes:
        policies: name of the policy -> targets -> MEG in Example 1.
        one_step: every set of targets of Example 1, for the first policy.
        two_steps: single targets of Example 2.
        shifts: agent -> goal -> MEG in training and under interventions.
    """

    policies: dict[str, dict[tuple[str, ...], CausalMeg]]
    one_step: Sensitivity
    two_steps: Sensitivity
    shifts: dict[str, dict[str, Interventions]]

    def to_json(self) -> dict[str, Any]:
        """The numbers as JSON values."""
        return {
            "example_1": [
                {"policy": name} | result.to_json()
                for name, results in self.policies.items()
                for result in results.values()
            ],
            "sensitivity": self.one_step.to_json(),
            "example_2": self.two_steps.to_json(),
            "interventions": [
                {"agent": agent} | shifts.to_json()
                for agent, goals in self.shifts.items()
                for shifts in goals.values()
            ],
        }


def example_1(to_cheese: float) -> CausalBayesianNetwork:
    """The mouse that goes to the cheese with some probability, its position M written out.

    Source: MEG paper (NeurIPS 2024), Example 1 and Figure 1.
    """
    return CausalBayesianNetwork(
        {"S": SIDES, "D": SIDES, "M": SIDES, "T": OUTCOMES},
        {"D": ["S"], "M": ["D"], "T": ["S", "M"]},
        {
            "S": [0.5, 0.5],
            "D": [[to_cheese, 1 - to_cheese], [1 - to_cheese, to_cheese]],
            "M": lambda d: d,
            "T": lambda s, m: "cheese" if s == m else "none",
        },
        name="Example 1",
    )


def example_2(to_smell: float) -> CausalBayesianNetwork:
    """Two steps towards a cheese at one end of five squares, following the smell alone.

    A state S is the mouse's square, 0 to 4, and the side of the cheese.

    Source: MEG paper (NeurIPS 2024), Example 2 and Figure 2.
    """

    def states(squares: tuple[int, ...]) -> list[str]:
        return [f"{square} {side}" for square in squares for side in SIDES]

    def moved(state: str, step: str) -> str:
        square, side = state.split()
        return f"{int(square) + (1 if step == 'right' else -1)} {side}"

    def smelled(state: str) -> str:
        # Within two steps of the middle the cheese is on the side that it is at.
        return state.split()[1]

    follow = [[to_smell, 1 - to_smell], [1 - to_smell, to_smell]]
    return CausalBayesianNetwork(
        {
            **{"S1": states((2,)), "O1": SIDES, "D1": SIDES},
            **{"S2": states((1, 3)), "O2": SIDES, "D2": SIDES},
            **{"S3": states((0, 2, 4)), "U3": OUTCOMES},
        },
        {
            **{"O1": ["S1"], "D1": ["O1"], "S2": ["S1", "D1"]},
            **{"O2": ["S2"], "D2": ["O2"], "S3": ["S2", "D2"], "U3": ["S3"]},
        },
        {
            **{"S1": [0.5, 0.5], "O1": smelled, "D1": follow, "S2": moved},
            **{"O2": smelled, "D2": follow, "S3": moved},
            "U3": lambda s: "cheese" if s in ("0 left", "4 right") else "none",
        },
        name="Example 2",
    )


def bell(followed: str, often: float = 0.8) -> CausalBayesianNetwork:
    """In training a bell, B, rings where the cheese is; the mouse follows one of the two.

    T says whether the mouse ends at the cheese, R whether it ends at the bell.
    """
    place = ("S", "B").index(followed)
    return CausalBayesianNetwork(
        {"S": SIDES, "B": SIDES, "D": SIDES, "T": OUTCOMES, "R": ("bell", "none")},
        {"B": ["S"], "D": ["S", "B"], "T": ["S", "D"], "R": ["B", "D"]},
        {
            "S": [0.5, 0.5],
            "B": lambda s: s,
            "D": lambda *seen: {x: often if x == seen[place] else 1 - often for x in SIDES},
            "T": lambda s, d: "cheese" if s == d else "none",
            "R": lambda b, d: "bell" if b == d else "none",
        },
        name="The bell",
    )


def measure() -> Mouse:
    """Measure every model of the page."""
    policies = {
        name: {names: gm.meg.targets(example_1(p), ["D"], list(names)) for names in TARGETS}
        for name, p in POLICIES.items()
    }
    first = next(iter(POLICIES.values()))
    shifts = {
        agent: {
            goal: gm.meg.under_interventions(
                bell(followed), ["D"], list(WORLDS.values()), targets=[target]
            )
            for goal, target in GOALS.items()
        }
        for agent, followed in FOLLOWED.items()
    }
    return Mouse(
        policies,
        gm.meg.sensitivity(example_1(first), ["D"], up_to=2),
        gm.meg.sensitivity(example_2(first), ["D1", "D2"], up_to=1),
        shifts,
    )
