"""What the run.json of a navigation run says, checked field by field when it is read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from goalmeter._arguments import MOST_SEED
from goalmeter.gridworld.maze import MOST_SIZE
from goalmeter.navigation.suites.options import MOST_FACTOR, MOST_STEPS
from goalmeter.navigation.suites.record import MOST_WALKS, MOST_WORLDS
from goalmeter.navigation.suites.registry import suite_names
from goalmeter.runs.checks import (
    Field,
    check_record,
    is_number,
    is_whole,
    listed,
    text,
    whole,
    word,
)
from goalmeter.runs.reading import RUN, another_kind

KIND = "navigation"
_MOST_NAMES = 100  # of transforms, objects, templates, strata


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _are_bounds(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(is_whole(end, 0, MOST_STEPS) for end in value)
    )


def _strata() -> Field:
    def fits(value: Any) -> bool:
        few = isinstance(value, list) and len(value) <= _MOST_NAMES
        return few and all(map(_are_bounds, value))

    return Field("a list of pairs of whole numbers, the least and the greatest", fits)


_RUN = {
    "kind": word(KIND),
    "agent": text(empty=False),
    "suite": text(empty=False),
    "sizes": listed("sizes of grids", lambda n: is_whole(n, 1, MOST_SIZE), least=1, most=MOST_SIZE),
    "complexities": listed(
        "numbers from 0 to 1", lambda c: is_number(c, 1.0) and c >= 0, most=MOST_WORLDS
    ),
    "grids": listed("numbers of grids", lambda n: is_whole(n, 0, MOST_WORLDS), most=MOST_WORLDS),
    "trajectories": listed(
        "numbers of walks", lambda n: is_whole(n, 0, MOST_WALKS), most=MOST_WALKS
    ),
    "transforms": listed("names", _is_text, most=_MOST_NAMES),
    # Runs of before there was a choice have none.
    "objects": listed("names", _is_text, most=_MOST_NAMES, required=False),
    "distances": _strata(),
    "detours": _strata(),
    "cap": whole(1, MOST_STEPS, or_null=True),
    "cap_factor": Field(
        f"a number from 1 to {MOST_FACTOR:g} or null",
        lambda v: v is None or (is_number(v, MOST_FACTOR) and v >= 1),
    ),
    # Only where it is so.
    "held_out": Field("true or false", lambda v: isinstance(v, bool), required=False),
    "seed": whole(0, MOST_SEED),
    # Of language models only. How they are asked besides is checked by `Asking`.
    "prompts": listed("names of templates", _is_text, least=1, most=_MOST_NAMES, required=False),
    "history": whole(0, MOST_STEPS, required=False),
    "options": Field("an object", lambda v: isinstance(v, dict), required=False),
}


def check_what(what: Mapping[str, Any], folder: str | Path) -> None:
    """Raises unless this describes a navigation run.

    Raises:
        InvalidFileError: the run is of another kind, or its run.json was edited.
    """
    if what.get("kind") != KIND:
        raise another_kind(folder, what.get("kind"), KIND)
    # Suites of other packages may be registered at any time.
    fields = _RUN | {"suite": word(*suite_names())}
    check_record(what, fields, f"{Path(folder) / RUN}", others=True)
