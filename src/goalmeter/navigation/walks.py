"""Walk an agent through tasks, and write down what it does."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from typing import NamedTuple

from goalmeter._errors import InvalidParameterError
from goalmeter.agents.navigators import Decision, Navigator
from goalmeter.gridworld.draws import Draws
from goalmeter.gridworld.planner import State, layers_of, planned
from goalmeter.gridworld.world import MOVES, Cell, GridWorld
from goalmeter.navigation.record import ARRIVED, CAP, Step, Trajectory
from goalmeter.navigation.suites.tasks import Task, TaskSet


# A walk reads one entry after the other, for which Python's own objects are quicker than arrays.
class _Board(NamedTuple):
    states: list[State]  # by the planner's numbers
    successors: list[list[int]]
    optimal: list[tuple[int, ...]]


@lru_cache(maxsize=512)
def _board(world: GridWorld) -> _Board:
    plan = planned(world)
    rows, columns = world.shape
    places = product(range(layers_of(world)), range(rows), range(columns))
    states = [State(Cell(row, column), layer) for layer, row, column in places]
    best = plan.plans.optimal[plan.index][: len(states)].tolist()
    return _Board(
        states,
        plan.plans.successors[plan.index][: len(states)].tolist(),
        [tuple(action for action, fine in enumerate(row) if fine) for row in best],
    )


class Episode:
    """A walk in progress: tells the state, takes decisions, and keeps the record.

    Whoever asks the agent drives it, which may be a loop here or a client of a server elsewhere.

    Attributes:
        task: the world and its labels.
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        self._board = _board(task.world)
        plan = planned(task.world)
        self._number = plan.number(plan.start)
        self._steps: list[Step] = []

    @property
    def state(self) -> State:
        """Where the agent is."""
        return self._board.states[self._number]

    @property
    def arrived(self) -> bool:
        """Whether the agent is at the goal."""
        return self.state.cell == self.task.world.goal

    @property
    def over(self) -> bool:
        """Whether there is nothing more to decide."""
        return self.arrived or len(self._steps) >= self.task.cap

    @property
    def steps(self) -> tuple[Step, ...]:
        """What was decided so far."""
        return tuple(self._steps)

    def take(self, decision: Decision) -> None:
        """Carry out a decision; one without an action is a step in place.

        Raises:
            InvalidParameterError: the walk is over, the action is none of the four, or there is
                neither an action nor a reason why.
        """
        action = decision.action
        if self.over:
            raise InvalidParameterError(f"the walk through {self.task.name!r} is over")
        if action is not None and action not in range(len(MOVES)):
            raise InvalidParameterError(f"action is {action!r}, expected 0 to 3, or None")
        if (action is None) != (decision.invalid is not None):
            raise InvalidParameterError(
                f"action is {action!r} and invalid is {decision.invalid!r}; say why there is no "
                f"action where there is none, and only there"
            )
        optimal = self._board.optimal[self._number]
        self._steps.append(Step(self.state, optimal=optimal, **vars(decision)))
        if action is not None:
            self._number = self._board.successors[self._number][action]

    def trajectory(self, index: int, failure: str | None = None) -> Trajectory:
        """The record of the walk.

        Args:
            index: among the walks through this task.
            failure: what ended the walk early, such as "timeout".

        Raises:
            InvalidParameterError: the walk is not over and nothing ended it.
        """
        if failure is None and not self.over:
            raise InvalidParameterError(
                f"the walk through {self.task.name!r} is not over; name what ended it"
            )
        outcome = ARRIVED if self.arrived else failure or CAP
        # Every label of a task is one of its walks' too, under the same name.
        return Trajectory(**vars(self.task), trajectory=index, outcome=outcome, steps=self.steps)


def walk(navigator: Navigator, task: Task, trajectory: int = 0, *, seed: int = 0) -> Trajectory:
    """One walk of an agent through a task.

    What is random in it is drawn from a stream of its own, named by the agent, the task, the
    walk and the seed; so walks are the same in any order and alone.

    Args:
        navigator: who walks.
        task: where.
        trajectory: index of the walk.
        seed: of the run.

    Example: there is one optimal way through this world.
        >>> from goalmeter.agents.navigators import navigator
        >>> from goalmeter.navigation.suites.tasks import suite
        >>> task = suite("maze", sizes=[7], complexities=[1], grids=1).tasks[0]
        >>> walk(navigator("optimal"), task).outcome
        'arrived'
    """
    draws = Draws("walk", seed, navigator.name, task.name, trajectory)
    walking = navigator.begin(task.world, draws)
    episode = Episode(task)
    while not episode.over:
        episode.take(walking.act(episode.state))
    return episode.trajectory(trajectory)


def walks(navigator: Navigator, tasks: TaskSet, *, seed: int = 0) -> Iterator[Trajectory]:
    """Every walk of an agent through some tasks, one after the other."""
    return (walk(navigator, task, index, seed=seed) for task, index in tasks.walks())
