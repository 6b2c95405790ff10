"""What files of Bayesian networks have in common: text within limits, tables, rounded rows.

A `Draft` collects what a file declares, piece by piece, and refuses what does not fit, naming the
line. Sizes are worked out before anything is allocated, so a short file cannot ask for a large
table.

Rounded rows. Published networks give probabilities to a few decimals, so a row may miss 1: by up
to 3e-7 in the 24 networks that pgmpy ships, by more in files written by hand. A row that misses
by at most `ROW_TOLERANCE` is divided by its sum; a larger miss is an error of the file.
"""

from __future__ import annotations

import gzip
import math
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from goalmeter._errors import GoalmeterError, InvalidFileError
from goalmeter._files import write_bytes
from goalmeter._names import listed, unknown_name
from goalmeter._types import AnyArray, FloatArray
from goalmeter.causal.mechanism import Value
from goalmeter.tabular._validation import ROUNDING

# Of the text of a file, unpacked; the largest network that pgmpy ships has 5.5 million.
MAX_BYTES = 2**26
# Of all tables of a file together: a quarter of a gigabyte of doubles.
MAX_ENTRIES = 2**25
# Arrays of NumPy 1 have at most 32 axes, and one of them is the variable's own.
MAX_PARENTS = 31
ROW_TOLERANCE = 1e-3

# What bnlearn and pgmpy write for a network without a name.
NO_NAMES = frozenset({"unknown", "UNTITLED"})

_GZIP = b"\x1f\x8b"
_DIGITS = frozenset("0123456789+-.eE")


