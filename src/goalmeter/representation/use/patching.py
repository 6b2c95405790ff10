"""Patch activations between questions that differ in the position of the goal or of the agent.

The residual stream of one question replaces that of another, which differs in the moved object, at
some tokens and layers. A move follows the patch if it is correct only in the other question; if the
same moves are correct in both, nothing should change. The null is the stream of an unrelated
question. Places are screened on one half of the grids and scored on the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isnan
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import FloatArray
from goalmeter.gridworld.conversions import compact, rendered
from goalmeter.gridworld.generators import Draws
from goalmeter.gridworld.planner import State, planned
from goalmeter.gridworld.world import REFLECT, ROTATE, GridWorld, content
from goalmeter.report.numbers import percent
from goalmeter.representation.network import Network, padded
from goalmeter.representation.replay import BEFORE, Located, Sample, position
from goalmeter.representation.result_rows import MovedRow, SubspaceRow
from goalmeter.representation.scenes import mean_over_grids
from goalmeter.representation.use.directions import ridge_directions
from goalmeter.representation.use.interventions import (
    AnswerSweep,
    Edit,
    Intervention,
    answer_all,
    patch,
)
from goalmeter.representation.use.trials import (
    CONFIRM,
    HALVES,
    SCREEN,
    donor_streams,
    half_of,
    windows_of,
)
from goalmeter.runs.progress import Tell
from goalmeter.statistics.clusters import Estimate

if TYPE_CHECKING:
    import torch

# Moved objects: the goal or the agent to another open cell, or the whole grid (rotated, mirrored).
KINDS = GOAL, AGENT, ISOMETRY = ("goal", "agent", "isometry")
# Relation of the sets of first moves of shortest paths in the two questions.
_RELATIONS = SAME, OVERLAPPING, DISJOINT = ("same", "overlapping", "disjoint")
# All tokens of the prompt; at layer 0 this is the other question itself, the ceiling.
EVERY_TOKEN = "pre/all"
# Returns the intervention for a pair, by its number; None if it is impossible.
PairChange = Callable[[int], Intervention | None]


class QuestionPair(NamedTuple):
    """Question, another one with a moved object, and the relation of their correct moves."""

    located: Located
    donor: Located
    relation: str

    @property
    def grid(self) -> str:
        """Content of the grid."""
        return content(self.located.sample.world)


def pairs(network: Network, sample: Sample, kind: str, seed: int) -> list[QuestionPair]:
    """Draw one pair with prompts of equal length for each relation that occurs."""
    if network.prompt_ids(sample.question) != sample.prompt:
        return []
    sample = replace(sample, optimal=planned(sample.world).optimal_actions(sample.state))
    moved_states = list(_moved_states(sample, kind))
    Draws("moved", kind, seed, sample.walk, sample.step).shuffle(moved_states)
    tokenizer = network.local.tokenizer
    found: dict[str, QuestionPair] = {}
    for world, state in moved_states:
        moves = planned(world).optimal_actions(state)
        shared = set(sample.optimal) & set(moves)
        alike = set(sample.optimal) == set(moves)
        relation = SAME if alike else OVERLAPPING if shared else DISJOINT
        if relation in found:
            continue
        question = _question(sample, world, state)
        prompt = network.prompt_ids(question) if question else ()
        if len(prompt) == len(sample.prompt):
            donor = replace(
                sample, world=world, state=state, optimal=moves, question=question, prompt=prompt
            )
            located = Located(sample, tokenizer)
            found[relation] = QuestionPair(located, Located(donor, tokenizer), relation)
    return [found[relation] for relation in _RELATIONS if relation in found]


def _moved_states(sample: Sample, kind: str) -> Iterator[tuple[GridWorld, State]]:
    world, state = sample.world, sample.state
    if kind == ISOMETRY:
        turned, at = world, state
        for number in range(1, 8):
            turn = REFLECT if number == 4 else ROTATE
            turned, at = turn(turned), State(turn.cell(at.cell, turned.shape), at.layer)
            yield turned, at
        return
    occupied = {world.goal, state.cell, world.start, world.key, world.door, world.neutral}
    for cell in world.open_cells:
        if cell in occupied:
            continue
        to = (world, State(cell, state.layer)) if kind == AGENT else (world.with_(goal=cell), state)
        if planned(to[0]).optimal_actions(to[1]):
            yield to


def _question(sample: Sample, world: GridWorld, state: State) -> str:
    """Return the question of a sample with the drawing of another state; "" if it has none."""
    for drawing in (rendered, compact):
        before = drawing(sample.world, sample.state)
        if before in sample.question:
            begin, _, end = sample.question.rpartition(before)
            return begin + drawing(world, state) + end
    return ""


@dataclass(frozen=True)
class StreamPlace:
    """Place of an exchange of streams: name of the tokens, layers, and their label."""

    position: str
    layers: tuple[int, ...]
    label: int | str

    def tokens(self, located: Located) -> tuple[int, ...]:
        """Return the tokens of a prompt."""
        if self.position == EVERY_TOKEN:
            return tuple(range(len(located.sample.prompt)))
        found = position(self.position)
        if not self.position.startswith(f"{BEFORE}/"):
            raise InvalidParameterError(
                f"streams are exchanged at {self.position!r}, expected tokens of the prompt such "
                f"as {BEFORE}/goal, since the answers to two questions differ"
            )
        return found(located)


def stream_places(
    network: Network, positions: Sequence[str], layers: Sequence[int]
) -> list[StreamPlace]:
    """Return the places at some positions: single layers, and windows of several layers."""
    all_layers, single = range(len(network.blocks) + 1), network.check_layers(layers)
    windows: list[tuple[int | str, tuple[int, ...]]] = [(layer, (layer,)) for layer in single]
    # Exchanging the differing word before any block reads it equals the other question, so windows
    # contain layer 0 only if it is requested.
    windows += windows_of(all_layers if 0 in single else all_layers[1:])
    return [StreamPlace(name, window, label) for name in positions for label, window in windows]


class PairAnswers:
    """Answers to pairs of questions by number, unchanged and under patches."""

    def __init__(
        self, network: Network, kind: str, listed: Sequence[QuestionPair], seed: int
    ) -> None:
        self.kind, self.pairs, self._seed = kind, list(listed), seed
        samples = [pair.located.sample for pair in listed]
        self.sweep = AnswerSweep(network, samples, answer_all(network, samples))
        self._read = donor_streams(network)
        # Pairs with a wrong unchanged answer are excluded: they have no correct move to change.
        right = [
            (pair.relation, number)
            for number, (pair, base) in enumerate(zip(listed, self.sweep.bases, strict=True))
            if base.action in pair.located.sample.optimal
        ]
        self.apart = [number for relation, number in right if relation == DISJOINT]
        self.same = [number for relation, number in right if relation == SAME]

    def tokens(self, place: StreamPlace, number: int) -> tuple[int, ...]:
        """Return the exchanged tokens: those of the position in either question."""
        pair = self.pairs[number]
        return tuple(sorted({*place.tokens(pair.located), *place.tokens(pair.donor)}))

    def donor_stream(self, place: StreamPlace, number: int) -> Any:
        """Return the stream of the other question at the first layer of a place, [T, D]."""
        layer, *_ = place.layers
        return self._read(self.pairs[number].donor.sample.prompt)[layer]

    def patched(self, place: StreamPlace, number: int) -> Intervention | None:
        """Return a patch with the other question's stream; None if the position does not occur."""
        tokens, donor = self.tokens(place, number), self.pairs[number].donor
        return self._patch(place, donor, tokens, tokens) if tokens else None

    def _patch(
        self, place: StreamPlace, donor: Located, there: Sequence[int], tokens: Sequence[int]
    ) -> Intervention:
        streams = self._read(donor.sample.prompt)
        return patch({k: streams[k][list(there)] for k in place.layers}, tokens)

    def patched_from_another(self, place: StreamPlace, number: int) -> Intervention | None:
        """Return a patch with the stream of a random question in another grid, the null."""
        tokens, grid = self.tokens(place, number), self.pairs[number].grid
        others = [other.located for other in self.pairs if other.grid != grid]
        Draws("another question", self._seed, number, self.kind).shuffle(others)
        for other in others:
            # Prompts end with the same words, so the last tokens correspond.
            there = sorted(place.tokens(other))[-len(tokens) :]
            if tokens and len(there) == len(tokens):
                return self._patch(place, other, there, tokens)
        return None

    def shares(self, numbers: Sequence[int], change: PairChange) -> list[Estimate]:
        """Return shares of moves that are correct in the other question, wrong, and invalid."""
        changes = {n: change_of_pair for n in numbers if (change_of_pair := change(n)) is not None}
        mean = partial(mean_over_grids, grids=[self.pairs[n].grid for n in changes])
        moves = [
            (answer.action, self.pairs[n].donor.sample.optimal)
            for n, answer in self.sweep.answers(changes).items()
        ]
        wrong = [move is not None and move not in right for move, right in moves]
        follow, invalid = (
            [move in right for move, right in moves],
            [move is None for move, _ in moves],
        )
        return [mean(each) for each in (follow, wrong, invalid)]

    def row(self, half: str, place: StreamPlace) -> MovedRow:
        """Return the effects of exchanging streams at a place."""
        follow, _, invalid = self.shares(self.apart, partial(self.patched, place))
        null, *_ = self.shares(self.apart, partial(self.patched_from_another, place))
        _, lost, _ = self.shares(self.same, partial(self.patched, place))
        where, chosen, is_ceiling = (half, self.kind, place.label, place.position), False, False
        return MovedRow(*where, chosen, is_ceiling, follow.n, follow, null, lost, invalid)


