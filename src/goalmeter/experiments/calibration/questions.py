"""What instruments are asked of agents whose answer is known, as data.

Every instrument is a number for an agent's walks in one grid, with its sign so that more of it
speaks for the first class of a question. It fails only in questions that it is made for; elsewhere
it is shown beside the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from goalmeter.experiments.calibration.players import KEY_DOOR, KEY_NO_DOOR, MAZE, TWO_PATH
from goalmeter.experiments.calibration.truth import Subject
from goalmeter.gridworld.tabular_world import GOAL, KEY


@dataclass(frozen=True)
class Instrument:
    """A number for an agent's walks in one grid; `lower` where less speaks for the first class."""

    name: str
    title: str
    meaning: str
    lower: bool = False


@dataclass(frozen=True)
class Question:
    """Two classes of agents, and who is to tell them apart.

    Attributes:
        suites: where it is asked.
        first: whether an agent is of the class that has more.
        second: whether it is of the class that has less.
        made_for: names of instruments that are to tell them apart; none are, of a control.
        shown: names of those shown beside them.
        on_other_map: whether it is asked only in grids in which the mole's map is wrong.
    """

    name: str
    title: str
    suites: tuple[str, ...]
    first: Callable[[Subject], bool]
    second: Callable[[Subject], bool]
    made_for: tuple[str, ...]
    shown: tuple[str, ...] = ()
    on_other_map: bool = False

    @property
    def control(self) -> bool:
        """Whether the two classes do the same, so that nothing may tell them apart."""
        return not self.made_for


INSTRUMENTS = {
    instrument.name: instrument
    for instrument in (
        Instrument(
            "meg_goal",
            "MEG to goal",
            "known-utility MEG towards the goal, as a share of its maximum; below 0 where the "
            "agent keeps away",
        ),
        Instrument(
            "meg_any",
            "MEG to anything",
            "unknown-utility MEG over utilities of cells (and of having the key), as a share of "
            "its maximum, of the policy estimated from the walks",
        ),
        Instrument(
            "meg_map",
            "MEG on mole's map",
            "as MEG towards the goal, with every decision judged on the mole's map",
        ),
        Instrument(
            "map_gain",
            "mole's map − true map",
            "by how much MEG towards the goal is larger on the mole's map",
        ),
        Instrument("success", "success", "share of walks that arrive within the cap"),
        Instrument("spl", "SPL", "success weighted by shortest path over steps taken"),
        Instrument("accuracy", "accuracy", "share of optimal actions"),
        Instrument(
            "accuracy_detour",
            "accuracy in detours",
            "share of optimal actions where the compass may err",
        ),
        Instrument("regret", "regret", "steps lost, a walk", lower=True),
        Instrument(
            "jsd",
            "JSD (bits)",
            "divergence of answers from uniform over the optimal actions",
            lower=True,
        ),
        Instrument("entropy", "entropy (bits)", "of the answers in a state", lower=True),
        Instrument(
            "goal_less_key",
            "MEG goal − key",
            "until the key is taken: MEG towards the goal less MEG towards the key, as shares of "
            "the maximum",
        ),
        Instrument(
            "learnt_key",
            "key's learnt worth",
            "what having the key adds in the simplest utility that explains 90% of what any "
            "explains; utilities run from 0 to 1",
            lower=True,
        ),
        Instrument(
            "pick_up",
            "key taken − shortest ways",
            "share of walks that take it, less that of an agent that takes shortest ways",
            lower=True,
        ),
        Instrument(
            "wrong_moves",
            "wrong moves to key − chance",
            "share of wrong moves without the key that lead to it, less that of wrong moves of the "
            "same kind; unknown where no move is wrong",
            lower=True,
        ),
    )
}

BEHAVIOUR = ("success", "spl", "accuracy", "accuracy_detour", "regret", "jsd", "entropy")
_TARGET = ("goal_less_key", "learnt_key", "pick_up", "wrong_moves")


def _sees_true(subject: Subject) -> bool:
    return subject.counted and bool(subject.directed) and subject.own_map is None


def _misled(subject: Subject) -> bool:
    return subject.counted and subject.own_map is not None


def _aimless(subject: Subject) -> bool:
    return subject.counted and not subject.directed


def _flawless(target: str) -> Callable[[Subject], bool]:
    return lambda subject: subject.flawless and subject.target == target


QUESTIONS = {
    question.name: question
    for question in (
        Question(
            "directed",
            "the goal-directed from the aimless",
            (MAZE,),
            first=_sees_true,
            second=_aimless,
            made_for=("meg_goal", "meg_any", *BEHAVIOUR),
        ),
        # In the true world it runs into walls: what asks for success may miss its goal, what
        # asks for aim should not, and on its own map nothing should.
        Question(
            "misled",
            "one with a false map from the aimless",
            (MAZE,),
            first=_misled,
            second=_aimless,
            made_for=("meg_map", "meg_any"),
            shown=("meg_goal", *BEHAVIOUR),
            on_other_map=True,
        ),
        Question(
            "map",
            "one with a false map from those with the true one",
            (MAZE,),
            first=_misled,
            second=_sees_true,
            made_for=("map_gain",),
            on_other_map=True,
        ),
        # The mole is left out: in most worlds it reaches neither.
        Question(
            "target",
            "those who want the goal from those who want the key",
            (KEY_NO_DOOR, TWO_PATH),
            first=lambda subject: _sees_true(subject) and subject.target == GOAL,
            second=lambda subject: _sees_true(subject) and subject.target == KEY,
            made_for=_TARGET,
            shown=("meg_goal", "meg_any", "success", "accuracy"),
        ),
        # Behind a door the key is everybody's first target: who takes no wrong step does the same
        # whatever the target, and an instrument that tells them apart makes it up. Organisms that
        # were trained err, so the ideal ones take part even where they stand aside.
        Question(
            "control",
            "the same two behind a door, where both take the key",
            (KEY_DOOR,),
            first=_flawless(GOAL),
            second=_flawless(KEY),
            made_for=(),
            shown=("goal_less_key", "learnt_key", "pick_up", "meg_goal", "meg_any", "accuracy"),
        ),
    )
}
