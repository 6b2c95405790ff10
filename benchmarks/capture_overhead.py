"""Capturing activations takes about as long as a plain forward pass over the same rows.

Decisions of the mouse in mazes of size 7, prompt and answer, and the same rows read by a Llama with
random weights that is an order of magnitude larger. Three ways, in turns in one process:

* plain: `model(...)` of transformers, batch by batch, nothing kept;
* all states: the same with `output_hidden_states=True`, of which the tokens are taken afterwards;
* capture: `gm.representation.capture`, the whole call: tokens are found in each row, the weights
  are hashed, a batch is compared with a single row, and shards are written.

Two layers and two positions (six tokens) are stored. The batches are the same for all: rows of
similar lengths, at most 8192 tokens. "Once" is the fixed cost of a capture: it hashes the weights
and reads three more rows, to compare two in a batch with one alone. Peak memory is that of a
process for each way, above what it held before.
"""

from __future__ import annotations

import multiprocessing
import resource
import tempfile
from dataclasses import replace
from typing import Any

import harness

from goalmeter.gridworld.planner import State
from goalmeter.navigation import suite
from goalmeter.navigation.prompts import template
from goalmeter.representation.activations import batches, capture, padding_difference, shards_of
from goalmeter.representation.network import Network, padded
from goalmeter.representation.replay import Sample
from goalmeter.representation.use.interventions import answer_all

POSITIONS = ["pre/end", "post/end"]
WAYS = ("plain", "all states", "capture")
LARGER = {"hidden_size": 512, "intermediate_size": 1536, "num_hidden_layers": 8}


def rows_of_the_mouse(grids: int) -> list[Sample]:
    """First decisions of the mouse, as a run would have recorded them."""
    network = Network.open("goalmeter/mouse")
    asked = []
    for task in suite("maze", sizes=[7], complexities=[0.6], grids=grids).tasks:
        question = template("compact/2").prompt(task.world, State(task.world.start))
        ids = network.local.ids([{"role": "user", "content": question}])
        state = State(task.world.start)
        asked.append(Sample(task.name, 0, task.world, state, None, (), question, ids, ()))
    answers = answer_all(network, asked)
    return [
        replace(sample, answer=each.tokens) for sample, each in zip(asked, answers, strict=True)
    ]


def larger(network: Network) -> Network:
    """A Llama with random weights and the mouse's tokenizer."""
    import copy

    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    words = network.local.tokenizer
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(words), num_attention_heads=8, max_position_embeddings=4096, **LARGER
    )
    local = copy.copy(network.local)
    local.model = LlamaForCausalLM(config).eval()
    return Network("random", local)


def passes(network: Network, samples: list[Sample], layers: list[int], states: bool) -> None:
    """Plain passes of transformers, with or without all hidden states."""
    import torch

    shards = shards_of(samples, network.local.tokenizer, POSITIONS) if states else []
    places = [at for shard in shards for at in shard.places]
    kept = []
    for batch in batches(samples):
        inputs = padded([samples[row].ids for row in batch], network.local.model.device)
        with torch.inference_mode():
            out = network.local.model(**inputs, use_cache=False, output_hidden_states=states)
        if states:
            for place, row in enumerate(batch):
                for tokens in places[row].values():
                    kept += [out.hidden_states[k][place, list(tokens)].clone() for k in layers]


def call(way: str, network: Network, samples: list[Sample]) -> None:
    layers = [0, len(network.blocks) - 1]
    if way != "capture":
        passes(network, samples, layers, states=way == "all states")
        return
    with tempfile.TemporaryDirectory() as folder:
        # Another object, which has not hashed its weights yet.
        fresh = Network(network.name, network.local)
        capture(samples, fresh, folder, layers=layers, positions=POSITIONS)


def peak(way: str, samples: list[Sample], size: str) -> float:
    """MiB that a process takes for one way, above what it held with the model loaded."""
    import torch

    torch.set_num_threads(1)
    network = _network(size)
    passes(network, samples[:1], [0], states=False)  # what a first pass loads
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    call(way, network, samples)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def _network(size: str) -> Network:
    mouse = Network.open("goalmeter/mouse")
    return mouse if size == "mouse" else larger(mouse)


def timed(size: str, samples: list[Sample], times: int) -> dict[str, Any]:
    """Seconds of each way, and of parts of a capture."""
    import torch

    torch.set_num_threads(1)
    network = _network(size)
    seconds = harness.interleaved(
        [lambda way=way: call(way, network, samples) for way in WAYS], times
    )
    fresh = Network(network.name, network.local)
    once = [
        lambda: shards_of(samples, network.local.tokenizer, POSITIONS),
        lambda: padding_difference(network, samples, [len(network.blocks) - 1]),
        lambda: fresh.revision,
    ]
    finding, comparing, hashing = (harness.interleaved([c], 1, warm_up=False)[0] for c in once)
    return {
        "model": size,
        "parameters": sum(w.numel() for w in network.local.model.parameters()),
        "rows": len(samples),
        "tokens": sum(len(sample.ids) for sample in samples),
        "seconds": dict(zip(WAYS, seconds, strict=True)),
        "finding_seconds": finding,
        "once_seconds": comparing + hashing,
    }


def measure(quick: bool) -> dict[str, Any]:
    sizes = {"mouse": 2} if quick else {"mouse": 96, "larger": 64}
    # A process each, so that the peak of one is not that of the next, nor that of this one. They
    # are forked from a process that has read no model, and has imported what takes seconds.
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(["__main__", "transformers.models.llama.modeling_llama"])
    rows = []
    with server.Pool(1, maxtasksperchild=1) as pool:
        samples = pool.apply(rows_of_the_mouse, (max(sizes.values()),))
        for size, count in sizes.items():
            part = samples[:count]
            memory = {way: pool.apply(peak, (way, part, size)) for way in WAYS}
            rows.append(pool.apply(timed, (size, part, 1 if quick else 3)) | {"memory_mib": memory})
    return {"rows": rows, "positions": POSITIONS}


def markdown(result: dict[str, Any]) -> str:
    header = ["model", "rows", "tokens"]
    header += [
        *WAYS,
        "capture / plain",
        "of it finding tokens",
        "once",
        *(f"peak, {way}" for way in WAYS),
    ]
    return harness.table(
        header,
        [
            [
                f"{row['model']}, {row['parameters'] / 1e6:.1f} million weights",
                str(row["rows"]),
                f"{row['tokens']:,}",
                *(harness.short(row["seconds"][way]) for way in WAYS),
                f"{row['seconds']['capture'] / row['seconds']['plain']:.2f}",
                harness.short(row["finding_seconds"]),
                harness.short(row["once_seconds"]),
                *(f"{row['memory_mib'][way]:.0f} MiB" for way in WAYS),
            ]
            for row in result["rows"]
        ],
    )


if __name__ == "__main__":
    harness.run(__file__, __doc__, measure, markdown)
