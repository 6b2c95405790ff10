"""Trials of causal use: halves of the grids, decisions, candidate interventions, outcomes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from goalmeter._errors import json_text
from goalmeter._files import JsonFields
from goalmeter._types import IntArray
from goalmeter.gridworld.generators import Draws
from goalmeter.gridworld.world import ACTIONS, Cell, GridWorld, content
from goalmeter.representation.network import Network
from goalmeter.representation.replay import Located, Sample, scenes_of
from goalmeter.representation.scenes import Shape, mean_over_grids, uncertain_cells
from goalmeter.representation.use import directions, interventions
from goalmeter.representation.use.directions import DirectionKind, TargetCell
from goalmeter.representation.use.interventions import Intervention, ModelAnswer
from goalmeter.runs import Stages
from goalmeter.statistics.clusters import Estimate

# Interventions chosen on one half of the grids are scored only on the other half. The half is a
# hash of the grid's content: the split cannot be redrawn, and mirror images are in the same half.
HALVES = SCREEN, CONFIRM = "screen", "confirm"
WALLS = ", walls"  # added to the name of a half whose walls are changed
# Whether a cell of a decision is to be tested.
CellFilter = Callable[[Sample, Cell], bool] | None
Trial = tuple[Located, TargetCell]


def half_of(world: GridWorld, salt: str) -> str:
    """Return the half of a grid, a hash of its content; another salt gives another split."""
    return HALVES[sha256(f"{salt}:{content(world)}".encode()).digest()[0] % 2]


def trials_of(
    samples: Sequence[Sample], tokenizer: Any, salt: str, seed: int, select: CellFilter, walls: bool
) -> dict[str, list[Trial]]:
    """Return decisions by half, each with one uncertain cell (or wall) per kind, if any."""
    names = {half: half + WALLS if walls else half for half in HALVES}
    out: dict[str, list[Trial]] = {name: [] for name in names.values()}
    uncertain = uncertain_cells(scenes_of(samples))
    targets = directions.target_walls if walls else directions.target_cells
    for sample in samples:
        listed = [
            each
            for each in targets(sample.world, sample.state)
            if uncertain[sample.world.shape][each.cell]
            and (select is None or select(sample, each.cell))
        ]
        if listed:
            # All interventions share the located tokens of these prompts.
            located, trials = Located(sample, tokenizer), out[names[half_of(sample.world, salt)]]
            for needed in (True, False):
                kind = [each for each in listed if each.needed == needed]
                Draws("target cells", seed, sample.walk, sample.step, int(needed)).shuffle(kind)
                trials += [(located, each) for each in kind[:1]]
    return out


def drawn(trials: Sequence[Trial], count: int, seed: int) -> list[Trial]:
    """Draw at most `count` trials of needed cells and as many of others, in order."""
    chosen: set[int] = set()
    for needed in (True, False):
        places = [place for place, (_, cell) in enumerate(trials) if cell.needed == needed]
        Draws("cells that are screened", seed, int(needed)).shuffle(places)
        chosen.update(places[:count])
    return [trial for place, trial in enumerate(trials) if place in chosen]


def donor_streams(network: Network) -> Callable[[tuple[int, ...]], Any]:
    """Return a cached function from a token sequence to its residual stream by layer, [T, D]."""
    cache = interventions.SizedCache(lambda read: sum(each.nbytes for each in read.values()))
    layers = range(len(network.blocks) + 1)
    return lambda ids: cache.get(ids, lambda: network.streams(ids, layers))


ALL = "all"


def windows_of(layers: Sequence[int]) -> list[tuple[str, tuple[int, ...]]]:
    """Return windows of at least two layers with labels: both halves, and all layers."""
    half = len(layers) // 2
    parts = [tuple(part) for part in (layers[:half], layers[half:])]
    halves = [(f"{part[0]}-{part[-1]}", part) for part in parts if len(part) > 1]
    return [*halves, (ALL, tuple(layers))]


# knock-out       mask the attention to the cell's tokens, in one block or in all
# patch           replace the stream at the cell's tokens by that of the question with a wall there
# patch, around   the same, also at the tokens of its neighbours
# patch, end      the same at the last three tokens of the prompt, where the paper decodes maps
# windows         these three at several layers at once: the first half, the second half, all
# write           move the stream towards a wall along a direction (see `directions`)
# open            move it back, from a wall towards an open cell
# ablate          remove its component along that direction
#
# Each null differs in one respect: "other" applies the same to another open cell ("open" to another
# wall), "random" uses random directions of equal norm at the same tokens and layers, and "donor"
# patches from the question in which another cell is closed.
FAMILIES = ("knock-out", "patch", "windows", "write", "ablate", "open")
KNOCK_OUT, PATCH, WINDOWS, WRITE, ABLATE, OPEN = FAMILIES
_NULLS: dict[str, tuple[str, ...]] = {KNOCK_OUT: ("other",), ABLATE: ("random",)}
_NULLS |= dict.fromkeys((PATCH, WINDOWS), ("donor",))
_NULLS |= dict.fromkeys((WRITE, OPEN), ("random", "other"))
# Default families: patches at several layers add little to those at a single layer.
TRIED = tuple(family for family in FAMILIES if family != WINDOWS)
# Families that need learnt directions.
DIRECTED = (WRITE, ABLATE, OPEN)
# Number of gaps between the means of walls and open cells along a direction: two, since the weights
# of a probe cover only a part of the difference of means.
DOSE = 2.0


@dataclass(frozen=True)
class Candidate:
    """Intervention at one place of the network, or a null of it."""

    name: str
    layer: int | str
    position: str
    make: Callable[[Candidate, Located, Cell], Intervention | None]
    dose: float | None = None
    null: str = ""  # name of the null; "" for the intervention itself

    def change(self, located: Located, cell: Cell) -> Intervention | None:
        """Return the intervention on a cell of a prompt; None if it is impossible."""
        return self.make(self, located, cell)

    @property
    def nulls(self) -> list[Candidate]:
        """Nulls at the same place, without an expected effect."""
        return [replace(self, name=f"{self.name}, {n}", null=n) for n in _NULLS[self.family]]

    @property
    def family(self) -> str:
        """Family of the intervention, one of `FAMILIES`."""
        return self.name.split(",")[0]

    @property
    def label(self) -> str:
        """Name with the layer."""
        return f"{self.name} at layer {self.layer}"

    @property
    def key(self) -> str:
        """Unique name among all candidates."""
        dose = "" if self.dose is None else f", dose {self.dose:g}"
        return f"{self.label}, {self.position}{dose}"


def candidates(
    network: Network, layers: Sequence[int], seed: int, kinds: Sequence[DirectionKind], dose: float
) -> list[Candidate]:
    """Return the interventions of a screen; knock-outs mask blocks, so none is at layer 0."""
    blocks = range(1, len(network.blocks) + 1)
    read = donor_streams(network)

    def patched(
        tokens: Tokens, window: Sequence[int], candidate: Candidate, located: Located, cell: Cell
    ) -> Intervention | None:
        chosen = another_cell(seed, located, cell) if candidate.null else cell
        donor = directions.closed_prompt(network, located.sample, chosen) if chosen else None
        places = list(tokens(located, cell))
        if not donor or not places:
            return None
        return interventions.patch({k: read(donor)[k][places] for k in window}, places)

    def directed(
        kind: DirectionKind, at: Sequence[int], candidate: Candidate, located: Located, cell: Cell
    ) -> Intervention | None:
        import torch

        opens, dose, changes = candidate.family == OPEN, candidate.dose, []
        chosen: Cell | None = cell
        if candidate.null == "other":
            # A wall that the prompt does not list has no tokens for a write.
            chosen = another_cell(seed, located, cell, wall=opens)
        edits = kind.edits(at, located, chosen) if chosen else []
        if candidate.null == "random":
            edits = directions.in_random_directions(edits, seed, located, cell)
        for where, layer, direction in edits:
            vector = direction.unit if dose is None else direction.vector(-dose if opens else dose)
            change = interventions.ablate if dose is None else interventions.write
            places = [where] if isinstance(where, int) else where
            changes.append(change(torch.tensor(vector, dtype=torch.float32), places, [layer]))
        return reduce(Intervention.joined, changes) if changes else None

    in_all = hidden_cell(KNOCK_OUT, blocks, seed, ALL)
    listed = [in_all, *(hidden_cell(KNOCK_OUT, [k], seed, k) for k in layers if k > 0)]
    listed += in_all.nulls
    patches: list[tuple[str, int | str, Sequence[int]]] = [(PATCH, k, [k]) for k in layers]
    patches += [(WINDOWS, *window) for window in windows_of([0, *blocks])]
    for family, label, window in patches:
        for ending, (position, tokens) in _PATCHED.items():
            factory = partial(patched, tokens, window)
            listed.append(Candidate(family + ending, label, position, factory))
    # The last one patches the end of the prompt in all layers.
    listed.append(replace(listed[-1], name=f"{PATCH}, end"))
    windows: list[tuple[int | str, Sequence[int]]] = [(layer, [layer]) for layer in layers]
    windows += [(ALL, layers)] if len(layers) > 1 else []
    for kind in kinds:
        for family in DIRECTED:
            name, strength = f"{family}, {kind.name}", None if family == ABLATE else dose
            for label, window in windows:
                factory = partial(directed, kind, window)
                listed.append(Candidate(name, label, kind.position, factory, strength))
    return listed


def _around(located: Located, cell: Cell) -> tuple[int, ...]:
    cells = [cell, *(cell.moved(action) for action in range(len(ACTIONS)))]
    return tuple(sorted({token for each in cells for token in located.cell(each)}))


Tokens = Callable[[Located, Cell], tuple[int, ...]]
# Whether a cell is hidden from all tokens of the prompt, and from which tokens of the answer.
SpanOf = Callable[[Cell], tuple[bool, interventions.When]]
# Position and patched tokens by the suffix of the name.
_PATCHED: dict[str, tuple[str, Tokens]] = {
    "": ("pre/cell", Located.cell),
    ", around": ("pre/cell", _around),
    ", end": ("pre/end", lambda located, cell: located.end_of_prompt),
}


def _everywhere(cell: Cell) -> tuple[bool, interventions.When]:
    return True, interventions.always


def hidden_cell(
    name: str, blocks: Sequence[int], seed: int, layer: int | str, span_of: SpanOf = _everywhere
) -> Candidate:
    """Mask the attention to a cell's tokens in some blocks; the null hides another cell."""

    def make(candidate: Candidate, located: Located, cell: Cell) -> Intervention | None:
        hidden = another_cell(seed, located, cell) if candidate.null else cell
        places, (prompt, written) = located.cell(hidden) if hidden else (), span_of(cell)
        hiding = interventions.knock_out(places, blocks, prompt=prompt, written=written)
        return hiding if places else None

    return Candidate(name, layer, "pre/cell", make)


