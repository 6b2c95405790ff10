"""What a command hands back: tables for people, one JSON object for programs, a report."""

from __future__ import annotations

import math
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import goalmeter
from goalmeter import _text
from goalmeter.report import Table


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Tables and JSON say the same.

    `text` is shown before the tables; `report` is the path of the page, if one was written.
    """

    tables: tuple[Table, ...]
    json: dict[str, Any]
    report: Path | None = None
    text: str = ""


def json_text(value: dict[str, Any]) -> str:
    """One JSON object on one line; infinities become "inf" and "-inf", NaN null."""
    return _text.json_text(_plain(value), allow_nan=False)


def provenance(command: str) -> list[str]:
    """How a page was made, for its foot. No date, so that the same run gives the same page."""
    return [
        f"Made by goalmeter {goalmeter.__version__} with the command {command}, "
        f"Python {platform.python_version()}, NumPy {np.__version__}.",
        "All numbers in full precision, with notes: results.json beside this page.",
    ]


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {str(key): _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case np.ndarray() | np.generic():
            return _plain(value.tolist())
        case float() if not math.isfinite(value):
            return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
        case _:
            return value
