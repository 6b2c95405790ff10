"""What a language model answered: its reasoning kept apart, and the action in it, if there is one.

An answer is a JSON object with the single key "action". Models wrap it: in a code fence, in words,
in the channels of gpt-oss. The *last* object of that form counts, because a model that reasons
aloud may write others before; an answer without one, or with an action that does not exist, is
invalid, and says why.

The log-probabilities of its tokens, where they were recorded, give those of the four actions. The
token that decides is the one in which the name of the *last* answered action begins; an earlier one
may be part of the reasoning. Alternatives to it that begin the name of another action count for
that action. What is left to 1 went to other tokens, or to alternatives that were not recorded.
After reasoning the deciding token is mostly certain: these are the probabilities of the action
given all that was written before it, not those of the policy.

Source: the answer format of the paper on language model agents, whose parser accepts the bare
object only and drops the whole trajectory at the first answer that is something else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp
from typing import Any

from goalmeter.agents.navigators.protocol import Probabilities
from goalmeter.gridworld.world import ACTIONS

_OBJECT = re.compile(r"\{[^{}]*\}")
# Possessive, or a long answer without a message would be read again from each of its letters.
_CHANNEL = re.compile(
    r"<\|channel\|>\s*+(\w++)[^<]*+<\|message\|>(.*?)"
    r"(?=<\|(?:end|return|call|start|channel)\|>|\Z)",
    re.DOTALL,
)
_THOUGHT = re.compile(r"<think>(.*?)(?:</think>|\Z)", re.DOTALL)
FINAL = "final"
# Above 0 by no more than that, a logarithm of a probability is one that was rounded.
_ROUNDING = 0.01
_VALUE = re.compile(r'"action"\s*:\s*"\s*(?=[A-Za-z])')


@dataclass(frozen=True)
class Answer:
    """An answer as it was understood.

    Attributes:
        action: 0 to 3, or None if it is invalid.
        reasoning: what was said on the way to it, "" if nothing was.
        final: the part that should hold the answer.
        invalid: why there is no action, "" if there is one.
        strict: whether the final part is the bare object and nothing else, as the paper asks.
    """

    action: int | None
    reasoning: str
    final: str
    invalid: str = ""
    strict: bool = False


def understood(text: str, reasoning: str = "") -> Answer:
    """Read an answer, with or without the markers of its channels.

    `reasoning` is what the server had kept apart already.
    """
    thoughts, final = split(text)
    reasoning = "\n".join(part for part in (reasoning, thoughts) if part)
    if not final.strip():
        return Answer(
            None,
            reasoning,
            final,
            "no answer after the reasoning" if reasoning else "an empty answer",
        )
    objects = []
    for written in _OBJECT.findall(final):
        try:
            value = json.loads(written)
        except (ValueError, RecursionError):
            # Also numbers of thousands of digits, and lists in thousands of lists.
            continue
        if isinstance(value, dict) and "action" in value:
            objects.append((written, value["action"]))
    if not objects:
        return Answer(None, reasoning, final, 'no JSON object with the key "action"')
    written, named = objects[-1]
    wanted = named.strip().upper() if isinstance(named, str) else named
    if wanted not in ACTIONS:
        return Answer(None, reasoning, final, f"the action {named!r} does not exist")
    strict = final.strip() == written and named == wanted and len(json.loads(written)) == 1
    return Answer(ACTIONS.index(wanted), reasoning, final, strict=strict)


def split(text: str) -> tuple[str, str]:
    """(reasoning, final part) of what a model wrote.

    Channels of gpt-oss: "final" is the answer, all others are reasoning; a text that was cut
    before its final channel has no final part. <think> blocks are reasoning. Text without any such
    marker is the answer.
    """
    channels = _CHANNEL.findall(text)
    if channels:
        reasoning = [body.strip() for name, body in channels if name != FINAL]
        finals = [body.strip() for name, body in channels if name == FINAL]
        return "\n".join(reasoning), finals[-1] if finals else ""
    thoughts = [body.strip() for body in _THOUGHT.findall(text)]
    return "\n".join(thoughts), _THOUGHT.sub("", text).strip()


def storable(text: str) -> str:
    """The text as a file can hold it: halves of characters, which servers may send, become "?"."""
    return text.encode("utf-8", "replace").decode()


def action_probabilities(tokens: Sequence[Any]) -> Probabilities | None:
    """Of LEFT, RIGHT, UP and DOWN.

    None if there are no alternatives, if the action is not found, or if one of the numbers is no
    log-probability.

    Args:
        tokens: of the whole answer in order, as Inspect's `Logprob`: token, logprob, top_logprobs.

    Example: two tokens, the second of which decides.
        >>> from types import SimpleNamespace as N
        >>> up, down = N(token='UP"}', logprob=-0.5), N(token="DO", logprob=-1.0)
        >>> decides = N(token='UP"}', logprob=-0.5, top_logprobs=[up, down])
        >>> lead = N(token='{"action": "', logprob=0.0, top_logprobs=[])
        >>> [round(p, 3) for p in action_probabilities([lead, decides])]
        [0.0, 0.0, 0.607, 0.368]
    """
    text = "".join(token.token for token in tokens)
    places = [match.end() for match in _VALUE.finditer(text)]
    if not places:
        return None
    begun = 0
    for token in tokens:
        if begun + len(token.token) > places[-1]:
            break
        begun += len(token.token)
    lead, tops = token.token[: places[-1] - begun], list(token.top_logprobs or [])
    # Some servers send NaN, which is below nothing.
    if not tops or not all(top.logprob < _ROUNDING for top in (token, *tops)):
        return None
    if token.token not in [top.token for top in tops]:
        tops.append(token)  # it was drawn, though it is not among the likeliest
    out = [0.0] * len(ACTIONS)
    for top in tops:
        action = _begun(top.token[len(lead) :]) if top.token.startswith(lead) else None
        if action is not None:
            out[action] += exp(top.logprob)
    total = max(1.0, sum(out))  # sums of rounded logarithms may exceed 1
    left, right, up, down = (p / total for p in out)
    return left, right, up, down


def _begun(text: str) -> int | None:
    """The action whose name a text begins with, or is the beginning of."""
    letters = re.match(r"[A-Za-z]*", text)
    word = letters[0].upper() if letters else ""
    fitting = [a for a, name in enumerate(ACTIONS) if word and name.startswith(word)]
    return fitting[0] if len(fitting) == 1 else None
