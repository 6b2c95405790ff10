"""A model of Inspect's: how it is reached, and made fit for walks.

Inspect gives a server's reply without any content on as an empty answer, which would count as the
model's. Here it is an error of the server, asked again as its other errors are. And where a reply
says nothing of tokens, Inspect would download an encoding to count them; here words are counted.
In a run, each call to the server is counted, and put again as `questions` says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from goalmeter._errors import GoalmeterError, InvalidParameterError, MissingExtraError, require
from goalmeter.agents.language_models.names import check_folder
from goalmeter.navigation.asking.settings import Asking
from goalmeter.navigation.inspect.failures import EmptyReplyError, is_garbled, reason_of

# Set on a provider that has been made fit.
_FIT = "_goalmeter_fit"
# A reply that was cut or withheld says so, and has no content for that reason.
_CUT = ("length", "content_filter", "max_tokens", "model_length")
# Where servers put what is not the answer itself.
_BESIDE = ("reasoning", "reasoning_content", "reasoning_details", "refusal", "tool_calls")
# Nobody closes the models that Inspect makes; one that is dropped warns of its open connections.
_opened: list[Any] = []


@dataclass(frozen=True)
class Server:
    """How a model is reached; another server of the same model goes on with the same run.

    Attributes:
        base_url: where it is; None for what the provider's variable of the environment says.
        max_connections: questions on their way at once; None leaves it to Inspect, which looks for
            as many as the server can take.
        max_retries: how often a question that the server failed is put again; that it has too much
            to do is no failure.
        timeout: seconds for one answer.
    """

    base_url: str | None = None
    max_connections: int | None = None
    max_retries: int = 5
    timeout: int = 600


def opened(name: str, asking: Asking, server: Server) -> Any:
    """The model of a name, ready to be asked.

    Raises InvalidParameterError if there is no such model, or something is missing for it.
    """
    inspect = require("inspect_ai.model", extra="lm", feature="Asking language models")
    check_folder(name)
    # Their names, goalmeter/... and goalmeter-local/..., have to be known to Inspect.
    from goalmeter.agents.language_models import providers as providers

    try:
        options = dict(asking.options)
        made = inspect.get_model(name, base_url=server.base_url, memoize=False, **options)
    except (GoalmeterError, MissingExtraError):
        raise
    except Exception as cause:  # each provider has errors of its own
        raise InvalidParameterError(
            f"the model {name!r} cannot be asked: {reason_of(cause)}; models are spelled as "
            f"Inspect spells them, PROVIDER/NAME"
        ) from cause
    if not name.startswith(f"{providers.LOCAL}/"):
        _opened.append(made)
    return made


def fit(model: Any) -> Any:
    """The model, whose provider now raises `EmptyReplyError`, counts and downloads no encoding.

    Inspect puts a question again when its provider says that an error is one to retry, so the
    provider is where this belongs. Each is changed once, and no other model of its class.
    """
    from inspect_ai.model import ModelAPI

    from goalmeter.navigation.inspect.questions import question

    api = model.api
    if getattr(api, _FIT, False):
        return model
    generate, should_retry, retry_wait = api.generate, api.should_retry, api.retry_wait

    async def checked(*args: Any, **options: Any) -> Any:
        asked = question.get()
        if asked is not None:
            _one_request_a_call(api)
            # Inspect would find out by a request of its own whether OpenAI gives summaries.
            config = options["config"]
            summary = config.reasoning_summary or "none"
            options["config"] = config.model_copy(update={"reasoning_summary": summary})
            await asked.call()
        replied = await generate(*args, **options)
        output, call = replied if isinstance(replied, tuple) else (replied, None)
        if asked is not None and not isinstance(output, Exception):
            asked.answered(output.usage)
        if lacks := _lacks(output, getattr(call, "response", None)):
            raise EmptyReplyError(lacks)
        return replied

    def retried(error: Exception) -> Any:
        # A paid quota that is used up has the status of a rate limit, and no end.
        if getattr(error, "code", None) == "insufficient_quota":
            return False
        # Inspect's own objects stay what they are: its adaptive connections go by them.
        decision = isinstance(error, EmptyReplyError) or is_garbled(error) or should_retry(error)
        asked = question.get()
        if asked is None or not getattr(decision, "retry", decision):
            return decision
        is_busy = getattr(decision, "kind", None) == "rate_limit"
        after = getattr(decision, "retry_after", None)
        return asked.may_be_put_again(is_busy=is_busy, after=after) and decision

    def wait() -> Any:
        asked = question.get()
        return retry_wait() if asked is None else asked.wait

    async def words(text: str) -> int:
        return len(text.split())

    api.generate, api.should_retry, api.retry_wait = checked, retried, wait
    if type(api).count_text_tokens is ModelAPI.count_text_tokens:
        api.count_text_tokens = words
    setattr(api, _FIT, True)
    return model


def _one_request_a_call(api: Any) -> None:
    """Keep the clients of OpenAI and Anthropic from putting a question again by themselves.

    Inspect does, and otherwise nobody could count the calls.
    """
    client: Any = getattr(api, "client", None)
    if getattr(client, "max_retries", 0):
        client.max_retries = 0


def _lacks(output: Any, response: Any) -> str:
    """What is missing in a reply that is none; "" for one that is.

    `output` is the reply as Inspect understood it, or the error that it makes of it; `response` the
    reply as it came, if the provider keeps it.
    """
    if isinstance(output, Exception):
        return ""
    if not output.choices:
        return "the reply of the server has no choices"
    choices = response.get("choices") if isinstance(response, Mapping) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(first, Mapping):
        return ""
    message = first.get("message")
    if not isinstance(message, Mapping) or message.get("content", "") is not None:
        return ""
    if first.get("finish_reason") in _CUT or any(message.get(part) for part in _BESIDE):
        return ""
    return "the reply of the server has null as its content, and nothing beside it"
