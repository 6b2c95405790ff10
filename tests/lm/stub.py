"""A server that answers as a model would, in the time that one takes: python stub.py SETTINGS.

It speaks OpenAI's chat completions on loopback: the answer to a grid is the right move, or with
`error` another one. SETTINGS is a JSON object of the fields of `Settings`. The port is the first
line of standard output, and the process ends with its standard input; GET /counts says what
happened so far.

An answer's time is lognormal with the median `seconds` and the shape `tail`, and it has as many
tokens as `speed` tells in that time; with `throughput`, all answers together get so many tokens a
second. A share `failing` of all calls fails, in turn with a 500, a 429, a dropped connection, and
an answer that is no JSON. More than `most` questions at once are answered by 429. Models named in
ERRORS fail; "slow" does not answer in time, "none" has no choices and "null" no content.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from goalmeter.agents.inspect_providers import read_back
from goalmeter.gridworld.planner import planned
from goalmeter.gridworld.world import ACTIONS

FAILURES = ("500", "429", "drop", "garbage")
ERRORS = {
    "broken": (500, "out of memory"),
    "refuses": (400, "no such thing"),
    "long": (400, "This model's maximum context length is 100 tokens. However, you requested 300"),
}
PROMPT_TOKENS = 4.0  # characters a token


@dataclass(frozen=True)
class Settings:
    """How the server behaves; times in seconds."""

    seconds: float = 0.0
    tail: float = 0.6
    speed: float = 100.0
    throughput: float = 0.0
    failing: float = 0.0
    retry_after: float = 1.0
    error: float = 0.0
    most: int = 0
    says_tokens: bool = True
    seed: int = 0


class Stub:
    """The counts and the queue of one server."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        counted = ("calls", "answers", "seconds", "input_tokens", "output_tokens", "now", "peak")
        self.counts: dict[str, float] = dict.fromkeys((*counted, *FAILURES, "first", "last"), 0.0)
        self._draw = random.Random(settings.seed)
        self._free_at = 0.0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the questions of one connection, one after the other."""
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = 0
                for line in head.split(b"\r\n"):
                    if line.lower().startswith(b"content-length:"):
                        length = int(line.split(b":")[1])
                body = await reader.readexactly(length)
                if head.startswith(b"GET"):
                    reply = _response(200, json.dumps(self.counts))
                else:
                    self.counts["now"] += 1
                    self.counts["peak"] = max(self.counts["peak"], self.counts["now"])
                    try:
                        reply = await self._answer(json.loads(body))
                    finally:
                        self.counts["now"] -= 1
                if not reply:
                    break
                writer.write(reply)
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, asked: dict[str, Any]) -> bytes:
        settings, counts = self.settings, self.counts
        counts["calls"] += 1
        counts["first"] = counts["first"] or time.time()
        if settings.most and counts["now"] > settings.most:
            counts["429"] += 1
            return _busy(settings.retry_after)
        fails = self._draw.random() < settings.failing
        seconds = settings.seconds * self._draw.lognormvariate(0.0, settings.tail)
        if fails:
            which = FAILURES[sum(int(counts[name]) for name in FAILURES) % len(FAILURES)]
            counts[which] += 1
            if which == "429":
                return _busy(settings.retry_after)
            await asyncio.sleep(seconds * self._draw.random())
            if which == "500":
                return _response(500, '{"error": {"message": "out of memory", "code": 500}}')
            return b"" if which == "drop" else _response(200, '{"id": "chatcm')
        name = asked["model"]
        if name in ERRORS:
            status, message = ERRORS[name]
            return _response(status, json.dumps({"error": {"message": message, "code": status}}))
        if name == "slow":
            await asyncio.sleep(60)
        prompt = asked["messages"][-1]["content"]
        tokens = min(max(1, round(seconds * settings.speed)), asked.get("max_tokens") or 10**9)
        if settings.throughput:
            loop = asyncio.get_running_loop()
            self._free_at = max(self._free_at, loop.time()) + tokens / settings.throughput
            seconds = max(seconds, self._free_at - loop.time())
        await asyncio.sleep(seconds)
        read = round(len(prompt) / PROMPT_TOKENS)
        counts["answers"] += 1
        counts["last"] = time.time()
        counts["seconds"] += seconds
        counts["input_tokens"] += read
        counts["output_tokens"] += tokens
        text = json.dumps({"action": move(prompt, asked.get("seed") or 0, settings.error)})
        return _response(200, json.dumps(self._completion(asked["model"], text, read, tokens)))

    def _completion(self, model: str, text: str, read: int, written: int) -> dict[str, Any]:
        message = {"role": "assistant", "content": None if model == "null" else text}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        reply = {"id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": model}
        usage = {
            "prompt_tokens": read,
            "completion_tokens": written,
            "total_tokens": read + written,
        }
        return (
            reply
            | {"choices": [] if model == "none" else [choice]}
            | ({"usage": usage} if self.settings.says_tokens else {})
        )


@lru_cache(maxsize=100_000)
def right_moves(prompt: str) -> tuple[int, ...]:
    """The optimal actions in what a prompt shows."""
    world, state = read_back(prompt)
    return planned(world).optimal_actions(state)


def move(prompt: str, seed: int, error: float) -> str:
    """The answer to a prompt: the same for the same seed."""
    draw = random.Random(f"{seed} {prompt}")
    wrong = draw.random() < error
    return ACTIONS[draw.randrange(len(ACTIONS)) if wrong else right_moves(prompt)[0]]


def _busy(seconds: float) -> bytes:
    error = '{"error": {"message": "too many requests", "code": "rate_limit"}}'
    return _response(429, error, f"Retry-After: {seconds}\r\n")


def _response(status: int, body: str, headers: str = "") -> bytes:
    data = body.encode()
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n{headers}"
    return f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data


async def listening(stub: Stub) -> tuple[asyncio.Server, int]:
    """A server that answers by itself, and its port."""
    server = await asyncio.start_server(stub.serve, "127.0.0.1", 0, backlog=1024)
    return server, server.sockets[0].getsockname()[1]


async def main() -> None:
    """Serve until standard input ends."""
    _, port = await listening(Stub(Settings(**json.loads(sys.argv[1]))))
    print(port, flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
