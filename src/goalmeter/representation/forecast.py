"""Forecast the cost of probing a run before any stage begins."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from goalmeter._errors import InvalidParameterError
from goalmeter.gridworld.world import content
from goalmeter.navigation.rollouts import load
from goalmeter.representation.activations import Placed, lacking, shard_path
from goalmeter.representation.capture import TOKENS_OF_A_BATCH
from goalmeter.representation.network import Network
from goalmeter.representation.plans.comparison import along
from goalmeter.representation.plans.readers import LinearSteps, PlanDecoder
from goalmeter.representation.replay import Located, Sample, present_positions, samples_of
from goalmeter.representation.result import FOLDER
from goalmeter.representation.stages.decoding import (
    ACTIVATIONS,
    FIRST_DECISIONS,
    MAPS,
    PARTS,
    PLAN,
    RANDOM_WEIGHTS,
    USE,
    Asked,
    asked,
)
from goalmeter.representation.stages.use import DOSES, SALT, asked_again, fewer, positions_of
from goalmeter.representation.use.answers import ModelAnswer, answer_all
from goalmeter.representation.use.look_ups import ANSWERING, SPANS
from goalmeter.representation.use.patching import AGENT, GOAL, KINDS
from goalmeter.representation.use.trials import (
    CONFIRM,
    DIRECTED,
    HALVES,
    KNOCK_OUT,
    OPEN,
    PATCH,
    SCREEN,
    WINDOWS,
    WRITE,
    half_of,
    trials_of,
    windows_of,
)
from goalmeter.runs import keys_in
from goalmeter.runs.forecast import Forecast, Span

# --- Answers --------------------------------------------------------------------------------------
# at least    each prompt once as it is, and every knock-out of a cell whose words are there
#         at most     besides, every other intervention in every trial, with all kinds of
#     directions, and
#                 every pair of questions in which something moved
#
# A trial is a decision and a cell of it (`trials`). How many there are is exact; which
# interventions can be made in them is known when they are made: directions are learnt from
# answers, and pairs of questions count where the unchanged answer was right.

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


# --- Forecast -------------------------------------------------------------------------------------
# trials          decisions of the run; kept are those whose activations are there
#     tokens kept     decisions * tokens at the positions
#     passes          decisions that are read: by the model, by random weights, first ones for plans
#     tokens read     of these passes: prompt and answer
#     disk            rows * layers * tokens * width * bytes of a number, with headers, in blocks
#     map fits        probes * layers * positions, each with its controls
#     plan fits       (layers + decoders) * positions, each with its baselines
#     calls           answers under interventions, see `stages.answers`
#     output tokens   calls * tokens of a recorded answer, on average
#     hours           at least (tokens read + calls * tokens of a decision) / tokens read a second,
#                                         since an answer that does not change is read in one pass;
#                     at most calls * tokens
#                     of an answer / tokens written a second besides, since one that changes is
#                     written anew
#
# How many tokens are read and written a second is measured on this machine, in some passes of which
# nothing is kept, or it is told. Fits take time besides, which nothing tells beforehand.

# Passes that are timed: one batch to read, and some short answers; the first pays for loading.
_WRITERS, _WRITTEN = 8, 16


@dataclass(frozen=True)
class _Captures:
    """Activations that a part of a probe captures.

    Attributes:
        placed: the decisions, and where their tokens stand.
        layers: of each folder, by its path.
    """

    placed: Placed
    layers: Mapping[Path, Sequence[int]]

    def disk(self, network: Network) -> int:
        """Bytes of what is not there."""
        import torch

        size = getattr(torch, network.pinned["dtype"]).itemsize
        return sum(
            lacking(folder, layers, self.placed, network.width, size)
            for folder, layers in self.layers.items()
        )

    def read(self) -> list[Sample]:
        """The decisions that are read: once for each folder that lacks them."""
        return [
            sample
            for folder in self.layers
            for number in range(self.placed.shards)
            if not shard_path(folder, number).is_file()
            for sample in self.placed.shard(number).samples
        ]


def forecast(
    run: str | Path,
    *,
    model: str | None = None,
    parts: Sequence[str] = PARTS,
    token_rate: float | None = None,
    **options: Any,
) -> Forecast:
    """What `measure` with these arguments will cost; nothing is kept.

    Args:
        run: the folder of a navigation run of a language model that ran on this machine.
        model: its name; None for the one that the run names. It is loaded.
        parts: those that are wanted; what the folder holds of them is left out.
        token_rate: tokens that the model reads, and writes, a second; None to measure both.
        options: the other ones of `measure`, which have to be given all.
    """
    walked = load(run)
    samples = samples_of(walked.trajectories)
    network = Network.open(model or walked.plan.agent)
    wanted = asked(network, parts=parts, **options)
    folder = Path(run) / FOLDER
    kept = set(keys_in(folder))
    positions = present_positions(samples, network.local.tokenizer, wanted.positions)
    captures = _captures(samples, network, folder, replace(wanted, positions=positions))
    read = [sample for each in captures.values() for sample in each.read()]
    calls, left_out = _answers(samples, network, wanted, kept)
    decision = fmean(len(sample.ids) for sample in samples)
    answer = fmean(len(sample.answer) for sample in samples)
    tokens = sum(len(sample.ids) for sample in read)
    if token_rate is None:
        reading, writing = _rates(network, samples)
        rule = (
            f"the model reads {reading:,.0f} tokens a second and writes {writing:,.0f}, measured "
            f"in a batch of each on this machine as busy as it is now"
        )
    else:
        reading = writing = token_rate
        rule = f"the model reads {token_rate:g} tokens a second, and writes as many"
    maps = captures.get(MAPS)
    begun = maps.read() if maps is not None else samples
    done = len(samples) - len({(sample.walk, sample.step) for sample in begun})
    map_fits, plan_fits = _fits(wanted, positions, kept)
    return Forecast(
        name=f"probe of {network.name}",
        noun="decision",
        trials=len(samples),
        kept=done,
        left=len(samples) - done,
        slots=1,
        hours=Span(
            (tokens + calls.least * decision) / reading / 3600,
            ((tokens + calls.most * decision) / reading + calls.most * answer / writing) / 3600,
        ),
        disk=Span.of(sum(each.disk(network) for each in captures.values())),
        calls=calls,
        prompt_tokens=calls * fmean(len(sample.prompt) for sample in samples),
        output_tokens=calls * answer,
        counted={
            "grids": len({content(sample.world) for sample in samples}),
            "tokens kept": 0 if maps is None else len(samples) * sum(maps.placed.widths.values()),
            "passes": len(read),
            "tokens read": tokens,
            "map fits": map_fits,
            "plan fits": plan_fits,
        },
        assumed=(
            "passes read recorded decisions for their activations; calls are prompts that are "
            "answered again while something is changed, at most in every trial, and at least as "
            "they are and with needed cells knocked out",
            rule,
            "the time is that of passes and answers; fits take time besides, and each is made with "
            "its controls",
            "disk is that of activations; results and kept answers take little besides",
            *left_out,
        ),
    )


def _captures(
    samples: tuple[Sample, ...], network: Network, folder: Path, wanted: Asked
) -> dict[str, _Captures]:
    """What the parts that are wanted capture, by part."""
    tokenizer, layers = network.local.tokenizer, wanted.layers
    out: dict[str, _Captures] = {}
    if MAPS in wanted.parts:
        folders = {folder / ACTIVATIONS: [0, *layers], folder / RANDOM_WEIGHTS: layers}
        out[MAPS] = _Captures(Placed.of(samples, tokenizer, wanted.positions), folders)
    if PLAN in wanted.parts:
        first = [sample for sample in samples if sample.step == 0]
        placed = Placed.of(first, tokenizer, list(dict.fromkeys([*wanted.positions, *along()])))
        out[PLAN] = _Captures(placed, {folder / FIRST_DECISIONS: layers})
    return out


def _answers(
    samples: Sequence[Sample], network: Network, wanted: Asked, kept: Collection[str]
) -> tuple[Span, tuple[str, ...]]:
    """Answers under interventions; and why there are none, in a sentence."""
    if USE not in wanted.parts:
        return Span(0, 0), ()
    try:
        again = asked_again(samples, wanted.use_decisions, wanted.seed)
    except InvalidParameterError as cause:
        return Span(0, 0), (f"no answer is asked for: {cause}",)
    use = Span(0, 0) if "use" in kept else answers_of_use(again, network, wanted)
    finished = any(key.startswith("plan/") for key in kept)
    where = Span(0, 0) if finished else answers_of_where(again, network, wanted)
    return use + where, ()


def _fits(wanted: Asked, positions: Sequence[str], kept: Collection[str]) -> tuple[int, int]:
    """Fits of probes and of readers of plans that are left, each with its controls."""
    maps = [
        f"maps/{name}/layer-{layer}/{position}"
        for name in wanted.probes
        for layer in wanted.layers
        for position in positions
        if MAPS in wanted.parts
    ]
    readers = {LinearSteps().name: len(wanted.layers)}
    readers |= {PlanDecoder(depth).name: 1 for depth in wanted.decoders}
    plans = sum(
        layers * len(positions)
        for name, layers in readers.items()
        if PLAN in wanted.parts and f"plan/{name}" not in kept
    )
    return len(set(maps) - set(kept)), plans


def _rates(network: Network, samples: Sequence[Sample]) -> tuple[float, float]:
    """Tokens that a network reads, and writes, a second, in batches as they are made."""
    lengths = sorted(samples, key=lambda sample: len(sample.ids))
    middle = lengths[len(lengths) // 2]
    rows = [middle.ids] * max(1, min(len(samples), TOKENS_OF_A_BATCH // len(middle.ids)))
    network.forward([middle.ids])
    read = _seconds(lambda: network.forward(rows))
    writers = [middle] * _WRITERS
    answers: list[ModelAnswer] = []
    wrote = _seconds(lambda: answers.extend(answer_all(network, writers, tokens=_WRITTEN)))
    written = sum(len(answer.tokens) for answer in answers)
    return sum(map(len, rows)) / read, max(1, written) / wrote


def _seconds(make: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    make()
    return max(time.perf_counter() - begun, 1e-9)