Halves = Mapping[str, PairAnswers]


def answers_by_half(
    network: Network, samples: Sequence[Sample], kind: str, salt: str, seed: int
) -> dict[str, PairAnswers]:
    """Return the answers to the pairs of decisions by half of the grids."""
    halves = {}
    for half in HALVES:
        chosen = [sample for sample in samples if half_of(sample.world, salt) == half]
        listed = [pair for sample in chosen for pair in pairs(network, sample, kind, seed)]
        halves[half] = PairAnswers(network, kind, listed, seed)
        if not halves[half].apart:
            raise InvalidParameterError(
                f"no decision in the {half} half was correct and has other correct moves once the "
                f"{kind} is moved; use more grids"
            )
    return halves


def follows(row: MovedRow) -> bool:
    """Return whether the interval of moves that follow the patch lies above that of the null."""
    return exceeds(row.flips, row.null_flips)


def exceeds(ours: Estimate, null: Estimate) -> bool:
    """Return whether the interval of an estimate lies above that of another."""
    both = ours.interval, null.interval
    return both[0] is not None and both[1] is not None and both[0][0] > both[1][1]


def best_layer(rows: Sequence[MovedRow]) -> MovedRow | None:
    """Return the row of the best single layer on the first half; None if no move can follow."""
    single = [row for row in rows if row.half == SCREEN and isinstance(row.layer, int)]
    best = max(single, key=_merit, default=None)
    return None if best is None or _merit(best) < 0 else best


