"""Replay recorded decisions through their model, and keep the residual stream at chosen places.

Layers and positions are chosen before the pass, so what is kept is small: a model of 24 blocks and
2,880 numbers a token would write 550 kB a token, and a chain of thought has thousands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from goalmeter._errors import InvalidFileError, InvalidParameterError
from goalmeter.representation.activations import Activations
from goalmeter.representation.finite import check_finite_pass, refuse_rows
from goalmeter.representation.keeping import Placed, keep
from goalmeter.representation.network import Network
from goalmeter.representation.nnsight_capture import read_by_nnsight
from goalmeter.representation.replay import Sample
from goalmeter.runs.progress import Tell

if TYPE_CHECKING:
    import torch

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
