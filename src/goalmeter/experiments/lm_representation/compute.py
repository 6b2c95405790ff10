"""The paper's map probes, decoded maps and plan decoder on the activations of the mouse.

    map/mlp, map/linear         cells that the published probes read rightly, before and after it
                                reasons and by size; beside them what needs no activations
    decoded/accuracy            actions that are optimal on the map of the published MLP
    decoded/recovery            wrong actions where that map would have given a right one
    plan/POSITION/1, plan/N/K   plans read by the two-block decoder

As in the paper, probes are trained on first decisions of walks; a decoded map is made for every
decision, by a fit that saw nothing of its grid.

Source: "A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
Agents", section 5 and the tables of its authors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from goalmeter._types import BoolArray, IntArray
from goalmeter.navigation import measure as navigate
from goalmeter.navigation.asking.settings import Asking
from goalmeter.navigation.forecast import forecast as cost_of_walks
from goalmeter.navigation.plan import plan_of
from goalmeter.representation.decoded import PUBLISHED, decoded
from goalmeter.representation.explained import Explained, explained
from goalmeter.representation.map_controls import map_controls
from goalmeter.representation.network import Network
from goalmeter.representation.plan.comparison import PlanTable, read_plans, rows_of
from goalmeter.representation.plan.decoder import PlanDecoder
from goalmeter.representation.plan.known import stated_plans
from goalmeter.representation.plan.targets import plans_of
from goalmeter.representation.probes.comparison import ProbeRow, by_size, compare, cross_fitted
from goalmeter.representation.probes.protocol import Activations, Reading
from goalmeter.representation.probes.published import HIDDEN, Published
from goalmeter.representation.probes.ridge import Ridge
from goalmeter.representation.probes.splits import Split, folds, split
from goalmeter.representation.replay import replay
from goalmeter.representation.stages.captures import Captured, captured
from goalmeter.runs.forecast import Forecast
from goalmeter.runs.progress import Tell
from goalmeter.statistics.clustered import Estimate

NAME, LEDGER_PREFIX = "lm-representation", "lm-representation/"
MODEL = "goalmeter/mouse"
SIZES, COMPLEXITIES = (7, 9, 11), (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
PRE, POST = "pre/end", "post/end"
# Two thirds of the way, as the paper's main layer: block 15 of 24, and 3 of 4.
LAYER = 3
MLP, LINEAR, RIDGE = Published(hidden=HIDDEN), Published(), Ridge()
# Of a stream of 192 numbers, a narrower decoder than the paper's 1,024.
DECODER = PlanDecoder(2, width=256)
MOST_PREFIX = 5
ALL = "all sizes"
WALKS = "walks"
_FOLDS = 3


@dataclass(frozen=True)
class Results:
    """Everything that is set beside the paper.

    Attributes:
        maps: by (probe, position, size or "all sizes"): the probe and its controls.
        explained: what the decoded maps explain of the actions of all decisions.
        plans: by size or "all sizes".
        numbers: by the id of the ledger's row, without its prefix.
    """

    maps: Mapping[tuple[str, str, str], Sequence[ProbeRow]]
    explained: Explained
    plans: Mapping[str, PlanTable]
    numbers: Mapping[str, Estimate]


def compute(out: Path, *, grids: int, seed: int, tell: Tell) -> Results:
    """Let the mouse walk, replay its walks, and read them as the paper does.

    Args:
        out: folder of walks and activations, which are not made twice.
        grids: of each size and complexity.
        seed: of everything random.
        tell: told what is being done.
    """
    run = out / WALKS
    navigate(MODEL, **_suite(grids, seed), beside=[], out=run, progress=tell)
    samples, network = replay(run)
    captures = captured(
        samples, network, out, layers=[LAYER], positions=[PRE, POST], seed=seed, tell=tell
    )
    first = np.array([captures.samples[row].step == 0 for row in captures.rows.tolist()])
    maps = _maps(captures, first, seed, tell)
    tell("decoded maps")
    of_maps = _explained(captures, first, seed)
    plans = _plans(out, captures, network, seed, tell)
    return Results(maps, of_maps, plans, _numbers(maps, of_maps, plans))


def forecast(out: Path, *, grids: int, seed: int) -> Forecast:
    """What the walks of `compute` will cost; arguments as there."""
    plan = plan_of(MODEL, "maze", asking=Asking(), **_suite(grids, seed))
    told = cost_of_walks(plan, out=out / WALKS)
    rests = (
        "what is read of the walks comes besides: activations, probes and decoders rest on the "
        "decisions that they have"
    )
    return replace(told, assumed=(*told.assumed, rests))


def _suite(grids: int, seed: int) -> dict[str, Any]:
    options: dict[str, Any] = {"sizes": SIZES, "complexities": COMPLEXITIES, "grids": grids}
    return options | {"trajectories": 1, "seed": seed}


def _sizes(reading: Reading) -> dict[str, BoolArray]:
    shapes = reading.scenes.shapes[:, 0]
    by_size = {str(size): np.asarray(shapes == size) for size in SIZES}
    return {ALL: np.ones(len(shapes), dtype=bool)} | by_size


def _maps(
    captures: Captured, first: BoolArray, seed: int, tell: Tell
) -> dict[tuple[str, str, str], Sequence[ProbeRow]]:
    """The published probes and a linear one that can express a map, on first decisions."""
    out: dict[tuple[str, str, str], Sequence[ProbeRow]] = {}
    for position in (PRE, POST):
        whole = captures.reading(LAYER, position)
        others = captures.alternatives(LAYER, position)
        for size, of_size in _sizes(whole).items():
            kept = np.flatnonzero(of_size & first)
            reading = whole.where(kept)
            parts = split(reading.scenes, seed=seed)
            for probe in (MLP, LINEAR, RIDGE):
                tell(f"maps: {probe.name}, {position}, size {size}")
                rows = (
                    compare(
                        probe,
                        reading,
                        parts,
                        alternatives={name: rows[kept] for name, rows in others.items()},
                        seed=seed,
                    ).rows
                    # Each control of a published probe would be trained as long as the probe.
                    if probe is RIDGE
                    else by_size([probe], reading, parts, seed=seed)
                )
                out[probe.name, position, size] = rows
    return out


def _explained(captures: Captured, first: BoolArray, seed: int) -> Explained:
    """What the maps of the published MLP, made into grids as published, explain of all actions."""
    reading = captures.reading(LAYER, PRE)
    parts = [
        Split(part.train[first[part.train]], part.validation[first[part.validation]], part.test)
        for part in folds(reading.scenes, _FOLDS, seed=seed)
    ]
    posterior = cross_fitted(MLP, reading, parts, seed=seed)
    maps = decoded(posterior, reading.scenes, rule=PUBLISHED)
    return explained(maps, map_controls(maps, reading.scenes, seed=seed), reading.scenes)[0]


def _plans(
    out: Path, captures: Captured, network: Network, seed: int, tell: Tell
) -> dict[str, PlanTable]:
    plans = plans_of(captures.samples)
    at = rows_of(captures.trained, plans)
    first = [sample for sample in captures.samples if sample.step == 0]
    stated = stated_plans(first, network.local.tokenizer, plans)
    shapes = plans.scenes.shapes[:, 0]
    tables = {}
    for size in (ALL, *map(str, SIZES)):
        kept = np.flatnonzero((shapes == int(size)) if size != ALL else shapes > 0)

        def rows(layer: int, position: str, kept: IntArray = kept) -> Activations:
            return at(layer, position)[kept]

        tell(f"plans: size {size}")
        tables[size] = read_plans(
            rows,
            plans.where(kept),
            [(LAYER, PRE), (LAYER, POST)],
            readers=[DECODER],
            stated=None if stated is None else stated[kept],
            parts=1,
            seed=seed,
            progress=tell,
        )
    return tables


def _numbers(
    maps: Mapping[tuple[str, str, str], Sequence[ProbeRow]],
    of_maps: Explained,
    plans: Mapping[str, PlanTable],
) -> dict[str, Estimate]:
    """What the ledger sets beside the paper, by the id of its row."""

    def cells(probe: Published, position: str, size: str = ALL) -> Estimate:
        return maps[probe.name, position, size][0].score().accuracy

    numbers = {
        "map/mlp": cells(MLP, PRE),
        "map/mlp/pre": cells(MLP, PRE),
        "map/mlp/post": cells(MLP, POST),
        "map/linear": cells(LINEAR, PRE),
        "decoded/accuracy": of_maps.on_map.value,
        "decoded/recovery": of_maps.recovery,
    }
    for position, name in ((PRE, "pre"), (POST, "post")):
        row = plans[ALL].row(position, LAYER, DECODER.name, 1)
        numbers[f"plan/{name}/1"] = row.score.prefix
    # The one size whose maps are published by themselves.
    if (size := "11") in map(str, SIZES):
        numbers[f"map/mlp/{size}"] = cells(MLP, PRE, size)
    for size in map(str, SIZES):
        for row in plans[size].rows:
            if row.position == POST and row.score.n <= MOST_PREFIX:
                numbers[f"plan/{size}/{row.score.n}"] = row.score.prefix
    return {name: value for name, value in numbers.items() if value.n}
