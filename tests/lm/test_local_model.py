"""Local models: batches, padding, seeds, log-probabilities, channels, MXFP4."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("inspect_ai")

from inspect_ai.model import ChatMessageUser, GenerateConfig, get_model  # noqa: E402
from lm.tiny_models import Models  # noqa: E402

from goalmeter._errors import InvalidFileError  # noqa: E402
from goalmeter.agents.local_models import LocalModel, Reply, Sampling  # noqa: E402
from goalmeter.navigation.prompts import understood  # noqa: E402

TEXTS = [
    "You control an agent.",
    "#",
    "The grid now:\n\n  0 1 2\n0 # # #\n" * 9,
    "Actions: UP, DOWN",
]


def asked(model: LocalModel, texts: list[str], tokens: int = 12, **options: Any) -> list[Reply]:
    """Answers to some messages, each with a seed of its own."""
    prompts = []
    for seed, text in enumerate(texts):
        ids = model.ids([{"role": "user", "content": text}])
        prompts.append(model.prompt(ids, tokens, Sampling(seed=seed, **options)))
    return model.answers(prompts)


@pytest.mark.parametrize("name", ["llama", "gpt-oss", "mxfp4"])
def test_a_batch_is_its_members(models: Models, name: str) -> None:
    model = LocalModel(models / name, device="cpu", dtype="float32")
    together = asked(model, TEXTS, temperature=0.8, top_p=0.95, alternatives=3)
    assert len({reply.ids for reply in together}) > 1
    for seed, text in enumerate(TEXTS):
        ids = model.ids([{"role": "user", "content": text}])
        sampling = Sampling(seed=seed, temperature=0.8, top_p=0.95, alternatives=3)
        (alone,) = model.answers([model.prompt(ids, 12, sampling)])
        assert (alone.ids, alone.text) == (together[seed].ids, together[seed].text)
        pairs = zip(alone.chosen, together[seed].chosen, strict=True)
        assert all(a.logprob == pytest.approx(b.logprob, abs=1e-4) for a, b in pairs)


@pytest.mark.parametrize("name", ["llama", "gpt-oss"])
def test_against_the_forward_pass(models: Models, name: str) -> None:
    # Each log-probability is that of the model reading the prompt and the answer up to there.
    model = LocalModel(models / name, device="cpu", dtype="float32")
    for text, reply in zip(
        TEXTS, asked(model, TEXTS, temperature=0.0, alternatives=2), strict=True
    ):
        ids = model.ids([{"role": "user", "content": text}])
        with torch.no_grad():
            logits = model.model(torch.tensor([[*ids, *reply.ids]])).logits[0, len(ids) - 1 : -1]
        logprobs = logits.log_softmax(dim=-1)
        assert reply.ids == tuple(logits.argmax(dim=-1).tolist())  # temperature 0
        for place, chosen in enumerate(reply.chosen):
            assert chosen.token == reply.ids[place]
            assert chosen.logprob == pytest.approx(logprobs[place, chosen.token].item(), abs=1e-4)
            assert [t for t, _ in chosen.alternatives] == logprobs[place].topk(2).indices.tolist()


def test_channels_come_whole(models: Models) -> None:
    model = LocalModel(models / "speaking-gpt-oss", device="cpu")
    replies = asked(model, ["Which way?"] * 200, tokens=60)
    finals = [
        r.text for r in replies if r.text.startswith("<|channel|>analysis<|message|>Hm.<|end|>")
    ]
    assert finals and all("<|channel|>" in text for text in finals)
    answers = [understood(text) for text in finals]
    assert all("Hm." in answer.reasoning for answer in answers)
    assert any(answer.action is not None for answer in answers)
    assert not any("<|" in answer.final for answer in answers if answer.action is not None)
    cut = asked(model, ["Which way?"], tokens=2)[0]
    assert not cut.ended and understood(cut.text).action is None


def test_a_prompt_that_is_too_long_is_a_context_overflow(models: Models) -> None:
    model = get_model(f"goalmeter-local/{models / 'llama'}", device="cpu", memoize=False)
    prompt = ChatMessageUser(content="a b c d " * 3000)
    output = asyncio.run(model.generate([prompt], config=GenerateConfig(max_tokens=5)))
    assert output.stop_reason == "model_length" and "leave no room" in output.completion


@pytest.mark.parametrize(
    ("file", "data"),
    [
        ("config.json", b"{"),
        ("tokenizer.json", b"{"),
        ("tokenizer_config.json", b'{"tokenizer_class": 7}'),
        ("model.safetensors", (10).to_bytes(8, "little") + b"[[[[[[[[[["),
    ],
)
def test_a_damaged_folder_is_one_line(
    file: str, data: bytes, models: Models, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(models / "llama", tmp_path / "llama"))
    (folder / file).write_bytes(data)
    with pytest.raises(InvalidFileError, match="cannot be loaded: ") as error:
        LocalModel(folder, device="cpu")
    assert "\n" not in str(error.value) and len(str(error.value)) < 700
