"""Cards with invented numbers, written as `goalmeter measure` writes them."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from goalmeter import cli
from goalmeter.card.records import (
    BOUND,
    CARD_JSON,
    EXACT,
    ITEMS_JSON,
    NATS,
    P_VALUE,
    Card,
    CardRow,
    Claim,
    Disagreement,
    Gauge,
    NotRun,
)

Items = Mapping[str, Mapping[str, Sequence[float]]]


class Done(NamedTuple):
    status: int
    out: str
    err: str


def row(name: str, value: float | None = 0.5, **fields: Any) -> CardRow:
    return CardRow(id=name, measure="navigation", title=f"title of {name}", value=value, **fields)


MEG = row("meg", 2.5, lower=2.0, upper=3.0, unit=NATS, n=20, of="mazes", margin=0.5)
ROWS = (
    MEG,
    row(
        "optimal",
        0.75,
        lower=0.6,
        upper=0.9,
        n=20,
        of="mazes",
        baselines={"greedy": 0.4},
        method="Student's t",
    ),
    row("bounds", 5.0, lower=4.0, upper=6.0, unit=NATS, ends=BOUND),
    row("exact", 1.0, unit=NATS, ends=EXACT),
    row("swap", 0.001, unit=P_VALUE, error_rate="false alarms 2%"),
    row("missing", None, n=0),
)


def card(agent: str = "mouse", rows: Sequence[CardRow] = ROWS, **fields: Any) -> Card:
    gauge = Gauge(title="How strongly?", answer="85%", value=0.85, marks={"greedy": 0.4})
    claim = Claim(
        text="It wants cheese.",
        row="meg",
        end="lower",
        relation=">=",
        threshold=2.0,
        refuted_by="an upper end below 2",
        sha256="0" * 64,
    )
    usual: dict[str, Any] = {
        "about": "an organism",
        "scale": "quick",
        "seed": 0,
        "headline": "mouse pursues the goal",
        "verdict": "pursues the goal",
        "certainty": "strong evidence",
        "gauges": (gauge,),
        "disagreements": (Disagreement("They differ.", "More mazes."),),
        "claim": claim,
        "elicitation": None,
        "not_run": (NotRun("reflection", "requires a history agent"),),
        "failures": {},
        "trials": 40,
        "citations": ("macdermott2024measuring", "tukey1958bias"),
        "versions": {"goalmeter": "0.1.0"},
        "command": "goalmeter measure goalmeter/mouse --quick",
    }
    return Card(agent=agent, rows=tuple(rows), **usual | fields)


def write(folder: Path, written: Card, items: Items | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CARD_JSON).write_text(json.dumps(written.to_json()))
    if items is not None:
        (folder / ITEMS_JSON).write_text(json.dumps(items))
    return folder


def with_row(of: Card, changed: CardRow) -> Card:
    rows = [changed if each.id == changed.id else each for each in of.rows]
    return replace(of, rows=tuple(rows))


def run(monkeypatch: pytest.MonkeyPatch, capsys: Any, *arguments: object) -> Done:
    """The command line in this process."""
    monkeypatch.setattr(sys, "argv", ["goalmeter", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    return Done(int(stopped.value.code or 0), *capsys.readouterr())
