"""Along which directions a probe tells where the goal or the agent is, in a stream at one place.

The probe is a ridge regression on the cell, as `learning` has it for walls, at the tokens and the
layer at which streams are exchanged: an angle between a subspace and directions of another layer or
of other tokens would compare coordinates that mean different things.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.representation.network import Network
from goalmeter.representation.positions import Located
from goalmeter.representation.replay import Sample
from goalmeter.representation.use.learning import ridge_directions
from goalmeter.representation.use.moving import GOAL
from goalmeter.representation.use.pair_answers import Place, tokens_at

# Directions whose part is smaller than this are rounding.
_LEAST = 1e-6


def place_directions(
    samples: Sequence[Sample], network: Network, place: Place, kind: str, most: int
) -> FloatArray | None:
    """The directions of a probe's weights: one a cell that it tells, less one, [D, m].

    Args:
        samples: decisions that the probe is fitted to.
        network: the model.
        place: one layer, and the tokens; of several tokens their mean is read.
        kind: "goal" or "agent": whose cell is told.
        most: directions at most; where there are more, those along which weights differ most.

    Returns:
        m orthonormal columns, those that matter most first; None if there is nothing to be told.
    """
    (layer,) = place.layers
    where = tokens_at(place.position)
    rows, cells = [], []
    for sample in samples:
        tokens = where(Located(sample, network.local.tokenizer))
        if tokens:
            stream = network.streams(sample.prompt, [layer])[layer][list(tokens)]
            rows.append(stream.double().mean(dim=0).cpu().numpy())
            cells.append(sample.world.goal if kind == GOAL else sample.state.cell)
    names = sorted(set(cells))
    if len(names) < 2:
        return None
    labels = np.array([[cell == name for name in names] for cell in cells])
    found = [each for each in ridge_directions(np.array(rows), labels) if each is not None]
    if not found:
        return None
    left, sizes, _ = np.linalg.svd(np.stack([e.vector(1.0) for e in found], axis=1))
    # The weights of all cells sum to zero, so that there are fewer directions than cells.
    count = int((sizes > _LEAST * sizes[0]).sum())
    return np.asarray(left[:, : min(count, most)])
