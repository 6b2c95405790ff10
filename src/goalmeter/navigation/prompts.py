"""Prompt language models in grid worlds: templates, settings, and the parsing of answers."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import partial
from itertools import accumulate
from math import exp
from typing import Any

from goalmeter._errors import InvalidParameterError
from goalmeter._options import option, values_by_name
from goalmeter.agents.grid_agents import Probabilities
from goalmeter.agents.local_models import is_organism
from goalmeter.gridworld import world as grid
from goalmeter.gridworld.conversions import MEANINGS, compact, rendered
from goalmeter.gridworld.planner import State
from goalmeter.gridworld.world import ACTIONS, Cell, GridWorld
from goalmeter.navigation.suite_definition import Suite

# --- Prompts --------------------------------------------------------------------------------------
# A changed template needs a new version, since logs name the template. Its structure follows the
# prompts in the paper's appendix; the wording does not.

_EXAMPLE = GridWorld.from_text(["#####", "#A__#", "#_#G#", "#####"])


@dataclass(frozen=True)
class Template:
    """Template of one user message."""

    name: str  # name and version, such as "plain/1"
    mentions_keys: bool  # whether it explains keys and doors and states whether a key is carried
    explains: bool = True  # whether it explains the task; otherwise it shows no history either

    def prompt(
        self, world: GridWorld, state: State, history: Sequence[tuple[Cell, int | None]] = ()
    ) -> str:
        """Return the message for a state; `history` lists past cells and actions, oldest first."""
        if not self.explains:
            return compact(world, state)
        symbols = [grid.AGENT, grid.GOAL, grid.WALL, grid.EMPTY]
        symbols += [grid.KEY] * (self.mentions_keys or world.key is not None)
        symbols += [grid.DOOR] * (self.mentions_keys or world.door is not None)
        symbols += [grid.NEUTRAL] * (world.neutral is not None)
        meanings = dict(MEANINGS)
        if not self.mentions_keys:
            meanings[grid.KEY] = MEANINGS[grid.NEUTRAL]
        parts = [
            "You control an agent in a grid that you see whole. Each turn you move it by one cell: "
            "up, down, left or right.",
            "Symbols:\n" + "\n".join(f"{s}  {meanings[s]}" for s in symbols),
            "Aim: bring the agent (A) to the goal (G) in as few steps as you can. A move into a "
            "wall leaves it where it is and counts as a step.",
            "The grid is written as rows of symbols. The first line holds the numbers of the "
            "columns, and each row begins with its own number; row 0 is at the top. In this "
            "example\n\n"
            f"{rendered(_EXAMPLE)}\n\n"
            "the agent is at (1, 1), that is row 1 and column 1, and the goal is at (2, 3).",
        ]
        if self.mentions_keys:
            parts.append(
                "Keys and doors: a locked door (D) blocks the way like a wall. Entering the cell "
                "of a key (K) picks it up. With the key, the door opens as soon as the agent "
                "stands beside it."
            )
        parts += [
            "Actions: UP is one row less, DOWN one row more, LEFT one column less, RIGHT one "
            "column more.",
            'Answer with a JSON object that has the single key "action", and as its value one of '
            + ", ".join(f'"{action}"' for action in ACTIONS)
            + ', such as\n{"action": "UP"}\nWrite nothing before or after it.',
        ]
        if history:
            turns = "\n".join(
                f"({cell.row}, {cell.column}): {'no valid action' if a is None else ACTIONS[a]}"
                for cell, a in history
            )
            parts.append(f"So far, oldest first (position: action):\n{turns}")
        parts.append(f"The grid now:\n\n{rendered(world, state)}")
        if self.mentions_keys:
            carried = world.key is not None and state.has_key
            parts.append(f"Key carried: {'yes' if carried else 'no'}")
        return "\n\n".join(parts)


TEMPLATES = {
    each.name: each
    for each in (
        Template("plain/1", False),  # describes a key as a useless object
        Template("keys/1", True),
        Template("compact/2", True, explains=False),  # for goalmeter's organisms
    )
}


def template(name: str) -> Template:
    """Return a template by name; raises InvalidParameterError if there is none."""
    if name not in TEMPLATES:
        raise InvalidParameterError(
            f"there is no prompt template {name!r}, expected one of {', '.join(TEMPLATES)}"
        )
    return TEMPLATES[name]


# --- Settings -------------------------------------------------------------------------------------
# Conditions of a task: its prompt template, and the number of past steps in the prompt.
PROMPT, HISTORY = "prompt", "history"
LOGPROBS = 20  # alternatives per token, the maximum that servers return
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
# Options of providers that do not affect the answers; a run can be resumed with other values.
_SERVER_OPTIONS = frozenset(
    {"path", "device", "devices", "batch", "port", "max_retries", "timeout", "client_timeout"}
    | {"retry_delay", "stream", "gpu_memory_utilization", "tensor_parallel_size"}
)
_SECRET = re.compile(r"(^|_)(key|token|secret|password)$", re.IGNORECASE)


asked = partial(option, group="How a language model is asked")


@dataclass(frozen=True)
class Asking:
    """Query settings for a language model; the defaults are the paper's."""

    attempts: int = asked(
        "Attempts at an answer that can be parsed.", default=3, least=1, most=1000
    )
    token_cap: int | None = asked(
        "Output tokens of a whole trajectory, after which it ends.", least=1, most=10**9
    )
    temperature: float = asked("Sampling temperature.", default=0.7, least=0, most=100)
    top_p: float = asked("Mass of the likeliest tokens.", default=0.95, least=0, most=1)
    # With its reasoning. Low effort needs a tenth, but a cut answer is a wrong one.
    max_tokens: int = asked("Output tokens of an answer.", default=10_000, least=1, most=10**8)
    # One of `EFFORTS`; None leaves it to the model.
    reasoning_effort: str | None = asked(
        "low|medium|high|...  Default the model's; for gpt-oss with --paper low, with keys medium."
    )
    logprobs: bool = asked(
        "Ask for log-probabilities, 20 a token, and keep those of the moves.", default=False
    )
    seeded: bool = asked(
        "--no-seeds  Send no seeds, to servers that refuse them.",
        default=True,
        read=lambda flag, is_typed: False if is_typed else None,
    )
    options: Mapping[str, Any] = option(
        "-M NAME=VALUE  Option of the provider, such as dtype=bfloat16.",
        factory=dict,
        read=partial(values_by_name, expected="NAME=VALUE, such as batch=64"),
        group="How it is reached",
    )

    def __post_init__(self) -> None:
        effort, efforts = self.reasoning_effort, f"one of {', '.join(EFFORTS)}"
        for name, is_valid, expected in (
            ("attempts", self.attempts >= 1, "at least 1"),
            ("token_cap", self.token_cap is None or self.token_cap >= 1, "at least 1"),
            ("max_tokens", self.max_tokens >= 1, "at least 1"),
            ("temperature", self.temperature >= 0, "0 or more"),
            ("top_p", 0 < self.top_p <= 1, "more than 0, at most 1"),
            ("reasoning_effort", effort in (None, *EFFORTS), efforts),
        ):
            if not is_valid:
                value = getattr(self, name)
                raise InvalidParameterError(f"{name} is {value!r}, expected {expected}")
        if secret := next(filter(_SECRET.search, self.options), None):
            raise InvalidParameterError(
                f"the option {secret!r} looks like a secret, and a run stores its options; set it "
                f"as an environment variable, like the provider's API key"
            )

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values, without options that do not affect the answers."""
        stored = {name: v for name, v in self.options.items() if name not in _SERVER_OPTIONS}
        return vars(self) | {"options": stored}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Asking:
        """Read the settings from run.json; raises KeyError if one is missing."""
        return cls(**{each.name: value[each.name] for each in fields(cls)})


def paper_effort(model: str, suite: Suite) -> str | None:
    """Return the paper's reasoning effort for gpt-oss in a suite; None for other models."""
    return suite.effort if "gpt-oss" in model.lower() else None


