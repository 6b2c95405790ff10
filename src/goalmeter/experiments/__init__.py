"""A folder per reproduced paper, the demo, and the ledger of published numbers against ours."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from inspect import signature
from typing import Any

from goalmeter._errors import InvalidParameterError
from goalmeter._names import did_you_mean

# name on the command line -> module that has `replicate(out, *, seeds, seed, workers, progress)`,
# with options of its own after these.
REPLICATIONS = {
    "meg-cliffworld": "goalmeter.experiments.meg_cliffworld.replicate",
    "reflection-table-1": "goalmeter.experiments.reflection_table_1.replicate",
    "tempting-button": "goalmeter.experiments.tempting_button.replicate",
    "lm-navigation": "goalmeter.experiments.lm_navigation.replicate",
    "organisms": "goalmeter.experiments.organisms.replicate",
    "calibration": "goalmeter.experiments.calibration.replicate",
}


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
    replicate = import_module(REPLICATIONS[name]).replicate
    for option in options:
        if option not in signature(replicate).parameters:
            raise InvalidParameterError(f"{name} has no option --{option}; leave it out")
    return replicate
