"""Inspect AI model providers for `goalmeter/NAME` and `goalmeter-local/FOLDER`.

    goalmeter/greedy             baseline agent that reads the grid in the prompt
    goalmeter/mouse              organism: a small model included in the package
    goalmeter-local/FOLDER       transformers model in a local folder, evaluated in batches

Options of models (`-M name=value`): `path` (the folder, if it differs from the name), `device`,
`dtype`, `batch` (32). All providers report token usage, since Inspect would otherwise download a
tokenizer to count tokens.
"""

from __future__ import annotations

import asyncio
import json
import math
import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import cache
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from goalmeter._errors import InvalidParameterError, MissingExtraError, how_to_install
from goalmeter.agents.local_models import (
    ContextOverflowError,
    EmptyReplyError,
    LocalModel,
    Prompt,
    Sampling,
    is_unusable_reply,
    prompted_agent,
)
from goalmeter.agents.local_models import Reply as LocalReply
from goalmeter.gridworld import world as grid
from goalmeter.gridworld.generators import Draws
from goalmeter.gridworld.planner import WITH_KEY, WITHOUT_KEY, State
from goalmeter.organisms import organism_names
from goalmeter.organisms.kinds import weights_of
from goalmeter.runs.jobs import in_a_line

try:
    from inspect_ai import model as lm
except ModuleNotFoundError as error:
    raise MissingExtraError(
        "Querying language models needs the package 'inspect_ai', which is not installed; "
        f"{how_to_install('lm')}"
    ) from error

Request = TypeVar("Request")
Reply = TypeVar("Reply")

# A batch is closed if no request arrives within this share of the duration of the last batch, or
# within a minimum in seconds. Requests that were answered together mostly return together.
_WAIT_SHARE, _LEAST_WAIT = 0.05, 0.003
# The thread ends after this many seconds without a request.
_IDLE = 1.0


class Batcher(Generic[Request, Reply]):
    """Queue that collects requests of all threads and answers them in batches, in one thread."""

    def __init__(self, answer: Callable[[list[Request]], list[Reply]], most: int) -> None:
        self._answer = answer
        self._most = most
        self._waiting: SimpleQueue[tuple[Request, Future[Reply]]] = SimpleQueue()
        self._changing = threading.Lock()
        self._running = False

    def submit(self, request: Request) -> Future[Reply]:
        """Submit a request; a request cancelled before its batch starts is not computed."""
        future: Future[Reply] = Future()
        self._waiting.put((request, future))
        with self._changing:
            if not self._running:
                self._running = True
                threading.Thread(target=self._work, name="goalmeter-batches", daemon=True).start()
        return future

    def _work(self) -> None:
        duration = 0.0
        while True:
            batch: list[tuple[Request, Future[Reply]]] = []
            with suppress(Empty):
                batch.append(self._waiting.get(timeout=_IDLE))
                while len(batch) < self._most:
                    timeout = max(_LEAST_WAIT, _WAIT_SHARE * duration)
                    batch.append(self._waiting.get(timeout=timeout))
            if not batch:
                with self._changing:
                    if self._waiting.empty():
                        self._running = False
                        return
            # Cancelled requests are dropped; from here on requests cannot be cancelled.
            batch = [pair for pair in batch if pair[1].set_running_or_notify_cancel()]
            if not batch:
                continue
            start = time.monotonic()
            try:
                replies = self._answer([request for request, _ in batch])
            except Exception as error:
                for _, future in batch:
                    future.set_exception(error)
                continue
            duration = time.monotonic() - start
            for (_, future), reply in zip(batch, replies, strict=True):
                future.set_result(reply)


# --- Parsing prompts ------------------------------------------------------------------------------
# Names of places in the text of `gridworld.conversions.compact`.
_SYMBOL_OF = {
    "Goal": grid.GOAL,
    "Key": grid.KEY,
    "Object": grid.NEUTRAL,
    "Door": grid.DOOR,
    "Agent": grid.AGENT,
}


def read_back(prompt: str) -> tuple[grid.GridWorld, State]:
    """Parse a prompt into the world, with its start at the agent's cell, and the agent's state."""
    lines = prompt.splitlines()
    cells = _listed_cells(lines) or _last_grid(lines)
    symbols = {symbol for row in cells for symbol in row}
    layer = WITHOUT_KEY
    if grid.DOOR in symbols and grid.KEY not in symbols:
        # The key has been taken. Its former place does not matter, so any empty cell will do.
        layer = WITH_KEY
        free = next((row for row in cells if grid.EMPTY in row), None)
        if free is None:
            raise InvalidParameterError("the grid has a door, but no empty cell for its key")
        free[free.index(grid.EMPTY)] = grid.KEY
    world = grid.GridWorld.from_text("".join(row) for row in cells)
    return world, State(grid.Cell(*world.start), layer)


