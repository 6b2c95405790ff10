"""`goalmeter replicate lm-representation`: the paper's map and plan probes on an organism."""

from __future__ import annotations

if __name__ == "__main__":
    from goalmeter.__main__ import main

    main("replicate", "lm-representation")

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from goalmeter import navigation, representation
from goalmeter.commands.outcome import Outcome
from goalmeter.commands.replicate import StudyOptions
from goalmeter.report import Table
from goalmeter.representation import Activations, Explained, Network, PlanDecoder, Sample, Split
from goalmeter.statistics import Estimate
from replications import ledger
from replications.common import BoolArray, IntArray, ProgressCallback, Texts, plain, write_tables

say = Texts("lm_representation")

# --- Compute --------------------------------------------------------------------------------------
#     map/mlp, map/linear         cells that the published probes read rightly, before and after it
#                                 reasons and by size; beside them what needs no activations
#     decoded/accuracy            actions that are optimal on the map of the published MLP
#     decoded/recovery            wrong actions where that map would have given a right one
#     plan/POSITION/1, plan/N/K   plans read by the two-block decoder
# As in the paper, probes are trained on first decisions of walks; a decoded map is made for every
# decision, by a fit that saw nothing of its grid.
# Source: "A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
# Agents", section 5 and the tables of its authors.

