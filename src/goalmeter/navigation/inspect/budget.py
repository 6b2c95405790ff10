"""Budgets of language-model runs: the cost of queries and the ledger of what was spent."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from sys import float_info
from typing import Any

from goalmeter._errors import (
    GoalmeterError,
    InvalidFileError,
    InvalidParameterError,
    json_text,
    shown,
)
from goalmeter._files import read_bytes
from goalmeter.navigation.plan import made_of
from goalmeter.navigation.trajectories import Trajectory

# --- Spending -------------------------------------------------------------------------------------
# A call is one request to the server, also one that it failed or answered with an error: those
# cost a call and no tokens. Output tokens are all that was written, reasoning included; input
# tokens are all that was read, those that the server had cached included.

PER_MILLION = 1_000_000


@dataclass(frozen=True)
class Spent:
    """Calls, input tokens and output tokens."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def tokens(self) -> int:
        """Input and output tokens together."""
        return self.input_tokens + self.output_tokens

    def __add__(self, more: Spent) -> Spent:
        return Spent(*(getattr(self, f.name) + getattr(more, f.name) for f in fields(Spent)))

    def __sub__(self, less: Spent) -> Spent:
        return Spent(*(getattr(self, f.name) - getattr(less, f.name) for f in fields(Spent)))


@dataclass(frozen=True)
class Budget:
    """The most that a run may spend, over all the commands that worked on it.

    Attributes:
        calls: requests to the server; None for any number.
        tokens: input and output together; None for any number.
        usd: money; None for any sum. It is computed of all tokens of the run with these prices.
        price_in: US dollars for a million input tokens.
        price_out: US dollars for a million output tokens.
    """

    calls: int | None = None
    tokens: int | None = None
    usd: float | None = None
    price_in: float | None = None
    price_out: float | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            # A NaN is at least nothing.
            if value is not None and not 0 <= value <= float_info.max:
                raise InvalidParameterError(f"{each.name} is {shown(value)}, expected 0 or more")
        if (self.price_in is None) != (self.price_out is None):
            raise InvalidParameterError(
                "one of the two prices is missing, price_in or price_out; give both, in US dollars "
                "for a million tokens"
            )
        if self.usd is not None and self.price_in is None:
            raise InvalidParameterError(
                "a budget in usd needs price_in and price_out, in US dollars for a million tokens"
            )

    def cost(self, spent: Spent) -> float | None:
        """What was spent in US dollars; None without prices."""
        if self.price_in is None or self.price_out is None:
            return None
        paid = spent.input_tokens * self.price_in + spent.output_tokens * self.price_out
        return paid / PER_MILLION

    def allows(self, spent: Spent) -> bool:
        """Whether so much may be spent in all."""
        cost = self.cost(spent)
        limits = ((self.calls, spent.calls), (self.tokens, spent.tokens), (self.usd, cost))
        return all(most is None or (at or 0) <= most for most, at in limits)

    @property
    def limits_tokens(self) -> bool:
        """Whether it has to be known how many tokens an answer took."""
        return self.tokens is not None or self.usd is not None

    def to_json(self, spent: Spent) -> dict[str, Any]:
        """What was spent as JSON values; `usd` is null without prices."""
        plain = {each.name: getattr(spent, each.name) for each in fields(spent)}
        return plain | {"tokens": spent.tokens, "usd": self.cost(spent)}

    def in_words(self, spent: Spent) -> str:
        """What was spent of what.

        >>> Budget(calls=10, usd=2, price_in=1, price_out=4).in_words(Spent(9, 400_000, 300_000))
        '9 of 10 calls, 700000 tokens, $1.60 of $2'
        """
        tokens = f"{spent.tokens}{_of(self.tokens)} tokens"
        words = [f"{spent.calls}{_of(self.calls)} calls", tokens]
        cost = self.cost(spent)
        if cost is not None:
            words.append(f"${cost:.2f}" + (f" of ${self.usd:g}" if self.usd is not None else ""))
        return ", ".join(words)


def _of(most: float | None) -> str:
    return "" if most is None else f" of {most}"


