"""A folder per reproduced paper, the demo, and the ledger of published numbers against ours."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from goalmeter._errors import InvalidParameterError

# name on the command line -> module that has `replicate(out, *, seeds, seed, progress)`
REPLICATIONS = {"meg-cliffworld": "goalmeter.experiments.meg_cliffworld.replicate"}


def replication(name: str) -> Any:
    """The function that reproduces a published experiment.

    Raises:
        InvalidParameterError: an unknown name; the message lists the known ones.
    """
    if name not in REPLICATIONS:
        raise InvalidParameterError(
            f"{name!r} is not a known replication, expected one of: {', '.join(REPLICATIONS)}"
        )
    return import_module(REPLICATIONS[name]).replicate
