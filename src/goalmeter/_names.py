"""The nearest of some names: what an unknown name in a message was probably meant to be."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

# Below this likeness, which is difflib's ratio, names are taken for different words: "gridy" may be
# "greedy" (0.73), "rat" is not "random" (0.44).
CUTOFF = 0.6
# Of a longer name so many letters are compared: difflib takes time with the square of the length,
# and what a user mistypes is short.
_LONGEST = 80


def nearest(name: object, known: Iterable[object], *, cutoff: float = CUTOFF) -> str | None:
    """The known name that is most like an unknown one; None if none is like it.

    Capital and small letters count as the same.

    Args:
        name: what was written.
        known: what there is.
        cutoff: the least similarity, from 0 to 1 (the ratio of `difflib.SequenceMatcher`).

    Example:
        >>> nearest("mouze", ["mouse", "magpie", "mole", "moth"])
        'mouse'
    """
    folded: dict[str, str] = {}
    for option in map(str, known):
        folded.setdefault(option.lower(), option)
    close = get_close_matches(str(name).strip().lower()[:_LONGEST], folded, n=1, cutoff=cutoff)
    return folded[close[0]] if close else None


def did_you_mean(
    name: object, known: Iterable[object], *, before: str = "", quoted: bool = False
) -> str:
    """The part of a message that proposes the nearest name: "; did you mean x?", or nothing.

    Args:
        name: what was written.
        known: what there is.
        before: what the name is written after, such as "goalmeter/".
        quoted: whether it stands in quotation marks, as the unknown name before it does.

    Example:
        >>> did_you_mean("mouze", ["mouse", "moth"], before="goalmeter/")
        '; did you mean goalmeter/mouse?'
    """
    close = nearest(name, known)
    if close is None:
        return ""
    proposed = f"{before}{close}"
    return f"; did you mean {proposed!r}?" if quoted else f"; did you mean {proposed}?"