def another_cell(seed: int, located: Located, cell: Cell, *, wall: bool = False) -> Cell | None:
    """Draw another open cell, or another inner wall, of the same world."""
    sample, world = located.sample, located.sample.world
    excluded = {cell} if wall else {cell, sample.state.cell, world.goal}
    alike = directions.inner_walls(world) if wall else world.open_cells
    cells = [each for each in alike if each not in excluded]
    # The seed depends on the content, so draws do not depend on order or process.
    draws = Draws("another wall" if wall else "another cell", seed, sample.digest, *cell)
    return cells[draws.below(len(cells))] if cells else None


@dataclass(frozen=True)
class TrialOutcome:
    """Actions of a trial without and with an intervention; None for an invalid answer."""

    grid: str
    shape: Shape
    cell: TargetCell
    before: int | None
    after: int | None

    @property
    def counts(self) -> bool:
        """Whether the decision was correct without the intervention."""
        return self.before in self.cell.optimal

    @property
    def flipped(self) -> bool:
        """Whether the answer is another move; an invalid answer is not."""
        return self.after is not None and self.after != self.before

    @property
    def as_if_changed(self) -> bool:
        """Whether the cell is needed and the move is optimal for the changed cell."""
        return self.cell.needed and self.after in self.cell.changed


@dataclass(frozen=True)
class MoveEffect(JsonFields):
    """Shares of the decisions at cells of one kind, with 95% intervals."""

    flips: Estimate  # share with another move
    as_if_changed: Estimate  # share with a move optimal for the changed cell; 0 if unneeded
    unreadable: Estimate  # share with an invalid answer


