"""What `goalmeter navigate` is told of a language model, and how it is then asked."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

from goalmeter._arguments import MOST_SECONDS
from goalmeter._errors import InvalidParameterError
from goalmeter._text import shown
from goalmeter.commands.suite_options import SpelledOption, words
from goalmeter.navigation.asking.settings import Asking, paper_effort
from goalmeter.navigation.asking.spending import Budget
from goalmeter.navigation.inspect.models import Server
from goalmeter.navigation.suites.record import Suite


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
        "The most that the run may cost, over all commands; it then ends and can go on later.",
        metavar="calls=N,tokens=N,usd=X",
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
    """The limits of a budget, each written NAME=NUMBER; calls and tokens are whole numbers.

    >>> limits("--budget", "calls=1000,tokens=2e6,usd=2.50")
    {'calls': 1000, 'tokens': 2000000, 'usd': 2.5}
    """
    if text is None:
        return None
    out: dict[str, float] = {}
    for word in words(text) or []:
        name, _, number = word.partition("=")
        try:
            value = float(number)
            whole = name != "usd"
            if name not in _LIMITS or name in out or not 0 <= value < inf:
                raise ValueError
            if whole and value != int(value):
                raise ValueError
        except ValueError as cause:
            raise InvalidParameterError(
                f"{flag} is {shown(text)}, expected one to three of calls=N, tokens=N and usd=X "
                f"with commas between them, such as calls=1000,usd=2.50"
            ) from cause
        out[name] = int(value) if whole else value
    return out


_LIMITS = ("calls", "tokens", "usd")


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
