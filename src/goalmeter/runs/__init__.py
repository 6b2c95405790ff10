"""Ground floor: trials that are never lost, and the processes that play them."""

from goalmeter.runs.jobs import Job, JobResult
from goalmeter.runs.reading import StoredRun, read_run
from goalmeter.runs.store import RunStore, made_here
from goalmeter.runs.workers import Workers, cores, run_jobs

__all__ = [
    "Job",
    "JobResult",
    "RunStore",
    "StoredRun",
    "Workers",
    "cores",
    "made_here",
    "read_run",
    "run_jobs",
]
