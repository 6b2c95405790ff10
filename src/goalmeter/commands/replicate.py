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
from goalmeter.commands.outcome import Outcome, shown
from goalmeter.runs import HERE, check_place

# name on the command line -> module that has `replicate(out, *, seeds, seed, on, progress)`
# and `forecasts`, the same without the progress; with options of its own after these. By name,
# since some of them import much.
REPLICATIONS = {
    "meg-cliffworld": "goalmeter.experiments.meg_cliffworld.study",
    "reflection-table-1": "goalmeter.experiments.reflection_table_1.study",
    "tempting-button": "goalmeter.experiments.tempting_button.study",
    "lm-navigation": "goalmeter.experiments.lm_navigation.study",
    "organisms": "goalmeter.experiments.organisms.study",
    "organism-use": "goalmeter.experiments.organism_use.study",
    "lm-representation": "goalmeter.experiments.lm_representation.study",
    "calibration": "goalmeter.experiments.calibration.study",
    "goal-misgeneralisation": "goalmeter.experiments.goal_misgeneralisation.study",
}


def replicate(
    name: str,
    out: str | Path | None = None,
    *,
    seeds: int | None = None,
    seed: int = 0,
    on: str = HERE,
    progress: Callable[[str], None] | None = None,
    **options: Any,
) -> Outcome:
    """Reproduce a published experiment, in the folder `out` or else runs/NAME.

    `seeds` says how many, None as many as the experiment has, and `seed` is the first of them;
    trials run where `on` says; `options` are of that experiment alone, and those that are None were
    not given.
    """
    chosen = {option: value for option, value in options.items() if value is not None}
    run = replication(name, chosen)
    check_place(on)
    folder = Path("runs") / name if out is None else Path(out)
    check_writable(folder / "report.html")
    outcome: Outcome = run(folder, seeds=seeds, seed=seed, on=on, progress=progress, **chosen)
    return outcome


def dry_run(
    name: str,
    out: str | Path | None = None,
    *,
    seeds: int | None = None,
    seed: int = 0,
    on: str = HERE,
    **options: Any,
) -> Outcome:
    """What reproducing a published experiment will cost; arguments as of `replicate`."""
    chosen = {option: value for option, value in options.items() if value is not None}
    module = import_module(replication(name, chosen).__module__)
    folder = Path("runs") / name if out is None else Path(out)
    return shown(module.forecasts(folder, seeds=seeds, seed=seed, on=on, **chosen))


def replication(name: str, options: Iterable[str] = ()) -> Any:
    """The function that reproduces a published experiment and takes all of some options."""
    if name not in REPLICATIONS:
        raise InvalidParameterError(
            f"{name!r} is not a known replication, expected one of: {', '.join(REPLICATIONS)}"
            f"{did_you_mean(name, REPLICATIONS, quoted=True)}"
        )
    function = import_module(REPLICATIONS[name]).replicate
    # Options are one list on the command line, and each experiment has some of them.
    for option in options:
        if option not in signature(function).parameters:
            raise InvalidParameterError(f"{name} has no option --{option}; leave it out")
    return function
