"""Inspect's names for our agents: `goalmeter/NAME` and `goalmeter-local/FOLDER`.

    goalmeter/greedy             a reference agent that reads the grid in the prompt
    goalmeter/mouse              an organism: a small model that comes with the package
    goalmeter-local/FOLDER       a transformers model in a folder of this machine, in batches

Options of models (`-M name=value`): `path` (the folder, if the name is to be another),
`device`, `dtype`, `batch` (32). All say how many tokens were used, since Inspect would otherwise
download a tokenizer to count them.
"""

from __future__ import annotations

import asyncio
import json
import math
import secrets
from typing import Any

from goalmeter._errors import InvalidParameterError, MissingExtraError, how_to_install

try:
    import inspect_ai  # noqa: F401
except ModuleNotFoundError as error:
    raise MissingExtraError(
        "Asking language models needs the package 'inspect_ai', which is not installed; "
        f"{how_to_install('lm')}"
    ) from error
from inspect_ai.model import (
    ChatCompletionChoice,
    ChatMessage,
    ChatMessageAssistant,
    GenerateConfig,
    Logprob,
    Logprobs,
    ModelAPI,
    ModelInfo,
    ModelOutput,
    ModelUsage,
    TopLogprob,
    modelapi,
    set_model_info,
)
from inspect_ai.tool import ToolChoice, ToolInfo

from goalmeter.agents.language_models.batches import Batcher
from goalmeter.agents.language_models.local_model import (
    ContextOverflowError,
    LocalModel,
    Prompt,
    Reply,
)
from goalmeter.agents.language_models.names import prompted_agent
from goalmeter.agents.language_models.reading import read_back
from goalmeter.agents.language_models.sampling import Sampling
from goalmeter.gridworld.draws import Draws
from goalmeter.gridworld.world import ACTIONS
from goalmeter.organisms import organism_names
from goalmeter.organisms.shipped import weights_of

REFERENCE, LOCAL = "goalmeter", "goalmeter-local"
DEFAULT_TOKENS = 2048
# Prompts that are answered at once.
BATCH = 32


class ReferenceAgentAPI(ModelAPI):
    """Reference agents that answer prompts: they see what a model sees, and no more.

    Only agents without memory can: a prompt shows the grid as it is now. What they draw depends on
    the prompt and the seed of the call. With log-probabilities they give those of their policy.
    """

    def __init__(
        self,
        model_name: str,
        base_url: str | None = None,
        api_key: str | None = None,
        config: GenerateConfig = GenerateConfig(),  # noqa: B008 (Inspect's signature)
    ) -> None:
        super().__init__(model_name, base_url, api_key, [], config)
        self._agent = prompted_agent(model_name)

    async def generate(
        self,
        input: list[ChatMessage],
        tools: list[ToolInfo],
        tool_choice: ToolChoice,
        config: GenerateConfig,
    ) -> ModelOutput:
        """The answer to the last message."""
        prompt = input[-1].text
        world, state = read_back(prompt)
        seed = secrets.randbits(53) if config.seed is None else config.seed
        draws = Draws("prompt", self._agent.name, seed, prompt)
        decision = self._agent.begin(world, draws).act(state)
        assert decision.action is not None and decision.probabilities is not None
        texts = [json.dumps({"action": action}) for action in ACTIONS]
        logprobs = None
        if config.logprobs:
            pairs = zip(texts, decision.probabilities, strict=True)
            likely = sorted(((p, t) for t, p in pairs if p > 0), reverse=True)
            tops = [TopLogprob(token=t, logprob=math.log(p)) for p, t in likely]
            logprob = math.log(decision.probabilities[decision.action])
            only = Logprob(token=texts[decision.action], logprob=logprob, top_logprobs=tops)
            logprobs = Logprobs(content=[only])
        return _output(
            self.model_name, texts[decision.action], "stop", logprobs, len(prompt.split()), 1
        )

    def max_connections(self) -> int:
        """How many are asked at once; nobody has to wait for an answer."""
        return BATCH

    async def count_text_tokens(self, text: str) -> int:
        """Words, as a reference agent has no tokens."""
        return len(text.split())


