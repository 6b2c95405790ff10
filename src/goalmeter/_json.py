"""Results as JSON values: the fields of a dataclass, whatever they hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any


def json_value(value: Any) -> Any:
    """A value as JSON has it: tuples as lists, NaN as null, results as their `to_json`.

    Infinities stay, as JSON has no number for them: whoever writes the text spells them out.
    """
    if hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, Mapping):
        return {name: json_value(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(entry) for entry in value]
    return None if isinstance(value, float) and value != value else value


class JsonFields:
    """A dataclass whose JSON is its fields."""

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values; NaN is null."""
        return {field.name: json_value(getattr(self, field.name)) for field in fields(self)}  # type: ignore[arg-type]
