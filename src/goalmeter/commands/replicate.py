"""`goalmeter replicate`: the name of a published experiment in, its tables beside ours out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidParameterError
from goalmeter._files import check_writable
from goalmeter._names import did_you_mean
from goalmeter.commands.outcome import Outcome

# name on the command line -> module that has `replicate(out, *, seeds, seed, workers, progress)`,
# with options of its own after these. By name, since some of them import much.
REPLICATIONS = {
    "meg-cliffworld": "goalmeter.experiments.meg_cliffworld.replicate",
    "reflection-table-1": "goalmeter.experiments.reflection_table_1.replicate",
    "tempting-button": "goalmeter.experiments.tempting_button.replicate",
    "lm-navigation": "goalmeter.experiments.lm_navigation.replicate",
    "organisms": "goalmeter.experiments.organisms.replicate",
    "organism-use": "goalmeter.experiments.organism_use.replicate",
    "calibration": "goalmeter.experiments.calibration.replicate",
}


def replicate(
    name: str,
    out: str | Path | None = None,
    *,
    seeds: int | None = None,
    seed: int = 0,
    workers: int = 1,
    progress: Callable[[str], None] | None = None,
    **options: Any,
) -> Outcome:
    """Reproduce a published experiment.

    Args:
        name: one of `REPLICATIONS`.
        out: folder to write to; None for runs/NAME.
        seeds: how many; None for as many as the experiment has.
        seed: the first of them.
        workers: processes.
        progress: told what is being done.
        options: of that experiment alone; those that are None were not given.

    Raises:
        GoalmeterError: an unknown name, or options that cannot be used; the message says how to
            mend it.
        InvalidFileError: the folder cannot be written to; raised before the hours of work that end
            there.
    """
    own_options = {option: value for option, value in options.items() if value is not None}
    run = replication(name, own_options)
    folder = Path("runs") / name if out is None else Path(out)
    check_writable(folder / "report.html")
    outcome: Outcome = run(
        folder, seeds=seeds, seed=seed, workers=workers, progress=progress, **own_options
    )
    return outcome


def replication(name: str, options: Iterable[str] = ()) -> Any:
    """The function that reproduces a published experiment.

    Args:
        name: on the command line.
        options: names of those that it is to be called with, besides what all take.

    Raises:
        InvalidParameterError: an unknown name, the message lists the known ones; or an option
            that this experiment does not have.
    """
    if name not in REPLICATIONS:
        raise InvalidParameterError(
            f"{name!r} is not a known replication, expected one of: {', '.join(REPLICATIONS)}"
            f"{did_you_mean(name, REPLICATIONS, quoted=True)}"
        )
    function = import_module(REPLICATIONS[name]).replicate
    for option in options:
        if option not in signature(function).parameters:
            raise InvalidParameterError(f"{name} has no option --{option}; leave it out")
    return function
