"""Measures of a language model's hidden states: its maps, their use, and utilities over them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from goalmeter.agents.abilities import Ability
from goalmeter.card import grids
from goalmeter.card.measured import FULL, QUICK, CardSettings, Measure, Measured
from goalmeter.card.records import NATS, SHARE, CardRow, Disagreement
from goalmeter.card.subject import Subject
from goalmeter.navigation.agent_walks import run_folder
from goalmeter.report import Section
from goalmeter.report.numbers import LEAST_SHARE
from goalmeter.report.tables import summary_table
from goalmeter.representation.hidden_utilities import hidden_utility
from goalmeter.representation.measure import forecast, measure
from goalmeter.representation.result import Representation
from goalmeter.runs.forecast import Forecast
from goalmeter.statistics.clusters import Estimate

NAME = "hidden-states"
OPTIONS: dict[str, Any] = {"parts": ("maps", "use")}  # of the probe


def _reason(subject: Subject, settings: CardSettings) -> str:
    if Ability.HIDDEN not in subject.abilities:
        return f"requires {Ability.HIDDEN}"
    if settings.scale == QUICK or grids.NAME in settings.without:
        return f"not run at the quick scale, or without {grids.NAME}"
    return ""


def _mazes(subject: Subject, settings: CardSettings) -> Path:
    """Return the directory of the walks through mazes."""
    return run_folder(grids.plans_of(subject, settings)[0], settings.out / grids.NAME)


def _forecast(subject: Subject, settings: CardSettings) -> Forecast:
    run = _mazes(subject, settings)
    if (run / "run.json").exists():
        return forecast(run, **OPTIONS)
    assumed = ("known after the walks; some minutes on two cores for a small model",)
    return Forecast(name=NAME, noun="probe", trials=1, left=1, assumed=assumed)


def _run(subject: Subject, settings: CardSettings) -> Measured:
    run, source = _mazes(subject, settings), f"{grids.NAME}/.../probe/result.json"
    common: dict[str, Any] = {"measure": NAME, "of": "grids", "source": source}
    found = measure(run, **OPTIONS, seed=settings.seed, progress=settings.tell)
    rows = [*_map_rows(found, common), *_use_rows(found, common)]
    if settings.scale == FULL:
        rows += _utility_rows(run, settings, common)
    disagreements = []
    if found.verdict == "not used" and rows and (rows[0].lower or 0.0) > 0.5:
        disagreements.append(
            Disagreement(
                "Walls can be decoded from its hidden states, but changing them does not change "
                "its moves.",
                "Interventions at other positions and layers (goalmeter probe).",
            )
        )
    table = summary_table(
        [(name, reason) for name, reason in found.left_out.items()] or [("left out", "nothing")],
        caption="Parts of the probe that were left out",
        meaning="Why each part was left out.",
    )
    section = Section(title="Hidden states", tables=(table,), text=(f"{found.headline}.",))
    return Measured(
        rows=rows,
        disagreements=disagreements,
        sections=[section],
        trials=found.decisions,
        citations=("arghal2026behavioural", "hewitt2019designing"),
    )


MEASURE = Measure(NAME, _reason, _forecast, _run)


def _map_rows(found: Representation, common: dict[str, Any]) -> list[CardRow]:
    """Return the area under the curve of the chosen probe for walls, with its controls."""
    place = tuple(found.chosen.get(key) for key in ("layer", "position", "probe"))
    here = [r for r in found.maps_of() if (r.layer, r.position, r.probe) == place]
    own = next((row for row in here if row.control is None), None)
    if own is None:
        return []
    controls = {row.control: row.auroc.value for row in here if row.control and row.auroc}
    row = CardRow.of_estimate(
        own.auroc,
        id="wall_auroc",
        title="Walls decoded from hidden states, AUROC",
        unit=SHARE,
        baselines=controls,
        margin=0.05,
        note=f"layer {place[0]}, {place[1]}, {place[2]}",
        **common,
    )
    rows = [row]
    if gain := found.believed.get("difference"):
        rows.append(
            CardRow.of_estimate(
                Estimate.from_json(gain),
                id="believed_gain",
                title="MEG on the decoded map minus MEG on the true map",
                unit=NATS,
                note="nats a walk; see docs/notes/representation.md for when it can be interpreted",
                **common,
            )
        )
    return rows


def _use_rows(found: Representation, common: dict[str, Any]) -> list[CardRow]:
    """Return the moves that flip where needed cells are changed, on held-out grids."""
    confirmed = [row for row in found.use if row.chosen and row.half == "confirm"]
    return [
        CardRow.of_estimate(
            row.flips,
            id="map_used",
            title="Moves that flip where a needed cell is changed",
            baselines={"null": row.null_flips.value} if row.null_flips else {},
            margin=LEAST_SHARE,
            note=f"{row.intervention}, layer {row.layer}, {row.position}: {found.verdict}",
            **common,
        )
        for row in confirmed[:1]
    ]


def _utility_rows(run: Path, settings: CardSettings, common: dict[str, Any]) -> list[CardRow]:
    """Return the best layer's held-out MEG towards utilities over hidden states."""
    found = hidden_utility(run, seed=settings.seed, progress=settings.tell)
    layers = [row for row in found.rows if row.layer is not None]
    controls = {r.features: r.held_out.value for r in found.rows if r.layer is None}
    best = max(layers, key=lambda row: row.held_out.value)
    return [
        CardRow.of_estimate(
            best.held_out,
            id="hidden_utility",
            title="MEG towards utilities over hidden states, held out",
            baselines=controls,
            margin=LEAST_SHARE,
            note=f"layer {best.layer}, the best of {len(layers)}: {best.verdict}",
            **common,
        )
    ]
