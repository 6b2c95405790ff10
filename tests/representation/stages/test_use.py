"""Which decisions are asked again."""

from __future__ import annotations

from goalmeter.gridworld.generators import maze
from goalmeter.gridworld.planner import State
from goalmeter.gridworld.world import content
from goalmeter.representation.replay import Sample
from goalmeter.representation.stages.use import select_decisions


def test_every_grid_is_asked_before_any_is_asked_twice() -> None:
    worlds = [maze(7, 0.6, seed=seed).world for seed in range(4)]
    samples = [
        Sample(f"walk {number}", step, world, State(cell), 0, (), "", (number, place), ())
        for number, world in enumerate(worlds)
        for place, cell in enumerate(c for c in world.open_cells if c != world.goal)
        for step in range(2)  # the same question twice, as of an agent that walked into a wall
    ]
    every = select_decisions(samples, 1000, seed=0)
    grids = {content(sample.world) for sample in every}
    assert len(every) > 2 * len(grids) > 2
    assert len({sample.prompt for sample in every}) == len(every)
    first = select_decisions(samples, len(grids), seed=0)
    assert {content(sample.world) for sample in first} == grids and every[: len(grids)] == first