def _listed_cells(lines: list[str]) -> list[list[str]] | None:
    """Return the symbols of a grid given as a list of open cells; None if there is no list."""
    entries = dict(line.split(": ", 1) for line in lines if ": " in line)
    if "Open" not in entries:
        return None
    try:
        cells = [[grid.WALL] * int(entries["Columns"]) for _ in range(int(entries["Rows"]))]
        places = [(place, grid.EMPTY) for place in entries["Open"].split()[::2]]
        places += [(entries[n], symbol) for n, symbol in _SYMBOL_OF.items() if n in entries]
        for place, symbol in places:
            row, column = map(int, place.split(","))
            cells[row][column] = symbol
    except (KeyError, ValueError, IndexError) as cause:
        raise InvalidParameterError(
            f"the prompt has an invalid list of cells ({type(cause).__name__}: {cause})"
        ) from cause
    return cells


def _last_grid(lines: list[str]) -> list[list[str]]:
    """Return the symbols of the last grid of a text; previous grids are examples."""
    for header in reversed(range(len(lines))):
        columns = lines[header].split()
        if len(columns) < 3 or columns != [str(c) for c in range(len(columns))]:
            continue
        rows: list[list[str]] = []
        for line in lines[header + 1 :]:
            number, *symbols = line.split() or [""]
            if number != str(len(rows)) or len(symbols) != len(columns):
                break
            rows.append(symbols)
        if rows:
            return rows
    raise InvalidParameterError(
        "the prompt contains no grid, expected a line of column numbers, and rows that begin with "
        "their number"
    )


# --- Models ---------------------------------------------------------------------------------------
REFERENCE, LOCAL = "goalmeter", "goalmeter-local"
DEFAULT_TOKENS = 2048
_FIT = "_goalmeter_fit"  # attribute of a provider that `fit` has changed
# Stop reasons that explain a lack of content.
_TRUNCATED = ("length", "content_filter", "max_tokens", "model_length")
# Fields of a message other than the answer itself.
_OTHER_FIELDS = ("reasoning", "reasoning_content", "reasoning_details", "refusal", "tool_calls")
# Maximum number of prompts in a batch.
BATCH = 32


class _ReferenceAgentAPI(lm.ModelAPI):
    """Baseline agents that answer prompts, with the same information as a language model."""

    def __init__(self, model_name: str, **options: Any) -> None:
        super().__init__(model_name, **options)
        self._agent = prompted_agent(model_name)

    async def generate(
        self, input: list[lm.ChatMessage], tools: Any, tool_choice: Any, config: lm.GenerateConfig
    ) -> lm.ModelOutput:
        prompt = input[-1].text
        world, state = read_back(prompt)
        seed = secrets.randbits(53) if config.seed is None else config.seed
        draws = Draws("prompt", self._agent.name, seed, prompt)
        decision = self._agent.begin(world, draws).act(state)
        assert decision.action is not None and decision.probabilities is not None
        texts = [json.dumps({"action": action}) for action in grid.ACTIONS]
        text, words = texts[decision.action], len(prompt.split())
        out = _output(self.model_name, text, "stop", words, 1)
        if config.logprobs:
            pairs = zip(texts, decision.probabilities, strict=True)
            likely = sorted(((p, t) for t, p in pairs if p > 0), reverse=True)
            tops = [lm.TopLogprob(token=t, logprob=math.log(p)) for p, t in likely]
            logprob = math.log(decision.probabilities[decision.action])
            only = lm.Logprob(token=text, logprob=logprob, top_logprobs=tops)
            out.choices[0].logprobs = lm.Logprobs(content=[only])
        return out

    def max_connections(self) -> int:
        return BATCH

    async def count_text_tokens(self, text: str) -> int:
        return len(text.split())


