"""The authors' pilot on small mazes, beside agents in mazes of the same kinds."""

from __future__ import annotations

from goalmeter.experiments.lm_navigation.beside import Agents, beside_the_compass, published
from goalmeter.navigation.suites.maze import PAPER_COMPLEXITIES
from goalmeter.report import Column, Table
from goalmeter.report.numbers import percent

SIZE = 7
_SHOWN = ("greedy", "random")  # an agent without fault has 100% of both


def pilot_table(references: Agents, runs: Agents) -> Table:
    """Walks through mazes of size 7 by complexity, as the pilot has them."""
    theirs = published()
    agents = {name: references[name] for name in _SHOWN if name in references} | dict(runs)
    agents = {name: found for name, found in agents.items() if f"maze/{SIZE}/0/success" in found}
    quantities = {"success": "goal reached", "accuracy": "optimal actions"}
    rows = []
    for complexity in PAPER_COMPLEXITIES:
        keys = [f"maze/{SIZE}/{complexity:g}/{quantity}" for quantity in quantities]
        rows.append(
            (
                f"{complexity:g}",
                *(f"{theirs[key].published}%" for key in keys),
                *(
                    percent(found[key]) if key in found else "–"
                    for found in agents.values()
                    for key in keys
                ),
                *(number.verdict for number in beside_the_compass(references, keys)),
            )
        )
    groups = ("GPT-OSS-20B, pilot", *agents, "the model beside greedy")
    return Table(
        caption=f"Mazes of size {SIZE}, by complexity",
        columns=(
            Column("complexity", numeric=False),
            *(
                Column(words, numeric=group != groups[-1], group=group)
                for group in groups
                for words in quantities.values()
            ),
        ),
        rows=tuple(rows),
        meaning="In the pilot about 40 walks for each complexity, at low reasoning effort and "
        "temperature 0.7; ours are the walks of the table above. In brackets: 95% intervals over "
        "grids.",
        notes=(
            "The pilot's cap is not known to us, and its grids are others. Its walks are taken to "
            "be of 10 grids, as 480 walks in 12 settings suggest; how the compass varies between "
            "grids stands for the spread of the model, and shares of walks are trusted no more "
            "than 40 walks allow.",
        ),
    )