@modelapi(name=LOCAL)
class LocalModelAPI(ModelAPI):
    """A model in a folder; what is asked at the same time is answered in one batch.

    Answers in the channels of gpt-oss come whole, with the markers. `metadata` of the output holds
    the ids of the tokens: "prompt_ids" and "output_ids".
    """

    def __init__(
        self,
        model_name: str,
        base_url: str | None = None,
        api_key: str | None = None,
        config: GenerateConfig = GenerateConfig(),  # noqa: B008 (Inspect's signature)
        path: str | None = None,
        device: str | None = None,
        dtype: str = "auto",
        batch: int = BATCH,
    ) -> None:
        super().__init__(model_name, base_url, api_key, [], config)
        if batch < 1:
            raise InvalidParameterError(f"batch is {batch}, expected at least 1")
        self._model = LocalModel(path or model_name, device=device, dtype=dtype)
        self._most = batch
        self._batcher: Batcher[Prompt, Reply] = Batcher(self._model.answers, batch)
        for provider in (LOCAL, REFERENCE):
            # Inspect looks up how long the context is, and would load the model again to know.
            set_model_info(
                f"{provider}/{model_name}", ModelInfo(context_length=self._model.context)
            )

    async def generate(
        self,
        input: list[ChatMessage],
        tools: list[ToolInfo],
        tool_choice: ToolChoice,
        config: GenerateConfig,
    ) -> ModelOutput:
        """The answer to a conversation."""
        if tools:
            raise InvalidParameterError("goalmeter-local offers no tools; ask without them")
        if config.stop_seqs:
            raise InvalidParameterError(
                "goalmeter-local knows no stop sequences; limit the answer with max_tokens"
            )
        template: dict[str, Any] = {}
        if config.reasoning_effort is not None:
            template["reasoning_effort"] = config.reasoning_effort
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
        except ContextOverflowError as error:  # as Inspect's own providers say it
            return _output(self.model_name, str(error), "model_length", None, len(ids), 0)
        reply = await asyncio.wrap_future(self._batcher.submit(prompt))
        text_of = self._model.text_of
        listed = [
            Logprob(
                token=text_of(token.token),
                logprob=token.logprob,
                top_logprobs=[
                    TopLogprob(token=text_of(t), logprob=p) for t, p in token.alternatives
                ],
            )
            for token in reply.chosen
        ]
        return _output(
            self.model_name,
            reply.text,
            "stop" if reply.ended else "max_tokens",
            Logprobs(content=listed) if config.logprobs else None,
            len(ids),
            len(reply.ids),
            {"prompt_ids": list(ids), "output_ids": list(reply.ids)},
        )

    def max_connections(self) -> int:
        """Two batches: while one is answered, those of the other are told and ask again."""
        return 2 * self._most

    async def count_text_tokens(self, text: str) -> int:
        """Tokens of the model's own tokenizer."""
        return len(self._model.tokenizer(text)["input_ids"])


def _ours(model_name: str, **options: Any) -> ModelAPI:
    """The organism or the reference agent of a name."""
    if model_name in organism_names():
        return LocalModelAPI(model_name, **({"path": str(weights_of(model_name))} | options))
    return ReferenceAgentAPI(model_name, **options)


@modelapi(name=REFERENCE)
def ours() -> Any:
    """What makes the models called goalmeter/NAME."""
    return _ours


def _output(
    model: str,
    text: str,
    stop: Any,
    logprobs: Logprobs | None,
    asked: int,
    answered: int,
    metadata: dict[str, Any] | None = None,
) -> ModelOutput:
    message = ChatMessageAssistant(content=text, model=model, source="generate")
    return ModelOutput(
        model=model,
        choices=[ChatCompletionChoice(message=message, stop_reason=stop, logprobs=logprobs)],
        usage=ModelUsage(input_tokens=asked, output_tokens=answered, total_tokens=asked + answered),
        metadata=metadata,
    )