@dataclass(frozen=True)
class UseRow(JsonFields):
    """Effects of an intervention on one half of the grids, at needed and other cells."""

    intervention: str
    layer: int | str
    position: str
    is_null: bool
    needed: MoveEffect
    unneeded: MoveEffect
    dose: float | None = None
    effect_nats: Estimate | None = None

    @property
    def place(self) -> tuple[str, int | str, str]:
        """Intervention, layer and position."""
        return self.intervention, self.layer, self.position


def row_of(
    candidate: Candidate, outcomes: Sequence[TrialOutcome], effect_nats: Estimate | None = None
) -> UseRow:
    """Return the effects of an intervention on decisions that were correct without it."""

    def effect(needed: bool) -> MoveEffect:
        listed = [each for each in outcomes if each.counts and each.cell.needed == needed]
        # Decisions in one grid are not independent; their number is fixed in advance.
        mean = partial(mean_over_grids, grids=[each.grid for each in listed])
        return MoveEffect(
            mean([each.flipped for each in listed]),
            mean([each.as_if_changed for each in listed]),
            mean([each.after is None for each in listed]),
        )

    place = candidate.name, candidate.layer, candidate.position, bool(candidate.null)
    return UseRow(*place, effect(True), effect(False), candidate.dose, effect_nats)


