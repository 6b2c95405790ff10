"""Models of the paper on causal models that several tests measure."""

from __future__ import annotations

from goalmeter.causal import CausalBayesianNetwork
from goalmeter.demo.mouse import OUTCOMES, SIDES


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