class BudgetReachedError(GoalmeterError):
    """A run has spent its budget before all of its walks had ended.

    Attributes:
        spent: over all the commands that worked on the run.
        budget: what it was allowed.
        ended: walks that have ended, and are kept.
        half: walks that have begun, and go on where they were.
        walks: how many there are to be.
    """

    def __init__(self, spent: Spent, budget: Budget, *, ended: int, half: int, walks: int) -> None:
        self.spent, self.budget = spent, budget
        self.ended, self.half, self.walks = ended, half, walks
        super().__init__(
            f"the budget is reached after {budget.in_words(spent)}: {ended} of {walks} walks have "
            f"ended and {half} are half-way; the same with a larger budget goes on from there"
        )


# --- Ledger ---------------------------------------------------------------------------------------
# `RUN/asked.jsonl` has a line for each event, of three kinds:
#
#     {"calls": 1}                                  a request is about to be sent
#     {"input_tokens": 812, "output_tokens": 95}    its answer is here
#     {"half": KEY, "walk": {...}}                  the budget ended a walk half-way
#
# What a run has spent is the sum of the lines. A request is written down before it is sent, so one
# that was on its way when the process was killed counts as a call; what its answer would have cost
# nobody knows. A torn last line is left out.

ASKED = "asked.jsonl"
_HALF, _WALK = "half", "walk"
_COUNTS = ("calls", "input_tokens", "output_tokens")


class Ledger:
    """The file of a run, open for more; only the process that fills the run writes it.

    Args:
        folder: of the run, which is there.

    Attributes:
        spent: by all commands so far.
        half: walks that a budget ended half-way, by their keys, the last state of each.
    """

    def __init__(self, folder: str | Path) -> None:
        self._path = Path(folder) / ASKED
        self.spent, self.half, whole = _read(self._path)
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            os.ftruncate(self._file, whole)
        except OSError as cause:
            raise self._unwritable(cause) from cause

    def close(self) -> None:
        """Close the file; the disk is told to keep it."""
        with suppress(OSError):  # of a file system that cannot
            os.fsync(self._file)
        os.close(self._file)

    def called(self) -> None:
        """A request is about to be sent."""
        self._add({"calls": 1})
        self.spent += Spent(calls=1)

    def answered(self, usage: Spent) -> None:
        """An answer has come that took so many tokens."""
        self._add({"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens})
        self.spent += usage

    def keep_half(self, walk: Trajectory) -> None:
        """Keep what there is of a walk; it goes on from there."""
        name = made_of(walk).name
        self._add({_HALF: name, _WALK: walk.to_json()})
        self.half[name] = walk

    def _add(self, event: dict[str, Any]) -> None:
        line = (json_text(event) + "\n").encode()
        try:
            written = os.write(self._file, line)
            if written < len(line):  # a disk that is just full takes a part
                os.ftruncate(self._file, os.fstat(self._file).st_size - written)
                raise OSError("no space left on the disk")
        except OSError as cause:
            raise self._unwritable(cause) from cause

    def _unwritable(self, cause: OSError) -> InvalidFileError:
        return InvalidFileError(
            f"{self._path} cannot be written: {cause.strerror or cause}; make room, and the same "
            f"goes on from what is kept"
        )


def spent_in(folder: str | Path) -> Spent:
    """What the commands that worked on a run have spent."""
    return _read(Path(folder) / ASKED)[0]


def _read(path: Path) -> tuple[Spent, dict[str, Trajectory], int]:
    """The sum of a file, the half walks in it, and how many of its bytes are whole lines."""
    try:
        data = read_bytes(path)
    except FileNotFoundError:
        return Spent(), {}, 0
    except OSError as cause:
        raise InvalidFileError(f"{path} cannot be read: {cause.strerror or cause}") from cause
    whole = data.rfind(b"\n") + 1
    totals, half = dict.fromkeys(_COUNTS, 0), {}
    for number, line in enumerate(data[:whole].split(b"\n")[:-1], start=1):
        try:
            event = json.loads(line)
            if _HALF in event:
                half[str(event[_HALF])] = Trajectory.from_json(event[_WALK])
                continue
            for name, count in event.items():
                if name not in totals or type(count) is not int or count < 0:
                    raise ValueError(f"{name} is {count!r}")
                totals[name] += count
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as cause:
            if isinstance(cause, GoalmeterError):
                raise InvalidFileError(f"{path}, line {number}: {cause}") from cause
            raise InvalidFileError(
                f"{path}, line {number}: expected calls, tokens or half a walk, got "
                f"{line[:60]!r}; remove that line, and what it counted is not counted"
            ) from cause
    return Spent(**totals), half, whole
