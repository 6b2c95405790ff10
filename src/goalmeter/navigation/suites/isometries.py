"""The suite "isometries": the grids of "maze", each of them in changed frames too.

Source: "A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
Agents", section 3.
"""

from __future__ import annotations

from dataclasses import replace

from goalmeter.navigation.suites import maze

SUITE = replace(
    maze.SUITE,
    name="isometries",
    about="the same mazes in other frames",
    # Each grid is walked through in five frames.
    small=replace(maze.SUITE.small, trajectories=2),
    has_frames=True,
)
