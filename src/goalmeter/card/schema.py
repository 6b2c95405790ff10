"""JSON Schemas of records, derived from the types of their fields, and their validation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, get_args, get_origin, get_type_hints

from goalmeter._errors import shown

_NAMES = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
_TYPES: dict[str, Any] = {"string": str, "integer": int, "number": int | float}
_TYPES |= {"boolean": bool, "array": list, "object": dict}
_LARGEST = 1e300  # of a number


def schema_of(kind: Any) -> dict[str, Any]:
    """Return the JSON Schema of a dataclass, a container, a scalar, or one of them or None."""
    if kind is Any:
        return {}
    if is_dataclass(kind):
        hints, own = get_type_hints(kind), fields(kind)
        defaults = {f.name for f in own if (f.default, f.default_factory) != (MISSING, MISSING)}
        return {
            "description": str(kind.__doc__),
            "type": "object",
            "properties": {field.name: schema_of(hints[field.name]) for field in own},
            "required": [field.name for field in own if field.name not in defaults],
            "additionalProperties": False,
        }
    origin, parts = get_origin(kind), [schema_of(part) for part in get_args(kind)]
    if origin is tuple:
        return {"type": "array", "prefixItems": parts, "items": False, "minItems": len(parts)}
    if origin is Mapping:
        return {"type": "object", "additionalProperties": parts[1]}
    if origin is Sequence:
        return {"type": "array", "items": parts[0]}
    return {"anyOf": parts} if parts else {"type": _NAMES[kind]}


def check_json(value: Any, schema: Mapping[str, Any], where: str) -> None:
    """Raise ValueError if a value does not fit a schema of `schema_of`, or is not finite."""
    if "anyOf" in schema:
        if value is not None:
            check_json(value, schema["anyOf"][0], where)
    elif kind := schema.get("type"):
        if not isinstance(value, _TYPES[kind]) or isinstance(value, bool) != (kind == "boolean"):
            raise ValueError(f"{where} is {shown(value)}, expected {kind}")
        if kind in ("integer", "number") and not abs(value) <= _LARGEST:
            raise ValueError(f"{where} is {shown(value)}, expected a finite number")
        if kind == "array":
            parts = schema.get("prefixItems", [schema["items"]] * len(value))
            for number, (entry, part) in enumerate(zip(value, parts, strict=True)):
                check_json(entry, part, f"{where}[{number}]")
        elif kind == "object":
            if missing := [name for name in schema.get("required", ()) if name not in value]:
                raise ValueError(f"{where} has no {missing[0]}")
            for name, entry in value.items():
                part = schema.get("properties", {}).get(name, schema["additionalProperties"])
                if part is False:
                    raise ValueError(f"{where} has the unknown field {shown(name)}")
                check_json(entry, part, f"{where}.{name}")
