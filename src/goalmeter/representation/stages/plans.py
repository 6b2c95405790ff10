"""The stage of the plan: what a walk will do, read from its first decision."""

from __future__ import annotations

from functools import partial
from typing import Any

from goalmeter._json import json_value
from goalmeter.representation.capture import capture
from goalmeter.representation.network import Network
from goalmeter.representation.plan.comparison import At, read_plans, rows_of
from goalmeter.representation.plan.decided import along, decided
from goalmeter.representation.plan.decoder import PlanDecoder
from goalmeter.representation.plan.known import stated_plans
from goalmeter.representation.plan.linear import LinearSteps
from goalmeter.representation.plan.targets import Plans, plans_of
from goalmeter.representation.replay import Sample
from goalmeter.representation.result_rows import DecidedRow, PlanRow, SettledRow
from goalmeter.representation.rows import row_from
from goalmeter.representation.stages.asked import Asked
from goalmeter.runs import Stages
from goalmeter.runs.progress import Tell

# The folder of the probe in which their activations lie.
FIRST_DECISIONS = "first-decisions"
# The published width; a decoder of a narrow stream needs no more than this.
_WIDTH, _NARROW = 1024, 256


def plan_stage(
    stages: Stages, samples: tuple[Sample, ...], network: Network, wanted: Asked
) -> tuple[dict[str, Any], dict[str, str]]:
    """Plans at all places by linear heads, at the last layer by decoders; when it is decided.

    Also why a baseline is not there.
    """
    layers, positions, seed = wanted.layers, wanted.positions, wanted.seed
    plans = plans_of(samples)
    first = tuple(sample for sample in samples if sample.step == 0)
    activations = capture(
        first,
        network,
        stages.folder / FIRST_DECISIONS,
        layers=layers,
        positions=tuple(dict.fromkeys([*positions, *along()])),
        progress=stages.tell,
    )
    at = rows_of(activations, plans)
    stated = stated_plans(first, network.local.tokenizer, plans)
    width = _WIDTH if network.width >= _WIDTH else _NARROW
    linear = LinearSteps()
    decoders = [PlanDecoder(depth, width=width) for depth in wanted.decoders]
    readers: list[LinearSteps | PlanDecoder] = [linear, *decoders]
    rows: list[PlanRow] = []
    left_out: dict[str, str] = {}
    for reader in readers:
        read_at = layers if reader is linear else layers[-1:]
        places = [(layer, name) for layer in read_at for name in positions]
        read = partial(
            _read,
            at,
            plans,
            places,
            readers=[reader],
            stated=stated,
            # The decoder is trained for minutes, so a quarter of the grids is scored, as published.
            parts=5 if reader is linear else 1,
            seed=seed,
            progress=stages.tell,
        )
        value = stages.value(f"plan/{reader.name}", read)
        rows += [row_from(PlanRow, row) for row in value["plan"]]
        left_out |= {f"plan: {name}": reason for name, reason in value["left_out"].items()}
    value = stages.value(
        "plan/decided", partial(_decided, at, plans, layers[-1], seed, stages.tell)
    )
    fields = {
        "plan": tuple(rows),
        "decided": tuple(row_from(DecidedRow, row) for row in value["decided"]),
        "settled": tuple(row_from(SettledRow, row) for row in value["settled"]),
    }
    return fields, left_out


def _decided(at: At, plans: Plans, layer: int, seed: int, tell: Tell) -> dict[str, Any]:
    result = decided(at, plans, layers=[layer], seed=seed, progress=tell)
    return {"decided": json_value(result.rows), "settled": json_value(result.settled)}


def _read(*arguments: Any, **options: Any) -> Any:
    table = read_plans(*arguments, **options)
    rows = [
        PlanRow(
            row.layer,
            row.position,
            row.decoder,
            row.score.n,
            row.score.prefix,
            row.score.conditional,
            {
                name: None
                if beside is None
                else {
                    "prefix": beside.score.prefix,
                    "conditional": beside.score.conditional,
                    "beyond": beside.beyond,
                }
                for name, beside in row.baselines.items()
            },
        )
        for row in table.rows
    ]
    return json_value({"plan": rows, "left_out": table.left_out})
