"""Walks: what is recorded, what ends them, and that they do not depend on order."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from goalmeter._errors import InvalidParameterError
from goalmeter.agents.grid_agents import Decision, navigator
from goalmeter.gridworld import GridWorld, State
from goalmeter.gridworld.generators import Draws
from goalmeter.navigation import Episode, Task, suite, walk, walks

WORLD = GridWorld.from_text(["#######", "#A__KG#", "#######"])
TASK = Task(
    suite="maze",
    size=3,
    complexity=1.0,
    grid=0,
    seed=0,
    transform=None,
    condition={"key": True},
    world=WORLD,
    distance=4,
    cap=6,
)
AGENTS = ("optimal", "greedy", "random", "epsilon-optimal", "wall-follower", "key-seeker")


class Scripted:
    """An agent that answers as it is told to."""

    name = "scripted"

    def __init__(self, *answers: int | None) -> None:
        self.answers = answers

    def begin(self, world: GridWorld, draws: Draws) -> Scripted:
        self.left = list(self.answers)
        return self

    def act(self, state: State) -> Decision:
        action = self.left.pop(0)
        return Decision(action, invalid=None if action is not None else "no action")


def test_a_walk_by_hand() -> None:
    done = walk(Scripted(1, 2, None, 1, 1, 1), TASK, 3)
    assert done.outcome == "arrived" and done.trajectory == 3
    assert [(s.state.cell.column, s.state.layer, s.action) for s in done.steps] == [
        (1, 0, 1),
        (2, 0, 2),
        (2, 0, None),
        (2, 0, 1),
        (3, 0, 1),
        (4, 1, 1),
    ]
    assert all(step.optimal == (1,) for step in done.steps)
    assert done.steps[2].invalid == "no action" and done.steps[1].invalid is None
    assert (done.distance, done.cap, done.condition) == (4, 6, {"key": True})


def test_order_does_not_matter_and_streams_differ() -> None:
    made = suite("maze", sizes=[7], complexities=[0.5], grids=3, trajectories=3)
    agent = navigator("random")
    listed = list(walks(agent, made))
    backwards = [walk(agent, task, index) for task, index in reversed(list(made.walks()))]
    assert listed == backwards[::-1]
    taken = [tuple(step.action for step in t.steps) for t in listed]
    assert len(set(taken)) == len(taken)
    again = [walk(agent, task, index, seed=1) for task, index in made.walks()]
    assert all(first != second for first, second in zip(listed, again, strict=True))


def test_a_walk_is_the_same_for_ever() -> None:
    task = suite("maze", sizes=[7], complexities=[0], grids=1).tasks[0]
    taken = [step.action for step in walk(navigator("random"), task).steps]
    assert taken == [1, 0, 2, 3, 0, 0, 1, 0, 1, 1, 0, 3, 3, 1, 3]


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: Episode(TASK).take(Decision(4)), "action is 4, expected 0 to 3, or None"),
        (lambda: Episode(TASK).take(Decision(None)), "say why there is no action where there is"),
        (lambda: Episode(TASK).take(Decision(1, invalid="x")), "action is 1 and invalid is 'x'"),
        (lambda: Episode(TASK).trajectory(0), "is not over; name what ended it"),
    ],
)
def test_errors(ask: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidParameterError) as caught:
        ask()
    assert message in str(caught.value)
