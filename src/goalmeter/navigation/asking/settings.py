"""How a language model is asked: what tells its runs apart, as plain data.

Models have names as Inspect spells them, with a slash: "vllm/openai/gpt-oss-20b". Where the model
runs and how fast it is asked is no part of this, so a run can go on against another server.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from goalmeter._errors import InvalidParameterError
from goalmeter.agents.language_models.names import is_organism
from goalmeter.navigation.asking.prompts import template
from goalmeter.navigation.suites.record import Suite

# The prompt template of a task, and how many steps back it shows, are among its conditions.
PROMPT, HISTORY = "prompt", "history"
# Log-probabilities are asked for of so many tokens a place, the most that servers give.
LOGPROBS = 20
# What Inspect knows; each model takes some of them.
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
# Options of providers that say where a model runs and how fast, and not what it answers.
_ELSEWHERE = frozenset(
    {"path", "device", "devices", "batch", "port", "max_retries", "timeout", "client_timeout"}
    | {"retry_delay", "stream", "gpu_memory_utilization", "tensor_parallel_size"}
)
_SECRET = re.compile(r"(^|_)(key|token|secret|password)$", re.IGNORECASE)


@dataclass(frozen=True)
class Asking:
    """Settings of the questions; the defaults are the paper's.

    Attributes:
        attempts: how often a step is asked for until the answer can be read.
        token_cap: output tokens of a whole walk, after which it ends; None for no such cap.
        temperature: of the answers.
        top_p: the mass of the likeliest tokens that are drawn from.
        max_tokens: of one answer, its reasoning included.
        reasoning_effort: one of `EFFORTS`; None leaves it to the model.
        logprobs: whether log-probabilities are asked for.
        seeded: whether each question carries a seed; some servers take none.
        options: of the provider, such as {"dtype": "bfloat16"}.
    """

    attempts: int = 3
    token_cap: int | None = None
    temperature: float = 0.7
    top_p: float = 0.95
    # Low effort needs a tenth of them, but an answer that is cut is a wrong one.
    max_tokens: int = 10_000
    reasoning_effort: str | None = None
    logprobs: bool = False
    seeded: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("attempts", "token_cap", "max_tokens"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InvalidParameterError(f"{name} is {value}, expected at least 1")
        if not self.temperature >= 0:
            raise InvalidParameterError(f"temperature is {self.temperature}, expected 0 or more")
        if not 0 < self.top_p <= 1:
            raise InvalidParameterError(f"top_p is {self.top_p}, expected more than 0, at most 1")
        if self.reasoning_effort not in (None, *EFFORTS):
            raise InvalidParameterError(
                f"reasoning_effort is {self.reasoning_effort!r}, expected one of "
                f"{', '.join(EFFORTS)}"
            )
        for name in self.options:
            if _SECRET.search(name):
                raise InvalidParameterError(
                    f"the option {name!r} looks like a secret, which a run would keep in its "
                    f"files; set it in the environment, as the provider's API key is"
                )

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values, without the options that say where and how fast."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        kept = {name: value for name, value in self.options.items() if name not in _ELSEWHERE}
        return plain | {"options": kept}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Asking:
        """Reads the settings back from run.json; raises KeyError if one is missing."""
        return cls(**{each.name: value[each.name] for each in fields(cls)})


def paper_effort(model: str, suite: Suite) -> str | None:
    """The paper's reasoning effort in a suite: low in mazes, medium in worlds with a key.

    It is that of gpt-oss, by whatever name a server has it. Other models are asked as they are, for
    their efforts are other ones, and some have none.
    """
    if "gpt-oss" not in model.lower():
        return None
    return suite.effort


def default_prompts(suite: Suite, agent: str = "") -> tuple[str, ...]:
    """The prompt of a suite: keys are explained where there are some.

    Organisms learnt to read one prompt, which explains nothing.
    """
    if is_organism(agent):
        return ("compact/2",)
    return (suite.prompt,)


def conditions(prompts: Sequence[str], history: int = 0) -> list[dict[str, Any]]:
    """Each prompt as a condition of tasks, with how many past steps it shows.

    Raises InvalidParameterError if there is no such prompt, or no such number of steps.
    """
    if type(history) is not int or history < 0:
        raise InvalidParameterError(f"history is {history!r}, expected a number of steps, or 0")
    if silent := [name for name in prompts if history and not template(name).explains]:
        raise InvalidParameterError(
            f"{silent[0]} shows no history, but history is {history}; leave it out, or take "
            f"another prompt"
        )
    shown = {HISTORY: history} if history else {}
    return [{PROMPT: template(name).name} | shown for name in prompts]