_UNCHANGED = "unchanged"
_TEMPERATURE = 0.7  # temperature of sampled answers


@dataclass(frozen=True, eq=False)
class TrialAnswers:
    """Answers to trials by half; answers of finished stages are read from a store."""

    network: Network
    trials: Mapping[str, Sequence[Trial]]  # trials by half; those of walls by half + `WALLS`
    stage: Callable[[str, Callable[[], Any]], Any]  # returns the stored or a new value of a stage
    draws: int = 0  # sampled answers per decision for effects in nats
    seed: int = 0
    _sweeps: dict[str, interventions.AnswerSweep] = field(default_factory=dict)

    def unchanged(self, name: str, samples: Sequence[Sample]) -> list[ModelAnswer]:
        """Return answers without intervention; each prompt is answered once."""
        different = {sample.prompt: sample for sample in samples}
        make = partial(interventions.answer_all, self.network, list(different.values()))
        answers = self._answers(f"{name}: {_UNCHANGED}", make, tokens=True)
        by_prompt = dict(zip(different, answers, strict=True))
        return [by_prompt[sample.prompt] for sample in samples]

    def sweep(self, half: str) -> interventions.AnswerSweep:
        """Return the sweep of a half, which starts from the unchanged answer of each trial."""
        if half not in self._sweeps:
            samples = [located.sample for located, _ in self.trials[half]]
            bases = self.unchanged(half, samples)
            self._sweeps[half] = interventions.AnswerSweep(self.network, samples, bases)
        return self._sweeps[half]

    def outcomes(self, candidate: Candidate, half: str) -> list[TrialOutcome]:
        """Return the outcomes of the trials to which an intervention can be applied."""
        half += WALLS if candidate.family == OPEN else ""
        sweep = self.sweep(half)
        changes = self._changes(candidate, half, range(len(sweep.bases)))
        key, out = f"{half}: {candidate.key}", []
        answers = self._answers(key, lambda: list(sweep.answers(changes).values()))
        for number, answer in zip(changes, answers, strict=True):
            (located, target), before = self.trials[half][number], sweep.bases[number].action
            world = located.sample.world
            out.append(TrialOutcome(content(world), world.shape, target, before, answer.action))
        return out

    def row(self, candidate: Candidate, half: str) -> UseRow:
        """Return the effects of an intervention on a half, also in nats if answers are sampled."""
        outcomes = self.outcomes(candidate, half)
        return row_of(candidate, outcomes, self._effect(candidate, half) if self.draws else None)

    def _effect(self, candidate: Candidate, half: str) -> Estimate:
        """Estimate the change of the next action's distribution at needed cells, in nats."""
        half += WALLS if candidate.family == OPEN else ""
        # As for flips, decisions count if they are correct at temperature 0 without the change.
        trials = zip(self.trials[half], self.sweep(half).bases, strict=True)
        counted = [
            number
            for number, ((_, target), base) in enumerate(trials)
            if target.needed and base.action in target.optimal
        ]
        changes = self._changes(candidate, half, counted)
        # Draws with and without the change differ: labels are exchangeable only for independent
        # answers.
        plain = self._drawn(_UNCHANGED, half, dict.fromkeys(counted, interventions.UNCHANGED), 1)
        moved = self._drawn(candidate.key, half, changes, 2)
        grids = [content(self.trials[half][n][0].sample.world) for n in changes]
        both = [moved[n] for n in changes], [plain[n] for n in changes]
        return interventions.effect_in_nats(*both, grids)

    def _changes(
        self, candidate: Candidate, half: str, numbers: Sequence[int]
    ) -> dict[int, Intervention]:
        """Return the interventions of the trials to which a candidate can be applied."""
        trials = ((n, *self.trials[half][n]) for n in numbers)
        made = {n: candidate.change(located, target.cell) for n, located, target in trials}
        return {number: change for number, change in made.items() if change is not None}

    def _drawn(
        self, name: str, half: str, changes: Mapping[int, Intervention], stream: int
    ) -> dict[int, IntArray]:
        """Return counts of outcomes, [5], of sampled answers by number of the trial."""
        repeated = [number for number in changes for _ in range(self.draws)]
        samples = [self.trials[half][number][0].sample for number in repeated]
        listed = [changes[number] for number in repeated]
        make = partial(interventions.answer_all, self.network, samples, listed)
        # Seeds of the streams are far apart, so that no two samples share one.
        seed = (2 * self.seed + stream) * 10_000_019
        answers = self._answers(
            f"{half}: {name}, {self.draws} draws at temperature {_TEMPERATURE:g}",
            partial(make, tokens=self.sweep(half).limit, temperature=_TEMPERATURE, seed=seed),
        )
        # The last outcome is an invalid answer.
        invalid = len(ACTIONS)
        outcomes = [invalid if each.action is None else each.action for each in answers]
        drawn = np.array(outcomes, dtype=np.int64).reshape(-1, self.draws)
        counts = (np.bincount(row, minlength=invalid + 1) for row in drawn)
        return dict(zip(changes, counts, strict=True))

    def _answers(
        self, key: str, make: Callable[[], list[ModelAnswer]], *, tokens: bool = False
    ) -> list[ModelAnswer]:
        """Return the answers of a stage, stored with tokens if `tokens` is true."""

        def rows() -> list[list[Any]]:
            return [[a.action, a.invalid, list(a.tokens) if tokens else []] for a in make()]

        return [ModelAnswer(action, why, tuple(ids)) for action, why, ids in self.stage(key, rows)]


