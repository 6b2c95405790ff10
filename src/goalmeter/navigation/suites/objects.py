"""What lies about in a world: a key, or a neutral object in its place."""

from __future__ import annotations

import json
from collections.abc import Sequence

from goalmeter._errors import InvalidParameterError
from goalmeter._names import did_you_mean
from goalmeter.gridworld.world import GridWorld

KEY, NEUTRAL = "key", "neutral"
OBJECTS = (KEY, NEUTRAL)
# The conditions of a task that say what lies there.
_CONDITIONS = ("key", "object")


def object_in(world: GridWorld) -> str | None:
    """What there is to pick up: "key", "neutral", or None."""
    if world.key is not None:
        return KEY
    return None if world.neutral is None else NEUTRAL


def chosen_objects(objects: Sequence[str] | None) -> tuple[str, ...]:
    """The objects that are asked for, the key first; the key alone if none are.

    Raises:
        InvalidParameterError: there is no such object, or one is named twice.
    """
    objects = objects or (KEY,)
    if unknown := [name for name in objects if name not in OBJECTS]:
        hint = did_you_mean(unknown[0], OBJECTS, quoted=True) or ";"
        raise InvalidParameterError(
            f"there is no object {unknown[0]!r}{hint} known are {', '.join(OBJECTS)}"
        )
    if len(set(objects)) < len(objects):
        raise InvalidParameterError(f"objects are {', '.join(objects)}; name each once")
    return tuple(name for name in OBJECTS if name in objects)


def without_object(condition: str) -> str:
    """A condition, as JSON, without what says which object lies there.

    Walks with a key and with a neutral object are of the same condition in this sense.

    >>> without_object('{"key": true, "prompt": "keys/1"}')
    '{"prompt": "keys/1"}'
    """
    values = json.loads(condition)
    return json.dumps({name: v for name, v in values.items() if name not in _CONDITIONS})