def moved(
    halves: Halves, places: Sequence[StreamPlace], progress: Tell | None = None
) -> tuple[MovedRow, ...]:
    """Return rows of all places on the first half; of the best and the ceiling on the second."""
    rows = []
    for place in places:
        row = halves[SCREEN].row(SCREEN, place)
        rows.append(row)
        if progress is not None:
            ours, null = percent(row.flips.value), percent(row.null_flips.value)
            progress(
                f"use: {row.moved} moved, {place.position} at layer {place.label}: {ours} of moves "
                f"follow ({null} by chance)"
            )
    best = max(range(len(rows)), key=lambda number: _merit(rows[number]))
    rows[best] = replace(rows[best], chosen=True)
    confirmed = halves[CONFIRM].row(CONFIRM, places[best])
    ceiling = halves[CONFIRM].row(CONFIRM, StreamPlace(EVERY_TOKEN, (0,), 0))
    return (*rows, replace(confirmed, chosen=True), replace(ceiling, is_ceiling=True))


def _merit(row: MovedRow) -> float:
    """Return the share of moves that follow minus the share lost if nothing should change."""
    # Not every grid has another cell with the same correct moves.
    lost = 0.0 if isnan(row.same_flips.value) else row.same_flips.value
    return -1.0 if isnan(row.flips.value) else row.flips.value - lost


