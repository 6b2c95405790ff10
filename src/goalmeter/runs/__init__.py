"""Ground floor: trials that are never lost, and the processes that play them."""

from goalmeter.runs.jobs import Job as Job
from goalmeter.runs.jobs import JobResult as JobResult
from goalmeter.runs.reading import StoredRun as StoredRun
from goalmeter.runs.reading import read_run as read_run
from goalmeter.runs.store import RunStore as RunStore
from goalmeter.runs.store import made_here as made_here
from goalmeter.runs.workers import Workers as Workers
from goalmeter.runs.workers import cores as cores
from goalmeter.runs.workers import run_jobs as run_jobs
