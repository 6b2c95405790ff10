"""Parse the options of commands: suites, language models and execution backends."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, TypeVar, get_origin

from goalmeter._errors import (
    MOST_SECONDS,
    MOST_WORKERS,
    InvalidParameterError,
    shown,
    whole,
    whole_in_text,
)
from goalmeter.navigation.inspect.budget import Budget
from goalmeter.navigation.inspect.models import Server
from goalmeter.navigation.prompts import Asking, paper_effort
from goalmeter.navigation.suite_definition import Suite
from goalmeter.runs import HERE, check_place, cores

# --- Suite options --------------------------------------------------------------------------------
# An option of a suite is a field of `navigation.suites.options.SuiteOptions`; here each has its
# spelling and its help. The command line is made of this table, so a field that is added there
# needs an entry here and nothing else.

N = TypeVar("N", int, float)


def numbers(option: str, text: str | None, kind: type[N]) -> list[N] | None:
    """The numbers of an option; None for an option that was not typed."""
    try:
        return None if text is None else [kind(part) for part in text.split(",")]
    except ValueError as cause:  # also for integers of thousands of digits
        whole = "whole numbers" if kind is int else "numbers"
        raise InvalidParameterError(
            f"{option} is {shown(text)}, expected {whole} with commas between them"
        ) from cause


def words(text: str | None) -> list[str] | None:
    """The words of an option, written with commas between them."""
    return None if text is None else [part.strip() for part in text.split(",")]


def bounds(option: str, texts: Sequence[str] | None) -> list[tuple[int, int]] | None:
    """Pairs of bounds, each written LOW-HIGH."""
    from goalmeter.navigation.suite_definition import MOST_STEPS

    if not texts:
        return None
    pairs = []
    for text in texts:
        ends = re.fullmatch(r"(\d+)\s*-\s*(\d+)", text.strip())
        if ends is None:
            raise InvalidParameterError(
                f"{option} is {shown(text)}, expected two whole numbers LOW-HIGH, such as 4-8"
            )
        low, high = (whole_in_text(end, option, least=0, most=MOST_STEPS) for end in ends.groups())
        pairs.append((low, high))
    return pairs


def _with_commas(values: Sequence[Any]) -> str:
    return ",".join(map(str, values))


def _low_high(pair: Sequence[int]) -> str:
    return "-".join(map(str, pair))


def _count(indices: Sequence[int]) -> str:
    # run.json lists the indices of grids and walks; the command line counts them from 0.
    return str(len(indices))


@dataclass(frozen=True)
class SpelledOption:
    """An option of the command line for a field of a record of options.

    Attributes:
        flag: as it is typed; "--yes/--no" for two.
        kind: the type that the command line reads; a list is an option that may be repeated.
        help: in a line.
        metavar: an example of its value; None for numbers and flags.
        least: smallest number that is accepted.
        most: largest number that is accepted.
        read: the field's value from the flag and what was typed; None where that is the value.
        write: what is typed for one value of run.json; the option is repeated for a list.
        group: the heading of the help that it stands under; None for the general one.
    """

    flag: str
    kind: Any
    help: str
    metavar: str | None = None
    least: float | None = None
    most: float | None = None
    read: Callable[[str, Any], Any] | None = None
    write: Callable[[Any], str] = str
    group: str | None = None

    @property
    def repeated(self) -> bool:
        """Whether it is typed once for each of its values."""
        return get_origin(self.kind) is list


# Lists that are typed in one word, and those whose option is typed again for each pair.
_listed = partial(SpelledOption, kind=str, write=_with_commas)
_paired = partial(SpelledOption, kind=list[str], metavar="LOW-HIGH", read=bounds, write=_low_high)
SUITE_OPTIONS: Mapping[str, SpelledOption] = {
    "sizes": _listed(
        "--sizes", help="Rows of the grids, odd.", metavar="7,9", read=partial(numbers, kind=int)
    ),
    "complexities": _listed(
        "--complexities",
        help="Of mazes: from 0, a room, to 1, a perfect maze.",
        metavar="0,0.5,1",
        read=partial(numbers, kind=float),
    ),
    "transforms": _listed(
        "--transforms",
        help="Frames of isometries; default all.",
        metavar="reflect,swap",
        read=lambda _, text: words(text),
    ),
    "objects": _listed(
        "--objects",
        help="What lies about where keys open nothing: a key, an object without a use.",
        metavar="key,neutral",
        read=lambda _, text: words(text),
    ),
    "grids": SpelledOption(
        "--grids", int, "Grids of each size and complexity.", least=1, write=_count
    ),
    "trajectories": SpelledOption(
        "--trajectories", int, "Walks through each.", least=1, write=_count
    ),
    "distances": _paired(
        "--distance", help="Mazes by their shortest path; repeat for more strata."
    ),
    "detours": _paired(
        "--detour", help="Mazes by how much longer it is than as the crow flies; repeat for more."
    ),
    "paper": SpelledOption("--paper", bool, "The paper's scale and caps, where none is given."),
    "cap": SpelledOption("--cap", int, "Steps after which a walk is ended.", least=1),
    "cap_factor": SpelledOption(
        "--cap-factor", float, "The same as a multiple of the shortest path; default 3.", least=1
    ),
    "held_out": SpelledOption(
        "--held-out/--all-grids",
        bool,
        "Only grids that the recipes of organisms do not teach; default for these alone.",
    ),
}


def values_of(typed: Mapping[str, Any], table: Mapping[str, SpelledOption]) -> dict[str, Any]:
    """The values of the fields that a table spells, from what was typed: field -> value."""
    return {
        name: typed[name] if option.read is None else option.read(option.flag, typed[name])
        for name, option in table.items()
    }


def as_typed(message: str) -> str:
    """A message on what tells two runs apart, with each option as it is typed."""
    head, mark, differences = message.partition("holds another run: ")
    for name, option in SUITE_OPTIONS.items():
        differences = re.sub(rf"\b{name}(?= is )", option.flag, differences)
    return head + mark + differences


def typed_options(what: Mapping[str, Any], *, held_out_by_default: bool) -> list[str]:
    """What to type for the options that the run.json of a navigation run says.

    Args:
        what: what the run is.
        held_out_by_default: whether its agent walks in held-out grids unless it is told otherwise.
    """
    typed: list[str] = []
    for name, option in SUITE_OPTIONS.items():
        value = what.get(name)
        if name == "held_out":
            if bool(value) != held_out_by_default:
                typed.append(option.flag.split("/")[not value])
        # The key lies about unless something else is named.
        elif value not in (None, [], ["key"]):
            for item in value if option.repeated else [value]:
                typed += [option.flag, option.write(item)]
    return typed + (["--seed", str(what["seed"])] if what["seed"] else [])


# --- Model options --------------------------------------------------------------------------------
def _option(
    kind: Any, text: str, *bounds: float, default: Any = None, flag: str = "", **spelling: Any
) -> Any:
    """A field with its spelling, of which the command line is made; `bounds`: least and most."""
    least, most = bounds or (None, None)
    option = partial(SpelledOption, kind=kind, help=text, least=least, most=most, **spelling)
    return field(default=default, metadata={"flag": flag, "option": option})


ASKED, REACHED = "How a language model is asked", "How it is reached"
COSTS = "What it may cost"
_asked, _reached = partial(_option, group=ASKED), partial(_option, group=REACHED)
_costs = partial(_option, group=COSTS)


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """Options of language models, as they were given; what was not given is None, empty or False.

    `prompts` are names of templates, several are conditions of one run; `options` of the provider
    are written NAME=VALUE; `from_log` are logs of `inspect eval` whose walks are taken over.
    """

    prompts: Sequence[str] | None = _asked(
        str,
        "What it is asked; several are compared. Default keys/1 where there are keys.",
        flag="--prompt",
        metavar="plain/1,keys/1",
        read=lambda _, text: words(text),
    )
    history: int | None = _asked(int, "Past steps that a prompt shows; default 0.", 0, 10_000)
    attempts: int | None = _asked(
        int, "How often a step is asked for until the answer can be read; default 3.", 1, 1000
    )
    token_cap: int | None = _asked(int, "Output tokens of a whole walk.", 1, 10**9)
    temperature: float | None = _asked(float, "Default 0.7.", 0, 100)
    top_p: float | None = _asked(float, "Default 0.95.", 0, 1)
    max_tokens: int | None = _asked(int, "Of one answer; default 10000.", 1, 10**8)
    reasoning_effort: str | None = _asked(
        str,
        "Default the model's; for gpt-oss with --paper low, in worlds with a key medium.",
        metavar="low|medium|high|...",
    )
    logprobs: bool = _asked(
        bool, "Ask for log-probabilities, 20 a token, and keep those of the moves.", default=False
    )
    no_seeds: bool = _asked(bool, "Send none, to servers that refuse them.", default=False)
    options: Sequence[str] = _reached(
        list[str],
        "Of the provider, such as dtype=bfloat16; repeat for more.",
        default=(),
        flag="-M",
        metavar="NAME=VALUE",
    )
    base_url: str | None = _reached(
        str,
        "Of the server; default from the environment, such as VLLM_BASE_URL.",
        flag="--model-base-url",
        metavar="URL",
    )
    max_connections: int | None = _reached(int, "Questions at once.", 1, 10_000)
    max_retries: int | None = _reached(
        int, "How often a question that the server failed is put again; default 5.", 0, 1000
    )
    timeout: int | None = _reached(int, "Seconds for one answer; default 600.", 1, MOST_SECONDS)
    rounds: int | None = _reached(
        int, "How often walks that the server failed are made again; default 2.", 0, 1000
    )
    from_log: Sequence[Path] = _reached(
        list[Path],
        "Take over the walks of `inspect eval goalmeter/...`, from a log or a folder of them; "
        "repeat for more.",
        default=(),
        metavar="FILE.eval",
    )
    budget: Mapping[str, float] | None = _costs(
        str,
        "Inspect's limits on tokens and cost, for all commands of the run; it can be resumed.",
        metavar="tokens=N,usd=X",
        read=lambda flag, text: limits(flag, text),
    )
    price_in: float | None = _costs(float, "US dollars for a million input tokens.", 0, 10**6)
    price_out: float | None = _costs(
        float, "US dollars for a million output tokens, reasoning included.", 0, 10**6
    )

    def refuse(self, agent: str) -> None:
        """Raises if an option was given: the agent answers without a language model."""
        flags = [MODEL_OPTIONS[name].flag for name in self._typed()]
        if flags:
            raise InvalidParameterError(
                f"{', '.join(flags)}: for language models only, and {agent} is a reference "
                f"agent; leave it out, or let {agent} read prompts as goalmeter/{agent}"
            )

    def asking(self, model: str, suite: Suite, *, paper: bool) -> Asking:
        """How the model is asked."""
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
        """How the model is reached."""
        return Server(**self._typed("base_url", "max_connections", "max_retries", "timeout"))

    def spending(self) -> Budget:
        """The most that the run may cost."""
        try:
            return Budget(**(self.budget or {}), price_in=self.price_in, price_out=self.price_out)  # type: ignore[arg-type]
        except InvalidParameterError as cause:
            message = str(cause).replace("price_in", "--price-in")
            raise InvalidParameterError(message.replace("price_out", "--price-out")) from cause

    def _typed(self, *names: str) -> dict[str, Any]:
        """The options that were given, of some names or of all."""
        return {
            each.name: getattr(self, each.name)
            for each in fields(self)
            if each.name in (names or MODEL_OPTIONS) and getattr(self, each.name) != each.default
        }


# An option is spelled as its field unless the field says otherwise.
MODEL_OPTIONS: Mapping[str, SpelledOption] = {
    each.name: each.metadata["option"](each.metadata["flag"] or f"--{each.name.replace('_', '-')}")
    for each in fields(ModelOptions)
}


def limits(flag: str, text: str | None) -> dict[str, float] | None:
    """The limits of a budget, each written NAME=NUMBER.

    >>> limits("--budget", "tokens=2e6,usd=2.50")
    {'tokens': 2000000, 'usd': 2.5}
    """
    if text is None:
        return None
    out: dict[str, float] = {}
    for word in words(text) or []:
        name, _, number = word.partition("=")
        try:
            value = float(number)
            if name not in _LIMITS or name in out or not 0 <= value < inf:
                raise ValueError
            if name == "tokens" and value != int(value):
                raise ValueError
        except ValueError as cause:
            raise InvalidParameterError(
                f"{flag} is {shown(text)}, expected tokens=N, usd=X or both with a comma between "
                f"them, such as tokens=1000000,usd=2.50; Inspect has no limit on calls"
            ) from cause
        out[name] = int(value) if name == "tokens" else value
    return out


_LIMITS = ("tokens", "usd")


def provider_options(texts: Iterable[str]) -> dict[str, Any]:
    """Options of a provider, each written NAME=VALUE, where the value is JSON or else a word.

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


# --- Place ----------------------------------------------------------------------------------------
# Processes take a second to start, and each of them imports what the trials need.
WORTH_PROCESSES = 3.0


def chosen_place(on: str | None, workers: int | None, *, seconds: float = inf) -> str:
    """Where the trials of a command run, in the spelling of `runs`.

    Args:
        on: the option --on, or None.
        workers: the option --workers, or None: short for so many processes of this machine.
        seconds: that the trials take one after the other, roughly. Where neither option is given,
            they run in processes, one for each core, if that is worth it, and else in this one.
    """
    if on is not None and workers is not None:
        raise InvalidParameterError(
            f"--on and --workers both say where trials run; give one of them: --workers {workers} "
            f"is short for --on processes:{workers}"
        )
    if workers is not None:
        return f"processes:{whole(workers, 'workers', least=1, most=MOST_WORKERS)}"
    if on is not None:
        check_place(on)
        return on
    return f"processes:{cores()}" if cores() > 1 and seconds >= WORTH_PROCESSES else HERE
