"""Changes while a model answers, against blocks that are called one by one by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("transformers")

import torch
from representation.tiny import ARCHITECTURES, CORRIDOR, ROOM, sample

from goalmeter.representation.use.interventions import (
    Intervention,
    WrittenText,
    ablate,
    answer_all,
    applied,
    knock_out,
    never,
    patch,
    write,
)


@dataclass(frozen=True)
class Steps:
    """The tokens first to last - 1 of an answer."""

    first: int
    last: int = 10_000

    def __call__(self, written: WrittenText) -> bool:
        return self.first <= len(written.ids) - 1 < self.last


def logits(network: Any, ids: Any, change: Intervention | None = None) -> Any:
    """Of every token of a prompt, read under a change."""
    change = change or Intervention()
    with applied(network, [change], [len(ids)]), torch.inference_mode():
        return network.local.model(torch.tensor([ids]), use_cache=False).logits[0]


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_token_that_nobody_sees_might_be_any(networks: dict[str, Any], name: str) -> None:
    """Knocked out in all blocks, a token can be exchanged, and what follows stays the same."""
    network = networks[name]
    ids = list(sample(network).prompt)[:14]
    layers = range(1, len(network.blocks) + 1)
    other = [*ids[:6], (ids[6] + 7) % 100, *ids[7:]]
    change = knock_out([6], layers)
    ours, theirs = logits(network, ids, change), logits(network, other, change)
    torch.testing.assert_close(ours[7:], theirs[7:], rtol=1e-5, atol=1e-5)
    assert not torch.allclose(logits(network, ids)[7:], logits(network, other)[7:], atol=1e-3)


def streams(network: Any, ids: Any, layer: int, change: Intervention | None = None) -> Any:
    read: list[Any] = []
    with (
        applied(network, [change or Intervention()], [len(ids)]),
        network.changed({layer: lambda stream: read.append(stream[0].clone())}),
    ):
        network.forward([ids])
    return read[0]


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("layer", [0, 1, 2])
def test_edits_of_the_stream(networks: dict[str, Any], name: str, layer: int) -> None:
    network = networks[name]
    ids, donor = list(sample(network).prompt)[:12], list(sample(network, CORRIDOR).prompt)[-12:]
    before = streams(network, ids, layer)
    generator = torch.Generator().manual_seed(0)
    vector = torch.randn(network.width, generator=generator)

    own = logits(network, ids, patch({layer: before[[4, 7]]}, [4, 7]))
    torch.testing.assert_close(own, logits(network, ids), rtol=1e-5, atol=1e-5)

    # A donor's whole stream is the donor's pass from there on.
    whole = patch({layer: streams(network, donor, layer)}, range(12))
    torch.testing.assert_close(
        logits(network, ids, whole), logits(network, donor), rtol=1e-4, atol=1e-4
    )

    written = streams(network, ids, layer, write(vector, [3], [layer]))
    torch.testing.assert_close(written[3], before[3] + vector, rtol=1e-5, atol=1e-5)
    back = write(vector, [3], [layer]).joined(write(-vector, [3], [layer]))
    torch.testing.assert_close(streams(network, ids, layer, back), before, rtol=1e-4, atol=1e-4)

    removed = streams(network, ids, layer, ablate(vector, [5], [layer]))
    assert abs(float(removed[5] @ vector)) < 1e-3 < abs(float(before[5] @ vector))
    orthogonal = before[5] - removed[5]
    cosine = torch.nn.functional.cosine_similarity(orthogonal, vector, dim=0)
    assert abs(float(cosine)) == pytest.approx(1, abs=1e-3)
    # Nothing before the changed token, and no other token at that layer, is changed.
    for rows, place in ((written, 3), (removed, 5)):
        others = [token for token in range(12) if token != place]
        torch.testing.assert_close(rows[others], before[others], rtol=0, atol=0)


def allowed(length: int, closed: list[tuple[int, int]], width: int = 10_000) -> Any:
    """A causal mask of a width without some pairs of (looking, seen), [1, 1, T, T]."""
    seen = torch.ones(length, length, dtype=torch.bool).tril().triu(1 - width)
    for looking, place in closed:
        seen[looking, place] = False
    return torch.zeros(length, length).masked_fill(~seen, torch.finfo(torch.float32).min)[
        None, None
    ]


def literal_logits(network: Any, ids: list[int], closed: list[tuple[int, int]]) -> Any:
    """Of the last token, by one pass without a cache under an explicit mask in every block."""
    mask = allowed(len(ids), closed)
    if "sliding_attention" in (getattr(network.local.model.config, "layer_types", None) or []):
        width = network.local.model.config.sliding_window
        near = allowed(len(ids), closed, width)
        mask = {"full_attention": mask, "sliding_attention": near}
    kernels = network.local.model.config._attn_implementation
    network.local.model.set_attn_implementation("eager")
    try:
        with torch.inference_mode():
            return network.local.model(
                torch.tensor([ids]), attention_mask=mask, use_cache=False
            ).logits[0, -1]
    finally:
        network.local.model.set_attn_implementation(kernels)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_span_is_masked_and_nothing_else(networks: dict[str, Any], name: str) -> None:
    """A batch of two lengths and five spans, token by token, against masks that are spelled out."""
    network = networks[name]
    layers = range(1, len(network.blocks) + 1)
    taken = [sample(network, ROOM), sample(network, CORRIDOR)] * 2 + [sample(network, ROOM)]
    ends = [len(each.prompt) for each in taken]
    keys = [[ends[0] - 9, 40], [ends[1] - 3], [40], [ends[3] - 5, ends[3] - 6], [ends[4] - 1]]
    spans: list[dict[str, Any]] = [
        {"written": never},
        {"prompt": False},
        {"written": Steps(2, 4)},
        {"prompt": False, "written": Steps(1)},
        {},
    ]
    looks = [
        lambda step: step < 0,
        lambda step: step >= 0,
        lambda step: step < 0 or 2 <= step < 4,
        lambda step: step >= 1,
        lambda step: True,
    ]
    changes = [knock_out(k, layers, **span) for k, span in zip(keys, spans, strict=True)]
    answers = answer_all(network, taken, changes, tokens=6)
    for each, places, look, answer in zip(taken, keys, looks, answers, strict=True):
        ids = list(each.prompt)
        for token in answer.tokens:
            closed = [
                (query, key)
                for key in places
                for query in range(key + 1, len(ids))
                if look(query - len(each.prompt))
            ]
            assert int(literal_logits(network, ids, closed).argmax()) == token
            ids.append(token)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_tokens_are_changed_while_they_are_written(networks: dict[str, Any], name: str) -> None:
    """With a cache as in whole passes in which the same places are changed by hand."""
    network = networks[name]
    generator = torch.Generator().manual_seed(2)
    vector, other = 20 * torch.randn(2, network.width, generator=generator)
    taken = [sample(network, ROOM), sample(network, CORRIDOR), sample(network, ROOM)]
    changes = [
        write(vector, Steps(1, 2), [1]).joined(ablate(other, Steps(1, 3), [1])),
        write(vector, Steps(2), [0, 2]),
        Intervention(),
    ]
    along = other / other.norm()

    def removed(stream: Any) -> Any:
        return stream - (stream @ along) * along

    by_hand: list[dict[int, Any]] = [
        {1: lambda step, x: removed(x + vector) if step == 1 else removed(x) if step == 2 else x},
        {k: lambda step, x: x + vector if step >= 2 else x for k in (0, 2)},
        {},
    ]
    answers = answer_all(network, taken, changes, tokens=5)
    for each, edits, answer in zip(taken, by_hand, answers, strict=True):
        ids, length = list(each.prompt), len(each.prompt)
        for token in answer.tokens:

            def changed(edit: Any, size: int = length) -> Any:
                def change(stream: Any) -> Any:
                    rows = [
                        edit(place - size, row) if place >= size else row
                        for place, row in enumerate(stream[0])
                    ]
                    return torch.stack(rows)[None]

                return change

            with (
                network.changed({layer: changed(edit) for layer, edit in edits.items()}),
                torch.inference_mode(),
            ):
                logits = network.local.model(torch.tensor([ids]), use_cache=False).logits[0, -1]
            assert int(logits.argmax()) == token
            ids.append(token)
    assert answers[0] != answers[2]
