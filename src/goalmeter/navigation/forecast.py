"""What the walks of a language model will cost: calls, tokens, hours, disk and money, beforehand.

    calls             a walk takes at least its shortest path, and at most its cap; one call a step,
                      at temperature 0 at least one for each step of a shortest path
    prompt tokens     calls of a walk * tokens of its first prompt, counted by the model's tokenizer
                      where it is on this machine, and else as characters / 3
    output tokens     calls * tokens of an answer, as stated
    output cap        walks * cap * attempts * max-tokens, or walks * token-cap if that is less
    hours             calls * seconds of a call, as stated / questions at once / 3600
    disk              of an example record without prompts and answers, and calls * their bytes;
                      for models of this machine 5 bytes more a token, whose ids are recorded
    money             tokens * price

A text of grids has some three characters a token in the tokenizers of today, where prose has four
to five; prompts are both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from goalmeter._text import json_text
from goalmeter.agents.language_models.names import HUGGING_FACE, LOCAL, is_organism
from goalmeter.agents.navigators import Decision
from goalmeter.navigation.asking.prompts import template
from goalmeter.navigation.asking.settings import PROMPT
from goalmeter.navigation.plan import WalkPlan
from goalmeter.navigation.suites.tasks import Task
from goalmeter.navigation.walks import Episode
from goalmeter.runs.forecast import Forecast, Span, left_of

CHARACTERS_A_TOKEN = 3
# Tokens of an answer, by reasoning effort; the answer itself is {"action": "RIGHT"}.
_ANSWER = 10
# Of an organism's answer: the mouse has 37 on average on mazes of size 7, search included, and more
# on larger ones.
_ORGANISM = 40
# Of the id of a token with what separates it from the next; models of this machine record them.
_ID_BYTES = 5
_REASONING = {"minimal": 100, "low": 200, "medium": 1000, "high": 4000, "xhigh": 8000, "max": 8000}


def forecast(
    plan: WalkPlan,
    *,
    out: str | Path | None = None,
    connections: int = 10,
    answer_tokens: int | None = None,
    call_seconds: float | None = None,
    price_in: float | None = None,
    price_out: float | None = None,
) -> Forecast:
    """What is left of a plan's walks, and what they will cost.

    Args:
        plan: of a language model.
        out: folder that may hold some of the walks.
        connections: questions at once.
        answer_tokens: of an answer with its reasoning; None for what the effort suggests.
        call_seconds: of a question; None leaves the hours unknown.
        price_in: US dollars for a million prompt tokens; None leaves the money unknown.
        price_out: US dollars for a million output tokens; None leaves it unknown too.
    """
    asking = plan.asking
    assert asking is not None
    walks = plan.keys()
    left = left_of(walks, out)
    count, how = _tokenizer(plan.agent)
    of_task = Counter(id(walks[key][0]) for key in left)
    steps = prompts = texts = Span(0, 0)
    caps = 0
    for task in plan.tasks.tasks:
        if not (times := of_task[id(task)]):
            continue
        caps += times * task.cap
        # At temperature 0 what was asked once is not asked again, so walks may share all calls.
        different = 1 if asking.temperature == 0 else times
        of_task_steps = Span(different * task.distance, times * task.cap)
        prompt = template(task.condition[PROMPT]).prompt(task.world, Episode(task).state)
        steps = steps + of_task_steps
        prompts = prompts + of_task_steps * count(prompt)
        texts = texts + of_task_steps * len(json_text(prompt).encode())
    effort = asking.reasoning_effort
    usual = _ORGANISM if is_organism(plan.agent) else _ANSWER + _REASONING.get(effort or "", 0)
    answer = answer_tokens or usual
    is_usual = answer_tokens is None and is_organism(plan.agent)
    outputs = steps * answer
    output_cap = caps * asking.attempts * asking.max_tokens
    if asking.token_cap is not None:
        output_cap = min(output_cap, len(left) * asking.token_cap)
    walk, step = _record_bytes(walks[left[0]][0]) if left else (0, 0)
    # A recorded step has its prompt and its answer as text, besides what every step has.
    disk = texts + steps * (step + answer * CHARACTERS_A_TOKEN)
    if _records_ids(plan.agent):
        disk = disk + (prompts + outputs) * _ID_BYTES
    disk = disk + Span.of(len(left) * walk)
    usd = None
    if price_in is not None and price_out is not None:
        usd = prompts * (price_in / 1e6) + outputs * (price_out / 1e6)
    return Forecast(
        name=plan.agent,
        noun="walk",
        trials=len(walks),
        kept=len(walks) - len(left),
        left=len(left),
        slots=connections,
        hours=None if call_seconds is None else steps * (call_seconds / connections / 3600),
        disk=disk,
        calls=steps,
        prompt_tokens=prompts,
        output_tokens=outputs,
        output_cap=output_cap,
        usd=usd,
        assumed=(
            "the lower numbers are for walks by the shortest path, the upper ones for walks to "
            "their caps, with one call a step; an answer that cannot be read is asked for again",
            f"prompt tokens are {how}, of the first prompt of each walk",
            f"an answer has {answer} tokens"
            + (f" at effort {effort}" if effort else "")
            + (", as on mazes of size 7, and more on larger ones" if is_usual else ""),
            "hours are not known: --call-seconds says what a call takes"
            if call_seconds is None
            else f"a call takes {call_seconds:g} s, and {connections} are made at once",
            "disk is that of the walks; Inspect's own logs come besides",
        ),
    )


def _records_ids(model: str) -> bool:
    """Whether the ids of tokens are recorded, so that activations can be made again."""
    return is_organism(model) or model.startswith((LOCAL, HUGGING_FACE))


def _record_bytes(task: Task) -> tuple[int, int]:
    """Bytes of a recorded walk and of each of its steps without their texts, on an example."""
    episode = Episode(task)
    episode.take(Decision(0, raw="", prompt="", prompt_tokens=1000, attempts=1))
    record = episode.trajectory(0, failure="example").to_json()
    step = len(json_text(record["steps"][0]))
    return len(json_text(record)) - step, step


def _tokenizer(model: str) -> tuple[Callable[[str], float], str]:
    """What counts the tokens of a text, and how that is done in words."""
    # Any library may be missing, and any model be elsewhere: then there is the rule.
    with suppress(Exception):
        from transformers import AutoTokenizer

        if is_organism(model):
            from goalmeter.organisms.shipped import weights_of

            place = str(weights_of(model.partition("/")[2]))
        else:
            provider, _, place = model.partition("/")
            if provider != "hf":
                raise LookupError(provider)
        tokenizer = AutoTokenizer.from_pretrained(place, local_files_only=True)
        return lambda text: len(tokenizer(text)["input_ids"]), "counted by the model's tokenizer"
    rule = f"characters / {CHARACTERS_A_TOKEN}"
    return lambda text: len(text) / CHARACTERS_A_TOKEN, f"{rule} (no tokenizer is on this machine)"
