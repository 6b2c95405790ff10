"""Find the few dimensions of the residual stream that carry a position.

Where exchanging the whole stream with that of another question makes the answer follow, exchanging
its components in a subspace may do so too. An orthonormal basis of a given rank is learnt by
gradient on one half of the grids, so that the model with the exchange gives the other question's
answer up to where the two answers part. It is scored on the other half by answers that the model
writes itself, compared with random subspaces of the same rank and with the whole stream.

Source: distributed interchange interventions as in Geiger et al. (2024, arXiv 2303.02536).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import FloatArray
from goalmeter.representation.network import Network, padded
from goalmeter.representation.replay import Located, Sample
from goalmeter.representation.result_rows import SubspaceRow
from goalmeter.representation.use.answers import answer_all
from goalmeter.representation.use.directions import ridge_directions
from goalmeter.representation.use.interventions import Edit, Intervention
from goalmeter.representation.use.patching import GOAL, PairAnswers, StreamPlace
from goalmeter.representation.use.trials import CONFIRM, SCREEN

if TYPE_CHECKING:
    import torch

CARRIES, NOWHERE, UNKNOWN = "carries it", "nothing here carries it", "cannot be told"
# If fewer moves follow the whole stream, by the end of the interval, there is no such subspace.
LEAST = 0.5
_CHANCE_DRAWS = 400
# Directions with a smaller part than this are rounding.
_LEAST_PART = 1e-6


def place_directions(
    samples: Sequence[Sample], network: Network, place: StreamPlace, kind: str, most: int
) -> FloatArray | None:
    """Return the directions of a ridge probe of the cell of the goal or the agent, [D, m].

    At most `most` orthonormal columns, those along which weights differ most first; None if the
    samples have one cell only.
    """
    # Directions of another place than that of the exchange have coordinates of another meaning.
    (layer,) = place.layers
    rows, cells = [], []
    for sample in samples:
        if tokens := place.tokens(Located(sample, network.local.tokenizer)):
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
    # The weights of all cells sum to zero, so there are fewer directions than cells.
    count = int((sizes > _LEAST_PART * sizes[0]).sum())
    return np.asarray(left[:, : min(count, most)])


def angle(
    basis: FloatArray, directions: FloatArray, *, seed: int = 0
) -> tuple[float, tuple[float, ...]]:
    """Return the smallest principal angle of directions [D] or [D, m] with a subspace, in degrees.

    With it come the 2.5th, 50th and 97.5th percentile for as many random directions, which in many
    dimensions are almost orthogonal to any small subspace.
    """
    columns = np.asarray(directions, float).reshape(len(directions), -1)
    rng = np.random.default_rng(seed)

    def degrees(columns: FloatArray) -> float:
        cosines = np.linalg.svd(basis.T @ np.linalg.qr(columns)[0], compute_uv=False)
        return float(np.degrees(np.arccos(np.clip(cosines[0], 0.0, 1.0))))

    chance = [degrees(rng.normal(size=columns.shape)) for _ in range(_CHANCE_DRAWS)]
    return degrees(columns), tuple(np.percentile(chance, [2.5, 50, 97.5]).tolist())


def subspace(
    network: Network,
    halves: Mapping[str, PairAnswers],
    place: StreamPlace,
    *,
    rank: int = 4,
    steps: int = 60,
    seed: int = 0,
) -> tuple[SubspaceRow, FloatArray]:
    """Learn a basis [D, rank] of what carries what moved at a layer, and score it."""
    examples = _examples(network, halves[SCREEN], place)
    basis, losses = _learn(network, examples, place.layers[0], rank, steps, seed)
    scored = halves[CONFIRM]
    rng = np.random.default_rng([seed, rank])

    def random_exchange(number: int) -> Intervention | None:
        random = np.linalg.qr(rng.normal(size=(network.width, rank)))[0]
        return _exchange(scored, place, random, number)

    flips = scored.followed(partial(_exchange, scored, place, basis))
    random_flips = scored.followed(random_exchange)
    whole_flips = scored.followed(partial(scored.patched, place))
    ours, chance, whole = (each.interval for each in (flips, random_flips, whole_flips))
    verdict = CARRIES if ours is not None and chance and ours[0] > chance[1] else UNKNOWN
    row = SubspaceRow(
        half=CONFIRM,
        moved=scored.kind,
        layer=place.layers[0],
        position=place.position,
        rank=rank,
        trained=len(examples),
        losses=losses,
        pairs=flips.n,
        flips=flips,
        random_flips=random_flips,
        whole_flips=whole_flips,
        verdict=NOWHERE if whole is not None and whole[1] < LEAST else verdict,
        degrees=None,
        chance=(),
    )
    return row, basis


class _Example(NamedTuple):
    """A question with the other one's answer up to where the two part, and their exchange."""

    ids: tuple[int, ...]
    forced: int  # number of tokens of the answer
    tokens: tuple[int, ...]
    donors: torch.Tensor  # [tokens, D]


