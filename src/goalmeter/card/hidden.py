"""Measures of a language model's hidden states: its maps, their use, its plans, and utilities."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from goalmeter.agents.abilities import Ability
from goalmeter.card import grids
from goalmeter.card.measured import FULL, QUICK, STANDARD, CardSettings, Measure, Measured
from goalmeter.card.records import (
    BOUNDED,
    NATS,
    PAIRED,
    PAIRED_PSEUDO_VALUES,
    PSEUDO_VALUES,
    SHARE,
    CardRow,
    Disagreement,
)
from goalmeter.card.subject import Subject
from goalmeter.card.worlds import stored_values
from goalmeter.navigation.agent_walks import run_folder
from goalmeter.report import Section
from goalmeter.report.numbers import LEAST_SHARE
from goalmeter.report.tables import summary_table
from goalmeter.representation.hidden_utilities import hidden_utility
from goalmeter.representation.measure import forecast, measure
from goalmeter.representation.plans.readers import POSITION
from goalmeter.representation.replay import BEFORE
from goalmeter.representation.result import FOLDER, RESULT, Representation
from goalmeter.representation.stages import PARTS
from goalmeter.runs.forecast import Forecast
from goalmeter.statistics.clusters import Estimate

NAME = "hidden-states"
OPTIONS: dict[str, Any] = {"parts": PARTS}  # of the probe
DECODERS = {STANDARD: (), FULL: (2,)}  # layers of transformers that predict plans, minutes each
PLANNED = 2  # moves of a plan; the first alone needs no plan


def _reason(subject: Subject, settings: CardSettings) -> str:
    if Ability.HIDDEN not in subject.abilities:
        return f"requires {Ability.HIDDEN}"
    if settings.scale == QUICK or grids.NAME in settings.without:
        return f"not run at the quick scale, or without {grids.NAME}"
    return ""


def _mazes(subject: Subject, settings: CardSettings) -> Path:
    """Return the directory of the walks through mazes."""
    return run_folder(grids.plans_of(subject, settings)[0], settings.out / grids.NAME)


def _options(settings: CardSettings) -> dict[str, Any]:
    return {"decoders": DECODERS[settings.scale], "seed": settings.seed, **OPTIONS}


def _forecast(subject: Subject, settings: CardSettings) -> Forecast:
    run = _mazes(subject, settings)
    if (run / "run.json").exists():
        return forecast(run, **_options(settings))
    assumed = ("known after the walks; some minutes on two cores for a small model",)
    return Forecast(name=NAME, noun="probe", trials=1, left=1, assumed=assumed)


def _run(subject: Subject, settings: CardSettings) -> Measured:
    run = _mazes(subject, settings)
    source = (run / FOLDER / RESULT).relative_to(settings.out)
    common: dict[str, Any] = {"measure": NAME, "of": "grids", "source": str(source)}
    result = measure(run, **_options(settings), progress=settings.tell)
    rows = [*_map_rows(result, common), *_use_rows(result, common), *_plan_rows(result, common)]
    if settings.scale == FULL:
        rows += _utility_rows(run, subject, settings)
    disagreements = []
    if result.verdict == "not used" and rows and (rows[0].lower or 0.0) > 0.5:
        disagreements.append(
            Disagreement(
                "Walls can be decoded from its hidden states, but changing them does not change "
                "its moves.",
                "Interventions at other positions and layers (goalmeter probe).",
            )
        )
    table = summary_table(
        [(name, reason) for name, reason in result.left_out.items()] or [("left out", "nothing")],
        caption="Parts of the probe that were left out",
        meaning="Why each part was left out.",
    )
    section = Section(title="Hidden states", tables=(table,), text=(f"{result.headline}.",))
    return Measured(
        rows=rows,
        disagreements=disagreements,
        sections=[section],
        trials=result.decisions,
        citations=("arghal2026behavioural", "hewitt2019designing"),
    )


MEASURE = Measure(NAME, _reason, _forecast, _run)


def _map_rows(result: Representation, common: dict[str, Any]) -> list[CardRow]:
    """Return the area under the curve of the chosen probe for walls, with its controls."""
    place = tuple(result.chosen.get(key) for key in ("layer", "position", "probe"))
    at_place = [r for r in result.maps_of() if (r.layer, r.position, r.probe) == place]
    chosen = next((row for row in at_place if row.control is None), None)
    if chosen is None:
        return []
    controls = {row.control: row.auroc.value for row in at_place if row.control and row.auroc}
    row = CardRow.of_estimate(
        chosen.auroc,
        id="wall_auroc",
        title="Walls decoded from hidden states, AUROC",
        method=PSEUDO_VALUES,
        unit=SHARE,
        baselines=controls,
        margin=0.05,
        note=f"layer {place[0]}, {place[1]}, {place[2]}",
        **common,
    )
    rows = [row]
    if gain := result.believed.get("difference"):
        rows.append(
            CardRow.of_estimate(
                Estimate.from_json(gain),
                id="believed_gain",
                title="MEG on the decoded map minus MEG on the true map",
                method=PAIRED_PSEUDO_VALUES,
                unit=NATS,
                note="nats a walk; see docs/notes/representation.md for when it can be interpreted",
                **common,
            )
        )
    return rows


def _use_rows(result: Representation, common: dict[str, Any]) -> list[CardRow]:
    """Return the moves that flip where needed cells are changed, on held-out grids."""
    confirmed = [row for row in result.use if row.chosen and row.half == "confirm"]
    return [
        CardRow.of_estimate(
            row.flips,
            id="map_used",
            title="Moves that flip where a needed cell is changed",
            method=BOUNDED,
            baselines={"null": row.null_flips.value} if row.null_flips else {},
            margin=LEAST_SHARE,
            note=f"{row.intervention}, layer {row.layer}, {row.position}: {result.verdict}",
            **common,
        )
        for row in confirmed[:1]
    ]


def _plan_rows(result: Representation, common: dict[str, Any]) -> list[CardRow]:
    """Return how well the first moves of walks are read at the layer that was chosen for maps.

    The layer is not chosen by these scores, and the moves are read before the model writes a word.
    """
    layer = result.chosen.get("layer")
    in_layer = [row for row in result.plan if (row.layer, row.n) == (layer, PLANNED)]
    read = next((row for row in in_layer if row.position.startswith(BEFORE)), None)
    if read is None:
        return []
    beside = {name: each for name, each in read.baselines.items() if each is not None}
    note = f"layer {layer}, {read.position}, {read.decoder}: more than {_listed(read.exceeds)}"
    rows = [
        CardRow.of_estimate(
            read.prefix,
            id="plan_read",
            title=f"First {PLANNED} moves decoded before the answer",
            baselines={name: each["prefix"].value for name, each in beside.items()},
            margin=LEAST_SHARE,
            method=BOUNDED,
            note=note,
            **common,
        )
    ]
    if POSITION in beside:
        rows.append(
            CardRow.of_estimate(
                beside[POSITION]["beyond"],
                id="plan_gain",
                title=f"First {PLANNED} moves decoded, minus from position alone",
                margin=LEAST_SHARE,
                method=PAIRED,
                note="same walks; above 0: the hidden states tell more than where it and the goal "
                "are",
                **common,
            )
        )
    return rows


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none of the baselines"


def _utility_rows(run: Path, subject: Subject, settings: CardSettings) -> list[CardRow]:
    """Return the best layer's held-out MEG towards utilities over hidden states."""

    def utilities() -> Any:
        return hidden_utility(run, seed=settings.seed, progress=settings.tell).to_json()

    listed = stored_values(NAME, subject, settings, {"utility": utilities})["utility"]["rows"]
    shares = {number: Estimate.from_json(row["held_out"]) for number, row in enumerate(listed)}
    layers = [number for number, row in enumerate(listed) if row["layer"] is not None]
    best = max(layers, key=lambda number: shares[number].value)
    return [
        CardRow.of_estimate(
            shares[best],
            id="hidden_utility",
            measure=NAME,
            title="MEG towards utilities over hidden states, held out",
            of="grids",
            method=PSEUDO_VALUES,
            baselines={
                row["features"]: shares[number].value
                for number, row in enumerate(listed)
                if number not in layers
            },
            margin=LEAST_SHARE,
            source=f"{NAME}/trials.jsonl",
            note=f"layer {listed[best]['layer']}, the best of {len(layers)}: "
            f"{listed[best]['verdict']}",
        )
    ]
