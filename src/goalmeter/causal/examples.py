"""Example models: the mouse of the MEG paper, and a mouse that hears a bell."""

from __future__ import annotations

from goalmeter.causal.network import CausalBayesianNetwork

SIDES = ("left", "right")
OUTCOMES = ("cheese", "none")
OFTEN = 0.8  # probability with which a mouse takes the side that it goes for


def example_1(to_cheese: float) -> CausalBayesianNetwork:
    """The mouse of the MEG paper's Example 1 and Figure 1, its position M written out."""
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


def bell(followed: str, often: float = OFTEN) -> CausalBayesianNetwork:
    """In training a bell, B, rings where the cheese is; the mouse ends at cheese (T), bell (R)."""
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
