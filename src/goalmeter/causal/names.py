"""Names in error messages: what is unknown, and what was probably meant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from goalmeter._errors import GoalmeterError, InvalidParameterError
from goalmeter._names import nearest

# Longer lists are cut in a message.
_SHOWN = 8


def unknown_name(
    name: object,
    known: Sequence[object],
    what: str,
    error: type[GoalmeterError] = InvalidParameterError,
) -> GoalmeterError:
    """The error for a name that is not there, with the nearest one that is.

    Args:
        name: what was given.
        known: what there is.
        what: what the name is of, as the beginning of the message ("decision").
        error: the class of the error.
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