NAME, LEDGER_PREFIX = "lm-representation", "lm-representation/"
MODEL, GRIDS = "goalmeter/mouse", 40
SIZES, COMPLEXITIES = (7, 9, 11), (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
# Plans at the paper's largest sizes, and wrong actions by size, are those of a mouse that was
# trained on all of its sizes.
LARGE_MODEL, LARGE_GRIDS = Path(__file__).parent / "weights", 12
LARGE_SIZES = (7, 9, 11, 13, 15)
PRE, POST = "pre/end", "post/end"
# Two thirds of the way, as the paper's main layer: block 15 of 24, and 3 of 4.
LAYER = 3
_PROBES = ("MLP (as published)", "linear (as published)", "ridge")
MLP, LINEAR, RIDGE = map(representation.probe, _PROBES)
# Of a stream of 192 numbers, a narrower decoder than the paper's 1,024.
DECODER = PlanDecoder(2, width=256)
MOST_PREFIX = 5
ALL = "all sizes"
_FOLDS = 3
Maps = Mapping[tuple[str, str, str], Sequence[Any]]  # by probe, position and size or "all sizes"


def _of_size(shapes: Any, size: str) -> IntArray:
    return np.flatnonzero((shapes[:, 0] == int(size)) if size != ALL else shapes[:, 0] > 0)


def _is_first(captures: Any) -> BoolArray:
    return np.array([captures.samples[row].step == 0 for row in captures.rows.tolist()])


def _maps(captures: Any, seed: int, tell: ProgressCallback) -> Maps:
    """The published probes and a linear one that can express a map, on first decisions."""
    first = _is_first(captures)
    out: dict[tuple[str, str, str], Sequence[Any]] = {}
    for position in (PRE, POST):
        whole = captures.reading(LAYER, position)
        others = captures.alternatives(LAYER, position)
        for size in (ALL, *map(str, SIZES)):
            kept = _of_size(whole.scenes.shapes, size)
            kept = kept[first[kept]]
            reading = whole.where(kept)
            parts = representation.split(reading.scenes, seed=seed)
            for probe in (MLP, LINEAR, RIDGE):
                tell(f"maps: {probe.name}, {position}, size {size}")
                # Each control of a published probe would be trained as long as the probe.
                if probe is RIDGE:
                    controls = {name: rows[kept] for name, rows in others.items()}
                    rows = representation.compare(
                        probe, reading, parts, alternatives=controls, seed=seed
                    ).rows
                else:
                    rows = representation.by_size([probe], reading, parts, seed=seed)
                out[probe.name, position, size] = rows
    return out


def _explained(
    captures: Any, sizes: Sequence[int], seed: int, tell: ProgressCallback
) -> dict[str, Explained]:
    """What maps of the published MLP explain of all actions, and of those in mazes of each size."""
    reading, first = captures.reading(LAYER, PRE), _is_first(captures)
    parts = [
        Split(part.train[first[part.train]], part.validation[first[part.validation]], part.test)
        for part in representation.folds(reading.scenes, _FOLDS, seed=seed)
    ]
    tell("decoded maps")
    posterior = representation.cross_fitted(MLP, reading, parts, seed=seed)
    out = {}
    for size in (ALL, *map(str, sizes)):
        kept = _of_size(reading.scenes.shapes, size)
        scenes = reading.scenes.where(kept)
        decoded = representation.decoded(posterior[kept], scenes, rule="published")
        controls = representation.map_controls(decoded, scenes, seed=seed)
        out[size] = representation.explained(decoded, controls, scenes)[0]
    return out


def _plans(
    samples: Sequence[Sample],
    trained: Activations,
    network: Network,
    sizes: Sequence[str],
    seed: int,
    tell: ProgressCallback,
) -> dict[str, Any]:
    """Plans by size; the activations have all first decisions."""
    plans = representation.plans_of(samples)
    at = representation.rows_of(trained, plans)
    first = [sample for sample in samples if sample.step == 0]
    stated = representation.stated_plans(first, network.local.tokenizer, plans)
    tables = {}
    for size in sizes:
        kept = _of_size(plans.scenes.shapes, size)

        def rows(layer: int, position: str, kept: Any = kept) -> Any:
            return at(layer, position)[kept]

        tell(f"plans: size {size}")
        tables[size] = representation.read_plans(
            rows,
            plans.where(kept),
            [(LAYER, PRE), (LAYER, POST)],
            readers=[DECODER],
            stated=None if stated is None else stated[kept],
            parts=1,
            seed=seed,
        )
    return tables


def _numbers(
    maps: Maps, explained: Explained, plans: Mapping[str, Any]
) -> Iterator[tuple[str, Estimate]]:
    def cells(probe: Any, position: str, size: str = ALL) -> Estimate:
        accuracy: Estimate = maps[probe.name, position, size][0].score().accuracy
        return accuracy

    yield "map/mlp", cells(MLP, PRE)
    yield "map/mlp/pre", cells(MLP, PRE)
    yield "map/mlp/post", cells(MLP, POST)
    yield "map/linear", cells(LINEAR, PRE)
    yield "decoded/accuracy", explained.on_map.value
    yield "decoded/recovery", explained.recovery
    yield "plan/pre/1", plans[ALL].row(PRE, LAYER, DECODER.name, 1).prefix
    yield "plan/post/1", plans[ALL].row(POST, LAYER, DECODER.name, 1).prefix
    if 11 in SIZES:  # the one size whose maps are published by themselves
        yield "map/mlp/11", cells(MLP, PRE, "11")
    for size, table in plans.items():
        for row in table.plan if size != ALL else ():
            if row.position == POST and row.n <= MOST_PREFIX:
                yield f"plan/{size}/{row.n}", row.prefix


_TIMES = {PRE: "before it reasons", POST: "after"}


def _tables(
    numbers: Mapping[str, Estimate], by_probe: Maps, each: Explained, by_size: Mapping[str, Any]
) -> tuple[Table, ...]:
    beside = [
        {"row": row, "quantity": row.quantity.partition(":")[0], "ours": numbers[key]}
        for row in ledger.load(LEDGER_PREFIX)
        if (key := row.id.removeprefix(LEDGER_PREFIX)) in numbers
    ]
    maps = [
        {
            "name": row.control or row.probe,
            "tokens": _TIMES[position],
            "score": row.score(),
            "links": row.score("links", "wall"),
        }
        for position in (PRE, POST)
        for row in (
            *(by_probe[probe.name, position, ALL][0] for probe in (MLP, LINEAR)),
            *by_probe[RIDGE.name, position, ALL],
        )
    ]
    shares = [(title, getattr(each, name)) for title, name in say.declared("shares").items()]
    controls = [(name, f"1.controls.{name}", "percent") for name in each.on_map.controls]
    plans = [
        {
            "grids": size if size == ALL else f"size {size}",
            "tokens": _TIMES[row.position],
            "row": row,
        }
        for size, table in by_size.items()
        for row in table.plan
        if row.n in (1, 2, 4)
    ]
    return (
        say.table("the_paper_s_maps_and_plans_beside_the_mo", beside),
        say.table("maps_read_from_the_mouse", maps, layer=LAYER),
        say.table("decoded_table", shares, more=controls, of=each),
        say.table("plans_read_from_the_mouse", plans, decoder=DECODER, layer=LAYER),
    )


def _walked(
    out: Path, model: str, sizes: Sequence[int], grids: int, seed: int, tell: ProgressCallback
) -> tuple[tuple[Sample, ...], Network]:
    """Run a model in mazes of these sizes and return its decisions and network."""
    run = out / "walks"
    worlds: dict[str, Any] = {"sizes": sizes, "complexities": COMPLEXITIES, "grids": grids}
    # The default for names of organisms, but not for folders.
    walks = worlds | {"held_out": True, "trajectories": 1, "seed": seed, "beside": []}
    navigation.measure(model, **walks, prompts=["compact/2"], out=run, progress=tell)
    return representation.replay(run)


def _large_mouse(
    out: Path, grids: int, seed: int, tell: ProgressCallback
) -> tuple[dict[str, Explained], dict[str, Any]]:
    """What maps explain of the actions of the mouse for large mazes, and its plans, by size."""
    model = f"goalmeter-local/{LARGE_MODEL}"
    samples, network = _walked(out, model, LARGE_SIZES, grids, seed, tell)
    # Answers take most of the time, and are read for plans only.
    prompts = tuple(replace(sample, answer=()) for sample in samples)
    ends: dict[str, Any] = {"layers": [LAYER], "positions": [PRE], "seed": seed, "tell": tell}
    captures = representation.captured(prompts, network, out / "maps", **ends)
    by_size = _explained(captures, LARGE_SIZES, seed, tell)
    samples = tuple(sample for sample in samples if sample.world.shape[0] not in SIZES)
    first = [sample for sample in samples if sample.step == 0]
    ends = {"layers": [LAYER], "positions": [PRE, POST], "progress": tell}
    trained = representation.capture(first, network, out / "plans", **ends)
    sizes = [str(size) for size in LARGE_SIZES if size not in SIZES]
    return by_size, _plans(samples, trained, network, sizes, seed, tell)


def replicate(out: Path, options: StudyOptions) -> Outcome:
    """Read the maps and plans of the mouse as the paper reads those of GPT-OSS-20B.

    Seeds are mazes of each size and complexity, 40 by default, and at most 12 for a mouse that was
    trained on sizes up to 15, whose plans are read at sizes 13 and 15 and whose wrong actions at
    each size. All of it runs in this process.
    """
    grids, seed = options.count(GRIDS, least=4), options.seed
    tell = options.progress or (lambda line: None)
    ends: dict[str, Any] = {"layers": [LAYER], "positions": [PRE, POST]}
    samples, network = _walked(out, MODEL, SIZES, grids, seed, tell)
    captures = representation.captured(samples, network, out, **ends, seed=seed, tell=tell)
    by_probe = _maps(captures, seed, tell)
    explained = _explained(captures, (), seed, tell)[ALL]
    plans = _plans(samples, captures.trained, network, (ALL, *map(str, SIZES)), seed, tell)
    by_size, larger = _large_mouse(out / "large", min(grids, LARGE_GRIDS), seed, tell)
    plans |= larger
    numbers = {name: value for name, value in _numbers(by_probe, explained, plans) if value.n}
    maps = [
        dict(zip(("probe", "position", "size"), key, strict=True)) | {"rows": rows}
        for key, rows in by_probe.items()
    ]
    results = {"numbers": numbers, "maps": maps, "explained": explained, "plans": plans}
    results |= {"explained_by_size": by_size}
    value = {"replication": NAME, "seeds": grids} | plain(results)
    tables = _tables(numbers, by_probe, explained, plans)
    return write_tables(out, (*tables, say.table("explained_by_size", by_size.items())), value)


def planned(options: StudyOptions) -> dict[str, int]:
    """Return how much `replicate` with these options will do."""
    grids = options.count(GRIDS, least=4)
    each = len(SIZES) * grids + len(LARGE_SIZES) * min(grids, LARGE_GRIDS)
    return {"walks": len(COMPLEXITIES) * each}


def ledger_values(row: ledger.Number, results: Mapping[str, Any]) -> dict[str, str] | None:
    """Return what these results say of a row of the ledger; None where they say nothing."""
    ours = results["numbers"].get(row.id.removeprefix(LEDGER_PREFIX))
    shares = ledger.in_percent(ours)
    if shares is None:
        return None
    return shares | {
        # A share of nothing has no digits of its own.
        "tolerance": "0.005" if ours["value"] > 0.005 else "0.0001",
        "command": f'"goalmeter replicate {NAME}"',
        "cost": '"slow"',
    }
