"""Options of several commands: places, seeds, suites of grid worlds, language models."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from goalmeter._errors import (
    MOST_SECONDS,
    MOST_SEED,
    MOST_WORKERS,
    InvalidParameterError,
    shown,
    whole_in_text,
)
from goalmeter.commands.declare import option, options_in, pairs, several, shared

if TYPE_CHECKING:
    from goalmeter.navigation.prompts import Asking
    from goalmeter.navigation.suite_definition import Suite

_WORTH_PROCESSES = 3.0  # seconds; processes take one to start, and import what trials need
Count = Annotated[int, shared(least=1)]
Steps = Annotated[int, shared(least=1, most=10_000_000)]
Tokens = Annotated[int, shared(least=1, most=10**8)]
Workers = Annotated[int, shared(least=1, most=MOST_WORKERS)]
Seed = Annotated[int, shared(least=0, most=MOST_SEED)]
SearchTime = Annotated[float, shared(metavar="SECONDS", least=0.001, most=1e9)]


@dataclass(frozen=True, kw_only=True)
class DryRunOptions:
    """Whether only the cost is wanted."""

    dry_run: bool = option("Print the planned trials and estimated cost, then exit.", default=False)


@dataclass(frozen=True, kw_only=True)
class PlaceOptions(DryRunOptions):
    """Where trials run, or that only their cost is wanted."""

    on: str | None = option(
        "PLACE  Where trials run: here, processes:N, ray, slurm, or a place of another package; "
        "default one process a core where that is faster.",
        complete="places",
    )
    workers: Workers | None = option("So many processes: short for --on processes:N.")

    def place(self, *, seconds: float = inf) -> str:
        """Return the execution backend; `seconds` are those of all trials, one after the other."""
        from goalmeter.runs import HERE, check_place, cores

        if self.on is not None and self.workers is not None:
            raise InvalidParameterError(
                f"--on and --workers both say where trials run; give one of them: --workers "
                f"{self.workers} is short for --on processes:{self.workers}"
            )
        on = self.on if self.workers is None else f"processes:{self.workers}"
        if on is not None:
            check_place(on)
            return on
        return f"processes:{cores()}" if cores() > 1 and seconds >= _WORTH_PROCESSES else HERE


@dataclass(frozen=True, kw_only=True)
class SeedOptions:
    """The seed of a command that draws random numbers."""

    seed: Seed = option("Seed of everything random.", default=0)


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Where results are stored."""

    out: Path | None = option("RUN  Run directory; an existing run is resumed.")


def bounds(flag: str, texts: Sequence[str] | None) -> list[tuple[int, int]] | None:
    """Return pairs of bounds, each written LOW-HIGH."""
    from goalmeter.navigation.suite_definition import MOST_STEPS

    ranges = []
    for text in texts or ():
        ends = re.fullmatch(r"(\d+)\s*-\s*(\d+)", text.strip())
        if ends is None:
            raise InvalidParameterError(
                f"{flag} is {shown(text)}, expected two whole numbers LOW-HIGH, such as 4-8"
            )
        low, high = (whole_in_text(end, flag, least=0, most=MOST_STEPS) for end in ends.groups())
        ranges.append((low, high))
    return ranges or None


def limits(flag: str, text: str | None) -> dict[str, float] | None:
    """Return the limits of a budget, each written NAME=NUMBER; tokens are an integer."""
    if text is None:
        return None
    try:
        out = {}
        for name, value in pairs(flag, text.split(","), "").items():
            number = float(value)
            out[name] = {"tokens": int, "usd": float}[name](number)
            if out[name] != number or not 0 <= number < inf:
                raise ValueError
    except (KeyError, ValueError, OverflowError) as cause:
        raise InvalidParameterError(
            f"{flag} is {shown(text)}, expected tokens=N, usd=X or both with a comma between "
            f"them, such as tokens=1000000,usd=2.50; Inspect has no limit on calls"
        ) from cause
    return out


def values(
    flag: str, texts: Sequence[str], expected: str, read: Callable[[str], Any] = json.loads
) -> dict[str, Any]:
    """Return options that are each written NAME=VALUE; what cannot be read as JSON is a word."""
    out: dict[str, Any] = {}
    for name, value in pairs(flag, texts, expected).items():
        try:
            out[name] = read(value)
        except (ValueError, RecursionError):
            out[name] = value
    return out


# run.json lists the indices of grids and trajectories; the command line counts them from 0.
_Indices = Annotated[int, shared(least=1, write=lambda indices: str(len(indices)))]
_as_range = shared(kind=list[str], read=bounds, write=lambda pair: "-".join(map(str, pair)))
_Range = Annotated[tuple[int, int], _as_range]