def _examples(network: Network, pairs: PairAnswers, place: StreamPlace) -> list[_Example]:
    others = answer_all(network, [pairs.pairs[n].donor.sample for n in pairs.apart])
    out = []
    for number, other in zip(pairs.apart, others, strict=True):
        tokens, ours = pairs.tokens(place, number), pairs.sweep.bases[number].tokens
        # Up to and including the first token that differs; no example if none does.
        differs = (n for n, token in enumerate(other.tokens) if ours[n : n + 1] != (token,))
        forced = next(differs, -1) + 1
        if forced and tokens:
            ids = (*pairs.pairs[number].located.sample.prompt, *other.tokens[:forced])
            donors = pairs.donor_stream(place, number)[list(tokens)]
            out.append(_Example(ids, forced, tokens, donors))
    if not out:
        raise InvalidParameterError(
            f"no question of the screen half has tokens at {place.position!r} and another "
            f"answer with what moved; take more grids or another position"
        )
    return out


def _learn(
    network: Network, examples: Sequence[_Example], layer: int, rank: int, steps: int, seed: int
) -> tuple[FloatArray, tuple[float, float]]:
    """An orthonormal basis [D, rank], and the first and the last loss."""
    import torch

    model = network.local.model
    inputs = padded([each.ids for each in examples], model.device, left=True)
    longest = inputs["input_ids"].shape[1]
    rows = torch.tensor([row for row, each in enumerate(examples) for _ in each.tokens])
    columns = torch.tensor([longest - len(e.ids) + token for e in examples for token in e.tokens])
    # A copy, since tensors made in inference mode have no gradient.
    donors = torch.cat([each.donors for each in examples]).clone()
    keep = max(each.forced for each in examples) + 1
    target = inputs["input_ids"][:, -keep + 1 :]
    counted = torch.tensor(
        [[place >= keep - 1 - each.forced for place in range(keep - 1)] for each in examples],
        device=target.device,
    )
    start = torch.randn(network.width, rank, generator=torch.Generator().manual_seed(seed))
    free = torch.nn.Parameter(start.to(model.device))
    optimizer = torch.optim.Adam([free], lr=0.03)
    losses = []
    for step in range(steps + 1):
        basis = torch.linalg.qr(free)[0]

        def exchange(stream: torch.Tensor, basis: torch.Tensor = basis) -> torch.Tensor:
            before = stream[rows, columns]
            along = basis.to(stream)
            changed = stream.clone()
            changed[rows, columns] = before + (donors.to(stream) - before) @ along @ along.T
            return changed

        with network.changed({layer: exchange}):
            logits = model(**inputs, use_cache=False, logits_to_keep=keep).logits[:, :-1].float()
        nats = -logits.log_softmax(dim=-1).gather(2, target[..., None])[..., 0]
        loss = (nats * counted).sum() / len(examples)
        losses.append(float(loss.detach()))
        if step < steps:
            # The gradient of the basis alone: the model stays unchanged.
            (free.grad,) = torch.autograd.grad(loss, [free])
            optimizer.step()
    final = torch.linalg.qr(free.detach().double())[0]
    return final.cpu().numpy(), (losses[0], losses[-1])


def _exchange(
    pairs: PairAnswers, place: StreamPlace, basis: FloatArray, number: int
) -> Intervention | None:
    """Replace the components within a subspace by those of the other question's stream."""
    import torch

    (layer,) = place.layers
    tokens, stream = pairs.tokens(place, number), pairs.donor_stream(place, number)
    along = torch.from_numpy(basis)

    def edit(token: int) -> Edit:
        def toward(own: torch.Tensor) -> torch.Tensor:
            onto = along.to(own)
            return own + onto @ (onto.T @ (stream[token].to(own) - own))

        return Edit(token, layer, toward)

    return Intervention(edits=tuple(map(edit, tokens))) if tokens else None
