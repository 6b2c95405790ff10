"""Cost forecasts of studies for `--dry-run`, from some trials that are made and not stored."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from goalmeter._errors import json_text
from goalmeter._files import JsonFields
from goalmeter.runs.backends.registry import HERE, opened
from goalmeter.runs.engine import check_first, result_in
from goalmeter.runs.jobs import Study
from goalmeter.runs.reading import keys_in

# Seconds that the examples take together, about, and how many there are besides the first.
_SECONDS, _EXAMPLES = 3.0, 8


@dataclass(frozen=True)
class Span(JsonFields):
    """Number between two bounds, which `Forecast.assumed` explains."""

    least: float
    most: float

    def __mul__(self, factor: float) -> Span:
        return Span(self.least * factor, self.most * factor)

    def __add__(self, other: Span) -> Span:
        return Span(self.least + other.least, self.most + other.most)

    @classmethod
    def of(cls, value: float) -> Span:
        """Return a known number."""
        return cls(value, value)


@dataclass(frozen=True, kw_only=True)
class Forecast(JsonFields):
    """Remaining trials of a plan and their estimated cost."""

    name: str  # whose trials they are
    noun: str  # what one is called
    trials: int  # number in the plan
    kept: int = 0  # number in the run directory
    left: int  # number of the others
    slots: int = 1  # how many are made at once
    hours: Span | None = None  # of work, by the clock; None if unknown
    disk: Span | None = None  # bytes that are written; None if unknown
    place: str = ""  # execution backend; "" where the user does not choose one
    calls: Span | None = None  # calls of a model; None where there are none
    prompt_tokens: Span | None = None  # of these calls
    output_tokens: Span | None = None
    output_cap: int | None = None  # output tokens that no run can exceed
    usd: Span | None = None  # price of the calls, where prices are known
    counted: Mapping[str, int] = field(default_factory=dict)  # of worlds, decisions, fits
    assumed: tuple[str, ...] = ()  # assumptions of these numbers, in sentences


def forecast_of(
    study: Study[Any],
    *,
    on: str = HERE,
    timeout: float | None = None,
    out: str | Path | None = None,
) -> Forecast:
    """Estimate the cost of a study from its first trials; arguments as of `carry_out`."""
    forecast = unmeasured(study, "nothing is left to make", on=on, out=out)
    if not (left := left_of(study.trials, out)):
        return replace(forecast, hours=Span(0, 0), disk=Span(0, 0), assumed=forecast.assumed[:1])
    seconds, sizes = list[float](), list[int]()
    # A process of its own where trials run apart, as a user's code may have to; here where it can.
    place = HERE if callable(study.function) else "processes:1"
    with opened(place, trials=1, timeout=timeout) as backend:
        check_first(study, backend)
        begun, count = 0.0, min(1 + _EXAMPLES, len(left))
        for key in (left[number * len(left) // count] for number in range(count)):
            if len(sizes) > 1 and time.monotonic() - begun > _SECONDS:
                break
            ((_, made),) = backend.run(iter([study.batch([key])]))
            value = study.to_json(result_in(study, key, made.results[0]))
            sizes.append(len(json_text({"key": key, "value": value}).encode()) + 1)
            seconds.append(made.seconds)
            begun = begun or time.monotonic()  # without the first one, which pays for imports
    seconds = seconds[1:] or seconds
    each, size = fmean(seconds), fmean(sizes)
    spread = f", from {min(seconds):.3g} to {max(seconds):.3g} s" if len(seconds) > 1 else ""
    measured = (
        f"a {study.noun} takes {each:.3g} s and {size:.0f} bytes, measured on {len(sizes)} of them"
        f"{spread}, on this machine as busy as it is now"
    )
    return replace(
        forecast,
        hours=Span.of(len(left) * each / forecast.slots / 3600),
        disk=Span.of(len(left) * size),
        assumed=(measured, *forecast.assumed[1:]),
    )


def unmeasured(
    study: Study[Any], why: str, *, on: str = HERE, out: str | Path | None = None
) -> Forecast:
    """Count the trials of a study without making any; `why` says why the time is unknown."""
    left = len(left_of(study.trials, out))
    slots = getattr(opened(on, trials=max(left, 1), timeout=None), "slots", 0)
    at_once = {
        0: f"how many {on} makes at once is not known before it is reached: the time is that of "
        f"one after the other",
        1: f"one is made after the other ({on})",
    }.get(slots, f"{slots} are made at once ({on}), each as fast as one alone")
    return Forecast(
        name=study.name,
        noun=study.noun,
        trials=len(study.trials),
        kept=len(study.trials) - left,
        left=left,
        slots=max(slots, 1),
        place=on,
        assumed=(why, at_once),
    )


def together(name: str, forecasts: Sequence[Forecast], **changes: Any) -> Forecast:
    """Join forecasts of trials that are made one after the other; `changes` are fields of it."""
    joined: dict[str, Any] = {}
    counts, tokens = ("trials", "kept", "left"), ("prompt_tokens", "output_tokens", "output_cap")
    for number in (*counts, "hours", "disk", "calls", *tokens, "usd"):
        values = [getattr(each, number) for each in forecasts]
        # A number that one of them does not know is unknown for all.
        joined[number] = None if None in values else sum(values[1:], values[0])
    joined["assumed"] = tuple(dict.fromkeys(line for each in forecasts for line in each.assumed))
    return replace(forecasts[0], name=name, **(joined | changes))


def left_of(trials: Mapping[str, Any], out: str | Path | None) -> list[str]:
    """Return the keys of the trials that a run directory does not hold yet."""
    kept = keys_in(out) if out is not None else ()
    return [key for key in trials if key not in kept]
