"""What a language model answered: its reasoning kept apart, and the action in it, if there is one.

An answer is a JSON object with the single key "action". Models wrap it: in a code fence, in words,
in the channels of gpt-oss. The *last* object of that form counts, because a model that reasons
aloud may write others before; an answer without one, or with an action that does not exist, is
invalid, and says why.

Source: the answer format of the paper on language model agents, whose parser accepts the bare
object only and drops the whole trajectory at the first answer that is something else.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

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
    """Read an answer.

    Args:
        text: what the model wrote, with or without the markers of its channels.
        reasoning: what the server had kept apart already.
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
