"""Types, colours and optional packages of the studies."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from goalmeter import MissingExtraError

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
AnyArray = npt.NDArray[Any]
ProgressCallback = Callable[[str], None]
Interval = tuple[float, float]
# Averages over fewer runs have no verdict but this one.
FEWEST, TOO_FEW = 5, "too few seeds"

# The colours of the package's charts, which have counterparts in a dark scheme.
BLUE, VERMILION, GREEN = "#0072b2", "#d55e00", "#009e73"
INK, MUTED, PAPER = "#1f2933", "#52606d", "#ffffff"


def optional(module: str, extra: str, feature: str) -> Any:
    """Return a module of an extra; raise MissingExtraError if it is not installed."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise MissingExtraError(
            f"{feature} needs the package {module!r}, which is not installed; install it with: "
            f"pip install '.[{extra}]'"
        ) from error
