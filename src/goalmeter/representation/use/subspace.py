"""Find the few dimensions of the residual stream that carry a position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import FloatArray
from goalmeter.representation.network import Network
from goalmeter.representation.replay import Located, Sample
from goalmeter.representation.use.answers import answer_all
from goalmeter.representation.use.directions import ridge_directions
from goalmeter.representation.use.interventions import Edit, Intervention, filled
from goalmeter.representation.use.patching import GOAL, PairAnswers, Place, asked_halves, tokens_at
from goalmeter.representation.use.trials import CONFIRM, SCREEN
from goalmeter.statistics.clusters import Estimate

if TYPE_CHECKING:
    import torch


# --- Place probes ---------------------------------------------------------------------------------
# The probe is a ridge regression on the cell, as `learning` has it for walls, at the tokens and
# the layer at which streams are exchanged: an angle between a subspace and directions of another
# layer or of other tokens would compare coordinates that mean different things.

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


# --- Subspace -------------------------------------------------------------------------------------
# Where exchanging the whole stream with that of another question makes the answer follow,
# exchanging
# its components in a subspace may do so too. The subspace is learnt: an orthonormal basis of a
# rank,
# by gradient, so that the model with the exchange gives the other question's answer up to where the
# two answers part. It is learnt on pairs of one half of the grids, and scored on the other half by
# answers that the model writes itself, beside random subspaces of the same rank and beside the
# whole
# stream. Then the angle of a probe's direction with it can be taken, beside random directions': in
# many dimensions a random direction is almost orthogonal to any small subspace.
#
# Source: distributed interchange interventions as in Geiger et al. (2024, arXiv 2303.02536).

CARRIES, NOWHERE, UNKNOWN = "carries it", "nothing here carries it", "cannot be told"
# Where the whole stream makes fewer answers follow, by the end of its interval, there is no
# subspace to be sought.
LEAST = 0.5
_CHANCE_DRAWS = 400


@dataclass(frozen=True)
class Angle:
    """The smallest principal angle between directions and a subspace, in degrees.

    Attributes:
        degrees: of the directions that were asked about.
        chance: the 2.5th, 50th and 97.5th percentile of as many random directions.
    """

    degrees: float
    chance: tuple[float, float, float]

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {"degrees": self.degrees, "chance": list(self.chance)}


@dataclass(frozen=True, eq=False)
class Subspace:
    """A subspace that was learnt at one place.

    Attributes:
        kind: what moved between the questions.
        place: one layer, and the tokens.
        basis: orthonormal, [D, rank].
        trained: pairs that it was learnt on.
        losses: nats a pair of the other question's answer, before and after learning.
        flips: share of the second half's pairs whose move follows an exchange within the subspace.
        random_flips: the same with random subspaces of the same rank.
        whole_flips: the same with the whole stream.
    """

    kind: str
    place: Place
    basis: FloatArray
    trained: int
    losses: tuple[float, float]
    flips: Estimate
    random_flips: Estimate
    whole_flips: Estimate

    @property
    def verdict(self) -> str:
        """Whether the subspace carries what moved.

        "carries it" if the interval of its flips lies above that of random subspaces; "nothing
        here carries it" if even the whole stream makes fewer than `LEAST` of the moves follow.
        """
        ours, chance, whole = (
            each.interval for each in (self.flips, self.random_flips, self.whole_flips)
        )
        if whole is not None and whole[1] < LEAST:
            return NOWHERE
        return CARRIES if ours is not None and chance and ours[0] > chance[1] else UNKNOWN

    def angle(self, directions: FloatArray, *, seed: int = 0) -> Angle:
        """The angle of a probe's directions with the subspace.

        Args:
            directions: one [D] or several [D, m], of any length; in the units of the stream, so
                those of a probe of standardised activations are first divided by their spread.
            seed: of the random ones.
        """
        columns = np.asarray(directions, float).reshape(len(directions), -1)
        if len(columns) != len(self.basis) or np.linalg.matrix_rank(columns) < columns.shape[1]:
            raise InvalidParameterError(
                f"directions are {np.shape(directions)}, expected independent columns of "
                f"{len(self.basis)} numbers, as the stream has"
            )
        rng = np.random.default_rng(seed)
        chance = [
            _degrees(self.basis, rng.normal(size=columns.shape)) for _ in range(_CHANCE_DRAWS)
        ]
        low, middle, high = np.percentile(chance, [2.5, 50, 97.5]).tolist()
        return Angle(_degrees(self.basis, columns), (low, middle, high))

    def to_json(self) -> dict[str, Any]:
        """A row of `use`: the fields as JSON values, without the basis."""
        return {
            "intervention": f"interchange, {self.kind} moved",
            "layer": self.place.label,
            "position": self.place.position,
            "rank": self.basis.shape[1],
            "cells": self.flips.n,
            "trained": self.trained,
            "losses": list(self.losses),
            "flips": self.flips.to_json(),
            "null_flips": self.random_flips.to_json(),
            "whole_flips": self.whole_flips.to_json(),
            "verdict": self.verdict,
        }


def subspace(
    samples: Sequence[Sample],
    network: Network,
    *,
    layer: int,
    position: str = "pre/goal",
    kind: str = GOAL,
    rank: int = 4,
    steps: int = 60,
    salt: str = "0",
    seed: int = 0,
) -> Subspace:
    """Learn the subspace of a rank that carries what moved, and score it.

    Args:
        samples: decisions whose prompts are asked again.
        network: the model.
        layer: at which streams are exchanged.
        position: the tokens, by name.
        kind: what moves: "goal", "agent" or "isometry".
        rank: dimensions of the subspace.
        steps: of the gradient.
        salt: of the split into halves; it is learnt on the first and scored on the second.
        seed: of where learning begins, and of the random subspaces.
    """
    network.check_layers([layer])
    if not 1 <= rank < network.width:
        raise InvalidParameterError(
            f"the subspace is to have rank {rank}, expected 1 to {network.width - 1}: the stream "
            f"has {network.width} numbers"
        )
    place = Place(position, (layer,), layer)
    tokens_at(position)
    halves = asked_halves(network, samples, kind, salt, seed)
    lesson = _Lesson.of(network, halves[SCREEN], place)
    basis, losses = _learnt(network, lesson, layer, rank, steps, seed)
    asked = halves[CONFIRM]
    rng = np.random.default_rng([seed, rank])

    def within(basis: FloatArray | None, number: int) -> Intervention | None:
        rows = basis if basis is not None else _orthonormal(rng.normal(size=(network.width, rank)))
        return _exchanged(asked, number, place, rows)

    return Subspace(
        kind,
        place,
        basis,
        len(lesson.rows),
        losses,
        asked.followed(asked.moves(asked.apart, lambda number: within(basis, number))),
        asked.followed(asked.moves(asked.apart, lambda number: within(None, number))),
        asked.followed(asked.moves(asked.apart, lambda number: asked.patched(number, place))),
    )


@dataclass(frozen=True, eq=False)
class _Lesson:
    """What a subspace is learnt from.

    Attributes:
        rows: tokens of each question, with the other one's answer up to where the two part.
        forced: how many of them are the answer's.
        places: (row, token) of each exchange.
        donors: what is exchanged there, [places, D].
    """

    rows: tuple[tuple[int, ...], ...]
    forced: tuple[int, ...]
    places: tuple[tuple[int, int], ...]
    donors: torch.Tensor

    @classmethod
    def of(cls, network: Network, asked: PairAnswers, place: Place) -> _Lesson:
        import torch

        others = answer_all(network, [asked.pairs[n].donor.sample for n in asked.apart])
        rows: list[tuple[int, ...]] = []
        places: list[tuple[int, int]] = []
        forced, donors = [], []
        for number, other in zip(asked.apart, others, strict=True):
            pair, tokens = asked.pairs[number], asked.tokens(number, place)
            told = _until_they_part(asked.answer(number), other.tokens)
            if not told or not tokens:
                continue
            stream = asked.streams(pair.donor.sample.prompt, place)[place.layers[0]]
            places += [(len(rows), token) for token in tokens]
            donors.append(stream[list(tokens)])
            rows.append((*pair.located.sample.prompt, *told))
            forced.append(len(told))
        if not rows:
            raise InvalidParameterError(
                f"no question of the screen half has tokens at {place.position!r} and another "
                f"answer with what moved; take more grids or another position"
            )
        # A copy: what is made in inference mode cannot be learnt from.
        return cls(tuple(rows), tuple(forced), tuple(places), torch.cat(donors).clone())


def _learnt(
    network: Network, lesson: _Lesson, layer: int, rank: int, steps: int, seed: int
) -> tuple[FloatArray, tuple[float, float]]:
    """An orthonormal basis [D, rank], and the losses with the first and the last."""
    import torch

    model = network.local.model
    inputs = filled(lesson.rows, model.device)
    longest = inputs["input_ids"].shape[1]
    rows = torch.tensor([row for row, _ in lesson.places])
    columns = torch.tensor([longest - len(lesson.rows[row]) + at for row, at in lesson.places])
    keep = max(lesson.forced) + 1
    told = inputs["input_ids"][:, -keep + 1 :]
    counted = torch.tensor(
        [[place >= keep - 1 - n for place in range(keep - 1)] for n in lesson.forced],
        device=told.device,
    )
    start = torch.randn(network.width, rank, generator=torch.Generator().manual_seed(seed))
    free = torch.nn.Parameter(start.to(model.device))
    optimiser = torch.optim.Adam([free], lr=0.03)
    losses = []
    for step in range(steps + 1):
        basis = torch.linalg.qr(free)[0]

        def exchange(stream: torch.Tensor, basis: torch.Tensor = basis) -> torch.Tensor:
            before = stream[rows, columns]
            along = basis.to(stream)
            changed = stream.clone()
            changed[rows, columns] = before + (lesson.donors.to(stream) - before) @ along @ along.T
            return changed

        with network.changed({layer: exchange}):
            logits = model(**inputs, use_cache=False, logits_to_keep=keep).logits[:, :-1].float()
        nats = -logits.log_softmax(dim=-1).gather(2, told[..., None])[..., 0]
        loss = (nats * counted).sum() / len(lesson.rows)
        losses.append(float(loss.detach()))
        if step < steps:
            # Of the basis alone: the model stays as it is.
            (free.grad,) = torch.autograd.grad(loss, [free])
            optimiser.step()
    final = torch.linalg.qr(free.detach().double())[0]
    return final.cpu().numpy(), (losses[0], losses[-1])


def _exchanged(
    asked: PairAnswers, number: int, place: Place, basis: FloatArray
) -> Intervention | None:
    """The components of the other question's stream within a subspace, in place of this one's."""
    import torch

    tokens = asked.tokens(number, place)
    if not tokens:
        return None
    (layer,) = place.layers
    stream = asked.streams(asked.pairs[number].donor.sample.prompt, place)[layer]
    along = torch.from_numpy(basis)

    def toward(donor: torch.Tensor) -> Edit:
        def edit(own: torch.Tensor) -> torch.Tensor:
            onto = along.to(own)
            return own + onto @ (onto.T @ (donor.to(own) - own))

        return edit

    return Intervention(edits={layer: {token: toward(stream[token]) for token in tokens}})


def _until_they_part(ours: Sequence[int], other: Sequence[int]) -> tuple[int, ...]:
    """The other answer up to and with its first token that is not ours; none if there is none."""
    for place, token in enumerate(other):
        if place >= len(ours) or token != ours[place]:
            return tuple(other[: place + 1])
    return ()


def _orthonormal(columns: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.qr(columns)[0])


def _degrees(basis: FloatArray, columns: FloatArray) -> float:
    cosines = np.linalg.svd(basis.T @ _orthonormal(columns), compute_uv=False)
    return float(np.degrees(np.arccos(np.clip(cosines[0], 0.0, 1.0))))
