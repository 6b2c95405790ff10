"""An OpenAI-compatible server of a local model: python server.py FOLDER PORT CALLS [SECONDS].

It reads the model and then obeys lines of standard input: "start" serves in a process of its own,
and "kill" kills that process. Whoever starts it again does not wait for libraries and model anew.
Either is answered by a line.

The server appends a line to the file CALLS for each answer, and takes at least SECONDS for each.
Some names of models misbehave: "broken" is an error of the server, "refuses" one of the request,
"slow" does not answer in time, "mute" answers nothing, "thinks" has its reasoning apart, as vLLM
does. "none" has no choices in its reply and "null" no content; "none-once" and "null-once" only in
every other one. "long" finds every prompt too long, as vLLM and as llama.cpp say it in turn.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from concurrent.futures import Future
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count, cycle
from pathlib import Path
from typing import Any

from goalmeter.agents.inspect_providers import Batcher
from goalmeter.agents.local_models import LocalModel, Prompt, Reply, Sampling

FOLDER, PORT, CALLS = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
SECONDS = float(sys.argv[4]) if len(sys.argv) > 4 else 0.0
MODEL = LocalModel(FOLDER, device="cpu")
REPLIES = count()
TOO_LONG = cycle(
    (
        {
            "message": "This model's maximum context length is 100 tokens. However, you requested "
            "300 tokens (200 in the messages, 100 in the completion).",
            "type": "BadRequestError",
            "code": 400,
        },
        {
            "message": "the request exceeds the available context size, try increasing it",
            "type": "exceed_context_size_error",
            "code": 400,
        },
    )
)


@cache
def batcher() -> Batcher[Prompt, Reply]:
    """The one of the process that serves: threads do not live on in a process that is forked."""
    return Batcher(MODEL.answers, 16)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.send(200, {"object": "list", "data": [{"id": "tiny", "object": "model"}]})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name = asked["model"]
        if name == "broken":
            self.send(500, {"error": {"message": "out of memory", "type": "server_error"}})
        elif name == "long":
            self.send(400, {"error": next(TOO_LONG)})
        elif name == "refuses":
            self.send(400, {"error": {"message": "no such thing", "type": "invalid_request"}})
        else:
            time.sleep(60 if name == "slow" else SECONDS)
            self.send(200, spoilt(answer(asked, name), name))
            with CALLS.open("a") as file:
                file.write("x\n")

    def send(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def answer(asked: dict[str, Any], name: str) -> dict[str, Any]:
    """A chat completion."""
    sampling = Sampling(
        seed=asked.get("seed"),
        temperature=asked.get("temperature", 1.0),
        top_p=asked.get("top_p", 1.0),
        alternatives=asked.get("top_logprobs", 0) if asked.get("logprobs") else None,
    )
    ids = MODEL.ids(asked["messages"])
    prompt = MODEL.prompt(ids, asked.get("max_tokens") or 64, sampling)
    waiting: Future[Reply] = batcher().submit(prompt)
    reply = waiting.result()
    text = MODEL.text_of
    logprobs = [
        {
            "token": text(each.token),
            "logprob": each.logprob,
            "bytes": None,
            "top_logprobs": [
                {"token": text(t), "logprob": p, "bytes": None} for t, p in each.alternatives
            ],
        }
        for each in reply.chosen
    ]
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": "" if name == "mute" else reply.text}
        | ({"reasoning_content": "UP or DOWN?"} if name == "thinks" else {}),
        "finish_reason": "stop" if reply.ended else "length",
        "logprobs": {"content": logprobs} if asked.get("logprobs") else None,
    }
    used = {"prompt_tokens": len(ids), "completion_tokens": len(reply.ids)}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": asked["model"],
        "choices": [choice],
        "usage": used | {"total_tokens": sum(used.values())},
    }


def spoilt(reply: dict[str, Any], name: str) -> dict[str, Any]:
    """The reply without what the model of that name leaves out."""
    about, _, once = name.partition("-")
    if once and next(REPLIES) % 2:
        return reply
    if about == "none":
        reply["choices"] = []
    if about == "null":
        reply["choices"][0]["message"]["content"] = None
        reply["choices"][0]["finish_reason"] = "stop"
    return reply


class Server(ThreadingHTTPServer):
    allow_reuse_address = True
    request_queue_size = 128


def serve() -> None:
    """Answer until this process is killed."""
    batcher()  # before there are threads that could each make one
    server = Server(("127.0.0.1", PORT), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()


def main() -> None:
    """Do what standard input says, and end with it."""
    serving = 0
    for line in sys.stdin:
        if line == "start\n":
            serving = os.fork()
            if not serving:
                serve()
        else:
            end(serving)
            serving = 0
            print("killed", flush=True)
    if serving:
        end(serving)


def end(process: int) -> None:
    """Kill a process and wait until it is gone."""
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)


if __name__ == "__main__":
    main()