def read_text(path: str | Path) -> str:
    """The text of a file in UTF-8, unpacked if it is a gzip archive (whatever its name)."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        # Told by its first bytes: names lie, and pgmpy ships its networks packed.
        if data.startswith(_GZIP) and len(data) <= MAX_BYTES:
            with gzip.open(path) as unpacked:
                data = unpacked.read(MAX_BYTES + 1)
    except FileNotFoundError as cause:
        raise InvalidFileError(f"{path}: there is no such file; check the path") from cause
    except (gzip.BadGzipFile, zlib.error, EOFError) as cause:
        raise InvalidFileError(
            f"{path}: a damaged gzip archive ({cause}), expected one that can be unpacked; "
            f"fetch or pack the file again"
        ) from cause
    except OSError as cause:
        raise InvalidFileError(f"{path}: cannot be read: {cause.strerror or cause}") from cause
    if len(data) > MAX_BYTES:
        raise InvalidFileError(
            f"{path}: the text is longer than {MAX_BYTES / 2**20:.0f} MiB, the most that is read; "
            f"leave out variables that the question does not touch"
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as cause:
        raise InvalidFileError(
            f"{path}, line {1 + data.count(10, 0, cause.start)}: not UTF-8 text (byte "
            f"0x{data[cause.start]:02x}); if it is text, save it in UTF-8"
        ) from cause
    if "\0" in text:
        raise InvalidFileError(
            f"{path}: not a text file (it has zero bytes), expected a network in text form"
        )
    return text


def write_text(path: str | Path, text: str) -> Path:
    """Write a text file in UTF-8, packed if its name ends in .gz, in a single step.

    Raises:
        InvalidFileError: the file cannot be written there.
    """
    data = text.encode("utf-8")
    if Path(path).suffix == ".gz":
        data = gzip.compress(data, mtime=0)  # no time stamp: the same bytes for the same network
    return write_bytes(path, data)


def numbers(words: Sequence[str]) -> list[float]:
    """Words as numbers."""
    for word in [] if _DIGITS.issuperset("".join(words)) else words:
        # float() would also take nan, infinity, 1_000 and the digits of other scripts.
        if not _DIGITS.issuperset(word):
            raise ValueError(word)
    out = []
    for word in words:
        try:
            out.append(float(word))
        except ValueError:
            raise ValueError(word) from None
    return out


def within_rounding(rows: FloatArray, complain: Callable[[int, str], GoalmeterError]) -> FloatArray:
    """Rows as distributions: those within `ROW_TOLERANCE` of 1 are divided by their sum.

    Args:
        rows: [rows, states].
        complain: makes the error for a row (its number, what is wrong with it).
    """
    negative = (rows < 0).any(axis=1)
    if negative.any():
        first = int(np.argmax(negative))
        raise complain(
            first, f"has the negative probability {rows[first].min():g}, expected none below 0"
        )
    sums = rows.sum(axis=1)
    # Written so that a sum that is not a number is refused too.
    off = ~(np.abs(sums - 1.0) <= ROW_TOLERANCE)
    if off.any():
        first = int(np.argmax(off))
        raise complain(
            first,
            f"sums to {sums[first]:.10g}, expected 1 (up to {ROW_TOLERANCE:g}, for rounded "
            f"numbers); correct the row, or divide it by its sum",
        )
    # Sums that differ from 1 by rounding alone are left, so that files read back bit for bit.
    return np.asarray(rows / np.where(np.abs(sums - 1.0) > ROUNDING, sums, 1.0)[:, None])


class NetworkParts(NamedTuple):
    """What a network is made from; `CausalBayesianNetwork.of` makes and checks it.

    Readers return this and not the network, so that the network can use them.
    """

    domains: Mapping[str, Sequence[Value]]  # the states of each variable
    parents: Mapping[str, Sequence[str]]  # the direct causes of each
    cpds: Mapping[str, AnyArray]  # of each an array [*sizes of parents, own size]
    name: str = ""  # of the network; may be empty
    source: object = None  # what messages call the file; None if there is none


class Draft:
    """A network as a file declares it: variables first, then a table for each.

    Args:
        source: the name of the file, for messages.
    """

    def __init__(self, source: object) -> None:
        self.source = source
        self.domains: dict[str, tuple[str, ...]] = {}
        self._lines: dict[str, int] = {}
        self._parents: dict[str, tuple[str, ...]] = {}
        self._cpds: dict[str, AnyArray] = {}
        self._entries = 0

    def error(self, line: int, message: str) -> InvalidFileError:
        """The error for something in a line, counted from 1."""
        return InvalidFileError(f"{self.source}, line {line}: {message}")

    def unknown(self, line: int, name: str, known: Sequence[str], role: str) -> InvalidFileError:
        """The error for a name that is not declared, with the nearest one that is."""
        return self.error(line, str(unknown_name(name, known, role)))

    def declare(self, x: str, states: Sequence[str], line: int) -> None:
        """Take up a variable."""
        if x in self.domains:
            raise self.error(
                line,
                f"the variable {x!r} is declared a second time (first in line {self._lines[x]}), "
                f"expected each variable once; rename or remove one",
            )
        if len(set(states)) < len(states) or not states:
            twice = [f"the state {s!r} twice" for s, n in Counter(states).items() if n > 1]
            problem = twice[0] if twice else "no states"
            raise self.error(
                line, f"the variable {x!r} has {problem}, expected one or more, all different"
            )
        self.domains[x] = tuple(states)
        self._lines[x] = line

    def shape(self, x: str, parents: Sequence[str], line: int) -> tuple[int, ...]:
        """The shape [*sizes of parents, own size] of a table, before it is allocated."""
        for name in (x, *parents):
            if name not in self.domains:
                role = "variable" if name == x else f"parent of {x!r}:"
                raise self.unknown(line, name, list(self.domains), role)
        if x in self._parents:
            raise self.error(line, f"{x!r} has a second table, expected one for each variable")
        if len(set(parents)) < len(parents) or x in parents:
            raise self.error(
                line,
                f"the parents of {x!r} are {', '.join(parents)}, expected each one once, and "
                f"not {x!r} itself",
            )
        sizes = (*(len(self.domains[p]) for p in parents), len(self.domains[x]))
        # Added up before anything is allocated, since a line of text can ask for any size.
        entries = math.prod(sizes)
        self._entries += entries
        if self._entries > MAX_ENTRIES or len(parents) > MAX_PARENTS:
            raise self.error(
                line,
                f"the table of {x!r} has {entries:.3g} entries over {len(parents)} parents, which "
                f"makes {self._entries:.3g} in the file, expected at most {MAX_ENTRIES:.3g} and "
                f"{MAX_PARENTS} parents a table; give it fewer parents, or them fewer states",
            )
        self._parents[x] = tuple(parents)
        return sizes

    def define(self, x: str, rows: FloatArray, line_of: Callable[[int], int]) -> None:
        """Take up the table of a variable whose `shape` was asked for.

        `rows` holds [values of the parents (the last changes fastest), own size], `line_of` says in
        which line a row stands.
        """

        def complain(row: int, problem: str) -> InvalidFileError:
            return self.error(line_of(row), f"the row of {self.context(x, row)} {problem}")

        sizes = (*(len(self.domains[p]) for p in self._parents[x]), rows.shape[1])
        self._cpds[x] = within_rounding(rows, complain).reshape(sizes)

    def context(self, x: str, row: int) -> str:
        """A row of a table in words: 'X' given A = a, B = b."""
        parents = self._parents[x]
        places = np.unravel_index(row, [len(self.domains[p]) for p in parents]) if parents else ()
        pairs = [f"{p} = {self.domains[p][i]}" for p, i in zip(parents, places, strict=True)]
        return f"{x!r} given {', '.join(pairs)}" if pairs else repr(x)

    def parts(self, name: str) -> NetworkParts:
        """What the file declares, when everything is taken up."""
        if not self.domains:
            raise InvalidFileError(
                f"{self.source}: declares no variable, expected at least one; check that the file "
                f"is complete, and that it is a Bayesian network"
            )
        missing = [x for x in self.domains if x not in self._cpds]
        if missing:
            raise self.error(
                self._lines[missing[0]],
                f"{listed(missing)} {'has' if len(missing) == 1 else 'have'} no probabilities, "
                f"expected a table for each variable",
            )
        name = "" if name in NO_NAMES else name
        return NetworkParts(self.domains, self._parents, self._cpds, name, self.source)