# --- Subspaces ------------------------------------------------------------------------------------
# If exchanging the whole stream makes the answer follow, exchanging its components in a subspace
# may suffice. An orthonormal basis is learnt by gradient descent on one half of the grids, so that
# the model with the exchange gives the answer to the other question up to the first token at which
# the two answers differ. It is scored on the other half by generated answers, compared with random
# subspaces of the same rank and with the whole stream.
#
# Source: distributed interchange interventions as in Geiger et al. (2024, arXiv 2303.02536).

CARRIES, NOWHERE, UNKNOWN = "carries it", "nothing here carries it", "inconclusive"
# There is no such subspace if the upper bound of moves that follow the whole stream is below this.
LEAST = 0.5
_CHANCE_DRAWS = 400
# Relative singular values below this are rounding errors.
_LEAST_PART = 1e-6


def place_directions(
    samples: Sequence[Sample], network: Network, place: StreamPlace, kind: str, most: int
) -> FloatArray | None:
    """Return the most important directions of a ridge probe of the moved cell, [D, most]."""
    # The probe reads the place of the exchange: coordinates of other places are not comparable.
    (layer,) = place.layers
    rows, cells = [], []
    for sample in samples:
        if tokens := place.tokens(Located(sample, network.local.tokenizer)):
            stream = network.streams(sample.prompt, [layer])[layer][list(tokens)]
            rows.append(stream.double().mean(dim=0).cpu().numpy())
            cells.append(sample.world.goal if kind == GOAL else sample.state.cell)
    labels = np.array([[cell == name for name in sorted(set(cells))] for cell in cells])
    known = ridge_directions(np.array(rows), labels) if rows else ()
    found = [each for each in known if each is not None]
    # No direction exists if all samples have the same cell.
    if not found:
        return None
    basis, sizes, _ = np.linalg.svd(np.stack([e.vector(1.0) for e in found], axis=1))
    # The weights of all cells sum to zero, so the rank is less than the number of cells.
    count = int((sizes > _LEAST_PART * sizes[0]).sum())
    return np.asarray(basis[:, : min(count, most)])


def angle(
    basis: FloatArray, directions: FloatArray, *, seed: int = 0
) -> tuple[float, tuple[float, ...]]:
    """Return the smallest principal angle between directions [D, m] and a subspace, in degrees.

    Also return its 2.5th, 50th and 97.5th percentiles for m random directions.
    """
    columns = np.asarray(directions, float).reshape(len(directions), -1)
    rng = np.random.default_rng(seed)

    def degrees(columns: FloatArray) -> float:
        cosines = np.linalg.svd(basis.T @ np.linalg.qr(columns)[0], compute_uv=False)
        return float(np.degrees(np.arccos(np.clip(cosines[0], 0.0, 1.0))))

    chance = [degrees(rng.normal(size=columns.shape)) for _ in range(_CHANCE_DRAWS)]
    return degrees(columns), tuple(np.percentile(chance, [2.5, 50, 97.5]).tolist())