@lm.modelapi(name=LOCAL)
class _LocalModelAPI(lm.ModelAPI):
    """Model in a local folder; concurrent requests are answered in one batch."""

    def __init__(
        self,
        model_name: str,
        *,
        path: str | None = None,
        device: str | None = None,
        dtype: str = "auto",
        batch: int = BATCH,
        **options: Any,
    ) -> None:
        super().__init__(model_name, **options)
        if batch < 1:
            raise InvalidParameterError(f"batch is {batch}, expected at least 1")
        self._model = LocalModel(path or model_name, device=device, dtype=dtype)
        self._most = batch
        self._batcher: Batcher[Prompt, LocalReply] = Batcher(self._model.answers, batch)
        for provider in (LOCAL, REFERENCE):
            # Inspect looks up the context length, and would load the model again to find it.
            lm.set_model_info(
                f"{provider}/{model_name}", lm.ModelInfo(context_length=self._model.context)
            )

    async def generate(
        self, input: list[lm.ChatMessage], tools: Any, tool_choice: Any, config: lm.GenerateConfig
    ) -> lm.ModelOutput:
        if tools:
            raise InvalidParameterError("goalmeter-local does not support tools; remove them")
        if config.stop_seqs:
            raise InvalidParameterError(
                "goalmeter-local does not support stop sequences; limit answers with max_tokens"
            )
        effort = config.reasoning_effort
        template: dict[str, Any] = {} if effort is None else {"reasoning_effort": effort}
        ids = self._model.ids([{"role": m.role, "content": m.text} for m in input], **template)
        sampling = Sampling(
            seed=config.seed,
            temperature=1.0 if config.temperature is None else config.temperature,
            top_p=1.0 if config.top_p is None else config.top_p,
            top_k=config.top_k,
            alternatives=(config.top_logprobs or 0) if config.logprobs else None,
        )
        try:
            prompt = self._model.prompt(ids, config.max_tokens or DEFAULT_TOKENS, sampling)
        except ContextOverflowError as error:  # reported as by Inspect's own providers
            return _output(self.model_name, str(error), "model_length", len(ids), 0)
        reply = await asyncio.wrap_future(self._batcher.submit(prompt))
        text_of, stop = self._model.text_of, "stop" if reply.ended else "max_tokens"
        out = _output(self.model_name, reply.text, stop, len(ids), len(reply.ids))
        out.metadata = {"prompt_ids": list(ids), "output_ids": list(reply.ids)}
        if config.logprobs:
            logprobs = []
            for token, logp, alternatives in reply.chosen:
                tops = [lm.TopLogprob(token=text_of(t), logprob=p) for t, p in alternatives]
                logprobs.append(lm.Logprob(token=text_of(token), logprob=logp, top_logprobs=tops))
            out.choices[0].logprobs = lm.Logprobs(content=logprobs)
        return out

    def max_connections(self) -> int:
        return 2 * self._most  # one batch is answered while the other sends new requests

    async def count_text_tokens(self, text: str) -> int:
        return len(self._model.tokenizer(text)["input_ids"])


@lm.modelapi(name=REFERENCE)
def ours() -> Any:
    """Return the factory of the models named goalmeter/NAME."""

    def make(model_name: str, **options: Any) -> lm.ModelAPI:
        if model_name in organism_names():
            return _LocalModelAPI(model_name, **({"path": str(weights_of(model_name))} | options))
        return _ReferenceAgentAPI(model_name, **options)

    return make


def fit(model: Any) -> Any:
    """Make a model's provider raise `EmptyReplyError` and count tokens without a download."""
    # Inspect would return a reply without content as an empty answer of the model, and would
    # download an encoding to count tokens if a reply reports no usage.
    api = model.api
    if getattr(api, _FIT, False):
        return model
    generate, should_retry = api.generate, api.should_retry

    async def checked(*args: Any, **options: Any) -> Any:
        reply = await generate(*args, **options)
        output, call = reply if isinstance(reply, tuple) else (reply, None)
        if not isinstance(output, Exception) and not output.choices:  # Inspect raises errors itself
            raise EmptyReplyError("the server's reply has no choices")
        match getattr(call, "response", None):  # raw response, if the provider stores it
            case {"choices": [{"message": {"content": None, **others}, **choice}, *_]}:
                is_truncated = choice.get("finish_reason") in _TRUNCATED
                if not is_truncated and not any(others.get(name) for name in _OTHER_FIELDS):
                    raise EmptyReplyError("the server's reply has null content and no other field")
        return reply

    async def count_words(text: str) -> int:
        return len(text.split())

    api.generate = checked
    api.should_retry = lambda error: is_unusable_reply(error) or should_retry(error)
    if type(api).count_text_tokens is lm.ModelAPI.count_text_tokens:
        api.count_text_tokens = count_words
    setattr(api, _FIT, True)
    return model


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """Return an event loop in its own thread; connections of a model live as long as their loop."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="goalmeter-replies", daemon=True).start()
    return loop


def replies_of(name: str, *, greedy: bool) -> Callable[[list[dict[str, str]], int], str]:
    """Return a function (messages, seed) -> reply of a language model by its Inspect name."""
    try:
        model = fit(lm.get_model(name))
    except Exception as cause:  # each provider has its own errors
        raise InvalidParameterError(
            f"cannot query the model {name!r}: {in_a_line(cause)}; expected a model name of "
            f"Inspect, PROVIDER/NAME"
        ) from cause
    roles = {"user": lm.ChatMessageUser, "assistant": lm.ChatMessageAssistant}
    config: dict[str, Any] = {"max_tokens": DEFAULT_TOKENS, "max_retries": 5, "timeout": 600}
    config["temperature"] = 0.0 if greedy else 1.0

    def reply(messages: list[dict[str, str]], seed: int) -> str:
        chat = [roles[message["role"]](content=message["content"]) for message in messages]
        generated = model.generate(chat, config=lm.GenerateConfig(seed=seed, **config))
        return asyncio.run_coroutine_threadsafe(generated, _loop()).result().completion

    return reply


def _output(model: str, text: str, stop: Any, inputs: int, outputs: int) -> lm.ModelOutput:
    out = lm.ModelOutput.from_content(model, text, stop)
    tokens = {"input_tokens": inputs, "output_tokens": outputs}
    out.usage = lm.ModelUsage(**tokens, total_tokens=inputs + outputs)
    return out
