"""Local models: batches, padding, seeds, sampling, log-probabilities, channels, damaged folders."""

from __future__ import annotations

import shutil
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("inspect_ai")

from lm.tiny_models import Models  # noqa: E402

from goalmeter._errors import InvalidFileError  # noqa: E402
from goalmeter.agents.inspect_providers import Batcher  # noqa: E402
from goalmeter.agents.local_models import (  # noqa: E402
    LocalModel,
    Reply,
    Sampling,
    SeededSampling,
    _growing_cache,
)
from goalmeter.navigation.inspect.run import ask  # noqa: E402
from goalmeter.navigation.prompts import Asking, understood  # noqa: E402

TEXTS = ["You control an agent.", "#", "The grid now:\n\n  0 1 2\n0 # # #\n" * 9, "Actions: UP"]


def asked(model: LocalModel, texts: list[str], tokens: int = 12, **options: Any) -> list[Reply]:
    """Answers to some messages, each with a seed of its own."""
    prompts = []
    for seed, text in enumerate(texts):
        ids = model.ids([{"role": "user", "content": text}])
        prompts.append(model.prompt(ids, tokens, Sampling(seed=seed, **options)))
    return model.answers(prompts)


@pytest.mark.parametrize(
    # Answers of up to 40 tokens leave the batch at different steps.
    ("name", "limits"),
    [
        *((name, (12, 12, 12, 12)) for name in ("llama", "gpt-oss", "mxfp4")),
        *((name, (40, 5, 33, 17)) for name in ("llama", "gpt-oss")),
    ],
)
def test_a_batch_is_its_members(models: Models, name: str, limits: tuple[int, ...]) -> None:
    model = LocalModel(models / name, device="cpu", dtype="float32")
    prompts = []
    for seed, (text, tokens) in enumerate(zip(TEXTS, limits, strict=True)):
        ids = model.ids([{"role": "user", "content": text}])
        sampling = Sampling(seed=seed, temperature=0.8, top_p=0.95, alternatives=3)
        prompts.append(model.prompt(ids, tokens, sampling))
    together = model.answers(prompts)
    assert len({reply.ids for reply in together}) > 1
    rows = []
    hook = model.model.register_forward_pre_hook(
        lambda module, args, kwargs: rows.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    fixed = model.answers(prompts, fixed=True)
    hook.remove()
    assert [reply.ids for reply in fixed] == [reply.ids for reply in together]
    assert {*rows} == {len(TEXTS)}  # hooks of an intervention know a sequence by its row
    for seed, prompt in enumerate(prompts):
        (alone,) = model.answers([prompt])
        assert alone.ended or len(alone.ids) == prompt.tokens
        assert (alone.ids, alone.text) == (together[seed].ids, together[seed].text)
        pairs = zip(alone.chosen, together[seed].chosen, strict=True)
        assert all(a.logprob == pytest.approx(b.logprob, abs=1e-4) for a, b in pairs)


@pytest.mark.parametrize("name", ["llama", "gpt-oss"])
def test_against_the_forward_pass(models: Models, name: str) -> None:
    # Each log-probability is that of the model reading the prompt and the answer up to there.
    model = LocalModel(models / name, device="cpu", dtype="float32")
    replies = asked(model, TEXTS, tokens=40, temperature=0.0, alternatives=2)
    for text, reply in zip(TEXTS, replies, strict=True):
        ids = model.ids([{"role": "user", "content": text}])
        with torch.no_grad():
            logits = model.model(torch.tensor([[*ids, *reply.ids]])).logits[0, len(ids) - 1 : -1]
        logprobs = logits.log_softmax(dim=-1)
        assert reply.ids == tuple(logits.argmax(dim=-1).tolist())  # temperature 0
        for place, chosen in enumerate(reply.chosen):
            assert chosen.token == reply.ids[place]
            assert chosen.logprob == pytest.approx(logprobs[place, chosen.token].item(), abs=1e-4)
            assert [t for t, _ in chosen.alternatives] == logprobs[place].topk(2).indices.tolist()


def test_walks_of_gpt_oss_have_tokens_reasoning_and_probabilities(
    models: Models, tmp_path: Path
) -> None:
    folder = models / "speaking-gpt-oss"
    settings = {"temperature": 1.0, "top_p": 1.0, "logprobs": True, "reasoning_effort": "low"}
    asking = Asking(max_tokens=40, options={"device": "cpu"}, **settings)  # type: ignore[arg-type]
    suite: dict[str, Any] = {"sizes": [7], "complexities": [1], "grids": 1, "cap": 4}
    model = f"goalmeter-local/{folder}"
    walks = ask(model, "maze", tmp_path, asking=asking, trajectories=4, **suite)
    steps = [step for done in walks for step in done.steps]
    assert len(walks) == 4 and all(isinstance(step.prompt_tokens, tuple) for step in steps)
    # The text of an answer in channels has every token in it, so the ids spell it.
    spell = LocalModel(folder, device="cpu").tokenizer.decode
    assert all(spell(step.answer_tokens) == step.raw for step in steps)
    assert any(step.reasoning and step.action is not None for step in steps)
    for step in steps:
        answer = understood(step.raw or "")
        assert (step.action, step.reasoning) == (answer.action, answer.reasoning or None)
        if step.action is not None:
            # The weights say so; the answer's last action decides.
            assert step.probabilities == pytest.approx((0.1, 0.4, 0.2, 0.3), abs=1e-3)


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


WEIGHTS = [0.05, 0.4, 0.3, 0.15, 0.1]


def drawn(samplings: list[Sampling], times: int = 1) -> list[list[int]]:
    """Tokens drawn from WEIGHTS, a list for each step."""
    chooser = SeededSampling(samplings)
    logits = torch.tensor([WEIGHTS]).log().repeat(len(samplings), 1) + 3.0
    ids = torch.zeros((1, 1), dtype=torch.long)
    return [chooser(ids, logits).argmax(dim=1).tolist() for _ in range(times)]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, WEIGHTS),
        ({"temperature": 0.0}, [0, 1, 0, 0, 0]),
        ({"top_k": 2}, [0, 4 / 7, 3 / 7, 0, 0]),
        # 0.4 + 0.3 is not yet 0.75, so the third belongs to it; 0.7 is reached with the second.
        ({"top_p": 0.75}, [0, 0.4 / 0.85, 0.3 / 0.85, 0.15 / 0.85, 0]),
        ({"top_p": 0.69}, [0, 4 / 7, 3 / 7, 0, 0]),
        ({"temperature": 0.5}, [w**2 / sum(v**2 for v in WEIGHTS) for w in WEIGHTS]),
    ],
)
def test_shares_of_tokens(options: dict[str, Any], expected: list[float]) -> None:
    n = 5000
    counts = Counter(drawn([Sampling(seed=s, **options) for s in range(n)])[0])
    # Four standard errors of a share of 0.5.
    assert [counts[token] / n for token in range(5)] == pytest.approx(expected, abs=2 / n**0.5)


