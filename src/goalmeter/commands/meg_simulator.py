"""`goalmeter meg simulator`: MEG of an agent in a simulator."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalmeter.commands.declare import Tell, command, option
from goalmeter.commands.outcome import Outcome, write_outcome
from goalmeter.meg.simulator import SimulatorInterrupted
from goalmeter.meg.simulator.by_name import SimulatorSettings, measure
from goalmeter.meg.simulator.result import Measurement
from goalmeter.pages.runs import page_of
from goalmeter.pages.simulator import part_of, short_tables
from goalmeter.report import require_report_extra


@dataclass(frozen=True, kw_only=True)
class _SimulatorOptions(SimulatorSettings):
    out: Path | None = option("RUN  Run directory for the results, with a page.")


@command(_SimulatorOptions)
def measure_simulator(o: _SimulatorOptions, tell: Tell) -> Outcome:
    """Measure the MEG of an agent in a simulator.

    In FILE.py, an agent is one of ours, a function of the observation, or a function without
    parameters that returns a model; utilities and names of states are functions of (observation,
    info). Without --chance it is generator for Gymnasium's own environments and ours, else unknown.
    """
    out = None
    if o.out is not None:
        require_report_extra()
        out = Path(o.out).absolute()  # an environment may change the working folder
    try:
        # What a user's code prints is no result, and the result is all that standard output has.
        with redirect_stdout(sys.stderr):
            result = measure(o, out=out, progress=tell)
    except SimulatorInterrupted as so_far:
        note = "interrupted; this is the estimate so far, and nothing is stored"
        return _outcome(so_far.measurement, incomplete=note, is_interrupted=True)
    outcome = _outcome(result)
    if out is None:
        return outcome
    shown: dict[str, Any] = {"tables": outcome.tables, "text": outcome.text}
    shown |= {"command": "goalmeter meg simulator"} | page_of(part_of([result]))
    return write_outcome(out, result=outcome.json, **shown)


def _outcome(measurement: Measurement, **more: Any) -> Outcome:
    text = "\n".join(str(result) for result in measurement.utilities)
    json, tables = measurement.to_json(), short_tables(measurement)
    return Outcome(tables=tables, json=json, text=text, **more)
