"""Result of a probe: all numbers of a report, in one JSON file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidFileError, json_text
from goalmeter._files import JsonFields, read_bytes, write_text
from goalmeter.report.numbers import nats, number, percent
from goalmeter.report.tables import data_frame, html_table, text_table
from goalmeter.representation import result_rows as kinds
from goalmeter.representation.beliefs.believed import unbelieved
from goalmeter.representation.probes.comparison import CONTROL_TASK
from goalmeter.statistics.clusters import Estimate

# Folder and file name in the directory of a navigation run.
FOLDER, RESULT = "probe", "result.json"
FORMAT = 1
_MOST_BYTES = 2**28
_NOTE = (
    "AUROC on held-out grids; in brackets 95% intervals over grids. A model need not use what a "
    "probe decodes: moves that flip were measured by changing cells in its activations."
)


@dataclass(frozen=True)
class Representation(JsonFields):
    """Result of a probe: what the model of a navigation run encodes and uses."""

    run: str  # name of the run directory
    model: str  # name of the model
    revision: str  # hash of its weights
    decisions: int  # number of replayed decisions
    grids: int  # number of different grids
    # Options (`ProbeOptions.to_json`); "run" is the digest of the decisions (`replay.run_digest`).
    about: Mapping[str, Any]
    # "layer", "position" and "probe" of the decoded maps, chosen on validation grids; empty without
    # maps.
    chosen: Mapping[str, Any] = field(default_factory=dict)
    maps: tuple[kinds.MapRow, ...] = ()  # map scores by layer, position, probe and control
    places: tuple[kinds.PlaceRow, ...] = ()  # position errors of agent and goal
    # Shares of actions that the decoded maps explain (see `Explained`), with "detour" for states in
    # which the compass may err; empty without maps.
    explained: Mapping[str, Any] = field(default_factory=dict)
    # `meg_true`, `meg_decoded`, `meg_believed` and their differences; empty without maps and use.
    believed: Mapping[str, Any] = field(default_factory=dict)
    use: tuple[kinds.UsedRow, ...] = ()  # interventions of both halves
    verdict: str = ""  # whether needed cells are used (`Use.verdict`); "" without use
    doses: tuple[kinds.DoseRow, ...] = ()  # the best write by dose
    spans: tuple[kinds.SpanRow, ...] = ()  # effects of hiding needed cells from single spans
    moved: tuple[kinds.MovedRow, ...] = ()  # effects of streams of questions with a moved object
    subspaces: tuple[kinds.SubspaceRow, ...] = ()  # subspaces learnt to carry goal and agent
    plan: tuple[kinds.PlanRow, ...] = ()  # plan scores by place and number of actions
    decided: tuple[kinds.DecidedRow, ...] = ()  # plan scores by share of the reasoning
    settled: tuple[kinds.SettledRow, ...] = ()  # shares from which actions are predicted
    states: tuple[kinds.StatePicture, ...] = ()  # pictures of selected states
    left_out: Mapping[str, str] = field(default_factory=dict)  # reasons by name of what is missing

    def maps_of(self, label: str = "wall", cells: str = "uncertain") -> tuple[kinds.MapRow, ...]:
        """Return the rows of one class in one set of cells."""
        return tuple(row for row in self.maps if (row.label, row.cells) == (label, cells))

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values, the output of the command with `--json`."""
        return {"format": FORMAT} | super().to_json()

    def save(self, run: str | Path) -> Path:
        """Write the result to the directory of its run atomically."""
        return write_text(Path(run) / FOLDER / RESULT, json_text(self.to_json()) + "\n")

    @classmethod
    def load(cls, run: str | Path, digest: str | None = None) -> Representation:
        """Read the result of a run; if given, the digest of its decisions is validated."""
        path = Path(run) / FOLDER / RESULT
        try:
            value = json.loads(read_bytes(path, _MOST_BYTES))
            if value["format"] != FORMAT:
                raise ValueError(f"format {value['format']!r}")
            result = kinds.row_from(cls, value)
            # A later probe reuses these fields.
            lists = [result.about.get(name, []) for name in ("parts", "probes")]
            texts = [*result.left_out.values(), *(name for names in lists for name in names)]
            are_lists = all(isinstance(names, list) for names in lists)
            if not are_lists or not all(isinstance(text, str) for text in texts):
                raise ValueError("names or reasons in 'left_out' or 'about' are not strings")
        except FileNotFoundError as cause:
            raise InvalidFileError(
                f"{run} contains no result of a probe: {path.name} is not in {FOLDER}; probe the "
                f"run first"
            ) from cause
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as cause:
            raise InvalidFileError(
                f"{path} is not a result of this version ({type(cause).__name__}: {cause}); delete "
                f"it and probe the run again"
            ) from cause
        if digest is not None and result.about.get("run") != digest:
            raise InvalidFileError(
                f"{path} belongs to the decisions of another run or to an earlier version; delete "
                f"it and probe the run again"
            )
        return result

    def records(self) -> list[dict[str, Any]]:
        """Return a record for each row of `maps`, with NAME_low and NAME_high for each estimate."""
        out: list[dict[str, Any]] = []
        for row in self.maps:
            out.append({})
            for name, value in vars(row).items():
                plain = {kinds.json_name(name): value}
                out[-1] |= value.record(name) if isinstance(value, Estimate) else plain
        return out

    def to_pandas(self) -> Any:
        """Return `records` as a pandas data frame."""
        return data_frame(self.records())

    def __str__(self) -> str:
        return text_table(f"{self.model}: {self.headline}", self._rows())

    def _repr_html_(self) -> str:
        head, *rows = self._rows()
        return html_table(f"{self.model}: {self.headline}", head, rows, [_NOTE])

    @property
    def headline(self) -> str:
        """Number of decisions and the verdict, in one clause."""
        replayed = f"{self.decisions} decisions in {self.grids} grids were replayed"
        if self.verdict in ("used", "not used"):
            return f"{replayed}; its representation of needed cells is {self.verdict}"
        unknown = "; whether it uses its representation of needed cells is inconclusive"
        return replayed + (unknown if self.verdict else "")

    def _rows(self) -> list[list[str]]:
        """Return the main numbers as text."""
        rows = [["measure", "place", "value", "comparison"]]
        # Rows of each probe and of its controls on the same grids.
        probes: dict[tuple[Any, ...], dict[str | None, kinds.MapRow]] = {}
        for row in self.maps_of():
            if row.control != CONTROL_TASK:
                place = (row.layer, row.position, row.probe)
                probes.setdefault(place, {})[row.control] = row
        for (layer, position, probe), group in probes.items():
            areas = {control: row.auroc for control, row in group.items() if row.auroc is not None}
            if (ours := areas.pop(None, None)) is not None:
                best = max(areas, key=lambda control: areas[control].value, default=None)
                baseline = "" if best is None else f"{best} {areas[best].value:.2f}"
                measure = f"walls of uncertain cells, {probe}: AUROC"
                rows.append([measure, f"layer {layer}, {position}", number(ours, 2), baseline])
        for used in self.use:
            if used.chosen and used.half == "confirm":
                baseline = "" if used.null_flips is None else f"null {percent(used.null_flips)}"
                measure = f"moves that flip, {used.intervention}"
                where = f"layer {used.layer}, {used.position}"
                rows.append([measure, where, percent(used.flips), baseline])
        if self.believed:
            true, believed = (
                nats(self.believed[name]["nats"]["value"]) for name in ("meg_true", "meg_believed")
            )
            baseline = f"true world {true}"
            own = probes.get(tuple(self.chosen.get(k) for k in ("layer", "position", "probe")), {})
            gain = own[None].gain_bits if None in own else None
            if reason := unbelieved(gain, self.believed.get("places")):
                baseline += f"; not interpretable: {reason}"
            rows.append(["MEG in the believed world", "", believed, baseline])
        return rows


def has_result(run: str | Path) -> bool:
    """Return whether a run has a result of a probe."""
    return (Path(run) / FOLDER / RESULT).is_file()
