"""What stands beside every number of behaviour: its condition, its interval, the words for it."""

from __future__ import annotations

import json
from functools import partial

from goalmeter.pages.prose import prose

INTERVALS = (
    "In brackets: 95% intervals over grids, which allow for a grid of a kind that was not seen; a "
    "dash where there are too few."
)
# The texts of `prose.toml`.
say = partial(prose, "navigation", INTERVALS=INTERVALS)


def condition_in_words(condition: str) -> str:
    """What to add to a name: "", ", with key", ", neutral object", ", distance 3 to 5"."""
    words = []
    for name, value in json.loads(condition).items():
        if isinstance(value, bool):
            words.append(f"{'with' if value else 'without'} {name}")
        elif isinstance(value, list):
            words.append(f"{name} {value[0]} to {value[-1]}")
        elif name == "object":
            words.append(f"{value} object")
        else:
            words.append(f"{name} {value}")
    return "".join(f", {word}" for word in words)
