"""What `goalmeter navigate` is told of a language model, and how it is then asked."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidParameterError
from goalmeter.navigation.asking.settings import Asking, paper_effort
from goalmeter.navigation.inspect.models import Server
from goalmeter.navigation.suites.record import Suite

# Options that are spelled otherwise than their fields.
_SPELLED = {
    "prompts": "--prompt",
    "options": "-M",
    "base_url": "--model-base-url",
}


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """Options of language models, as they were given; what was not given is None, empty or False.

    Attributes:
        prompts: names of templates; several are conditions of one run.
        history: how many past steps a prompt shows.
        attempts: how often a step is asked for until the answer can be read.
        token_cap: output tokens of a whole walk.
        temperature: of the answers.
        top_p: the mass of the likeliest tokens that are drawn from.
        max_tokens: of one answer.
        reasoning_effort: as in `navigation.asking.EFFORTS`.
        logprobs: whether to ask for log-probabilities.
        no_seeds: whether questions go without seeds.
        options: of the provider, each written NAME=VALUE.
        base_url: of the server.
        max_connections: questions on their way at once.
        max_retries: how often a question that the server failed is put again.
        timeout: seconds for one answer.
        rounds: how often walks that the server failed are made again.
        from_log: logs of `inspect eval` whose walks are taken over.
    """

    prompts: Sequence[str] | None = None
    history: int | None = None
    attempts: int | None = None
    token_cap: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    reasoning_effort: str | None = None
    logprobs: bool = False
    no_seeds: bool = False
    options: Sequence[str] = ()
    base_url: str | None = None
    max_connections: int | None = None
    max_retries: int | None = None
    timeout: int | None = None
    rounds: int | None = None
    from_log: Sequence[Path] = ()

    def refuse(self, agent: str) -> None:
        """See that nothing was given, since the agent is a reference agent.

        Raises:
            InvalidParameterError: something was.
        """
        given = [each.name for each in fields(self) if getattr(self, each.name) != each.default]
        if given:
            options = [_SPELLED.get(name, f"--{name.replace('_', '-')}") for name in given]
            raise InvalidParameterError(
                f"{', '.join(options)}: for language models only, and {agent} is a reference "
                f"agent; leave it out, or let {agent} read prompts as goalmeter/{agent}"
            )

    def asking(self, model: str, suite: Suite, *, paper: bool) -> Asking:
        """How the model is asked.

        Raises:
            InvalidParameterError: an option is out of range.
        """
        names = ("attempts", "token_cap", "temperature", "top_p", "max_tokens", "reasoning_effort")
        given = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        if paper:
            given.setdefault("reasoning_effort", paper_effort(model, suite))
        return Asking(
            logprobs=self.logprobs,
            seeded=not self.no_seeds,
            options=provider_options(self.options),
            **given,
        )

    def server(self) -> Server:
        """How the model is reached."""
        names = ("base_url", "max_connections", "max_retries", "timeout")
        given: dict[str, Any] = {name: getattr(self, name) for name in names}
        return Server(**{name: value for name, value in given.items() if value is not None})


def provider_options(texts: Iterable[str]) -> dict[str, Any]:
    """Options of a provider, each written NAME=VALUE, where the value is JSON or else a word.

    Raises:
        InvalidParameterError: one is not written so.

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
