"""Options of suites of grid worlds and of language models, as fields of records."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, TypeVar

from goalmeter._errors import MOST_SECONDS, InvalidParameterError, shown, whole_in_text
from goalmeter.commands.declare import Option, option, options_in
from goalmeter.navigation.inspect.budget import Budget
from goalmeter.navigation.inspect.models import Server
from goalmeter.navigation.prompts import Asking, paper_effort
from goalmeter.navigation.suite_definition import Suite

# --- Values ---------------------------------------------------------------------------------------
N = TypeVar("N", int, float)


def numbers(flag: str, text: str | None, kind: type[N]) -> list[N] | None:
    """Return the numbers of an option, written with commas; None for an option that is missing."""
    try:
        return None if text is None else [kind(part) for part in text.split(",")]
    except ValueError as cause:  # also for integers of thousands of digits
        whole = "whole numbers" if kind is int else "numbers"
        raise InvalidParameterError(
            f"{flag} is {shown(text)}, expected {whole} with commas between them"
        ) from cause


integers, decimals = partial(numbers, kind=int), partial(numbers, kind=float)


def words(flag: str, text: str | None) -> list[str] | None:
    """Return the words of an option, written with commas."""
    return None if text is None else [part.strip() for part in text.split(",")]


def bounds(flag: str, texts: Sequence[str] | None) -> list[tuple[int, int]] | None:
    """Return pairs of bounds, each written LOW-HIGH."""
    from goalmeter.navigation.suite_definition import MOST_STEPS

    if not texts:
        return None
    pairs = []
    for text in texts:
        ends = re.fullmatch(r"(\d+)\s*-\s*(\d+)", text.strip())
        if ends is None:
            raise InvalidParameterError(
                f"{flag} is {shown(text)}, expected two whole numbers LOW-HIGH, such as 4-8"
            )
        low, high = (whole_in_text(end, flag, least=0, most=MOST_STEPS) for end in ends.groups())
        pairs.append((low, high))
    return pairs


def limits(flag: str, text: str | None) -> dict[str, float] | None:
    """Return the limits of a budget, each written NAME=NUMBER; tokens are an integer.

    >>> limits("--budget", "tokens=2e6,usd=2.50")
    {'tokens': 2000000, 'usd': 2.5}
    """
    if text is None:
        return None
    out: dict[str, float] = {}
    for word in text.split(","):
        name, _, number = word.strip().partition("=")
        try:
            value = float(number)
            if name not in ("tokens", "usd") or name in out or not 0 <= value < inf:
                raise ValueError
            if name != "usd" and value != int(value):
                raise ValueError
        except ValueError as cause:
            raise InvalidParameterError(
                f"{flag} is {shown(text)}, expected tokens=N, usd=X or both with a comma between "
                f"them, such as tokens=1000000,usd=2.50; Inspect has no limit on calls"
            ) from cause
        out[name] = value if name == "usd" else int(value)
    return out


def provider_options(texts: Iterable[str]) -> dict[str, Any]:
    """Return options of a provider, each written NAME=VALUE, where the value is JSON or a word.

    >>> provider_options(["dtype=bfloat16", "batch=64", "stream=true"])
    {'dtype': 'bfloat16', 'batch': 64, 'stream': True}
    """
    out = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (equals and name.strip()):
            raise InvalidParameterError(f"-M is {text!r}, expected NAME=VALUE, such as batch=64")
        try:
            out[name.strip()] = json.loads(value)
        except json.JSONDecodeError:
            out[name.strip()] = value
    return out


def _with_commas(values: Sequence[Any]) -> str:
    return ",".join(map(str, values))


# --- Suites ---------------------------------------------------------------------------------------
# Lists that are typed in one word, and those whose option is typed again for each pair.
_listed = partial(option, str, write=_with_commas)
_paired = partial(
    option,
    list[str],
    metavar="LOW-HIGH",
    read=bounds,
    write=lambda pair: "-".join(map(str, pair)),
)
# run.json lists the indices of grids and trajectories; the command line counts them from 0.
_counted = partial(option, int, least=1, write=lambda indices: str(len(indices)))


@dataclass(frozen=True, kw_only=True)
class SuiteFields:
    """Options of a suite, named as in `navigation.SuiteOptions`; None is left to the suite."""

    sizes: Sequence[int] | None = _listed("Rows of the grids, odd.", "7,9", read=integers)
    complexities: Sequence[float] | None = _listed(
        "Complexities of mazes: from 0, a room, to 1, a perfect maze.", "0,0.5,1", read=decimals
    )
    transforms: Sequence[str] | None = _listed(
        "Isometries of the grids; default all.", "reflect,swap", read=words
    )
    objects: Sequence[str] | None = _listed(
        "Objects to place in key-no-door worlds.", "key,neutral", read=words
    )
    grids: int | None = _counted("Grids of each size and complexity.")
    trajectories: int | None = _counted("Trajectories through each grid.")
    distances: Sequence[tuple[int, int]] | None = _paired(
        "Range of the shortest path of mazes; repeat for more strata.", flag="--distance"
    )
    detours: Sequence[tuple[int, int]] | None = _paired(
        "Range of the shortest path minus the Manhattan distance; repeat for more strata.",
        flag="--detour",
    )
    paper: bool = option(bool, "The paper's scale and caps, where none is given.", default=False)
    cap: int | None = option(int, "Maximum trajectory length.", least=1)
    cap_factor: float | None = option(
        float,
        "Maximum trajectory length as a multiple of the shortest path; default 3.",
        least=1,
    )
    held_out: bool | None = option(
        bool,
        "Only grids that organisms are not trained on; default for these alone.",
        flag="--held-out/--all-grids",
    )

    def of_suite(self) -> dict[str, Any]:
        """Return the options of the suite."""
        return {each.name: getattr(self, each.name) for each in fields(SuiteFields)}


SUITE_OPTIONS: Mapping[str, Option] = dict(options_in(SuiteFields))


def flag_of(name: str, declared: Option) -> str:
    """Return an option as it is typed."""
    return declared.flag or f"--{name.replace('_', '-')}"


def as_typed(message: str) -> str:
    """Return a message on what two runs differ in, with each option as it is typed."""
    head, mark, differences = message.partition("holds another run: ")
    for name, declared in SUITE_OPTIONS.items():
        differences = re.sub(rf"\b{name}(?= is )", flag_of(name, declared), differences)
    return head + mark + differences


def typed_options(what: Mapping[str, Any], *, held_out_by_default: bool) -> list[str]:
    """Return what to type for the options in the run.json of a navigation run.

    `held_out_by_default` says whether its agent walks in held-out grids by default.
    """
    typed: list[str] = []
    for name, declared in SUITE_OPTIONS.items():
        value, flag = what.get(name), flag_of(name, declared)
        if name == "held_out":
            if bool(value) != held_out_by_default:
                typed.append(flag.split("/")[not value])
        elif value not in (None, False, [], ["key"]):  # a key is placed by default
            for item in value if declared.repeated else [value]:
                typed += [flag, declared.write(item)]
    return typed + (["--seed", str(what["seed"])] if what["seed"] else [])


# --- Language models -----------------------------------------------------------------------------
ASKED, REACHED = "How a language model is asked", "How it is reached"
COSTS = "What it may cost"
_asked, _reached = partial(option, group=ASKED), partial(option, group=REACHED)
_costs = partial(option, group=COSTS)


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """Options of language models; a missing one is None, empty or False."""

    prompts: Sequence[str] | None = _asked(
        str,
        "Prompt templates; several are compared. Default keys/1 where there are keys.",
        "plain/1,keys/1",
        flag="--prompt",
        read=words,
    )
    history: int | None = _asked(
        int, "Past steps that a prompt shows; default 0.", least=0, most=10_000
    )
    attempts: int | None = _asked(
        int, "Attempts at an answer that can be parsed; default 3.", least=1, most=1000
    )
    token_cap: int | None = _asked(int, "Output tokens of a whole trajectory.", least=1, most=10**9)
    temperature: float | None = _asked(float, "Default 0.7.", least=0, most=100)
    top_p: float | None = _asked(float, "Default 0.95.", least=0, most=1)
    max_tokens: int | None = _asked(
        int, "Output tokens of one answer; default 10000.", least=1, most=10**8
    )
    reasoning_effort: str | None = _asked(
        str,
        "Default the model's; for gpt-oss with --paper low, in worlds with a key medium.",
        "low|medium|high|...",
    )
    logprobs: bool = _asked(
        bool, "Ask for log-probabilities, 20 a token, and keep those of the moves.", default=False
    )
    no_seeds: bool = _asked(bool, "Send no seeds, to servers that refuse them.", default=False)
    options: Sequence[str] = _reached(
        list[str],
        "Option of the provider, such as dtype=bfloat16; repeat for more.",
        "NAME=VALUE",
        default=(),
        flag="-M",
    )
    base_url: str | None = _reached(
        str,
        "URL of the server; default from the environment, such as VLLM_BASE_URL.",
        "URL",
        flag="--model-base-url",
    )
    max_connections: int | None = _reached(int, "Concurrent requests.", least=1, most=10_000)
    max_retries: int | None = _reached(
        int, "Retries of a request that the server failed; default 5.", least=0, most=1000
    )
    timeout: int | None = _reached(
        int, "Seconds for one answer; default 600.", least=1, most=MOST_SECONDS
    )
    rounds: int | None = _reached(
        int,
        "How often trajectories that the server failed are made again; default 2.",
        least=0,
        most=1000,
    )
    from_log: Sequence[Path] = _reached(
        list[Path],
        "Take over the trajectories of `inspect eval goalmeter/...`, from a log or a folder of "
        "them; repeat for more.",
        "FILE.eval",
        default=(),
    )
    budget: Mapping[str, float] | None = _costs(
        str,
        "Inspect's limits on tokens and cost, for all commands of the run; it can be resumed.",
        "tokens=N,usd=X",
        read=limits,
    )
    price_in: float | None = _costs(
        float, "US dollars for a million input tokens.", least=0, most=10**6
    )
    price_out: float | None = _costs(
        float,
        "US dollars for a million output tokens, reasoning included.",
        least=0,
        most=10**6,
    )

    def refuse(self, agent: str) -> None:
        """Raise an error if an option was given: the agent is not a language model."""
        flags = [flag_of(name, MODEL_OPTIONS[name]) for name in self._typed()]
        if flags:
            raise InvalidParameterError(
                f"{', '.join(flags)}: for language models only, and {agent} is a reference "
                f"agent; leave it out, or let {agent} read prompts as goalmeter/{agent}"
            )

    def asking(self, model: str, suite: Suite, *, paper: bool) -> Asking:
        """Return the settings of prompts and generation."""
        settings = self._typed(
            "attempts", "token_cap", "temperature", "top_p", "max_tokens", "reasoning_effort"
        )
        if paper:
            settings.setdefault("reasoning_effort", paper_effort(model, suite))
        return Asking(
            logprobs=self.logprobs,
            seeded=not self.no_seeds,
            options=provider_options(self.options),
            **settings,
        )

    def server(self) -> Server:
        """Return the settings of the connection."""
        return Server(**self._typed("base_url", "max_connections", "max_retries", "timeout"))

    def spending(self) -> Budget:
        """Return the maximum cost."""
        try:
            return Budget(**(self.budget or {}), price_in=self.price_in, price_out=self.price_out)  # type: ignore[arg-type]
        except InvalidParameterError as cause:
            message = str(cause).replace("price_in", "--price-in")
            raise InvalidParameterError(message.replace("price_out", "--price-out")) from cause

    def _typed(self, *names: str) -> dict[str, Any]:
        """Return the options that were given, of some names or of all."""
        return {
            each.name: getattr(self, each.name)
            for each in fields(ModelOptions)
            if each.name in (names or MODEL_OPTIONS) and getattr(self, each.name) != each.default
        }


MODEL_OPTIONS: Mapping[str, Option] = dict(options_in(ModelOptions))
