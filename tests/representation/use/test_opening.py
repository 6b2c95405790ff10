"""A direction towards walls, written backwards at a wall: the model plans a way through it."""

from __future__ import annotations

import pytest

from goalmeter.gridworld.planner import State
from goalmeter.navigation import suites
from goalmeter.navigation.prompts import template
from goalmeter.navigation.trajectories import suite
from goalmeter.representation.network import Network
from goalmeter.representation.replay import Sample
from goalmeter.representation.scenes import Scenes, uncertain_cells
from goalmeter.representation.use.causal_use import Use, causal_use
from goalmeter.representation.use.directions import target_cells, target_walls

pytestmark = pytest.mark.slow


def decisions(network: Network, grids: int) -> list[Sample]:
    """Decisions with an uncertain wall that would be a shorter way, and a cell that is needed."""
    tasks = suite(suites.MAZE.name, sizes=[7], complexities=[0.6], grids=grids, held_out=True).tasks
    worlds = [task.world for task in tasks]
    starts = [State(world.start) for world in worlds]
    uncertain = uncertain_cells(Scenes.of(worlds, starts, [None] * len(worlds)))[(7, 7)]
    samples = []
    for task in tasks:
        for cell in task.world.open_cells:
            state = State(cell)
            kinds = [target_cells(task.world, state), target_walls(task.world, state)]
            if cell != task.world.goal and all(
                any(each.needed and uncertain[each.cell] for each in kind) for kind in kinds
            ):
                question = template("compact/2").prompt(task.world, state)
                ids = network.local.ids([{"role": "user", "content": question}])
                samples.append(Sample(task.name, 0, task.world, state, None, (), question, ids, ()))
                break
    return samples


@pytest.fixture(scope="module")
def use() -> Use:
    mouse = Network.open("goalmeter/mouse")
    families = ["knock-out", "write", "open"]
    return causal_use(decisions(mouse, 36), mouse, layers=[2], families=families)


def test_a_wall_is_opened_where_the_search_passes_it(use: Use) -> None:
    """Moves become those that are optimal without the wall, and random directions do nothing."""
    row, (random, other) = use.families[-1].row, use.families[-1].nulls
    assert (row.intervention, row.position, row.dose) == ("open, turn", "post/turn", 2.0)
    assert row.needed.flips.n >= 5
    assert row.needed.as_if_changed.value >= 0.3
    assert row.unneeded.flips.value < 0.2
    assert random.intervention == "open, turn, random" and random.needed.flips.value == 0
    assert other.intervention == "open, turn, other"
    assert other.needed.flips.value < row.needed.flips.value


def test_walls_are_no_part_of_what_is_chosen_or_judged(use: Use) -> None:
    """The verdict is about open cells; a wall has no words of its own in this prompt."""
    assert not use.confirmed.intervention.startswith("open")
    assert not any(null.intervention.startswith("open") for null in use.nulls)
    kinds = {row.intervention for row in use.screened if row.intervention.startswith("open")}
    assert kinds == {"open, turn", "open, closed, around", "open, end"}
