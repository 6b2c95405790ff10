"""What organisms act on is known: they were made so."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from goalmeter._errors import InvalidParameterError

pytest.importorskip("transformers")

from goalmeter.gridworld import State
from goalmeter.navigation import suite
from goalmeter.navigation.prompts import template
from goalmeter.representation import Network, causal_use
from goalmeter.representation.replay import Sample
from goalmeter.representation.scenes import Scenes, uncertain_cells
from goalmeter.representation.use.directions import target_cells, target_walls

# Eleven of them can be asked about on the one half, seven on the other.
GRIDS = 18


def decisions(
    network: Network, grids: int, complexity: float = 0.6, *, walls: bool = False
) -> list[Sample]:
    """A decision in each of some held-out mazes, where a shortest way needs an uncertain cell if it
    can; with `walls`, where an uncertain wall would be a shorter way as well.
    """
    tasks = suite("maze", sizes=[7], complexities=[complexity], grids=grids, held_out=True).tasks
    worlds = [task.world for task in tasks]
    starts = [State(world.start) for world in worlds]
    uncertain = uncertain_cells(Scenes.of(worlds, starts, [None] * len(worlds)))[7, 7]
    kinds = (target_cells, target_walls) if walls else (target_cells,)
    samples = []
    for task in tasks:
        states = [State(cell) for cell in task.world.open_cells if cell != task.world.goal]
        needs = [
            state
            for state in states
            if all(
                any(c.needed and uncertain[c.cell] for c in kind(task.world, state))
                for kind in kinds
            )
        ]
        if walls and not needs:
            continue
        state = next(iter(needs), State(task.world.start))
        question = template("compact/2").prompt(task.world, state)
        ids = network.local.ids([{"role": "user", "content": question}])
        samples.append(Sample(task.name, 0, task.world, state, None, (), question, ids, ()))
    return samples


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kept") / "use"


@pytest.fixture(scope="module")
def of_the_mouse(mouse: Network, kept: Path) -> Any:
    return causal_use(decisions(mouse, GRIDS), mouse, layers=[1], doses=[0.5, 3.0], keep=kept)


@pytest.mark.slow
def test_the_mouse_uses_the_words_of_a_cell(of_the_mouse: Any) -> None:
    """Manswers them flips moves, to those that are right without the cell, and hardly any other."""
    confirmed = of_the_mouse.confirmed
    assert (confirmed.intervention, confirmed.position) == ("knock-out", "pre/cell")
    assert confirmed.needed.flips.value > 0.75 and confirmed.needed.as_if_changed.value > 0.75
    assert confirmed.unneeded.flips.value < 0.1
    assert of_the_mouse.verdict == "used"
    (null,) = of_the_mouse.nulls
    assert null.intervention == "knock-out, other" and null.needed.flips.value < 0.25


@pytest.mark.slow
def test_the_end_of_the_prompt_is_not_where_the_map_is_used(of_the_mouse: Any) -> None:
    """There a probe reads walls almost without mistakes, and replacing it changes no move."""
    rows = [
        row
        for row in of_the_mouse.screened
        if row.position == "pre/end" and row.intervention.startswith("patch")
    ]
    assert {row.layer for row in rows} == {1, "all"}
    assert all(row.needed.flips.value == 0 and row.needed.flips.n >= 5 for row in rows)


@pytest.mark.slow
def test_a_write_along_a_probe_flips_moves_and_a_random_one_as_long_does_not(
    of_the_mouse: Any,
) -> None:
    """Where the search comes to a neighbour of the cell, it reads whether there is a wall."""
    family = {each.row.intervention.split(",")[0]: each for each in of_the_mouse.families}
    assert set(family) == {"knock-out", "patch", "write", "ablate"}
    row, (random, other) = family["write"].row, family["write"].nulls
    assert (row.intervention, row.position, row.dose) == ("write, turn", "post/turn", 2.0)
    assert row.needed.as_if_changed.value >= 0.3  # 3 of 7; of 73 it is 53% [40, 66]
    assert random.intervention == "write, turn, random" and random.needed.flips.value == 0
    assert other.intervention == "write, turn, other"
    assert other.needed.flips.value < row.needed.flips.value
    little, much = of_the_mouse.doses
    assert little.flips.value < 0.2 < 0.5 <= much.flips.value
    assert little.null_flips.value == 0


@pytest.mark.slow
def test_an_interrupted_screen_goes_on(
    mouse: Network, of_the_mouse: Any, kept: Path, tmp_path: Path
) -> None:
    """Without the last answers and with half a line of the next, it comes out bit for bit."""
    lines = (kept / "trials.jsonl").read_bytes().splitlines(keepends=True)
    folder = tmp_path / "use"
    folder.mkdir()
    shutil.copy(kept / "run.json", folder)
    (folder / "trials.jsonl").write_bytes(b"".join(lines[:-2]) + lines[-2][:40])
    again = causal_use(decisions(mouse, GRIDS), mouse, layers=[1], doses=[0.5, 3.0], keep=folder)
    assert json.dumps(again.to_json()) == json.dumps(of_the_mouse.to_json())
    assert again.outcomes == of_the_mouse.outcomes
    assert (folder / "trials.jsonl").read_bytes() == b"".join(lines)
    about = json.loads((folder / "run.json").read_text())["what"]
    assert not set(about["halves"]["screen"]) & set(about["halves"]["confirm"])
    assert len(about["split"]) == 64 and about["weights"] == mouse.revision


def test_what_is_no_dose_and_no_family_is_refused(mouse: Network) -> None:
    samples = decisions(mouse, GRIDS)
    with pytest.raises(InvalidParameterError, match=r"a dose is -1\.0, expected a number above 0"):
        causal_use(samples, mouse, doses=[-1.0])
    with pytest.raises(InvalidParameterError, match="expected names from knock-out, patch"):
        causal_use(samples, mouse, families=["write", "erase"])
    with pytest.raises(InvalidParameterError, match="not only open"):
        causal_use(samples, mouse, families=["open"])


@pytest.mark.slow
def test_a_wall_is_opened_where_the_search_passes_it(mouse: Network) -> None:
    """Moves become those that are optimal without the wall; the verdict is about open cells."""
    families = ["knock-out", "write", "open"]
    use = causal_use(decisions(mouse, 36, walls=True), mouse, layers=[2], families=families)
    row, (random, other) = use.families[-1].row, use.families[-1].nulls
    assert (row.intervention, row.position, row.dose) == ("open, turn", "post/turn", 2.0)
    assert row.needed.flips.n >= 5 and row.needed.as_if_changed.value >= 0.3
    assert row.unneeded.flips.value <= 0.2
    assert random.intervention == "open, turn, random" and random.needed.flips.value == 0
    assert other.intervention == "open, turn, other"
    assert other.needed.flips.value < row.needed.flips.value
    judged = [use.confirmed, *use.nulls]
    assert not any(each.intervention.startswith("open") for each in judged)
    # A wall has no words of its own in this prompt.
    kinds = {row.intervention for row in use.screened if row.intervention.startswith("open")}
    assert kinds == {"open, turn", "open, closed, around", "open, end"}
