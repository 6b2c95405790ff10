"""Registry of execution backends.

Another package adds one by an entry point in the group "goalmeter.backends": its name is the
spelling, and it loads a function (argument, *, trials, timeout) -> `Backend`, like the classes
below: `argument` are the options behind the colon, `trials` how many trials there are to make, and
`timeout` how many seconds each may take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.metadata import EntryPoint

from goalmeter._errors import InvalidParameterError
from goalmeter._names import BACKENDS as GROUP
from goalmeter._names import loaded, plugins, refuse_taken, unknown_name
from goalmeter.runs.jobs import Backend, Batch, BatchResult, calls

HERE, PROCESSES = "here", "processes"
BACKENDS = {
    HERE: EntryPoint(HERE, "goalmeter.runs.backends.registry:Here", GROUP),
    PROCESSES: EntryPoint(PROCESSES, "goalmeter.runs.backends.processes:Processes", GROUP),
    "ray": EntryPoint("ray", "goalmeter.runs.backends.clusters:RayCluster", GROUP),
    "slurm": EntryPoint("slurm", "goalmeter.runs.backends.clusters:SlurmJobs", GROUP),
}


class Here(ExitStack):
    """Makes trials in this process, where nothing could enforce a time limit."""

    slots = 1
    worthwhile = 0.0  # each trial is stored as soon as it has ended

    def __init__(self, argument: str, *, trials: int, timeout: float | None) -> None:
        super().__init__()
        if argument:
            raise InvalidParameterError(f"'here:{argument}' is this process; expected 'here' alone")
        if timeout is not None:
            raise InvalidParameterError(
                f"timeout is {timeout} for trials in this process, which cannot be ended; expected "
                f"processes, such as processes:1"
            )

    def run(self, batches: Iterator[Batch]) -> Iterator[tuple[int, BatchResult]]:
        """Make batches in order; an interrupt of this process is raised."""
        for number, batch in enumerate(batches):
            results, seconds = zip(*calls(batch), strict=True)
            yield number, BatchResult(results, sum(seconds))


def opened(on: str, *, trials: int, timeout: float | None) -> Backend:
    """Return the backend of a spelling; nothing starts before its context is entered."""
    if timeout is not None and not timeout > 0:
        raise InvalidParameterError(
            f"timeout is {timeout}, expected a number of seconds above 0, or None"
        )
    name, _, argument = str(on).partition(":")
    entry = BACKENDS.get(name)
    if entry is None:
        refuse_taken(GROUP, BACKENDS)
        entry = plugins(GROUP).get(name)
    if entry is None:
        raise unknown_name(name, place_names(), "the execution backend")
    opener: Callable[..., Backend] = loaded(entry)
    return opener(argument, trials=trials, timeout=timeout)


def check_place(on: str) -> None:
    """Raise an error if the name of a backend is invalid."""
    opened(on, trials=1, timeout=None)


def own_process(on: str) -> str:
    """Return the name of a backend outside this process, whose numerics have many threads."""
    return "processes:1" if on == HERE else on


def is_of_this_machine(on: str) -> bool:
    """Return whether trials there read and write the files of this machine."""
    return on.partition(":")[0] in (HERE, PROCESSES)


def place_names() -> list[str]:
    """Return the names of all backends; those of other packages come last."""
    return [*BACKENDS, *plugins(GROUP)]
