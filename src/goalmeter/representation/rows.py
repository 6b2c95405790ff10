"""Results as rows of named numbers, which are JSON values on disk and read back as they were.

A row is a frozen dataclass whose fields are plain values, estimates, and mappings or tuples of
these; what a field holds is read off its annotation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from goalmeter._json import JsonFields
from goalmeter.statistics.clustered import Estimate

Row = TypeVar("Row")
# A word of the language cannot be the name of a field.
_JSON_NAMES = {"label": "class"}


class JsonRow(JsonFields):
    """A row whose JSON is its fields, the field `label` as "class"."""

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values; NaN is null."""
        return {json_name(name): value for name, value in super().to_json().items()}


def json_name(field: str) -> str:
    """What a field of a row is called in JSON."""
    return _JSON_NAMES.get(field, field)


def row_from(kind: type[Row], value: Mapping[str, Any]) -> Row:
    """The row that `to_json` made JSON values of.

    Args:
        kind: its class.
        value: an object of JSON.
    """
    hints = get_type_hints(kind)
    return kind(
        **{
            field.name: _read(hints[field.name], value[json_name(field.name)])
            for field in fields(kind)  # type: ignore[arg-type]
        }
    )


def _read(hint: Any, value: Any) -> Any:
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        kinds = [kind for kind in inner if kind is not type(None)]
        # Of a union of several kinds only plain ones occur, which JSON keeps apart by itself.
        return None if value is None else _read(kinds[0], value) if len(kinds) == 1 else value
    # NaN is null in JSON.
    if hint is float and value is None:
        return math.nan
    if hint is Estimate:
        return Estimate.from_json(value)
    if isinstance(hint, type) and is_dataclass(hint):
        return row_from(hint, value)
    if origin is tuple:
        return tuple(_read(inner[0], entry) for entry in value)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {key: _read(inner[1], entry) for key, entry in value.items()}
    return value