def default_prompts(suite: Suite, agent: str = "") -> tuple[str, ...]:
    """Return the default prompts of a suite; organisms support one prompt only."""
    return ("compact/2",) if is_organism(agent) else (suite.prompt,)


def conditions(prompts: Sequence[str], history: int = 0) -> list[dict[str, Any]]:
    """Return the condition of tasks for each prompt, with the number of past steps it shows."""
    if type(history) is not int or history < 0:
        raise InvalidParameterError(f"history is {history!r}, expected a number of steps, or 0")
    if unsupported := [name for name in prompts if history and not template(name).explains]:
        raise InvalidParameterError(
            f"prompt {unsupported[0]!r} shows no history, but history is {history}; leave it out "
            f"or choose another prompt"
        )
    extra = {HISTORY: history} if history else {}
    return [{PROMPT: template(name).name} | extra for name in prompts]


# --- Answers --------------------------------------------------------------------------------------
# An answer is a JSON object with the key "action", bare, in a code fence, within text, or in the
# channels of gpt-oss. The *last* such object counts, since visible reasoning may contain others;
# the paper's parser accepts the bare object only.

_OBJECT = re.compile(r"\{[^{}]*\}")
# Possessive quantifiers avoid quadratic time for a long answer without a message.
_CHANNEL = re.compile(
    r"<\|channel\|>\s*+(\w++)[^<]*+<\|message\|>(.*?)"
    r"(?=<\|(?:end|return|call|start|channel)\|>|\Z)",
    re.DOTALL,
)
_THOUGHT = re.compile(r"<think>(.*?)(?:</think>|\Z)", re.DOTALL)
FINAL = "final"
_ROUNDING = 0.01  # tolerance for rounded log-probabilities above 0
_VALUE = re.compile(r'"action"\s*:\s*"\s*(?=[A-Za-z])')


