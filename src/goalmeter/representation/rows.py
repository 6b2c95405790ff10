"""Results as rows of named numbers, which are JSON values on disk and read back as they were.

A row is a frozen dataclass whose fields are plain values, estimates, and mappings or tuples of
these; what a field holds is read off its annotation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from goalmeter.statistics.clustered import Estimate

Row = TypeVar("Row")
# A word of the language cannot be the name of a field.
_JSON_NAMES = {"label": "class"}


def plain(value: Any) -> Any:
    """A row, or anything that rows hold, as JSON values."""
    if isinstance(value, Estimate):
        return value.to_json()
    if is_dataclass(value) and not isinstance(value, type):
        return {
            _JSON_NAMES.get(field.name, field.name): plain(getattr(value, field.name))
            for field in fields(value)
        }
    if isinstance(value, Mapping):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, tuple | list):
        return [plain(entry) for entry in value]
    return value


def row_from(kind: type[Row], value: Mapping[str, Any]) -> Row:
    """The row that `plain` made JSON values of.

    Args:
        kind: its class.
        value: an object of JSON.

    Raises:
        KeyError: a field is missing.
    """
    hints = get_type_hints(kind)
    return kind(
        **{
            field.name: _read(hints[field.name], value[_JSON_NAMES.get(field.name, field.name)])
            for field in fields(kind)  # type: ignore[arg-type]
        }
    )


def _read(hint: Any, value: Any) -> Any:
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        kinds = [kind for kind in inner if kind is not type(None)]
        # Of a union of several kinds only plain ones occur, which JSON keeps apart by itself.
        return None if value is None else _read(kinds[0], value) if len(kinds) == 1 else value
    if hint is Estimate:
        return Estimate.from_json(value)
    if isinstance(hint, type) and is_dataclass(hint):
        return row_from(hint, value)
    if origin is tuple:
        return tuple(_read(inner[0], entry) for entry in value)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {key: _read(inner[1], entry) for key, entry in value.items()}
    return value
