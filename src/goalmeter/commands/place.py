"""Where trials run, as the options of every command say it: the one rule for what is not said."""

from __future__ import annotations

from math import inf

from goalmeter._arguments import MOST_WORKERS, whole
from goalmeter._errors import InvalidParameterError
from goalmeter.runs import HERE, check_place, cores

# Processes take a second to start, and each of them imports what the trials need.
WORTH_PROCESSES = 3.0


def chosen_place(on: str | None, workers: int | None, *, seconds: float = inf) -> str:
    """Where the trials of a command run, in the spelling of `runs`.

    Args:
        on: the option --on, or None.
        workers: the option --workers, or None: short for so many processes of this machine.
        seconds: that the trials take one after the other, roughly. Where neither option is given,
            they run in processes, one for each core, if that is worth it, and else in this one.
    """
    if on is not None and workers is not None:
        raise InvalidParameterError(
            f"--on and --workers both say where trials run; give one of them: --workers {workers} "
            f"is short for --on processes:{workers}"
        )
    if workers is not None:
        return f"processes:{whole(workers, 'workers', least=1, most=MOST_WORKERS)}"
    if on is not None:
        check_place(on)
        return on
    return f"processes:{cores()}" if cores() > 1 and seconds >= WORTH_PROCESSES else HERE
