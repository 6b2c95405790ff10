"""Studies: trials that are stored and resumed, and the backends that run them."""

from goalmeter.runs.backends.processes import cores
from goalmeter.runs.backends.registry import (
    HERE,
    check_place,
    is_of_this_machine,
    own_process,
    place_names,
)
from goalmeter.runs.engine import Results, carry_out, check, stored_results
from goalmeter.runs.forecast import Forecast, Span, forecast_of
from goalmeter.runs.jobs import Backend, Batch, BatchResult, JobResult, Study
from goalmeter.runs.reading import StoredRun, keys_in, read_run
from goalmeter.runs.status import RunStatus, Worker, runs_below, status_of
from goalmeter.runs.store import RunStore, Stages, made_here

__all__ = [
    "HERE",
    "Backend",
    "Batch",
    "BatchResult",
    "Forecast",
    "JobResult",
    "Results",
    "RunStatus",
    "RunStore",
    "Span",
    "Stages",
    "StoredRun",
    "Study",
    "Worker",
    "carry_out",
    "check",
    "check_place",
    "cores",
    "forecast_of",
    "is_of_this_machine",
    "keys_in",
    "made_here",
    "own_process",
    "place_names",
    "read_run",
    "runs_below",
    "status_of",
    "stored_results",
]
