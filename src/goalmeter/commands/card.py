"""`goalmeter compare`, `goalmeter card` and `goalmeter cite`."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidParameterError
from goalmeter._files import strict_json, write_text
from goalmeter._options import values_by_name
from goalmeter.card import gates
from goalmeter.card.compare import compare_cards
from goalmeter.card.exports import bibtex, every_eval_ever, stream_table
from goalmeter.card.page import render_comparison
from goalmeter.card.records import CARD_HTML, Card, read_card
from goalmeter.card.text import as_text
from goalmeter.commands.declare import Tell, argument, command, option
from goalmeter.commands.outcome import Outcome
from goalmeter.report import in_markdown, require_report_extra
from goalmeter.report.page import provenance

FORMATS = {"text": None, "github": gates.github_text, "junit": gates.junit_text}
EXPORTS = ("eee", "stream")
SUMMARY = "GITHUB_STEP_SUMMARY"  # file that GitHub shows below a workflow


@dataclass(frozen=True, kw_only=True)
class _CompareOptions:
    cards: Sequence[Path] = argument("CARD  Directories of cards; the first is the reference.")
    margin: Mapping[str, Any] | None = option(
        "--margin ROW=M  Largest difference of a row that counts as none.",
        read=partial(values_by_name, expected="ROW=M, such as meg=0.5"),
    )
    out: Path | None = option("DIR  Directory for report.html and results.json.")


@command(_CompareOptions)
def compare(o: _CompareOptions, tell: Tell) -> Outcome:
    """Compare the cards of several agents.

    Example: goalmeter compare runs/mouse runs/mole --margin meg=0.5
    """
    if o.out is not None:
        require_report_extra()
    made = compare_cards([read_card(path) for path in o.cards], o.cards, margins=o.margin)
    if o.out is None:
        return Outcome(tables=made.tables, json=made.to_json())
    links = {
        name: Path(os.path.relpath(folder / CARD_HTML, o.out)).as_posix()
        for name, folder in zip(made.cards, o.cards, strict=True)
        if (folder / CARD_HTML).is_file()
    }
    margins = [f"--margin={name}={margin}" for name, margin in (o.margin or {}).items()]
    source = provenance(f"goalmeter compare {shlex.join([*map(str, o.cards), *margins])}")
    page = render_comparison(made, links=links, provenance=source)
    report = write_text(o.out / "report.html", page).resolve()
    results = write_text(o.out / "results.json", strict_json(made.to_json()) + "\n").resolve()
    json = made.to_json() | {"report": str(report), "results": str(results)}
    return Outcome(tables=made.tables, json=json, report=report)


@dataclass(frozen=True, kw_only=True)
class _CardOptions:
    card: Path = argument("CARD  Directory of a card.")
    require: Sequence[str] = option("'ROW.END >= NUMBER'  Required of a value or end.", default=())
    baseline: Path | None = option("CARD0  Card that ROW.difference.END is relative to.")
    format: str = option(f"{'|'.join(FORMATS)}  Format of the result.", default="text")
    export: str | None = option(f"{'|'.join(EXPORTS)}  Every Eval Ever (JSON), STREAM (Markdown).")
    out: Path | None = option("FILE  File of the export.")


@command(_CardOptions)
def card(o: _CardOptions, tell: Tell) -> Outcome:
    """Show, check or export the card of an agent.

    The exit status is 4 if a requirement is not met, a number is missing or a trial failed.
    Example: goalmeter card runs/mouse --require 'meg.lower >= 2' --format github
    """
    if o.format not in FORMATS or o.export not in (None, *EXPORTS):
        raise InvalidParameterError(
            f"--format is {o.format!r} and --export {o.export!r}, expected one of "
            f"{', '.join(FORMATS)} and one of {', '.join(EXPORTS)}"
        )
    if (o.export is None) != (o.out is None) or (o.export and o.require):
        raise InvalidParameterError("--export and --out need each other, and exclude --require")
    read = read_card(o.card)
    if o.export is not None and o.out is not None:
        return _export(read, o.export, o.out)
    comparison = None
    if o.baseline is not None:
        comparison = compare_cards([read_card(o.baseline), read], [o.baseline, o.card])
    changes = [] if comparison is None else [comparison.tables[0]]
    if not o.require and o.format == "text":
        page = Path(o.card) / CARD_HTML
        report = page.resolve() if page.is_file() else None
        return Outcome(tables=changes, json=read.to_json(), report=report, text=as_text(read))
    checked = gates.check_gates(read, o.require, comparison)
    failed = sum(not gate.passed for gate in checked)
    outcome: dict[str, Any] = {
        "json": {"agent": read.agent, "gates": [gate.to_json() for gate in checked]},
        "unmet": f"{failed} of {len(checked)} requirements are not met" if failed else "",
    }
    if (summary := os.environ.get(SUMMARY)) and o.format == "github":
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(gates.markdown_text(read, checked))
    if show := FORMATS[o.format]:  # nothing else, since a program reads it
        return Outcome(tables=(), text=show(read, checked), **outcome)
    return Outcome(tables=[gates.gates_table(read, checked), *changes], **outcome)


def _export(read: Card, kind: str, out: Path) -> Outcome:
    if kind == "stream":
        text = in_markdown([stream_table(read)])
    else:
        text = strict_json(every_eval_ever(read, int(time.time()))) + "\n"
    path = write_text(out, text).resolve()
    return Outcome(tables=(), json={"export": str(path)}, report=path)


@dataclass(frozen=True, kw_only=True)
class _CiteOptions:
    card: Path = argument("CARD  Directory of a card.")


@command(_CiteOptions)
def cite(o: _CiteOptions, tell: Tell) -> Outcome:
    """Print the BibTeX entries of what a card used."""
    keys = read_card(o.card).citations
    text = bibtex(keys)
    return Outcome(tables=(), json={"keys": list(keys), "bibtex": text}, text=text)