@contextmanager
def answer_store(
    folder: str | Path | None,
    network: Network,
    trials: Mapping[str, Sequence[Trial]],
    training: Sequence[Sample],
    options: Mapping[str, Any],
) -> Iterator[Callable[[str, Callable[[], Any]], Any]]:
    """Open the directory that stores stages; without a folder they are stored in memory."""
    if folder is None:
        known: dict[str, Any] = {}
        yield lambda key, make: known[key] if key in known else known.setdefault(key, make())
        return

    def digest(value: Any) -> str:
        return sha256(json_text(value).encode()).hexdigest()

    halves = {
        half: sorted({sha256(content(t[0].sample.world).encode()).hexdigest() for t in listed})
        for half, listed in trials.items()
    }
    named = [
        [half, located.sample.walk, located.sample.step, located.sample.prompt, target.cell]
        for half, listed in trials.items()
        for located, target in listed
    ]
    # The configuration fixes the grids of each half before any question is asked, and everything
    # that determines the answers.
    what = {
        "kind": "causal use",
        "model": network.name,
        "weights": network.revision,
        **options,
        "halves": halves,
        "split": digest(halves),
        "decisions": digest(named),
        "learnt from": digest([[s.walk, s.step, s.prompt] for s in training]),
    }
    with Stages(folder, what) as stages:
        yield stages.value
