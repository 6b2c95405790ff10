"""Changes while a model answers, against blocks that are called one by one by hand."""

from __future__ import annotations

from typing import Any

import pytest

from goalmeter._errors import InvalidParameterError

pytest.importorskip("transformers")

import torch
from representation.tiny import CORRIDOR, ROOM, sample

from goalmeter.representation.use.answers import answer_all
from goalmeter.representation.use.interventions import (
    Intervention,
    ablate,
    applied,
    knock_out,
    patch,
    write,
)

ARCHITECTURES = ["llama", "gpt-oss", "gpt2", "qwen"]
WIDTH = 32


def logits(network: Any, ids: Any, change: Intervention | None = None) -> Any:
    """Of every token of a prompt, read under a change."""
    change = change or Intervention()
    with applied(network, [change], [len(ids)]), torch.inference_mode():
        return network.local.model(torch.tensor([ids]), use_cache=False).logits[0]


def masked(length: int, closed: tuple[int, ...]) -> Any:
    """A causal mask in which tokens behind some places do not see these, [1, 1, T, T]."""
    allowed = torch.ones(length, length, dtype=torch.bool).tril()
    for place in closed:
        allowed[place + 1 :, place] = False
    lowest = torch.finfo(torch.float32).min
    return torch.zeros(length, length).masked_fill(~allowed, lowest)[None, None]


@pytest.mark.parametrize(("first", "second"), [((3, 5), ()), ((), (3, 5)), ((3,), (3, 8))])
def test_knocking_out_by_hand(networks: dict[str, Any], first: Any, second: Any) -> None:
    """A Llama of two blocks: embedding, block, block, norm, head, each with its own mask."""
    network = networks["llama"]
    ids = list(sample(network).prompt)[:12]
    change = knock_out(first, [1]).joined(knock_out(second, [2]))
    changed = logits(network, ids, change)
    model = network.local.model.model
    network.local.model.set_attn_implementation("eager")
    with torch.inference_mode():
        stream = model.embed_tokens(torch.tensor([ids]))
        angles = model.rotary_emb(stream, torch.arange(len(ids))[None])
        for block, closed in zip(network.blocks, (first, second), strict=True):
            mask = masked(len(ids), closed)
            stream = block(stream, attention_mask=mask, position_embeddings=angles)
        by_hand = network.local.model.lm_head(model.norm(stream))[0]
    network.local.model.set_attn_implementation("sdpa")
    torch.testing.assert_close(changed, by_hand, rtol=1e-5, atol=1e-5)
    untouched = logits(network, ids)
    begin = min((*first, *second))
    torch.testing.assert_close(changed[: begin + 1], untouched[: begin + 1], rtol=1e-4, atol=1e-4)
    assert not torch.allclose(changed[begin + 1 :], untouched[begin + 1 :], atol=1e-3)


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


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_mask_holds_while_an_answer_is_written(networks: dict[str, Any], name: str) -> None:
    """Answers with a cache are those of whole passes without one, token by token."""
    network = networks[name]
    layers = range(1, len(network.blocks) + 1)
    samples = [sample(network, ROOM), sample(network, CORRIDOR)]
    changes = [knock_out([40, 41, 60], layers), knock_out([50], layers[:1])]
    answers = answer_all(network, samples, changes, tokens=5)
    for taken, change, answer in zip(samples, changes, answers, strict=True):
        ids = list(taken.prompt)
        for token in answer.tokens:
            assert int(logits(network, ids, change)[-1].argmax()) == token
            ids.append(token)
    plain = answer_all(network, samples, tokens=5)
    assert plain == answer_all(network, samples, [Intervention()] * 2, tokens=5)


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


def test_each_row_has_its_own_change(networks: dict[str, Any]) -> None:
    """Rows of a batch are filled up on the left; places count from the prompt's own first token."""
    network = networks["qwen"]
    samples = [sample(network, ROOM), sample(network, CORRIDOR), sample(network, ROOM)]
    vector = 30 * torch.randn(network.width, generator=torch.Generator().manual_seed(1))
    # The end of the longest prompt is not the end of the others.
    last = [len(taken.prompt) - 1 for taken in samples]
    changes = [write(vector, last[:1], [1]), write(vector, last[1:2], [2]), Intervention()]
    together = answer_all(network, samples, changes, tokens=4)
    alone = [
        answer_all(network, [taken], [change], tokens=4)[0]
        for taken, change in zip(samples, changes, strict=True)
    ]
    assert together == alone
    assert together[0] != together[2]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda v: knock_out([0], [0]), "layer 0 is to be masked, expected 1 to 2"),
        (lambda v: write(v, [0], [3]), "layer 3 is to be edited, expected 0 to 2"),
        (lambda v: write(v, [-1], [1]), "token -1 of the prompt is to be edited, expected 0 to 3"),
        (lambda v: knock_out([4], [1]), "token 4 of the prompt is to be masked, expected 0 to 3"),
        (lambda v: ablate(0 * v, [1], [1]), "the direction is zero"),
    ],
)
def test_what_is_refused(networks: dict[str, Any], change: Any, message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        logits(networks["llama"], [5, 6, 7, 8], change(torch.ones(WIDTH)))
