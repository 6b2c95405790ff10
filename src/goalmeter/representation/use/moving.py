"""Pairs of questions that differ in where something is: the goal, the agent, or the frame.

    goal       the goal is in another open cell
    agent      the agent is in another open cell
    isometry   the grid is turned or mirrored, with all that is in it

Both questions have the same tokens but for what moved, and as many. What a model does then is told
by the first moves of shortest ways in both: where they have none in common, a move says which of
the questions was answered; where they are the same, nothing should change.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from goalmeter.agents.navigators import planned
from goalmeter.gridworld.draws import Draws
from goalmeter.gridworld.planner import State
from goalmeter.gridworld.text import compact, rendered
from goalmeter.gridworld.transforms import REFLECT, ROTATE
from goalmeter.gridworld.world import GridWorld
from goalmeter.representation.network import Network
from goalmeter.representation.positions import Located
from goalmeter.representation.replay import Sample

GOAL, AGENT, ISOMETRY = KINDS = ("goal", "agent", "isometry")
SAME, OVERLAPPING, DISJOINT = RELATIONS = ("same", "overlapping", "disjoint")


@dataclass(frozen=True)
class Pair:
    """A question and the same with something moved.

    Attributes:
        kind: what moved.
        located: the question that is asked.
        donor: the other one.
        relation: of the sets of first moves of shortest ways.
    """

    kind: str
    located: Located
    donor: Located
    relation: str


def pairs(network: Network, sample: Sample, kind: str, seed: int) -> list[Pair]:
    """One pair of each relation that there is, drawn at random.

    None where the question is not of the sample's state alone, or the tokens are not as many.
    """
    if network.local.ids([{"role": "user", "content": sample.question}]) != sample.prompt:
        return []
    sample = replace(sample, optimal=planned(sample.world).optimal_actions(sample.state))
    moved = list(_moved(sample, kind))
    Draws("moved", kind, seed, sample.walk, sample.step).shuffle(moved)
    found: dict[str, Pair] = {}
    for world, state in moved:
        relation = relation_of(sample.optimal, planned(world).optimal_actions(state))
        if relation in found or (donor := _donor(network, sample, world, state)) is None:
            continue
        located = Located(sample, network.local.tokenizer)
        found[relation] = Pair(kind, located, Located(donor, network.local.tokenizer), relation)
    return [found[relation] for relation in RELATIONS if relation in found]


def relation_of(first: tuple[int, ...], second: tuple[int, ...]) -> str:
    """How two sets of moves lie to each other.

    Example: two moves are right in one question, one of them in the other.
        >>> relation_of((0, 1), (1,)), relation_of((0, 1), (1, 0)), relation_of((0,), (3,))
        ('overlapping', 'same', 'disjoint')
    """
    if set(first) == set(second):
        return SAME
    return OVERLAPPING if set(first) & set(second) else DISJOINT


def _moved(sample: Sample, kind: str) -> Iterator[tuple[GridWorld, State]]:
    world, state = sample.world, sample.state
    if kind == ISOMETRY:
        turned, at = world, state
        for number in range(1, 8):
            turn = REFLECT if number == 4 else ROTATE
            turned, at = turn(turned), State(turn.cell(at.cell, turned.shape), at.layer)
            yield turned, at
        return
    taken = {world.goal, state.cell, world.start, world.key, world.door, world.neutral}
    for cell in world.open_cells:
        if cell in taken:
            continue
        other = (
            (world, State(cell, state.layer)) if kind == AGENT else (world.with_(goal=cell), state)
        )
        if planned(other[0]).optimal_actions(other[1]):
            yield other


def _donor(network: Network, sample: Sample, world: GridWorld, state: State) -> Sample | None:
    for shown in (rendered, compact):
        before = shown(sample.world, sample.state)
        if before in sample.question:
            begin, _, end = sample.question.rpartition(before)
            question = begin + shown(world, state) + end
            ids = network.local.ids([{"role": "user", "content": question}])
            optimal = planned(world).optimal_actions(state)
            donor = replace(
                sample, world=world, state=state, optimal=optimal, question=question, prompt=ids
            )
            return donor if len(ids) == len(sample.prompt) else None
    return None
