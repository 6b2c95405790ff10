"""What was measured of one agent in one suite, beside reference agents in the same worlds.

It prints, is a small table in a notebook, and is the JSON object of the command; both are made
here, so they cannot differ.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from goalmeter.navigation.directed.directedness import Directedness, directedness
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
from goalmeter.navigation.plan import WalkPlan
from goalmeter.navigation.playing import Walked, failures
from goalmeter.report.notebook import data_frame, html_table, text_table
from goalmeter.report.numbers import percent
from goalmeter.statistics.clustered import Estimate

_COLUMNS = {
    "accuracy_detour": "optimal in detour states",
    "accuracy": "optimal actions",
    "success": "goal reached",
    "spl": "SPL",
    "invalid": "invalid answers",
}
_NOTE = (
    "Detour states are places where a compass may lead astray. In brackets: 95% intervals over "
    "grids."
)


@dataclass(frozen=True, eq=False)
class Navigation:
    """An agent in a suite, and all that was measured of it.

    Attributes:
        agent: its name.
        plan: which walks it took.
        seen: the walks as columns.
        behaviour: the measures that every suite has.
        frames: of suites in several frames; None elsewhere.
        keys: of worlds with a key, an entry for each size and condition.
        two_paths: of worlds that come with a key and without, an entry for each thing and
            condition.
        factors: of worlds with a key: effects of the prompt and of the object, where they vary.
        reference: whether it is shown beside the agent that was asked about.
        references: the reference agents in the same worlds.
        folder: of the run that keeps the walks; None where they are not kept.
        spent: what a language model's run has cost, over all commands, as JSON values; None for
            other agents.
    """

    agent: str
    plan: WalkPlan
    seen: Observed
    behaviour: Behaviour
    frames: Frames | None
    keys: tuple[Keys, ...]
    two_paths: tuple[TwoPathTable, ...]
    factors: tuple[Factors | Contrast, ...] = ()
    reference: bool = False
    references: tuple[Navigation, ...] = ()
    folder: Path | None = None
    spent: Mapping[str, Any] | None = None

    @property
    def overall(self) -> tuple[Row, ...]:
        """Over sizes and complexities, in the grids as they were generated."""
        return tuple(row for row in self.behaviour.overall if row.transform is None)

    @property
    def cells(self) -> tuple[Row, ...]:
        """By size and complexity, in the grids as they were generated."""
        return tuple(row for row in self.behaviour.cells if row.transform is None)

    @property
    def failed(self) -> dict[str, int]:
        """How many walks a language model's server ended, by outcome; they count as not arrived."""
        return failures(self.seen.trajectories)

    @cached_property
    def directed(self) -> tuple[Directedness, ...]:
        """The goal-directedness of the walks, under each condition: towards the goal and the key.

        Fitted when it is first asked for, which takes longer than all the rest.
        """
        return tuple(directedness([self]))

    @cached_property
    def directed_beside(self) -> tuple[Directedness, ...]:
        """The same of this agent and then of its references, which share the work."""
        return tuple(directedness([self, *self.references]))

    def to_json(self, *, directed: bool = False) -> dict[str, Any]:
        """All measures as JSON values: what the command prints with --json.

        Args:
            directed: whether to fit the goal-directedness of the walks too, under "meg".
        """
        out = self._measures()
        out["references"] = {agent.agent: agent._measures() for agent in self.references}
        if self.folder is not None:
            out["run"] = str(self.folder.resolve())
        if self.plan.asking is not None:
            out["failed"] = self.failed
        if self.spent is not None:
            out["spent"] = dict(self.spent)
        if directed:
            fits = self.directed_beside
            for agent, part in ((self.agent, out), *out["references"].items()):
                part["meg"] = [fit.to_json() for fit in fits if fit.agent == agent]
        return out

    def _measures(self) -> dict[str, Any]:
        out: dict[str, Any] = {"agent": self.agent} | self.behaviour.to_json()
        if self.frames is not None:
            out["frames"] = self.frames.to_json()
        for name in ("keys", "two_paths", "factors"):
            if parts := getattr(self, name):
                out[name] = [part.to_json() for part in parts]
        return out

    def records(self, *, references: bool = False) -> list[dict[str, Any]]:
        """A record for each size, complexity, frame and condition, with every measure.

        A measure has three more entries: NAME_low and NAME_high, the ends of its interval, None
        where there is none, and NAME_n, how many observations it rests on.

        Args:
            references: whether to add those of the reference agents.
        """
        agents = (self, *(self.references if references else ()))
        return [
            {"agent": result.agent, "suite": result.plan.suite.name} | _record(row)
            for result in agents
            for row in result.behaviour.cells
        ]

    def walk_records(self) -> list[dict[str, Any]]:
        """A record for each walk: its labels, how it ended, and how well it went."""
        return list(_walk_records(self))

    def to_pandas(self, *, references: bool = False) -> Any:
        """`records` as a pandas data frame.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        return data_frame(self.records(references=references))

    def __str__(self) -> str:
        return text_table(self._caption(), self._rows())

    def __repr__(self) -> str:
        return (
            f"<Navigation of {self.agent} in {self.plan.suite.name}: {self.seen.length.size} walks>"
        )

    def _repr_html_(self) -> str:
        head, *rows = self._rows()
        return html_table(self._caption(), head, rows, [_NOTE])

    def _caption(self) -> str:
        walks, grids = len(self.seen.trajectories), len(self.seen.grids)
        return f"{self.agent} in the suite {self.plan.suite.name}: {walks} walks in {grids} grids"

    def _rows(self) -> list[list[str]]:
        """The table as text: its head, then this agent and its references."""
        rows = [["agent", *_COLUMNS.values()]]
        for result in (self, *self.references):
            several = len(result.overall) > 1
            for row in result.overall:
                condition = json.loads(row.condition).items() if several else ()
                labels = [f"{name} {json.dumps(value)}" for name, value in condition]
                rows.append(
                    [
                        ", ".join([result.agent, *labels]),
                        *(_share(getattr(row, column)) for column in _COLUMNS),
                    ]
                )
        return rows


def navigation_of(
    walked: Walked,
    *,
    reference: bool = False,
    references: Sequence[Navigation] = (),
    folder: str | Path | None = None,
) -> Navigation:
    """Measure an agent's walks.

    Raises InvalidTrajectoryError if a walk does not agree with its world.
    """
    seen, suite = observed(walked.trajectories), walked.plan.suite
    return Navigation(
        agent=walked.plan.agent,
        plan=walked.plan,
        seen=seen,
        behaviour=behaviour(seen),
        frames=frames(seen) if suite.has_frames else None,
        keys=keys(seen) if suite.key is not None else (),
        two_paths=two_path_table(seen) if suite.is_paired else (),
        factors=told_apart(seen) if suite.key is not None else (),
        reference=reference,
        references=tuple(references),
        folder=None if folder is None else Path(folder),
        spent=walked.spent,
    )


def _record(row: Row) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for each in fields(row):
        value = getattr(row, each.name)
        if isinstance(value, Estimate):
            out |= value.record(each.name)
        elif each.name == "outcomes":
            out |= {f"outcome: {name}": count for name, count in value.items()}
        else:
            out[each.name] = value
    return out


def _walk_records(result: Navigation) -> Iterator[dict[str, Any]]:
    seen = result.seen
    columns = {"spl": seen.spl, "accuracy": seen.accuracy}
    for number, walk in enumerate(seen.trajectories):
        yield {
            "agent": result.agent,
            "suite": walk.suite,
            "size": walk.size,
            "complexity": walk.complexity,
            "grid": walk.grid,
            "seed": walk.seed,
            "transform": walk.transform,
            "condition": seen.kinds[seen.kind[number]].condition,
            "trajectory": walk.trajectory,
            "outcome": walk.outcome,
            "arrived": walk.arrived,
            "distance": walk.distance,
            "cap": walk.cap,
            "steps": len(walk.steps),
            **{name: float(column[number]) for name, column in columns.items()},
            "invalid": sum(step.action is None for step in walk.steps),
        }


def _share(estimate: Estimate) -> str:
    """A share in percent, with its interval where there is one."""
    if estimate.value != estimate.value:
        return "–"
    if estimate.interval is None:
        return percent(estimate.value)
    low, high = (percent(end) for end in estimate.interval)
    return f"{percent(estimate.value)} [{low}, {high}]"
