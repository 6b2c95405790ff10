"""Agents in one suite, measured: the one that is asked about, and reference agents beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from goalmeter.agents.navigators import navigator
from goalmeter.navigation.measures import (
    Behaviour,
    Contrast,
    Factors,
    Frames,
    Keys,
    Observed,
    TwoPathTable,
    behaviour,
    frames,
    keys,
    observed,
    told_apart,
    two_path_table,
)
from goalmeter.navigation.measures.behaviour import Row
from goalmeter.navigation.plan import Plan
from goalmeter.navigation.playing import Walked, play_all

REFERENCES = ("optimal", "greedy", "random")
MAZES = ("maze", "isometries")

Progress = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Measured:
    """An agent in a suite, and all that was measured of it.

    Attributes:
        agent: its name.
        plan: which walks.
        seen: the walks as columns.
        behaviour: the measures that every suite has.
        frames: of "isometries".
        keys: of worlds with a key, one for each size and condition.
        two_paths: of "two-path", one for each thing and condition.
        factors: of worlds with a key: effects of the prompt and of the object, where they vary.
        reference: whether it is shown beside the agent that was asked about.
    """

    agent: str
    plan: Plan
    seen: Observed
    behaviour: Behaviour
    frames: Frames | None
    keys: tuple[Keys, ...]
    two_paths: tuple[TwoPathTable, ...]
    factors: tuple[Factors | Contrast, ...] = ()
    reference: bool = False

    @property
    def overall(self) -> tuple[Row, ...]:
        """Over sizes and complexities, in the grids as they were generated."""
        return tuple(row for row in self.behaviour.overall if row.transform is None)

    @property
    def cells(self) -> tuple[Row, ...]:
        """By size and complexity, in the grids as they were generated."""
        return tuple(row for row in self.behaviour.cells if row.transform is None)

    def to_json(self) -> dict[str, Any]:
        """All measures as JSON values."""
        out: dict[str, Any] = {"agent": self.agent} | self.behaviour.to_json()
        if self.frames is not None:
            out["frames"] = self.frames.to_json()
        if self.keys:
            out["keys"] = [found.to_json() for found in self.keys]
        if self.two_paths:
            out["two_paths"] = [found.to_json() for found in self.two_paths]
        if self.factors:
            out["factors"] = [found.to_json() for found in self.factors]
        return out


def measured(walked: Walked, *, reference: bool = False) -> Measured:
    """Measure an agent's walks.

    Raises:
        InvalidTrajectoryError: a walk does not agree with its world.
    """
    seen = observed(walked.trajectories)
    name = walked.plan.suite.name
    return Measured(
        agent=walked.plan.agent,
        plan=walked.plan,
        seen=seen,
        behaviour=behaviour(seen),
        frames=frames(seen) if name == "isometries" else None,
        keys=() if name in MAZES else keys(seen),
        two_paths=two_path_table(seen) if name == "two-path" else (),
        factors=() if name in MAZES else told_apart(seen),
        reference=reference,
    )


def references(
    plan: Plan,
    without: Sequence[str] = (),
    *,
    workers: int = 1,
    progress: Progress | None = None,
) -> list[Measured]:
    """Reference agents on the walks of a plan, those named left out.

    Where there are keys, the one that seeks them is among them.
    """
    names = REFERENCES if plan.suite.name in MAZES else (*REFERENCES, "key-seeker")
    out = []
    for name in names:
        if name in without:
            continue
        if progress is not None:
            progress(f"reference agent: {name}")
        walked = play_all(replace(plan, agent=navigator(name).name), workers=workers)
        out.append(measured(walked, reference=True))
    return out