def test_other_members_of_a_batch_do_not_matter() -> None:
    mine = Sampling(seed=7, temperature=0.9, top_p=0.9)
    others = [Sampling(seed=1), Sampling(seed=2, temperature=0.0), Sampling(seed=3, top_k=1)]
    alone = [step[0] for step in drawn([mine], 50)]
    assert [step[2] for step in drawn([*others[:2], mine, others[2]], 50)] == alone
    assert len(set(alone)) > 1  # each step draws anew


def test_a_growing_cache_has_the_states_of_transformers() -> None:
    from transformers import DynamicCache, LlamaConfig

    config = LlamaConfig(num_hidden_layers=1)
    ours, theirs = _growing_cache(config), DynamicCache(config=config)
    generator = torch.Generator().manual_seed(0)
    # More than the space that is reserved at once, with rows that leave.
    for step, (length, rows) in enumerate([(5, 3), (1, 3), (70, 3), (1, 2), (1, 2)]):
        for cache in (ours, theirs) if step == 3 else ():
            cache.batch_select_indices(torch.tensor([2, 0]))
        keys, values = torch.rand(2, rows, 2, length, 4, generator=generator)
        for mine, other in zip(
            ours.update(keys, values, 0), theirs.update(keys, values, 0), strict=True
        ):
            assert torch.equal(mine, other)
    assert ours.get_seq_length() == 78


def test_requests_are_gathered_and_an_error_is_the_answer_to_its_batch_alone() -> None:
    sizes: list[int] = []
    taken, gate = threading.Event(), threading.Event()

    def answer(batch: list[int]) -> list[int]:
        taken.set()
        gate.wait()
        sizes.append(len(batch))
        if 999 in batch:
            raise RuntimeError("out of memory")
        return [-n for n in batch]

    batcher = Batcher(answer, most=8)
    first = batcher.submit(100)
    assert taken.wait(5)
    remaining = [batcher.submit(n) for n in [*range(16), 999]]
    gate.set()
    assert first.result(5) == -100
    assert [future.result(5) for future in remaining[:16]] == [-n for n in range(16)]
    with pytest.raises(RuntimeError, match="out of memory"):
        remaining[16].result(5)
    assert sizes == [1, 8, 8, 1] and batcher.submit(1).result(5) == -1
