"""What a study will cost, said before anything starts, and without making a folder.

    left         trials of the plan - trials that the folder keeps already
    hours        left * seconds of a trial / trials that are made at once / 3600
    disk         left * bytes of a line

Seconds and bytes are those of some of the trials themselves, which are made and not kept: the first
one pays for imports and is left out of the time; those that follow are spread evenly over the plan.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any, Self

from goalmeter._errors import json_text
from goalmeter._files import JsonFields
from goalmeter.runs.backends.registry import HERE, opened
from goalmeter.runs.engine import carry_out, keys_in
from goalmeter.runs.jobs import Answer, Backend, Batch, Study, Working

# Seconds that examples take together, about, and how many there are besides the first.
_BUDGET, _EXAMPLES = 3.0, 8


@dataclass(frozen=True)
class Span(JsonFields):
    """A number between two bounds, each of which says in `Forecast.assumed` what it is.

    Attributes:
        least: the lower one.
        most: the upper one.
    """

    least: float
    most: float

    def __mul__(self, factor: float) -> Span:
        return Span(self.least * factor, self.most * factor)

    def __add__(self, other: Span) -> Span:
        return Span(self.least + other.least, self.most + other.most)

    @classmethod
    def of(cls, value: float) -> Span:
        """A number that is known."""
        return cls(value, value)


@dataclass(frozen=True, kw_only=True)
class Forecast(JsonFields):
    """What is left of a plan, and what making it will cost.

    Attributes:
        name: whose trials they are.
        noun: what one is called.
        trials: of the plan.
        kept: those that the folder holds.
        left: the others.
        slots: how many are made at once.
        place: where they are made, as `on` spells it; "" where it is no choice of the user's.
        hours: of work, by the clock; None where nothing says what a trial takes.
        disk: bytes that are written; None where nothing says how many.
        calls: questions to a model; None where none is asked.
        prompt_tokens, output_tokens: of these questions and their answers.
        output_cap: output tokens that no run can exceed.
        usd: their price, where prices are known.
        counted: what else there is of, by its name: worlds, decisions, fits.
        assumed: what these numbers rest on, in sentences.
    """

    name: str
    noun: str
    trials: int
    kept: int
    left: int
    slots: int
    hours: Span | None
    disk: Span | None
    place: str = ""
    calls: Span | None = None
    prompt_tokens: Span | None = None
    output_tokens: Span | None = None
    output_cap: int | None = None
    usd: Span | None = None
    counted: Mapping[str, int] = field(default_factory=dict)
    assumed: tuple[str, ...] = ()


def forecast_of(
    study: Study[Any],
    *,
    on: str = HERE,
    timeout: float | None = None,
    out: str | Path | None = None,
    is_kept: bool = True,
) -> Forecast:
    """What carrying a study out will cost; the arguments are those of `carry_out`.

    `is_kept` says whether results go to a folder; if not, they need not be JSON values.

    Raises:
        GoalmeterError: as `carry_out`, of the trials that are made to see what they take.
        InvalidFileError: a line of the folder is no trial.
    """
    left = left_of(study.trials, out)
    slots, at_once = slots_at(on, len(left), timeout=timeout)
    # A process of its own where trials run apart, as a user's code may have to; here where it can.
    place = HERE if callable(study.function) else "processes:1"
    shown = study if is_kept else replace(study, to_json=lambda result: None)
    seconds, sizes = _examples(shown, left, place, timeout)
    each, size = fmean(seconds or [0.0]), fmean(sizes or [0.0])
    hours = len(left) * each / slots / 3600
    assumed = ["nothing is left to make"]
    if left:
        spread = f", from {min(seconds):.3g} to {max(seconds):.3g} s" if len(seconds) > 1 else ""
        assumed = [
            f"a {study.noun} takes {each:.3g} s"
            + (f" and {size:.0f} bytes" if is_kept else "")
            + f", measured on {len(sizes)} of them{spread}, on this machine as busy as it is now",
            at_once,
        ]
    return Forecast(
        name=study.name,
        noun=study.noun,
        trials=len(study.trials),
        kept=len(study.trials) - len(left),
        left=len(left),
        slots=slots,
        place=on,
        hours=Span.of(hours),
        disk=Span.of(len(left) * size) if is_kept else None,
        assumed=tuple(assumed),
    )


def unmeasured(
    study: Study[Any],
    why: str,
    *,
    on: str = HERE,
    out: str | Path | None = None,
    counted: Mapping[str, int] | None = None,
) -> Forecast:
    """What there is of a study of which no trial can be made to see what it takes.

    Args:
        study: whose trials they are.
        why: nothing tells the time, in a sentence.
        on: where they are made.
        out: folder that may hold some of them.
        counted: what else there is of, by its name.
    """
    left = left_of(study.trials, out)
    slots, at_once = slots_at(on, len(left))
    return Forecast(
        name=study.name,
        noun=study.noun,
        trials=len(study.trials),
        kept=len(study.trials) - len(left),
        left=len(left),
        slots=slots,
        place=on,
        hours=None,
        disk=None,
        counted=counted or {},
        assumed=(why, at_once),
    )


def slots_at(on: str, trials: int, *, timeout: float | None = None) -> tuple[int, str]:
    """How many of some trials a place makes at once, and that in a sentence; it is not entered.

    1 of a cluster, which says how much of it is free when it is reached.
    """
    known = getattr(opened(on, trials=max(trials, 1), timeout=timeout), "slots", None)
    if known == 1:
        return 1, f"one is made after the other ({on})"
    if known:
        return int(known), f"{known} are made at once ({on}), each as fast as one alone"
    return 1, (
        f"how many {on} makes at once is not known before it is reached: the time is that of one "
        f"after the other"
    )


def together(name: str, forecasts: Sequence[Forecast], **told: Any) -> Forecast:
    """Forecasts of trials of one noun as one: each is made when the one before is finished.

    A number that one of them does not know is not known of all. `told` are fields that are another
    for all of them, such as `assumed`; else sentences are each said once.
    """
    first = forecasts[0]

    def added(values: Sequence[Span | None]) -> Span | None:
        known = [value for value in values if value is not None]
        return sum(known, Span(0, 0)) if len(known) == len(values) else None

    spans = ("hours", "disk", "calls", "prompt_tokens", "output_tokens", "usd")
    counts = ("trials", "kept", "left")
    caps = [each.output_cap for each in forecasts]
    joined: dict[str, Any] = {key: added([getattr(f, key) for f in forecasts]) for key in spans}
    joined |= {key: sum(getattr(each, key) for each in forecasts) for key in counts}
    joined["output_cap"] = None if None in caps else sum(cap or 0 for cap in caps)
    joined["assumed"] = tuple(dict.fromkeys(line for each in forecasts for line in each.assumed))
    return replace(first, name=name, **(joined | told))


def left_of(trials: Mapping[str, Any], out: str | Path | None) -> list[str]:
    """Keys of the trials that a folder does not keep yet; nothing is made, and no lock taken."""
    kept = set(keys_in(out)) if out is not None else set()
    return [key for key in trials if key not in kept]


def spread_over(keys: Sequence[str], count: int) -> list[str]:
    """Some keys at even distances, the first one among them.

    >>> spread_over("abcdefgh", 3)
    ['a', 'c', 'f']
    """
    count = min(count, len(keys))
    return [keys[number * len(keys) // count] for number in range(count)]


def _examples(
    study: Study[Any], keys: Sequence[str], place: str, timeout: float | None
) -> tuple[list[float], list[int]]:
    """Seconds and bytes of some trials."""
    seconds: list[float] = []
    sizes: list[int] = []
    end = math.inf
    with opened(place, trials=1, timeout=timeout) as backend:
        timed = _Timed(backend)
        for key in spread_over(keys, 1 + _EXAMPLES):
            if len(sizes) > 1 and time.monotonic() > end:
                break
            trials = {key: study.trials[key]}
            # What is wrong with all of them is told before the first, as when they are made.
            check = None if sizes else study.check
            result = carry_out(replace(study, trials=trials, check=check), on=timed)[key]
            line = json_text({"key": key, "value": study.to_json(result)}) + "\n"
            sizes.append(len(line.encode()))
            seconds.append(timed.seconds)
            if len(sizes) == 1:
                end = time.monotonic() + _BUDGET
    return seconds[1:] or seconds, sizes


class _Timed:
    """A place that is open already, and remembers what its last batch took."""

    slots, worthwhile = 1, 0.0

    def __init__(self, backend: Backend) -> None:
        self.seconds = 0.0
        self._backend = backend

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None: ...

    def run(self, batches: Iterator[Batch]) -> Iterator[tuple[int, Answer]]:
        for number, batch in enumerate(batches):
            begun = time.perf_counter()
            for _, answer in islice(self._backend.run(iter([batch])), 1):
                # A batch that was lost has no time of its own.
                waited = time.perf_counter() - begun
                self.seconds = waited if answer.lost is not None else answer.seconds
                yield number, answer

    def working(self) -> Sequence[Working]:
        return self._backend.working()
