"""`TableMeg`: a goal-directedness in a causal model, estimated from a table of outcomes."""

from __future__ import annotations

from dataclasses import dataclass

from goalmeter._names import listed
from goalmeter.meg.causal.result import RECALLS, CausalMeg
from goalmeter.meg.result import TrajectoryMeg


@dataclass(frozen=True, kw_only=True, eq=False)
class TableMeg(TrajectoryMeg, CausalMeg):
    """A `TrajectoryMeg` whose n trajectories are the rows of a table, in a causal model."""

    _COUNTED = "rows of the table"

    def __str__(self) -> str:
        head, *rest = TrajectoryMeg.__str__(self).replace("trajectories", "rows").split("\n")
        lines = [head, f"  decisions {listed(self.decisions)}; {RECALLS[self.recall]}", *rest]
        if self.goal is not None:
            lines.insert(-len(self.notes) or len(lines), f"  goal: {self.goal}")
        return "\n".join(lines)
