"""Capture the residual stream of recorded decisions, also from an untrained network."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from goalmeter._errors import InvalidFileError, InvalidParameterError, require
from goalmeter._types import FloatArray, IntArray
from goalmeter.representation.activations import Activations, Placed, keep
from goalmeter.representation.network import Network
from goalmeter.representation.nnsight_capture import read_by_nnsight
from goalmeter.representation.replay import Sample
from goalmeter.runs.progress import Tell

if TYPE_CHECKING:
    import torch


# --- Finite ---------------------------------------------------------------------------------------
# A weight that is no number, or a number type that overflows, spoils everything behind it. Layers
# in front of that are finite nevertheless, although the model that they are of answers nothing.


def check_finite_pass(network: Network, sample: Sample) -> None:
    """Replay a decision alone, and look at every layer and at the logits of its last token."""
    if place := _first_not_finite(network, sample):
        _refuse(network, sample, place)


def refuse_rows(network: Network, sample: Sample) -> NoReturn:
    """Say where the numbers of a decision come from that were not finite in a batch."""
    _refuse(network, sample, _first_not_finite(network, sample) or "its rows in a batch")


def _first_not_finite(network: Network, sample: Sample) -> str:
    """The first place at which a number is not finite; "" where all of them are."""
    import torch

    finite: dict[int, bool] = {}

    def see(layer: int, stream: torch.Tensor) -> None:
        finite[layer] = bool(torch.isfinite(stream).all())

    layers = range(len(network.blocks) + 1)
    with network.changed({layer: partial(see, layer) for layer in layers}):
        last = network.forward([sample.ids]).last_hidden_state[:, -1:]
    for layer in layers:
        if not finite[layer]:
            return f"layer {layer}"
    head = network.local.model.get_output_embeddings()
    with torch.inference_mode():
        logits = last if head is None else head(last)
    return "" if torch.isfinite(logits).all() else "the logits"


def _refuse(network: Network, sample: Sample, place: str) -> NoReturn:
    import torch

    weights = network.local.model.state_dict().items()
    # Number types of eight bits cannot be asked themselves.
    spoilt = [name for name, weight in weights if not torch.isfinite(weight.float()).all()]
    dtype = network.pinned["dtype"]
    mend = (
        f"its weights {spoilt[0]} are not finite, so load a copy of it that is whole"
        if spoilt
        else f"they overflow in {dtype}, so save it in a number type of more range"
    )
    raise InvalidFileError(
        f"{network.name} gives numbers that are not finite, first at {place}, for step "
        f"{sample.step} of {sample.walk!r}: {mend}"
    )


# --- Capture --------------------------------------------------------------------------------------
# Layers and positions are chosen before the pass, so what is kept is small: a model of 24 blocks
# and 2,880 numbers a token would write 550 kB a token, and a chain of thought has thousands.

TOKENS_OF_A_BATCH = 8192  # fillings included
# A row in a batch and the same row alone differ by rounding only. Relative to the row's own root
# mean square; a row read at positions that are off by one differs by its whole size.
_TOLERANCE = {"float32": 1e-3, "float64": 1e-6, "bfloat16": 0.1, "float16": 0.05}


def read_by_hooks(
    network: Network,
    rows: Sequence[Sequence[int]],
    layers: Sequence[int],
    see: Callable[[int, torch.Tensor], None],
) -> None:
    """One pass over a batch of rows, which shows the residual stream [B, T, D] of some layers."""
    with network.changed({layer: partial(see, layer) for layer in layers}):
        network.forward(rows)


BACKENDS = {"hooks": read_by_hooks, "nnsight": read_by_nnsight}


def capture(
    samples: Sequence[Sample],
    network: Network,
    folder: str | Path,
    *,
    layers: Sequence[int],
    positions: Sequence[str],
    backend: str = "hooks",
    later: Mapping[Path, Sequence[int]] | None = None,
    progress: Tell | None = None,
) -> Activations:
    """The residual stream at some layers and positions of some decisions, kept in a folder.

    Args:
        samples: the decisions, in the order of the rows.
        network: the model that made them.
        folder: what holds a part of this capture already is completed.
        layers: 0 for the embedding, k for what block k passes on.
        positions: names as `positions.position` knows them.
        backend: one of `BACKENDS`: "hooks" of torch, or "nnsight", which reads the same.
        later: the layers of captures that will follow of the same decisions, positions and number
            type, by folder: this one does not begin if the disk is too small for all of them.
        progress: told now and then how far it is, and before it begins how much disk they take.
    """
    if backend not in BACKENDS:
        raise InvalidParameterError(
            f"backend is {backend!r}, expected one of {', '.join(BACKENDS)}"
        )
    wanted = network.check_layers(layers)
    placed = Placed.of(samples, network.local.tokenizer, positions)
    manifest = {
        "model": network.name,
        "revision": network.revision,
        "layers": list(wanted),
        "width": network.width,
        "backend": backend,
        **network.pinned,
    }

    def fill(part: Placed, arrays: Mapping[tuple[int, str], torch.Tensor]) -> None:
        for batch in _batches(part.samples):
            see = partial(_keep, part, arrays, batch)
            BACKENDS[backend](network, [part.samples[row].ids for row in batch], wanted, see)
            _check_batch(network, part, arrays, batch)

    return keep(
        Path(folder),
        placed,
        manifest,
        fill,
        once=lambda: {"padded_against_single": _difference(network, samples, wanted)},
        progress=progress,
        later=later,
    )


def _keep(
    part: Placed,
    arrays: Mapping[tuple[int, str], torch.Tensor],
    batch: Sequence[int],
    layer: int,
    stream: torch.Tensor,
) -> None:
    """Take the rows of a batch out of the residual stream [B, T, D] of a layer."""
    import torch

    for name in part.widths:
        taken = [(place, row) for place, row in enumerate(batch) if part.places[row][name]]
        if not taken:
            continue
        places, rows = (torch.tensor(each) for each in zip(*taken, strict=True))
        tokens = torch.tensor([part.places[int(row)][name] for row in rows])
        # All rows at once: a copy from an accelerator waits for it.
        arrays[layer, name][rows] = stream[places[:, None], tokens].cpu()


def _check_batch(
    network: Network,
    part: Placed,
    arrays: Mapping[tuple[int, str], torch.Tensor],
    batch: Sequence[int],
) -> None:
    """See that what was taken of a batch is finite; rows that lack a position are NaN."""
    import torch

    for (_, name), array in arrays.items():
        rows = [row for row in batch if part.places[row][name]]
        finite = torch.isfinite(array[rows]).flatten(1).all(dim=1)
        if not finite.all():
            refuse_rows(network, part.samples[rows[int(finite.int().argmin())]])


def _batches(samples: Sequence[Sample]) -> list[list[int]]:
    """Rows of like lengths together, so that little of a batch is filling."""
    order = sorted(range(len(samples)), key=lambda row: len(samples[row].ids))
    batches: list[list[int]] = []
    for row in order:
        # Sorted, so the last row is the longest of its batch.
        fits = batches and (len(batches[-1]) + 1) * len(samples[row].ids) <= TOKENS_OF_A_BATCH
        if fits:
            batches[-1].append(row)
        else:
            batches.append([row])
    return batches


def _difference(network: Network, samples: Sequence[Sample], layers: Sequence[int]) -> float:
    """How far rows of a batch are from the same rows alone, relative to their size."""
    # The shortest beside the longest is filled up most.
    by_length = sorted(range(len(samples)), key=lambda row: len(samples[row].ids))
    pair = [samples[by_length[0]], samples[by_length[-1]]]
    for sample in pair:
        check_finite_pass(network, sample)
    streams: list[torch.Tensor] = []

    def keep(stream: torch.Tensor) -> None:
        streams.append(stream[0, : len(pair[0].ids)].float())

    with network.changed({layers[-1]: keep}):
        network.forward([sample.ids for sample in pair])
        network.forward([pair[0].ids])
    together, alone = streams
    size = alone.square().mean().sqrt()
    difference = float((together - alone).abs().max() / size)
    most = _TOLERANCE.get(network.pinned["dtype"], 0.1)
    if not difference <= most:
        raise InvalidFileError(
            f"{network.name} gives a row in a batch other activations than the same row alone (by "
            f"{difference:.2g} of their size, expected at most {most:g}), so it reads fillings; "
            f"capture with another attention or number type"
        )
    return difference


# --- Untrained ------------------------------------------------------------------------------------
# A probe on a network with random weights reads what the architecture carries along by itself; on
# the embeddings of the same tokens, what these tokens say without any context. What a probe gains
# on a model's activations beyond both is what the model has made of its prompt.
#
# Source: random encoders as controls in Belinkov (2022, "Probing Classifiers", section 4.1) and
# Zhang and Bowman (2018).

RANDOM_WEIGHTS, EMBEDDINGS = "random weights", "embeddings alone"


def untrained(network: Network, *, seed: int) -> Network:
    """A network of the same configuration whose weights are drawn as before any training.

    It has the tokenizer, the number type, the device and the kernels of the trained one, which is
    left as it is; so is the state of torch's random numbers.

    Args:
        network: the trained one.
        seed: of the weights.
    """
    torch = require("torch", extra="lm", feature="A network with random weights")
    transformers = require("transformers", extra="lm", feature="A network with random weights")
    trained = network.local.model
    # The configuration keeps what was chosen for the trained one, its kernels among it.
    config = copy.deepcopy(trained.config)
    # Seeding torch itself would seed every device; weights are drawn on the processor.
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        model = transformers.AutoModelForCausalLM.from_config(
            config, dtype=trained.dtype, attn_implementation=config._attn_implementation
        )
    model.to(trained.device).eval()
    model.generation_config = copy.deepcopy(trained.generation_config)
    local = copy.copy(network.local)
    local.model = model
    return Network(f"{network.name} with random weights (seed {seed})", local)


def alternatives_of(
    activations: Activations,
    layer: int,
    position: str,
    *,
    random: Activations | None = None,
    rows: IntArray | None = None,
) -> dict[str, FloatArray]:
    """Other activations of the same decisions at the same tokens, as `compare` takes them.

    Args:
        activations: of the trained model, captured at layer 0 too: its embedding. Where positions
            are added to words (GPT-2), so they are there.
        layer: of the random network.
        position: whose tokens are looked at.
        random: the same decisions, captured from a network with random weights.
        rows: numbers of the decisions that are looked at; None for all.

    Returns:
        By name, [rows, tokens * D].
    """
    sources = {EMBEDDINGS: activations.at(0, position)}
    if random is not None:
        _check_rows(activations, random)
        sources[RANDOM_WEIGHTS] = random.at(layer, position)
    kept = slice(None) if rows is None else rows
    return {name: source[kept].reshape(len(source[kept]), -1) for name, source in sources.items()}


def _check_rows(activations: Activations, random: Activations) -> None:
    """See that two captures are of the same decisions in the same order."""
    ours, theirs = ([row.digest for row in each.rows] for each in (activations, random))
    if ours != theirs:
        raise InvalidParameterError(
            f"{random.folder} holds {len(theirs)} decisions and {activations.folder} "
            f"{len(ours)}, which are not the same tokens in the same order; capture the same "
            f"decisions with the network of random weights"
        )
