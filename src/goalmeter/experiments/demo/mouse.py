"""The paper's mouse as causal models: measurements and the demo's page on causal models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import goalmeter as gm
from goalmeter.causal import CausalBayesianNetwork
from goalmeter.meg.causal import CausalMeg, Interventions, Sensitivity
from goalmeter.meg.causal.result import CausalMeg as result_CausalMeg
from goalmeter.meg.causal.result import InterventionRow, do_text
from goalmeter.meg.causal.sensitivity import set_text
from goalmeter.pages.meg import THEOREM_NOTE, sensitivity_table
from goalmeter.pages.part import Part
from goalmeter.report import Figure, Finding, Link, Section, Table
from goalmeter.report.numbers import gap, nats, nats_of_search, percent, rationality
from goalmeter.report.tables import ColumnOf, column, grouped, share_bar, table_of, words

# --- Mouse ----------------------------------------------------------------------------------------
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


# --- Mouse page -----------------------------------------------------------------------------------
# Ids of the tables that findings lead to.
_FIRST, _SHIFTS = "mouse-policies", "mouse-shifts"
GLOSSARY = {
    "Towards targets (causal models)": "MEG of a decision towards some variables of a causal "
    "model: the best of all utilities over their joint states. It asks: are these the things that "
    "the decision is about?",
    "do(X = x)": "An intervention: X is set to x from outside, whatever its causes are, and the "
    "rest of the world and the policy go on as before.",
}


def part(measured: Mouse) -> Part:
    """Causal models as a part of the demo's page, with its last finding."""
    return Part(
        sections=(_first(measured), _targets(measured), _shifts(measured)),
        findings=findings(measured)[-1:],
        glossary=GLOSSARY,
    )


def findings(measured: Mouse) -> list[Finding]:
    """The page in two sentences, from the numbers."""
    name, results = next(iter(measured.policies.items()))
    cheese, place = results["T",], results["M",]
    follows = next(iter(measured.shifts.values()))
    (t, t_moved, _), (r, r_moved, _) = (shifts.rows for shifts in follows.values())
    texts = [
        f"The mouse that takes the {name} scores {nats(cheese.value)} of "
        f"{nats(cheese.maximum)} nats ({percent(cheese.fraction)}) towards the cheese, and "
        f"{nats(round(place.value, 9))} towards its own position: it goes for the cheese, not "
        "for a side.",
        f"A mouse trained with a bell beside the cheese is explained by the bell as well as by the "
        f"cheese ({nats(r.result.value)} and {nats(t.result.value)} nats). When the bell is moved, "
        f"the goal about the cheese still explains {nats(t_moved.transferred)}, the one about the "
        f"bell {nats(r_moved.transferred)}, which is worse than guessing: it was spurious.",
    ]
    return [
        Finding(text=text, links=(Link("numbers", anchor),))
        for text, anchor in zip(texts, (_FIRST, _SHIFTS), strict=True)
    ]


def _first(measured: Mouse) -> Section:
    return Section(
        title="A causal model: the mouse and the cheese",
        text=(
            "Goal-directedness needs no grid and no reward, only a causal model, variables that "
            "may be decisions, and variables that they may be about. The paper's first example: "
            "a mouse sees on which side the cheese is (S), turns left or right (D), is then on "
            "that side (M), and has the cheese or not (T).",
            "MEG towards a set of targets is that of the best of all utilities over their joint "
            "states. Whatever the mouse wants, it is about the cheese, not about the side that "
            "it ends on; and towards where the cheese is, which it cannot change, there is none.",
        ),
        tables=(_policy_table(measured),),
        figures=(
            Figure(
                svg=example_1(0.8).svg(decisions=["D"], targets=["T"], name="mouse-one-step"),
                alt="Diagram of Example 1: S points to the decision D and to T, D points to M, M "
                "points to T.",
                caption="Example 1. Square: the decision. Double border: the target. Dashed: what "
                "the mouse sees when it decides.",
            ),
        ),
    )


# A policy's name, and its MEG towards each set of targets.
MouseRow = tuple[str, dict[tuple[str, ...], result_CausalMeg]]


def _policy_table(measured: Mouse) -> Table:
    def towards(names: tuple[str, ...]) -> tuple[ColumnOf[MouseRow], ...]:
        value: ColumnOf[MouseRow] = column(
            "MEG, nats", lambda row: row[1][names].value, nats_of_search
        )
        return grouped(f"towards {set_text(names)}", value)

    return table_of(
        measured.policies.items(),
        (
            words("the mouse takes", lambda row: row[0]),
            *grouped(
                f"towards {set_text(TARGETS[0])}",
                column("MEG, nats", lambda row: row[1]["T",].value, nats_of_search),
                column("share of maximum", lambda row: row[1]["T",].fraction, share_bar),
                column(
                    "rationality β", lambda row: rationality(round(row[1]["T",].rationality, 9))
                ),
            ),
            *(head for names in TARGETS[1:] for head in towards(names)),
            column("largest proven gap", lambda row: max(r.gap for r in row[1].values()), gap),
            words("best goal over T", lambda row: _goal(row[1]["T",])),
        ),
        caption="Three mice, four sets of targets",
        anchor=_FIRST,
        meaning="How many nats of the mouse's one decision are explained by the best utility over "
        "the targets; log 2 = 0.6931 at most.",
        notes=(
            f"Towards {{S}}: {measured.policies[next(iter(POLICIES))]['S',].notes[0]}.",
            "The paper's value for the first mouse is log 2 − H(0.8) at β = log 2 = 0.693.",
        ),
    )


