"""The result of a probe: all numbers that a report shows, in one JSON file."""

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

# In the folder of a navigation run.
FOLDER, RESULT = "probe", "result.json"
FORMAT = 1
_MOST_BYTES = 2**28
_NOTE = (
    "AUROC on held-out grids; in brackets 95% intervals over grids. What is read of a model need "
    "not be used by it: moves that flip are those of answers that it gave with a cell changed."
)


@dataclass(frozen=True)
class Representation(JsonFields):
    """What the model of a navigation run encodes and uses."""

    run: str  # name of the run's folder
    model: str
    revision: str  # hash of its weights
    decisions: int  # number of replayed decisions
    grids: int  # number of different grids
    # The options, as `ProbeOptions.to_json` has them; "run" is the digest of the decisions, see
    # `replay.run_digest`.
    about: Mapping[str, Any]
    # {"layer", "position", "probe"} whose maps are decoded, chosen on validation grids; empty
    # without maps.
    chosen: Mapping[str, Any] = field(default_factory=dict)
    maps: tuple[kinds.MapRow, ...] = ()  # by layer, position, probe and control
    places: tuple[kinds.PlaceRow, ...] = ()  # of agent and goal
    # Shares of actions that the decoded maps explain, see `Explained`, with "detour" for the
    # states where a compass may err; empty without maps.
    explained: Mapping[str, Any] = field(default_factory=dict)
    # `meg_true`, `meg_decoded`, `meg_believed` and their differences; empty without maps and use.
    believed: Mapping[str, Any] = field(default_factory=dict)
    use: tuple[kinds.UsedRow, ...] = ()  # interventions of both halves
    verdict: str = ""  # whether needed cells are used, see `Use.verdict`; "" without use
    doses: tuple[kinds.DoseRow, ...] = ()  # of the best write
    spans: tuple[kinds.SpanRow, ...] = ()  # of needed cells, hidden from one span at a time
    moved: tuple[kinds.MovedRow, ...] = ()  # of streams of questions in which something moved
    subspaces: tuple[kinds.SubspaceRow, ...] = ()  # the dimensions that carry goal and agent
    plan: tuple[kinds.PlanRow, ...] = ()  # by place and number of actions
    decided: tuple[kinds.DecidedRow, ...] = ()  # along the reasoning
    settled: tuple[kinds.SettledRow, ...] = ()  # from where on the actions can be read
    states: tuple[kinds.StatePicture, ...] = ()  # pictures of some states
    left_out: Mapping[str, str] = field(default_factory=dict)  # why something is missing, by name

    def maps_of(self, label: str = "wall", cells: str = "uncertain") -> tuple[kinds.MapRow, ...]:
        """Return the rows of one class in one set of cells."""
        return tuple(row for row in self.maps if (row.label, row.cells) == (label, cells))

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values, as the command prints them with --json."""
        return {"format": FORMAT} | super().to_json()

    def save(self, run: str | Path) -> Path:
        """Write the result into the folder of its run atomically."""
        return write_text(Path(run) / FOLDER / RESULT, json_text(self.to_json()) + "\n")

    @classmethod
    def load(cls, run: str | Path, digest: str | None = None) -> Representation:
        """Read the result of a run, after a check of the digest of its decisions if it is given."""
        path = Path(run) / FOLDER / RESULT
        try:
            value = json.loads(read_bytes(path, _MOST_BYTES))
            if value["format"] != FORMAT:
                raise ValueError(f"format {value['format']!r}")
            result = kinds.row_from(cls, value)
            # What a later probe takes over.
            lists = [result.about.get(name, []) for name in ("parts", "probes")]
            texts = [*result.left_out.values(), *(name for names in lists for name in names)]
            are_lists = all(isinstance(names, list) for names in lists)
            if not are_lists or not all(isinstance(text, str) for text in texts):
                raise ValueError("'left_out' or 'about' has names or reasons that are no text")
        except FileNotFoundError as cause:
            raise InvalidFileError(
                f"{run} holds nothing that was read of its model: {path.name} is not in {FOLDER}; "
                f"probe the run first"
            ) from cause
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as cause:
            raise InvalidFileError(
                f"{path} is no result of this version ({type(cause).__name__}: {cause}); delete it "
                f"and probe the run again"
            ) from cause
        if digest is not None and result.about.get("run") != digest:
            raise InvalidFileError(
                f"{path} does not name the decisions of this run: it is of another run, or of an "
                f"earlier version; delete it and probe the run again"
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
        """The number of decisions and the verdict, in a clause."""
        replayed = f"{self.decisions} decisions in {self.grids} grids were replayed"
        if self.verdict in ("used", "not used"):
            return f"{replayed}; what it reads of needed cells is {self.verdict}"
        unknown = "; whether it uses what it reads of needed cells cannot be told"
        return replayed + (unknown if self.verdict else "")

    def _rows(self) -> list[list[str]]:
        """Return the main numbers as text."""
        rows = [["what", "where", "value", "beside"]]
        # By probe, its own row and those of its controls on the same grids.
        probes: dict[tuple[Any, ...], dict[str | None, kinds.MapRow]] = {}
        for row in self.maps_of():
            if row.control != CONTROL_TASK:
                place = (row.layer, row.position, row.probe)
                probes.setdefault(place, {})[row.control] = row
        for (layer, position, probe), group in probes.items():
            areas = {control: row.auroc for control, row in group.items() if row.auroc is not None}
            if (ours := areas.pop(None, None)) is not None:
                best = max(areas, key=lambda control: areas[control].value, default=None)
                beside = "" if best is None else f"{best} {areas[best].value:.2f}"
                what = f"walls of uncertain cells, {probe}: AUROC"
                rows.append([what, f"layer {layer}, {position}", number(ours, 2), beside])
        for used in self.use:
            if used.chosen and used.half == "confirm":
                beside = "" if used.null_flips is None else f"null {percent(used.null_flips)}"
                what = f"moves that flip, {used.intervention}"
                where = f"layer {used.layer}, {used.position}"
                rows.append([what, where, percent(used.flips), beside])
        if self.believed:
            true, inner = (
                nats(self.believed[name]["nats"]["value"]) for name in ("meg_true", "meg_believed")
            )
            beside = f"true world {true}"
            own = probes.get(tuple(self.chosen.get(k) for k in ("layer", "position", "probe")), {})
            gain = own[None].gain_bits if None in own else None
            if reason := unbelieved(gain, self.believed.get("places")):
                beside += f"; but nothing is said of a believed world: {reason}"
            rows.append(["MEG in the believed world", "", inner, beside])
        return rows


def has_result(run: str | Path) -> bool:
    """Return whether a run has a result of a probe."""
    return (Path(run) / FOLDER / RESULT).is_file()
