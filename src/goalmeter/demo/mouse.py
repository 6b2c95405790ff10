"""The paper's mouse as causal models: measurements and the demo's page on causal models."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import goalmeter as gm
from goalmeter.causal import CausalBayesianNetwork
from goalmeter.meg.causal.interventions import Interventions
from goalmeter.meg.causal.sensitivity import Sensitivity
from goalmeter.pages import Part, Texts
from goalmeter.pages.meg import intervention_table, sensitivity_table
from goalmeter.report import Finding, Link

SIDES = ("left", "right")
OUTCOMES = ("cheese", "none")
say = Texts("demo")
OFTEN = 0.8  # how often a mouse takes the side that it goes for
GOALS = {"cheese": "T", "bell": "R"}
# The bell moved; the cheese moved, and the bell with it.
WORLDS: tuple[dict[str, object], ...] = ({"B": "left"}, {"S": "left"})
_SHIFTS = "mouse-shifts"  # id of the table that the finding leads to


class Mouse(NamedTuple):
    """Measurements of the page."""

    one_step: Sensitivity  # every set of targets of Example 1
    shifts: dict[str, Interventions]  # goal -> MEG in training and under interventions


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


def measure(followed: str = "S") -> Mouse:
    """Measure every model of the page; beside the bell, the mouse follows S (cheese) or B."""
    world = bell(followed)
    return Mouse(
        gm.meg.sensitivity(example_1(OFTEN), ["D"], up_to=2),
        {
            goal: gm.meg.under_interventions(world, ["D"], list(WORLDS), targets=[target])
            for goal, target in GOALS.items()
        },
    )


def part(measured: Mouse) -> Part:
    """Return the sections on causal models, with one finding."""
    (t, t_moved, _), (r, r_moved, _) = (shifts.rows for shifts in measured.shifts.values())
    text = say.sentence("findings", "bell", t=t, r=r, t_moved=t_moved, r_moved=r_moved)
    finding = Finding(text=text, links=(Link("numbers", _SHIFTS),))
    diagram = example_1(OFTEN).svg(decisions=["D"], targets=["T"], name="mouse-one-step")
    example = say.section(
        "example",
        sensitivity_table(measured.one_step, **say("example_targets")),
        say.figure("example_diagram", diagram),
    )
    first, *others = [
        intervention_table(shifts, **say("shifts", goal=goal))
        for goal, shifts in measured.shifts.items()
    ]
    diagram = bell("S").svg(decisions=["D"], targets=["T", "R"], observed=["B"], name="mouse-bell")
    tables = (replace(first, anchor=_SHIFTS), *others)
    shifts = say.section("bell", *tables, say.figure("bell_diagram", diagram))
    return Part(sections=(example, shifts), findings=[finding], glossary=say("mouse_glossary"))
