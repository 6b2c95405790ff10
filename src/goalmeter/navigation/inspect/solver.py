"""The walk of a language model: asked step by step, through Inspect."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import fields

from goalmeter._errors import MissingExtraError, how_to_install

try:
    import inspect_ai  # noqa: F401
except ModuleNotFoundError as error:
    raise MissingExtraError(
        "Walks of language models need the package 'inspect_ai', which is not installed; "
        f"{how_to_install('lm')}"
    ) from error
import anyio
from inspect_ai.model import (
    ChatMessage,
    ChatMessageUser,
    ContentReasoning,
    GenerateConfig,
    Model,
    ModelOutput,
    get_model,
)
from inspect_ai.solver import Generate, Solver, TaskState, solver

from goalmeter.agents.navigators import Decision
from goalmeter.navigation.asking.answers import Answer, action_probabilities, storable, understood
from goalmeter.navigation.asking.prompts import template
from goalmeter.navigation.asking.settings import HISTORY, PROMPT
from goalmeter.navigation.inspect.failures import CONTEXT, TIME_LIMIT, TOKEN_CAP, failure_of
from goalmeter.navigation.inspect.listening import listener
from goalmeter.navigation.inspect.models import fit
from goalmeter.navigation.inspect.questions import Question, question
from goalmeter.navigation.inspect.samples import Walk, walk_of
from goalmeter.navigation.record import Trajectory
from goalmeter.navigation.walks import Episode

# Walks that have ended and are not scored yet, by the uuid of their sample. Inspect's own store
# would put each of them into the log three times.
ended: dict[str, Trajectory] = {}

Ask = Callable[[str, GenerateConfig], Awaitable[ModelOutput]]


@solver
def walker(
    attempts: int = 3, token_cap: int | None = None, seed: int | None = 0, once: bool | None = None
) -> Solver:
    """Walks through the task of a sample.

    Whatever goes wrong is the outcome of the walk; the error goes on to Inspect, which keeps it
    with the sample, so that the sample can be run again.

    Args:
        attempts: how often a step is asked for until there is an answer that can be read.
        token_cap: output tokens of a whole walk, after which it ends; None for no such cap.
        seed: of the run; each question is asked with a seed of its own, made of it. None sends no
            seeds.
        once: whether a prompt that was answered before is not asked again. None: if the temperature
            is 0. An answer that cannot be read is then not asked for again either.
    """
    # At temperature 0 the walks through a grid ask the same questions: each is asked once, and who
    # asks it again meanwhile waits for the answer.
    answered: dict[str, ModelOutput] = {}
    locks: dict[str, anyio.Lock] = {}

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        task, index = walk_of(state.metadata, state.epoch)
        model, episode = fit(get_model()), Episode(task)
        repeats = _temperature(model) == 0 if once is None else once

        async def ask(prompt: str, config: GenerateConfig) -> ModelOutput:
            if not repeats:
                return await _asked(model, prompt, config)
            async with locks.setdefault(prompt, anyio.Lock()):
                if prompt not in answered:
                    answered[prompt] = await _asked(model, prompt, config)
                return answered[prompt]

        spent, failure = 0, None
        name = Walk(task, index).name
        try:
            listener.get().begins(name)
            if token_cap is None:  # how much of it a half walk has used is not on record
                _go_on(episode, name)
            while not episode.over and failure is None:
                listener.get().step()
                words: tuple[int | str, ...] = (task.name, index, len(episode.steps))
                seeds = [None if seed is None else _seed(seed, *words, n) for n in range(attempts)]
                prompt = _prompt(episode)
                output, decision, used = await _decide(ask, prompt, seeds[: 1 if repeats else None])
                spent += used
                state.messages = [ChatMessageUser(content=prompt)]
                state.messages += [output.message] if output.choices else []
                state.output = output
                if decision.action is None and _stop(output) == "model_length":
                    # What the output says is then the server's error, and no answer of the model.
                    failure = CONTEXT
                    break
                episode.take(decision)
                if token_cap is not None and spent >= token_cap and not episode.over:
                    failure = TOKEN_CAP
            ended[state.uuid] = episode.trajectory(index, failure)
        except anyio.get_cancelled_exc_class():
            ended[state.uuid] = episode.trajectory(index, TIME_LIMIT)
            raise
        except Exception as error:
            listener.get().failed(error)
            ended[state.uuid] = episode.trajectory(index, failure_of(error))
            if isinstance(error, TimeoutError):
                # Inspect takes a bare one for the end of a time limit, and the sample for done.
                raise RuntimeError(f"no answer in time: {error}") from error
            raise
        state.completed = True
        return state

    return solve


async def _asked(model: Model, prompt: str, config: GenerateConfig) -> ModelOutput:
    """The answer of a model; what it costs is counted where somebody counts."""
    messages: list[ChatMessage] = [ChatMessageUser(content=prompt)]
    account = listener.get().account
    if account is None:
        return await model.generate(messages, config=config)
    async with Question(account, prompt) as asked:
        token = question.set(asked)
        try:
            return await model.generate(messages, config=config)
        finally:
            question.reset(token)


def _go_on(episode: Episode, name: str) -> None:
    """Take the steps that there are of a walk; the questions that follow are the same as ever."""
    for step in listener.get().half(name):
        episode.take(Decision(**{each.name: getattr(step, each.name) for each in fields(Decision)}))


def _prompt(episode: Episode) -> str:
    condition, steps = episode.task.condition, episode.steps
    shown = steps[max(0, len(steps) - condition.get(HISTORY, 0)) :]
    past = [(step.state.cell, step.action) for step in shown]
    return template(condition[PROMPT]).prompt(episode.task.world, episode.state, past)


async def _decide(
    ask: Ask, prompt: str, seeds: list[int | None]
) -> tuple[ModelOutput, Decision, int]:
    """The decision for a step, and how many tokens were written for it."""
    spent = 0
    for attempt, seed in enumerate(seeds, start=1):  # noqa: B007 (the last one is read below)
        output = await ask(prompt, GenerateConfig(seed=seed))
        spent += output.usage.output_tokens if output.usage else 0
        answer = understood(output.completion, _reasoning(output))
        # A prompt that is too long is as long when it is put again.
        if answer.action is not None or _stop(output) == "model_length":
            break
    return output, _decision(prompt, output, answer, attempt), spent


def _decision(prompt: str, output: ModelOutput, answer: Answer, attempts: int) -> Decision:
    metadata = output.metadata or {}
    ids, answer_ids = metadata.get("prompt_ids"), metadata.get("output_ids")
    count = None
    if output.usage is not None:
        usage = output.usage
        cached = (usage.input_tokens_cache_read or 0) + (usage.input_tokens_cache_write or 0)
        count = usage.input_tokens + cached
    logprobs = output.choices[0].logprobs if output.choices else None
    return Decision(
        answer.action,
        probabilities=action_probabilities(logprobs.content) if logprobs else None,
        raw=storable(output.completion),
        reasoning=storable(answer.reasoning) or None,
        prompt=prompt,
        prompt_tokens=count if ids is None else tuple(ids),
        # Without them nobody can replay the answer: words can be cut into tokens in many ways.
        answer_tokens=None if answer_ids is None else tuple(answer_ids),
        attempts=attempts,
        invalid=None if answer.action is not None else _why(output, answer),
    )


def _why(output: ModelOutput, answer: Answer) -> str:
    """Why there is no action, and what cut the answer short, if anything did."""
    stop = _stop(output)
    if stop == "max_tokens":
        return f"{TOKEN_CAP}: {answer.invalid}"
    return f"withheld: {answer.invalid}" if stop == "content_filter" else answer.invalid


def _stop(output: ModelOutput) -> str:
    return str(output.choices[0].stop_reason) if output.choices else "unknown"


def _reasoning(output: ModelOutput) -> str:
    """What the server kept apart as reasoning."""
    content = output.message.content if output.choices else ""
    parts = [] if isinstance(content, str) else content
    return "\n".join(part.reasoning for part in parts if isinstance(part, ContentReasoning))


def _temperature(model: Model) -> float | None:
    """The temperature that questions are asked with, whoever set it."""
    # Inspect merges what was set on its command line into each call, and tells nobody before.
    from inspect_ai.model._generate_config import active_generate_config

    temperature: float | None = model.config.merge(active_generate_config()).temperature
    return temperature


def _seed(*words: int | str) -> int:
    # Servers take signed 32-bit numbers at least, and Python's own hash differs between processes.
    text = ":".join(str(word) for word in words)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1
