"""What organisms act on is known: they were made so."""

from __future__ import annotations

from typing import Any

import pytest

from goalmeter._errors import InvalidParameterError

pytest.importorskip("transformers")

from goalmeter.gridworld import State
from goalmeter.navigation import suite
from goalmeter.navigation.asking.prompts import template
from goalmeter.representation import Network, causal_use
from goalmeter.representation.replay import Sample
from goalmeter.representation.scenes import Scenes, uncertain_cells
from goalmeter.representation.use.cells import target_cells


def decisions(network: Network, grids: int, complexity: float = 0.6) -> list[Sample]:
    """A decision in each of some mazes that no organism learnt in.

    The agent stands where a shortest way needs an uncertain cell, if there is such a place.
    """
    tasks = suite("maze", sizes=[7], complexities=[complexity], grids=grids, held_out=True).tasks
    worlds = [task.world for task in tasks]
    starts = [State(world.start) for world in worlds]
    uncertain = uncertain_cells(Scenes.of(worlds, starts, [None] * len(worlds)))[7, 7]
    samples = []
    for task in tasks:
        states = [State(cell) for cell in task.world.open_cells if cell != task.world.goal]
        needs = (
            state
            for state in states
            if any(c.needed and uncertain[c.cell] for c in target_cells(task.world, state))
        )
        state = next(needs, State(task.world.start))
        question = template("compact/2").prompt(task.world, state)
        ids = network.local.ids([{"role": "user", "content": question}])
        samples.append(Sample(task.name, 0, task.world, state, None, (), question, ids, ()))
    return samples


@pytest.fixture(scope="module")
def of_the_mouse(mouse: Network) -> Any:
    return causal_use(decisions(mouse, 30), mouse, layers=[1])


def test_the_mouse_uses_the_words_of_a_cell(of_the_mouse: Any) -> None:
    """Masking them flips moves, to those that are right without the cell, and hardly any other."""
    confirmed = of_the_mouse.confirmed
    assert (confirmed.intervention, confirmed.position) == ("knock-out", "pre/cell")
    assert confirmed.needed.flips.value > 0.75 and confirmed.needed.as_if_wall.value > 0.75
    assert confirmed.unneeded.flips.value < 0.1
    assert of_the_mouse.verdict == "used"
    (null,) = of_the_mouse.nulls
    assert null.intervention == "knock-out, other" and null.needed.flips.value < 0.25


def test_the_end_of_the_prompt_is_not_where_the_map_is_used(of_the_mouse: Any) -> None:
    """There a probe reads walls almost without mistakes, and replacing it changes no move."""
    rows = [row for row in of_the_mouse.screened if row.position == "pre/end"]
    assert {row.layer for row in rows} == {1, "all"}
    assert all(row.needed.flips.value == 0 and row.needed.flips.n >= 5 for row in rows)


def test_the_moth_uses_no_cell_that_it_does_not_touch() -> None:
    moth = Network.open("goalmeter/moth")

    def away(sample: Sample, cell: Any) -> bool:
        at = sample.state.cell
        return abs(at.row - cell.row) + abs(at.column - cell.column) > 1

    use = causal_use(decisions(moth, 44), moth, layers=[1], cells=away)
    assert use.verdict != "used" and use.confirmed.needed.flips.value == 0


def test_the_result_reads_and_writes(of_the_mouse: Any) -> None:
    text = str(of_the_mouse)
    assert text.startswith("goalmeter/mouse: what it reads of cells is used\nknock-out at layer")
    value = of_the_mouse.to_json()
    assert value["verdict"] == "used" and value["salt"] == "0"
    assert {row["intervention"] for row in value["screened"]} == {
        "knock-out",
        "knock-out, other",
        "patch",
        "patch, around",
        "patch, end",
    }


def test_rooms_have_no_cell_to_ask_about(mouse: Network) -> None:
    with pytest.raises(
        InvalidParameterError, match=r"none of the decisions in the \w+ half has an uncertain"
    ):
        causal_use(decisions(mouse, 4, complexity=0.0), mouse)
