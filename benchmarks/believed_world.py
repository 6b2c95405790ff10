"""Compare goal-directedness in the believed and in the true world, on mazes no choice was made on.

The method was chosen on mazes of seed 11. Seeds can draw the same maze, so this script leaves out
every maze whose walls and goal, up to rotation and reflection, occur there. The mole should be more
directed in its believed world (it plans on a wrong map), the mouse equally (its map is right), and
the moth in neither (it has a habit and no goal).

    python benchmarks/believed_world.py --out RUN [--agents mole,mouse] [--seed 14]

Writes `results.json` in RUN.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import goalmeter as gm
from goalmeter.gridworld import content
from goalmeter.navigation import Suite, register_suite, suites
from goalmeter.navigation.suite_definition import LabelledWorld, SuiteOptions

SELECTION = {"sizes": (7,), "complexities": (0.6, 1.0), "grids": 30, "seed": 11}


@cache
def selection_contents() -> frozenset[str]:
    """The contents of the mazes on which the method was chosen."""
    options = SuiteOptions(**SELECTION, held_out=True)
    return frozenset(content(labelled.world) for labelled in suites.MAZE.worlds(options))


def fresh_mazes(options: SuiteOptions) -> Iterator[LabelledWorld]:
    """The next held-out mazes of each complexity whose content the selection does not share."""
    grids = options.grids or 1
    # One maze of three may be among those of the selection.
    more = replace(options, grids=4 * grids)
    taken: dict[float | None, int] = {}
    for labelled in suites.MAZE.worlds(more):
        number = taken.get(labelled.complexity, 0)
        if number < grids and content(labelled.world) not in selection_contents():
            taken[labelled.complexity] = number + 1
            yield replace(labelled, grid=number)
    assert set(taken.values()) == {grids}, taken


SUITE: Suite = replace(suites.MAZE, name="fresh-maze", worlds=fresh_mazes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--agents", default="mole,mouse,moth")
    parser.add_argument("--seed", type=int, default=14)
    parser.add_argument("--grids", type=int, default=30)
    options = parser.parse_args()
    register_suite(SUITE)
    rows = []
    for name in options.agents.split(","):
        run = options.out / name
        gm.navigation.measure(
            f"goalmeter/{name}",
            SUITE.name,
            sizes=(7,),
            complexities=(0.6, 1.0),
            grids=options.grids,
            trajectories=1,
            seed=options.seed,
            out=run,
        )
        result = gm.representation.measure(
            run,
            layers=(3,),
            positions=("pre/end",),
            parts=("maps", "use"),
            interventions=("knock-out",),
        )
        believed = result.to_json()["believed"]
        rows.append({"agent": name, "believed": believed})
        print(f"{name}: done", flush=True)
    (options.out / "results.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
