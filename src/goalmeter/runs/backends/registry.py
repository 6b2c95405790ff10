"""The one place where it is chosen where trials run: a spelling in, a backend out.

    here            this process, one trial after the other
    processes:8     eight processes of this machine; "processes" is one for each core
    ray             a Ray cluster, see `ray_cluster`
    slurm           jobs of Slurm, see `slurm`

Another package adds a place by an entry point in the group "goalmeter.backends": its name is the
spelling, and it loads a function (argument, *, trials, timeout) -> `Backend`, like those below.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Protocol, Self

from goalmeter._errors import InvalidParameterError, json_text, shown
from goalmeter._names import BACKENDS as PLUGINS
from goalmeter._names import did_you_mean, loaded, plugins, refuse_taken
from goalmeter.runs.backends.processes import processes
from goalmeter.runs.backends.ray_cluster import ray
from goalmeter.runs.backends.slurm import slurm
from goalmeter.runs.jobs import Answer, Backend, Batch, Working, call

HERE, PROCESSES = "here", "processes"


class Here:
    """Makes trials in this process."""

    slots = 1
    worthwhile = 0.0  # nothing is on its way, so each trial is kept as soon as it has ended

    def __init__(self) -> None:
        self._batch: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None: ...

    def run(self, batches: Iterator[Batch]) -> Iterator[tuple[int, Answer]]:
        """The answer of each batch, in order; an interrupt of this process goes through."""
        for number, batch in enumerate(batches):
            self._batch = number
            answer = call(batch)
            if not callable(batch.function):
                # As if they had come from another process, where a tuple arrives as a list.
                sent = [replace(r, value=json.loads(json_text(r.value))) for r in answer.results]
                answer = replace(answer, results=sent)
            self._batch = None
            yield number, answer

    def working(self) -> Sequence[Working]:
        """This process, while it makes a batch."""
        batch = self._batch  # read once, since the other thread goes on
        return [] if batch is None else [Working(f"process {os.getpid()}", batch)]


def here(argument: str, *, trials: int, timeout: float | None) -> Here:
    """This process, as `opened` asks for it; nothing could enforce a limit of time."""
    if argument:
        raise InvalidParameterError(f"'here:{argument}' is this process; expected 'here' alone")
    if timeout is not None:
        raise InvalidParameterError(
            f"timeout is {timeout} for trials in this process, which cannot be ended; expected "
            f"processes, such as processes:1"
        )
    return Here()


class Opener(Protocol):
    """Makes a backend of what stands behind the colon of its spelling."""

    def __call__(self, argument: str, *, trials: int, timeout: float | None) -> Backend:
        """The backend; see `opened` for what it is told."""
        ...


BACKENDS: dict[str, Opener] = {HERE: here, PROCESSES: processes, "ray": ray, "slurm": slurm}


def opened(on: str, *, trials: int, timeout: float | None) -> Backend:
    """The backend that a spelling stands for; nothing is started before its context is entered.

    Args:
        on: its name, and behind a colon what it is told.
        trials: how many there are to make, so that no more workers than that are started.
        timeout: seconds that a trial may take; None for as long as it takes.
    """
    if not isinstance(on, str):
        raise InvalidParameterError(
            f"{shown(on)} is no place where trials run, expected {', '.join(place_names())}, such "
            f"as 'processes:2'"
        )
    name, _, argument = on.partition(":")
    if name in BACKENDS:
        return BACKENDS[name](argument, trials=trials, timeout=timeout)
    refuse_taken(PLUGINS, BACKENDS)
    if name in plugins(PLUGINS):
        opener: Opener = loaded(plugins(PLUGINS)[name])
        return opener(argument, trials=trials, timeout=timeout)
    known = place_names()
    raise InvalidParameterError(
        f"there is no place {shown(name)} where trials could run"
        f"{did_you_mean(name, known) or ';'} expected {', '.join(known)}, such as processes:2"
    )


def check_place(on: str) -> None:
    """Raise what `opened` would raise for a spelling, before hours of other work."""
    opened(on, trials=1, timeout=None)


def own_process(on: str) -> str:
    """A place, where this process does not do: its numerics have many threads, and nothing ends it.

    >>> own_process("here"), own_process("processes:8")
    ('processes:1', 'processes:8')
    """
    return "processes:1" if on == HERE else on


def is_of_this_machine(on: str) -> bool:
    """Whether what runs there reads and writes the files of this machine."""
    return on.partition(":")[0] in (HERE, PROCESSES)


def place_names() -> list[str]:
    """The names of all places, those of other packages behind ours."""
    return [*BACKENDS, *plugins(PLUGINS)]
