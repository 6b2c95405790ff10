"""The suite "maze": mazes by size and complexity.

Source: "A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
Agents", section 3: 5 sizes x 6 complexities x 10 grids x 10 trajectories and a cap of 1.5 times the
shortest path. That cap makes success depend on how long a grid's path is; the default is 3 times.
"""

from __future__ import annotations

from goalmeter.navigation.suites.mazes import (
    PAPER_COMPLEXITIES,
    PAPER_SIZES,
    SMALL_COMPLEXITIES,
    SMALL_SIZES,
    mazes,
)
from goalmeter.navigation.suites.record import Scale, Suite

SUITE = Suite(
    name="maze",
    about="mazes by size and complexity",
    worlds=mazes,
    small=Scale(sizes=SMALL_SIZES, complexities=SMALL_COMPLEXITIES, grids=5, trajectories=4),
    paper=Scale(sizes=PAPER_SIZES, complexities=PAPER_COMPLEXITIES, grids=10, trajectories=10),
    has_complexity=True,
)
