"""How many answers a model is asked for while cells are changed: bounds, before one is given.

    at least    each prompt once as it is, and every knock-out of a cell whose words are there
    at most     besides, every other intervention in every trial, with all kinds of directions, and
                every pair of questions in which something moved

A trial is a decision and a cell of it (`trials`). How many there are is exact; which interventions
can be made in them is known when they are made: directions are learnt from answers, and pairs of
questions count where the unchanged answer was right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from goalmeter.representation.network import Network
from goalmeter.representation.positions import Located
from goalmeter.representation.replay import Sample
from goalmeter.representation.stages.asked import Asked
from goalmeter.representation.stages.use import DOSES, SALT
from goalmeter.representation.stages.where import fewer, positions_of
from goalmeter.representation.use.candidates import DIRECTED, KNOCK_OUT, OPEN, PATCH, WINDOWS, WRITE
from goalmeter.representation.use.halves import CONFIRM, HALVES, SCREEN, half_of
from goalmeter.representation.use.moving import AGENT, GOAL, KINDS
from goalmeter.representation.use.spans import ANSWERING, SPANS
from goalmeter.representation.use.trials import trials_of
from goalmeter.representation.use.windows import windows_of
from goalmeter.runs.forecast import Span

# Kinds of directions that can be learnt, and of patches; see `directions.writings`, `candidates`.
WRITINGS, PATCHES = 5, 3
# Of a question with something moved there is a pair of each relation; two of these are asked, one
# of them with a null beside it.
_PAIRS, _ROWS_OF_PAIRS = 3, 3
# A candidate that is confirmed has at most so many nulls beside it.
_NULLS = 2


@dataclass(frozen=True)
class _Trials:
    """The trials of the two halves, of open cells or of walls."""

    screen: int
    confirm: int
    needed: int
    prompts: int

    @classmethod
    def of(cls, samples: Sequence[Sample], seed: int, *, walls: bool) -> _Trials:
        halves = trials_of(samples, HALVES, None, 1, SALT, seed, walls=walls)
        prompts = sum(len({s.prompt for s, _ in listed}) for listed in halves.values())
        needed = sum(target.needed for _, target in halves[CONFIRM])
        return cls(len(halves[SCREEN]), len(halves[CONFIRM]), needed, prompts)


def answers_of_use(again: Sequence[Sample], network: Network, wanted: Asked) -> Span:
    """Answers that `use_stage` asks for.

    Args:
        again: the decisions that are asked again.
        network: the model.
        wanted: what is tried, at which layers.
    """
    tried = set(wanted.interventions)
    cells = _Trials.of(again, wanted.seed, walls=False)
    walls = _Trials.of(again, wanted.seed, walls=True) if OPEN in tried else _Trials(0, 0, 0, 0)
    layers, every = len(wanted.layers), range(len(network.blocks) + 1)
    directed = WRITINGS * (layers + (layers > 1))
    single = {
        KNOCK_OUT: layers + 2,
        PATCH: PATCHES * layers + 1,
        WINDOWS: PATCHES * len(windows_of(every)),
    }
    most = least = cells.prompts
    most += walls.prompts
    for family in wanted.interventions:
        of = walls if family == OPEN else cells
        # Random directions are asked as well, of those that might be the best of their kind.
        screened = 2 * directed if family in DIRECTED else single[family]
        most += screened * of.screen + (1 + _NULLS) * of.confirm * (1 + wanted.draws)
        most += wanted.draws * of.confirm
    if WRITE in tried:
        most += 2 * len(DOSES) * cells.confirm
    if tried & set(DIRECTED):
        most += sum(half_of(sample.world, SALT) == SCREEN for sample in again)
    # The knock-out of another cell in all blocks is confirmed whatever did best.
    if KNOCK_OUT in tried:
        most += cells.confirm * (1 + wanted.draws)
        least += (single[KNOCK_OUT] - 1) * _said(again, network, wanted.seed)
    return Span(least, most)


def answers_of_where(again: Sequence[Sample], network: Network, wanted: Asked) -> Span:
    """Answers that `where_stage` asks for; arguments as of `answers_of_use`."""
    least = most = 0
    if KNOCK_OUT in wanted.interventions:
        needed = _Trials.of(again, wanted.seed, walls=False).needed
        # Of each needed cell the unchanged answer, and each span with a null.
        most += needed * (1 + 2 * (len(SPANS) + len([ANSWERING])))
    if PATCH in wanted.interventions:
        asked = fewer(again)
        screen = sum(half_of(sample.world, SALT) == SCREEN for sample in asked)
        confirm = len(asked) - screen
        layers = len(wanted.layers)
        every = range(len(network.blocks) + 1)
        windows = len(windows_of(every if 0 in wanted.layers else every[1:]))
        for kind in KINDS:
            places = len(positions_of(kind)) * (layers + windows)
            most += _PAIRS * len(asked) + _ROWS_OF_PAIRS * (places * screen + 2 * confirm)
        # A subspace is learnt of two of them, and scored beside two others.
        most += len([GOAL, AGENT]) * (_PAIRS * len(asked) + 3 * confirm)
    return Span(least, most)


def _said(again: Sequence[Sample], network: Network, seed: int) -> int:
    """The screened trials whose cell the prompt mentions."""
    tokenizer = network.local.tokenizer
    trials = trials_of(again, [SCREEN], None, 1, SALT, seed)[SCREEN]
    return sum(bool(Located(sample, tokenizer).cell(target.cell)) for sample, target in trials)