def subspace(
    network: Network, halves: Halves, place: StreamPlace, rank: int, steps: int, seed: int
) -> tuple[SubspaceRow, FloatArray]:
    """Learn a basis [D, rank] of the subspace that carries the moved object, and score it."""
    examples = _examples(network, halves[SCREEN], place)
    basis, losses = _learn(network, examples, place.layers[0], rank, steps, seed)
    scored = halves[CONFIRM]
    rng = np.random.default_rng([seed, rank])

    def random_exchange(number: int) -> Intervention | None:
        random = np.linalg.qr(rng.normal(size=(network.width, rank)))[0]
        return _exchange(scored, place, random, number)

    ours, whole = partial(_exchange, scored, place, basis), partial(scored.patched, place)
    flips, random_flips, whole_flips = (
        scored.shares(scored.apart, change)[0] for change in (ours, random_exchange, whole)
    )
    verdict = CARRIES if exceeds(flips, random_flips) else UNKNOWN
    if whole_flips.interval is not None and whole_flips.interval[1] < LEAST:
        verdict = NOWHERE
    where = CONFIRM, scored.kind, place.layers[0], place.position
    shares = flips.n, flips, random_flips, whole_flips
    row = SubspaceRow(*where, rank, len(examples), losses, *shares, verdict, None, ())
    return row, basis


class _Example(NamedTuple):
    """Question with the other answer up to the first difference, and the exchange."""

    ids: tuple[int, ...]  # tokens of the question and of that answer
    forced: int  # number of tokens of the answer
    tokens: tuple[int, ...]  # indices of the exchanged tokens
    donors: torch.Tensor  # their streams in the other question, [tokens, D]


def _examples(network: Network, pairs: PairAnswers, place: StreamPlace) -> list[_Example]:
    others = answer_all(network, [pairs.pairs[n].donor.sample for n in pairs.apart])
    out = []
    for number, other in zip(pairs.apart, others, strict=True):
        tokens, ours = pairs.tokens(place, number), pairs.sweep.bases[number].tokens
        # The answer ends with the first token that differs; without one there is no example.
        differs = (n for n, token in enumerate(other.tokens) if ours[n : n + 1] != (token,))
        forced = next(differs, -1) + 1
        if forced and tokens:
            ids = (*pairs.pairs[number].located.sample.prompt, *other.tokens[:forced])
            donors = pairs.donor_stream(place, number)[list(tokens)]
            out.append(_Example(ids, forced, tokens, donors))
    if not out:
        raise InvalidParameterError(
            f"no question of the screen half has tokens at {place.position!r} and another answer "
            f"once the object is moved; use more grids or another position"
        )
    return out


def _learn(
    network: Network, examples: Sequence[_Example], layer: int, rank: int, steps: int, seed: int
) -> tuple[FloatArray, tuple[float, float]]:
    """Return an orthonormal basis [D, rank], and the first and the last loss."""
    import torch

    model = network.local.model
    inputs = padded([each.ids for each in examples], model.device, left=True)
    longest = inputs["input_ids"].shape[1]
    rows = torch.tensor([row for row, each in enumerate(examples) for _ in each.tokens])
    columns = torch.tensor([longest - len(e.ids) + token for e in examples for token in e.tokens])
    # A copy is needed because tensors created in inference mode have no gradient.
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
            # Only the basis has a gradient; the model is not changed.
            (free.grad,) = torch.autograd.grad(loss, [free])
            optimizer.step()
    final = torch.linalg.qr(free.detach().double())[0]
    return final.cpu().numpy(), (losses[0], losses[-1])


def _exchange(
    pairs: PairAnswers, place: StreamPlace, basis: FloatArray, number: int
) -> Intervention | None:
    """Replace the components within a subspace by those of the other question's stream."""
    (layer,) = place.layers
    tokens, stream = pairs.tokens(place, number), pairs.donor_stream(place, number)

    def toward(token: int, own: torch.Tensor) -> torch.Tensor:
        onto = own.new_tensor(basis)
        changed: torch.Tensor = own + onto @ (onto.T @ (stream[token].to(own) - own))
        return changed

    edits = tuple(Edit(token, layer, partial(toward, token)) for token in tokens)
    return Intervention(edits=edits) if tokens else None
