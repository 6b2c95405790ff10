"""The paper's mouse as causal models: measurements and the demo's page on causal models."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import goalmeter as gm
from goalmeter.causal import CausalBayesianNetwork
from goalmeter.meg.causal import Interventions, Sensitivity
from goalmeter.pages.meg import THEOREM_NOTE, intervention_table, sensitivity_table
from goalmeter.pages.part import Part
from goalmeter.report import Figure, Finding, Link, Section
from goalmeter.report.numbers import nats

SIDES = ("left", "right")
OUTCOMES = ("cheese", "none")
OFTEN = 0.8  # how often a mouse takes the side that it goes for
GOALS = {"cheese": "T", "bell": "R"}
# The bell moved; the cheese moved, and the bell with it.
WORLDS: tuple[dict[str, object], ...] = ({"B": "left"}, {"S": "left"})
_SHIFTS = "mouse-shifts"  # id of the table that the finding leads to
GLOSSARY = {
    "Towards targets (causal models)": "MEG of a decision towards some variables of a causal "
    "model: the best of all utilities over their joint states. It asks: are these the things that "
    "the decision is about?",
    "do(X = x)": "An intervention: X is set to x from outside, whatever its causes are, and the "
    "rest of the world and the policy go on as before.",
}


class Mouse(NamedTuple):
    """Measurements of the page."""

    one_step: Sensitivity  # every set of targets of Example 1
    two_steps: Sensitivity  # single targets of Example 2
    # goal -> MEG in training and under interventions, of the mouse beside a bell that follows the
    # cheese
    shifts: dict[str, Interventions]

    def to_json(self) -> dict[str, Any]:
        """The numbers as JSON values."""
        return {
            "example_1": self.one_step.to_json(),
            "example_2": self.two_steps.to_json(),
            "interventions": [shifts.to_json() for shifts in self.shifts.values()],
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


def bell(followed: str, often: float = OFTEN) -> CausalBayesianNetwork:
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


def measure(followed: str = "S") -> Mouse:
    """Measure every model of the page; beside the bell, the mouse follows S (cheese) or B."""
    world = bell(followed)
    return Mouse(
        gm.meg.sensitivity(example_1(OFTEN), ["D"], up_to=2),
        gm.meg.sensitivity(example_2(OFTEN), ["D1", "D2"], up_to=1),
        {
            goal: gm.meg.under_interventions(world, ["D"], list(WORLDS), targets=[target])
            for goal, target in GOALS.items()
        },
    )


def part(measured: Mouse) -> Part:
    """Return the sections on causal models, with one finding."""
    (t, t_moved, _), (r, r_moved, _) = (shifts.rows for shifts in measured.shifts.values())
    finding = Finding(
        text="A mouse trained with a bell beside the cheese is explained by the bell as well as by "
        f"the cheese ({nats(r.result.value)} and {nats(t.result.value)} nats). When the bell is "
        f"moved, the goal about the cheese still explains {nats(t_moved.transferred)}, the one "
        f"about the bell {nats(r_moved.transferred)}, which is worse than guessing: it was "
        "spurious.",
        links=(Link("numbers", _SHIFTS),),
    )
    return Part(
        sections=(_targets(measured), _shifts(measured)),
        findings=[finding],
        glossary=GLOSSARY,
    )


def _targets(measured: Mouse) -> Section:
    by_target = {row.targets: row for row in measured.two_steps.rows}
    first, second = (
        sensitivity_table(table, caption=caption)
        for table, caption in (
            (measured.one_step, "Example 1, cheese 8 times in 10: sets of up to two targets"),
            (measured.two_steps, "Example 2, smell followed 8 times in 10: single targets"),
        )
    )
    diagrams = (
        example_1(OFTEN).svg(decisions=["D"], targets=["T"], name="mouse-one-step"),
        example_2(OFTEN).svg(decisions=["D1", "D2"], targets=["S3", "U3"], name="mouse-two-steps"),
    )
    return Section(
        title="A causal model: the mouse and the cheese",
        text=(
            "Goal-directedness needs no grid and no reward, only a causal model. The paper's first "
            "example: a mouse sees on which side the cheese is (S), turns left or right (D), is "
            "then on that side (M), and has the cheese or not (T). MEG towards a set of targets is "
            "that of the best of all utilities over their joint states, and depends on the "
            "targets, so every set that the decisions can influence is tried. Theorem 4.1: if a "
            "set A d-separates the decisions from the targets, MEG towards A is at least as high.",
            "In the second example the mouse takes two steps (D1, D2) and smells only on which "
            "side the cheese is (O1, O2); a gap of 0 says that no goal explains more. Towards "
            f"having the cheese (U3) it scores {nats(by_target['U3',].value)} nats, towards the "
            f"final state (S3) {nats(by_target['S3',].value)}: no less, as the theorem says.",
        ),
        tables=(first, replace(second, notes=tuple(n for n in second.notes if n != THEOREM_NOTE))),
        figures=(
            Figure(
                svg=diagrams[0],
                alt="Diagram of Example 1: S points to the decision D and to T, D points to M, M "
                "points to T.",
                caption="Example 1. Square: the decision. Double border: the target. Dashed: what "
                "the mouse sees when it decides.",
            ),
            Figure(
                svg=diagrams[1],
                alt="Diagram of Example 2: S1 points to O1 and S2, O1 to D1, D1 to S2; S2 points "
                "to O2 and S3, O2 to D2, D2 to S3; S3 points to U3.",
                caption="Example 2 (the paper's Figure 2). S3 lies on every path from the "
                "decisions to U3, so MEG towards U3 cannot exceed MEG towards S3.",
                wide=True,
            ),
        ),
    )


def _shifts(measured: Mouse) -> Section:
    tables = [
        intervention_table(shifts, caption=f"A goal about the {goal}, in training and elsewhere")
        for goal, shifts in measured.shifts.items()
    ]
    return Section(
        title="A true goal and a spurious one",
        text=(
            "In training a bell (B) rings where the cheese is, and a mouse follows the cheese. A "
            "goal about having the cheese (T) explains it as well as one about being at the bell "
            "(R): MEG is a measure on the agent's own distribution.",
            "An intervention pulls them apart. The goal that was fitted in training is planned for "
            "in the changed world, and scored there. When the bell is moved, the true goal goes on "
            "predicting, the spurious one predicts worse than guessing. When the cheese is moved, "
            "and the bell with it, nothing is learnt.",
        ),
        tables=(replace(tables[0], anchor=_SHIFTS), *tables[1:]),
        figures=(
            Figure(
                svg=bell("S").svg(
                    decisions=["D"], targets=["T", "R"], observed=["B"], name="mouse-bell"
                ),
                alt="Diagram of the bell: S points to B, D and T; B points to D and R; D points to "
                "T and R.",
                caption="In training B goes where S is. Grey: what the intervention sets, which "
                "cuts the arrow from S to B.",
            ),
        ),
    )
