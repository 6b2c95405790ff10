"""Measure MEG over hidden states of the mouse and the moth, against other features of cells.

    python benchmarks/hidden_utilities.py --out RUN [--agents mouse,moth] [--dimensions 8]

Writes `results.json` in RUN.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import goalmeter as gm


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--agents", default="mouse,moth")
    parser.add_argument("--dimensions", type=int, default=8)
    options = parser.parse_args()
    results = []
    for name in options.agents.split(","):
        gm.navigation.measure(
            f"goalmeter/{name}",
            sizes=(7,),
            complexities=(0.4, 0.6, 0.8, 1.0),
            grids=6,
            trajectories=1,
            beside=(),
            out=options.out / name,
        )
        result = gm.representation.hidden_utility(
            options.out / name, dimensions=options.dimensions, progress=print
        )
        print(result)
        results.append(result.to_json())
    (options.out / "results.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
