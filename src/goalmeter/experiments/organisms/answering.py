"""A model asked in many states at once, without a server: answers and whole walks."""

from __future__ import annotations

from collections.abc import Sequence

from goalmeter.agents.language_models.local_model import LocalModel, Reply
from goalmeter.agents.language_models.sampling import Sampling
from goalmeter.agents.navigators import Decision, planned
from goalmeter.gridworld.draws import Draws
from goalmeter.gridworld.planner import State
from goalmeter.gridworld.text import compact
from goalmeter.gridworld.world import GridWorld
from goalmeter.navigation.asking.answers import understood
from goalmeter.navigation.record import Trajectory
from goalmeter.navigation.suites.tasks import Task
from goalmeter.navigation.walks import Episode
from goalmeter.organisms.thoughts import TEMPERATURE

# The paper's cut, and more tokens than the longest answer on the largest grid has: four a cell.
TOP_P, _TOKENS = 0.95, 350
# Prompts that are answered at once; on one core more of them take longer each.
_BATCH = 48
# Alternatives recorded with each token: the four moves are among them.
_ALTERNATIVES = 8


def replies(
    model: LocalModel, asked: Sequence[tuple[GridWorld, State]], *seed: int | str
) -> list[Reply]:
    """The answers in some states, each drawn with a seed of its own, as the paper samples.

    All of a batch wait for the longest answer, so those with about as much to search go together.
    """
    prompts = []
    for number, (world, state) in enumerate(asked):
        ids = model.ids([{"role": "user", "content": compact(world, state)}])
        sampling = Sampling(
            seed=Draws("answer", *seed, number).below(1 << 31),
            temperature=TEMPERATURE,
            top_p=TOP_P,
            alternatives=_ALTERNATIVES,
        )
        prompts.append(model.prompt(ids, _TOKENS, sampling))
    order = sorted(range(len(prompts)), key=lambda n: _nearer(*asked[n]))
    out: dict[int, Reply] = {}
    for begin in range(0, len(order), _BATCH):
        places = order[begin : begin + _BATCH]
        out |= dict(zip(places, model.answers([prompts[n] for n in places]), strict=True))
    return [out[number] for number in range(len(prompts))]


def _nearer(world: GridWorld, state: State) -> int:
    """How many states are nearer to the goal: a search from there meets them first."""
    plan = planned(world)
    steps = plan.plans.distances[plan.index]
    return int(((steps >= 0) & (steps < steps[plan.number(state)])).sum())


def walks(model: LocalModel, tasks: Sequence[Task], *, seed: int = 0) -> list[Trajectory]:
    """A walk through each task, all of them step by step at the same time."""
    episodes = [Episode(task) for task in tasks]
    step = 0
    while going := [episode for episode in episodes if not episode.over]:
        asked = [(episode.task.world, episode.state) for episode in going]
        for episode, reply in zip(going, replies(model, asked, seed, "walk", step), strict=True):
            answer = understood(reply.text)
            invalid = None if answer.action is not None else answer.invalid
            episode.take(Decision(answer.action, raw=reply.text, invalid=invalid))
        step += 1
    return [episode.trajectory(0) for episode in episodes]
