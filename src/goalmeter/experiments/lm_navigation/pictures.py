"""Pictures of the replication: the published accuracy surface beside that of the compass."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.experiments.ledger import Number
from goalmeter.experiments.lm_navigation.beside import beside_the_compass, counted
from goalmeter.experiments.lm_navigation.compute import EVERY_CELL, Values
from goalmeter.navigation.suites.maze import PAPER_COMPLEXITIES, PAPER_SIZES
from goalmeter.report import Figure
from goalmeter.report.charts.heat_map import Panel, heat_map


def surfaces(published: Mapping[str, Number], references: Mapping[str, Values]) -> Figure:
    """Accuracy of the model, of the compass, and the difference."""
    model, greedy = np.empty(_SHAPE), np.empty(_SHAPE)
    for at in np.ndindex(_SHAPE):
        key = f"{EVERY_CELL}/{PAPER_SIZES[at[0]]}/{PAPER_COMPLEXITIES[at[1]]:g}"
        model[at] = published[key].published_value / 100
        greedy[at] = references["greedy"][key].value
    difference: FloatArray = model - greedy
    keys = [f"{EVERY_CELL}/{n}/{c:g}" for n in PAPER_SIZES for c in PAPER_COMPLEXITIES]
    said = counted(beside_the_compass(references, keys))
    return Figure(
        svg=heat_map(
            "lm-navigation-surfaces",
            [
                Panel(title="GPT-OSS-20B, published", values=model),
                Panel(title="compass (greedy), ours", values=greedy),
                Panel(title="model less compass", values=difference),
            ],
            rows=[f"size {size}" for size in PAPER_SIZES],
            columns=[f"complexity {complexity:g}" for complexity in PAPER_COMPLEXITIES],
            label="share of optimal actions, and its difference",
            limit=1.0,
        ),
        alt=f"Accuracy by size and complexity of the published model and of the compass. Of "
        f"{difference.size} kinds of grids the model is {said}.",
        caption="Accuracy falls with size and with walls for a compass as for the model.",
        wide=True,
    )


_SHAPE = (len(PAPER_SIZES), len(PAPER_COMPLEXITIES))
