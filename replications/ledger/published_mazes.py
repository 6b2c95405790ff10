"""Evaluate the compass in the mazes of the authors' release, and write the rows of "same mazes".

    git clone https://github.com/filippo-merlo/reveng && git -C reveng checkout 78ea678
    python -m replications.ledger.published_mazes reveng [LEDGER.toml]

The release (Apache License 2.0) has 300 mazes, and for 291 of them the number of open cells in
which GPT-OSS-20B, asked once in each, chose an action that is not optimal. The ledger keeps these
numbers and the accuracy of the compass in the same mazes.
"""

from __future__ import annotations

import csv
import pickle
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from goalmeter import InvalidFileError
from goalmeter.agents import agent as named
from goalmeter.gridworld import GridWorld, plan
from goalmeter.navigation import exact
from goalmeter.report import write_text
from replications.ledger import PATH, say
from replications.ledger.update import with_row

_EXPERIMENTS = Path("src/reveng/experiments")
MAZES = _EXPERIMENTS / "datasets" / "baseline_grids.pkl"
ANSWERS = _EXPERIMENTS / "results" / "together_ai_openai_gpt-oss-20b-baseline"
_PREFIX = "lm-navigation/greedy/every-cell/"
_DIGITS = 2  # of percentages


class _Record:
    """Stand-in for every class of the pickled mazes: it keeps their state and runs no code."""

    state: Mapping[str, Any] = {}

    def __new__(cls, *args: Any) -> _Record:
        return object.__new__(cls)

    def __init__(self, *args: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Unpickler(pickle.Unpickler):
    """Reader of a pickle that imports nothing of what the file names."""

    def find_class(self, module: str, name: str) -> Any:
        return _Record


def read_mazes(release: str | Path) -> dict[str, GridWorld]:
    """Return the mazes of the release by their names."""
    with (Path(release) / MAZES).open("rb") as file:
        environments = _Unpickler(file).load()
    return {name: _maze(environment.state) for name, environment in environments.items()}


def _maze(state: Mapping[str, Any]) -> GridWorld:
    grid = state["grid"].state
    walls = [cell is not None and cell.state["type"] == "wall" for cell in grid["grid"]]
    # The release has (column, row).
    (x, y), (goal_x, goal_y) = state["agent_pos"], state["goal_pos"]
    return GridWorld(np.reshape(walls, (grid["height"], grid["width"])), (y, x), (goal_y, goal_x))


def row_values(release: str | Path) -> dict[str, dict[str, str]]:
    """Return the values of the rows, spelled as TOML, by their ids."""
    mazes = read_mazes(release)
    walker: Any = named("greedy").in_grids()
    answers = [
        row
        for path in sorted((Path(release) / ANSWERS).glob("policy_comparison_results_*.csv"))
        for row in csv.DictReader(path.read_text(encoding="utf-8").splitlines())
    ]
    kinds: dict[str, list[tuple[int, int, float]]] = defaultdict(list)
    for row in answers:
        shortest = plan(mazes[row["grid_id"]])
        cells = len(shortest.world.open_cells) - 1  # all but the goal
        if cells != int(row["total_cells"]):
            raise InvalidFileError(say.sentence("refused", "cells", row=row, cells=cells))
        accuracy = 100 * float(exact(walker.policy(shortest), shortest, cap=1).accuracy)
        kind = f"{row['grid_size']}/{float(row['complexity']):g}"
        kinds[kind].append((cells, int(row["errors"]), round(accuracy, _DIGITS)))
    out = {}
    for kind, seen in kinds.items():
        accuracies = [accuracy for _, _, accuracy in seen]
        out[_PREFIX + kind] = {
            "ours": f"{np.mean(accuracies):.5g}",
            "cells": str(seen[0][0]),  # all mazes of a kind have as many
            "errors": str([errors for _, errors, _ in seen]),
            "ours_by_maze": str(accuracies),
        }
    return out


def main(release: str, ledger: str = str(PATH)) -> None:
    """Write the rows into a ledger, and print how many."""
    text, values = Path(ledger).read_text("utf-8"), row_values(release)
    for row_id, of_row in values.items():
        text = with_row(text, row_id, of_row)
    write_text(ledger, text)
    print(f"{len(values)} rows")


if __name__ == "__main__":
    main(*sys.argv[1:])
