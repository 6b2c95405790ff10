"""What differs between two checkouts: numbers, the shape of the output, or words alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

_NUMBER = re.compile(r"[-+−]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
NUMBERS, SHAPE, WORDS = "numbers", "shape", "words"


class Difference(NamedTuple):
    """One place where two outputs differ, as text of both."""

    kind: str  # NUMBERS, SHAPE (something is there in one of them only), or WORDS
    path: str  # such as "commands.0.out.cells.3.spl"
    before: str
    after: str


def differences(before: Any, after: Any, path: str = "") -> Iterator[Difference]:
    """Every place where two values of JSON differ; numbers are equal only if they are the same."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(key for key in after if key not in before)]:
            yield from _members(before, after, key, f"{path}.{key}".lstrip("."))
    elif isinstance(before, list) and isinstance(after, list):
        first, second = dict(enumerate(before)), dict(enumerate(after))
        for at in range(max(len(first), len(second))):
            yield from _members(first, second, at, f"{path}.{at}")
    elif isinstance(before, str) and isinstance(after, str):
        if before != after:
            # A sentence may be put better, but its numbers are numbers too.
            same = _NUMBER.findall(before) == _NUMBER.findall(after)
            yield Difference(WORDS if same else NUMBERS, path, *_around(before, after))
    elif type(before) is not type(after) or before != after:
        yield Difference(NUMBERS, path, _shown(before), _shown(after))


def table(before: dict[str, Any], after: dict[str, Any], *, most: int = 12) -> list[str]:
    """Lines of Markdown: a row a case, then the differences, at most `most` of each case."""
    rows = ["| case | numbers | shape | words |", "|---|---|---|---|"]
    details: list[str] = []
    names = [name for name in before if name in after]
    equal = 0
    for name in names:
        places = list(differences(before[name], after[name]))
        counts = {
            kind: sum(place.kind == kind for place in places) for kind in (NUMBERS, SHAPE, WORDS)
        }
        # Errors are read, not computed with: there only another status is another number.
        if before[name]["group"] == "bad":
            status = sum(place.path.endswith(".status") for place in places)
            counts = {NUMBERS: status, SHAPE: 0, WORDS: len(places) - status}
        equal += not counts[NUMBERS]
        cells = " | ".join("equal" if not count else f"{count} differ" for count in counts.values())
        rows.append(f"| {name} | {cells} |")
        details += [
            f"{name}: {place.kind}: {place.path}\n    {place.before}\n    {place.after}"
            for place in places[:most]
        ]
        if len(places) > most:
            details.append(f"{name}: ... and {len(places) - most} more")
    alone = sum((name in before) != (name in after) for name in {**before, **after})
    if alone:
        details.append(f"{alone} cases are in one of the files only, and are not compared")
    summary = f"{equal} of {len(names)} cases have equal numbers"
    return [*rows, "", summary, "", *details]


def _members(before: Any, after: Any, key: Any, path: str) -> Iterator[Difference]:
    if key in before and key in after:
        yield from differences(before[key], after[key], path)
    else:
        first, second = (
            _shown(each[key]) if key in each else "(nothing)" for each in (before, after)
        )
        yield Difference(SHAPE, path, first, second)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 160 else f"{text[:157]}..."


def _around(before: str, after: str) -> tuple[str, str]:
    """The neighbourhood of the first character that differs."""
    pairs = zip(before, after, strict=False)
    at = next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(before), len(after)))
    start = max(0, at - 50)
    return repr(before[start : at + 110]), repr(after[start : at + 110])