def _goal(towards: result_CausalMeg) -> str:
    return "" if towards.goal is None or towards.value < 1e-9 else str(towards.goal)


def _targets(measured: Mouse) -> Section:
    by_target = {row.targets: row for row in measured.two_steps.rows}
    second = sensitivity_table(
        measured.two_steps, caption="Example 2, smell followed 8 times in 10: single targets"
    )
    return Section(
        title="Which variables is it about?",
        text=(
            "MEG depends on the variables that it is measured against, which the paper names as "
            "its first limitation. The answer is to try them all: every set of targets that the "
            "decisions can influence, sorted. Theorem 4.1 says more without measuring: if a set A "
            "d-separates the decisions from the targets, MEG towards A is at least as high. What "
            "an agent wants in the end shows in what leads to it.",
            "In the paper's second example the mouse takes two steps (D1, D2) and smells only on "
            "which side the cheese is (O1, O2); it knows neither its square nor its first step, so "
            "the models of it have to be searched for; a gap of 0 says that no goal explains more. "
            f"Towards having the cheese (U3) it scores {nats(by_target['U3',].value)} nats, "
            f"towards the final state (S3) {nats(by_target['S3',].value)}: no less, as the theorem "
            "says.",
        ),
        tables=(
            sensitivity_table(
                measured.one_step,
                caption=f"Example 1, {next(iter(POLICIES))}: sets of up to two targets",
            ),
            replace(second, notes=tuple(n for n in second.notes if n != THEOREM_NOTE)),
        ),
        figures=(
            Figure(
                svg=example_2(0.8).svg(
                    decisions=["D1", "D2"], targets=["S3", "U3"], name="mouse-two-steps"
                ),
                alt="Diagram of Example 2: S1 points to O1 and S2, O1 to D1, D1 to S2; S2 points "
                "to O2 and S3, O2 to D2, D2 to S3; S3 points to U3.",
                caption="Example 2 (the paper's Figure 2). S3 lies on every path from the "
                "decisions to U3, so MEG towards U3 cannot exceed MEG towards S3.",
                wide=True,
            ),
        ),
    )


def _shifts(measured: Mouse) -> Section:
    training = [
        shifts.rows[0].result.value for shifts in measured.shifts["follows the cheese"].values()
    ]
    return Section(
        title="A true goal and a spurious one",
        text=(
            "In training a bell (B) rings where the cheese is. One mouse follows the cheese, "
            "another the bell; in training nobody can tell them apart, and a goal about having "
            f"the cheese (T) explains both as well as one about being at the bell (R): "
            f"{nats(training[0])} and {nats(training[1])} nats. MEG is a measure on the agent's "
            "own distribution.",
            "An intervention pulls them apart. The goal that was fitted in training is kept, "
            "planned for in the changed world, and scored there. When the bell is moved, the "
            "true goal goes on predicting, the spurious one predicts worse than guessing. When "
            "the cheese is moved, and the bell with it, nothing is learnt.",
        ),
        tables=(_shift_table(measured),),
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


# A mouse, a goal, and what that goal explains in training and in each of `WORLDS`.
ShiftRow = tuple[str, str, tuple[InterventionRow, ...]]


def _shift_table(measured: Mouse) -> Table:
    rows = [
        (agent, goal, shifts.rows)
        for agent, goals in measured.shifts.items()
        for goal, shifts in goals.items()
    ]

    def in_world(number: int, name: str) -> tuple[ColumnOf[ShiftRow], ...]:
        def nats_there(title: str, value: Callable[[InterventionRow], float]) -> ColumnOf[ShiftRow]:
            return column(title, lambda row: value(row[2][number]), nats_of_search)

        return grouped(
            f"{name}: {do_text(WORLDS[name])}",
            nats_there("MEG there", lambda shift: shift.result.value),
            nats_there("goal from training", lambda shift: shift.transferred),
            nats_there("gap", lambda shift: shift.gap),
        )

    return table_of(
        rows,
        (
            words("the mouse", lambda row: row[0]),
            words("goal about", lambda row: row[1]),
            *grouped(
                "in training",
                column("MEG, nats", lambda row: row[2][0].result.value, nats_of_search),
                column("share of maximum", lambda row: row[2][0].result.fraction, share_bar),
            ),
            *(head for n, name in enumerate(WORLDS, start=1) for head in in_world(n, name)),
        ),
        caption="Two mice, two goals, in training and when something is moved (nats)",
        anchor=_SHIFTS,
        meaning="MEG there is that of the best goal over the same variable in the changed world; "
        "the goal from training is scored there with its utility and rationality as they were.",
        notes=(
            "Gap: MEG there less the goal from training. A goal that predicts in every world has "
            "none.",
        ),
    )