@dataclass(frozen=True)
class ParsedAnswer:
    """Parsed answer of a language model."""

    action: int | None  # 0 to 3, or None if it is invalid
    reasoning: str
    final: str  # part of the text that should contain the answer
    invalid: str = ""  # reason for the lack of an action, "" if there is one
    strict: bool = False  # whether the final part is the bare object, as in the paper


def understood(text: str, reasoning: str = "") -> ParsedAnswer:
    """Parse an answer; `reasoning` is reasoning that the server returned separately."""
    thoughts, final = split(text)
    reasoning = "\n".join(part for part in (reasoning, thoughts) if part)
    for written in reversed(_OBJECT.findall(final)):
        with suppress(ValueError, RecursionError):
            value = json.loads(written)
            if isinstance(value, dict) and "action" in value:
                break
    else:
        why = 'no JSON object with the key "action"'
        if not final.strip():
            why = "no answer after the reasoning" if reasoning else "an empty answer"
        return ParsedAnswer(None, reasoning, final, why)
    answer = value["action"]
    name = answer.strip().upper() if isinstance(answer, str) else answer
    if name not in ACTIONS:
        return ParsedAnswer(None, reasoning, final, f"the action {answer!r} does not exist")
    strict = final.strip() == written and answer == name and len(value) == 1
    return ParsedAnswer(ACTIONS.index(name), reasoning, final, strict=strict)


def split(text: str) -> tuple[str, str]:
    """Split a text into reasoning and final part, by gpt-oss channels or <think> blocks."""
    channels = _CHANNEL.findall(text)
    if channels:
        reasoning = [body.strip() for name, body in channels if name != FINAL]
        finals = [body.strip() for name, body in channels if name == FINAL]
        return "\n".join(reasoning), finals[-1] if finals else ""
    thoughts = [body.strip() for body in _THOUGHT.findall(text)]
    return "\n".join(thoughts), _THOUGHT.sub("", text).strip()


def storable(text: str) -> str:
    """Return the text with unpaired surrogates, which servers may send, replaced by "?"."""
    return text.encode("utf-8", "replace").decode()


def action_probabilities(tokens: Sequence[Any]) -> Probabilities | None:
    """Return the probabilities of LEFT, RIGHT, UP and DOWN in an answer's tokens (`Logprob`)."""
    # They are the probabilities of the token in which the last answered action begins, given all
    # previous tokens. An alternative that begins another name counts for that action.
    text = "".join(token.token for token in tokens)
    places = [match.end() for match in _VALUE.finditer(text)]
    if not places:
        return None
    starts = [*accumulate((len(token.token) for token in tokens), initial=0)]
    number = bisect_right(starts, places[-1]) - 1
    token = tokens[number]
    lead, tops = token.token[: places[-1] - starts[number]], list(token.top_logprobs or [])
    # The comparison is false for NaN, which some servers send.
    if not tops or not all(top.logprob < _ROUNDING for top in (token, *tops)):
        return None
    if token.token not in [top.token for top in tops]:
        tops.append(token)  # the sampled token is not among the likeliest
    out = [0.0] * len(ACTIONS)
    for top in tops:
        action = _action_of(top.token[len(lead) :]) if top.token.startswith(lead) else None
        if action is not None:
            out[action] += exp(top.logprob)
    total = max(1.0, sum(out))  # rounded log-probabilities may add up to more than 1
    left, right, up, down = (p / total for p in out)
    return left, right, up, down


def _action_of(text: str) -> int | None:
    """Return the only action whose name begins with the first word of a text."""
    letters = re.match(r"[A-Za-z]+", text)
    actions = [a for a, n in enumerate(ACTIONS) if letters and n.startswith(letters[0].upper())]
    return actions[0] if actions else None  # their initials differ
