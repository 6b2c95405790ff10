"""Names in error messages: what is unknown, what there is, and what was probably meant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from goalmeter._errors import GoalmeterError, InvalidParameterError

# Below this likeness, which is difflib's ratio, names are taken for different words: "gridy" may be
# "greedy" (0.73), "rat" is not "random" (0.44).
CUTOFF = 0.6
# Of a longer name so many letters are compared: difflib takes time with the square of the length,
# and what a user mistypes is short.
_LONGEST = 80
# Longer lists are cut in a message.
_SHOWN = 8


def nearest(name: object, known: Iterable[object], *, cutoff: float = CUTOFF) -> str | None:
    """The known name that is most like an unknown one; None if none is like it.

    Capital and small letters count as the same; `cutoff` is the least similarity, from 0 to 1 (the
    ratio of `difflib.SequenceMatcher`).

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

    `before` is what the name is written after, such as "goalmeter/"; `quoted`, whether it stands in
    quotation marks, as the unknown name before it does.

    Example:
        >>> did_you_mean("mouze", ["mouse", "moth"], before="goalmeter/")
        '; did you mean goalmeter/mouse?'
    """
    close = nearest(name, known)
    if close is None:
        return ""
    proposed = f"{before}{close}"
    return f"; did you mean {proposed!r}?" if quoted else f"; did you mean {proposed}?"


def unknown_name(
    name: object,
    known: Sequence[object],
    what: str,
    error: type[GoalmeterError] = InvalidParameterError,
) -> GoalmeterError:
    """The error for a name that is not there, with the nearest one that is.

    `what` says what the name is of, as the beginning of the message ("decision").
    """
    texts = [str(option) for option in known]
    # Variables have short names, of which one wrong letter is a large part.
    near = nearest(name, texts, cutoff=0.5)
    hint = f"; did you mean {near!r}?" if near is not None else ""
    return error(f"{what} {name!r} does not exist, expected one of {listed(texts)}{hint}")


def listed(names: Iterable[object]) -> str:
    """Names in a row, cut where there are many."""
    texts = [str(name) for name in names]
    more = f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return ", ".join(texts[:_SHOWN]) + more