@dataclass(frozen=True, kw_only=True)
class SuiteFields:
    """Options of a suite, named as in `navigation.SuiteOptions`; None is left to the suite."""

    sizes: Sequence[int] | None = option("Rows of the grids, odd.", "7,9", commas=True)
    complexities: Sequence[float] | None = option(
        "Complexities of mazes: from 0, a room, to 1, a perfect maze.", "0,0.5,1", commas=True
    )
    transforms: Sequence[str] | None = option(
        "Isometries of the grids; default all.", "reflect,swap", commas=True
    )
    objects: Sequence[str] | None = option(
        "Objects to place in key-no-door worlds.", "key,neutral", commas=True
    )
    grids: _Indices | None = option("Grids of each size and complexity.")
    trajectories: _Indices | None = option("Trajectories through each grid.")
    distances: Sequence[_Range] | None = option(
        "--distance LOW-HIGH  Range of the shortest path of mazes; repeat for more strata."
    )
    detours: Sequence[_Range] | None = option(
        "--detour LOW-HIGH  Range of the shortest path minus the Manhattan distance; repeat for "
        "more strata."
    )
    paper: bool = option("The paper's scale and caps, where none is given.", default=False)
    cap: Count | None = option("Maximum trajectory length.")
    cap_factor: float | None = option(
        "Maximum trajectory length as a multiple of the shortest path; default 3.", least=1
    )
    held_out: bool | None = option(
        "--held-out/--all-grids  Only grids that no organism was trained on; default for organisms."
    )


SUITE_OPTIONS = options_in(SuiteFields)


def as_typed(message: str) -> str:
    """Return a message on prices, or on what two runs differ in, with options as they are typed."""
    head, mark, differences = message.partition("holds another run: ")
    for name, declared in SUITE_OPTIONS.items():
        differences = re.sub(rf"\b{name}(?= is )", declared.flag, differences)
    head = head.replace("price_in", "--price-in").replace("price_out", "--price-out")
    return head + mark + differences


_ASKED, _REACHED, _COSTS = "How a language model is asked", "How it is reached", "What it may cost"
_asked = partial(option, group=_ASKED)
_reached = partial(option, group=_REACHED)
_Price = Annotated[float, shared(least=0, most=10**6, group=_COSTS)]
_Tries = Annotated[int, shared(least=0, most=1000, group=_REACHED)]
_Limits = Annotated[Mapping[str, float], shared(kind=str, read=limits, group=_COSTS)]


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """Options of language models; a missing one is None, empty or False."""

    prompts: Sequence[str] | None = _asked(
        "--prompt plain/1,keys/1  Prompt templates; several are compared. Default keys/1 where "
        "there are keys.",
        commas=True,
    )
    history: int | None = _asked("Past steps that a prompt shows; default 0.", least=0, most=10_000)
    attempts: int | None = _asked(
        "Attempts at an answer that can be parsed; default 3.", least=1, most=1000
    )
    token_cap: int | None = _asked("Output tokens of a whole trajectory.", least=1, most=10**9)
    temperature: float | None = _asked("Default 0.7.", least=0, most=100)
    top_p: float | None = _asked("Default 0.95.", least=0, most=1)
    max_tokens: Tokens | None = option("Output tokens of an answer; default 10000.", group=_ASKED)
    reasoning_effort: str | None = _asked(
        "low|medium|high|...  Default the model's; for gpt-oss with --paper low, with keys medium."
    )
    logprobs: bool = _asked(
        "Ask for log-probabilities, 20 a token, and keep those of the moves.", default=False
    )
    no_seeds: bool = _asked("Send no seeds, to servers that refuse them.", default=False)
    options: Sequence[str] = several(
        "-M NAME=VALUE  Option of the provider, such as dtype=bfloat16.", group=_REACHED
    )
    base_url: str | None = _reached(
        "--model-base-url URL  The server; default from the environment, such as VLLM_BASE_URL."
    )
    max_connections: int | None = _reached("Concurrent requests.", least=1, most=10_000)
    max_retries: _Tries | None = option("Retries of a request that the server failed; default 5.")
    timeout: int | None = _reached("Seconds of an answer; default 600.", least=1, most=MOST_SECONDS)
    rounds: _Tries | None = option("Retries of trajectories that the server failed; default 2.")
    from_log: Sequence[Path] = several(
        "FILE.eval  Take over trajectories of `inspect eval goalmeter/...`: a log, or a folder of "
        "logs.",
        group=_REACHED,
    )
    budget: _Limits | None = option(
        "tokens=N,usd=X  Inspect's limits on tokens and cost over all commands of a resumable run."
    )
    price_in: _Price | None = option("US dollars for a million input tokens.")
    price_out: _Price | None = option("US dollars for a million output tokens, reasoning included.")

    def refuse(self, agent: str) -> None:
        """Raise an error if an option was given: the agent is not a language model."""
        if flags := [MODEL_OPTIONS[name].flag for name in self.given(ModelOptions)]:
            raise InvalidParameterError(
                f"{', '.join(flags)}: for language models only, and {agent} is a reference "
                f"agent; leave it out, or let {agent} read prompts as goalmeter/{agent}"
            )

    def asking(self, model: str, suite: Suite) -> Asking:
        """Return the settings of prompts and generation."""
        from goalmeter.navigation.prompts import Asking, paper_effort

        settings = self.given(Asking)
        settings["options"] = values("-M", self.options, "NAME=VALUE, such as batch=64")
        if getattr(self, "paper", False):
            settings.setdefault("reasoning_effort", paper_effort(model, suite))
        return Asking(seeded=not self.no_seeds, **settings)

    def given(self, record: Any) -> dict[str, Any]:
        """Return the fields of a record that were given as options."""
        names = [each.name for each in fields(record) if each.name in MODEL_OPTIONS]
        options = {name: getattr(self, name) for name in names}
        return {n: value for n, value in options.items() if value != MODEL_OPTIONS[n].default}


MODEL_OPTIONS = options_in(ModelOptions)
