"""What a soak came to, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from faults.judge import DOUBLED, LOST, UNEQUAL
from faults.trying import HANGS, LEFT, UNEXPLAINED, Outcome

WRONG = (LOST, DOUBLED, UNEQUAL, HANGS, UNEXPLAINED, LEFT)


def to_json(outcome: Outcome, about: Mapping[str, Any]) -> dict[str, Any]:
    """The counts of a soak by kind of run, and `about` it: seed, minutes, date, commit."""
    kinds = sorted(outcome.tries, key=list(outcome.tries).index)
    faults = sorted({fault for fault, _ in outcome.injected})
    rows = [
        {
            "kind": kind,
            "tries": outcome.tries[kind],
            "trials": outcome.trials[kind],
            "injected": {fault: outcome.injected[fault, kind] for fault in faults},
            **{name: outcome.wrong[name, kind] for name in WRONG},
        }
        for kind in kinds
    ]
    return {
        **about,
        "injected": sum(outcome.injected.values()),
        "wrong": sum(outcome.wrong.values()),
        "kinds": rows,
        "notes": outcome.notes,
    }


def tables(result: Mapping[str, Any]) -> str:
    """Two tables and how they were made, in Markdown, with the marks by which pages are filled."""
    rows: Sequence[Mapping[str, Any]] = result["kinds"]
    faults = sorted({fault for row in rows for fault in row["injected"]})
    injected: list[list[object]] = [["fault injected", *(row["kind"] for row in rows), "all"]]
    for fault in faults:
        counts = [row["injected"][fault] for row in rows]
        injected.append([fault, *counts, sum(counts)])
    injected.append(["all", *(sum(row["injected"].values()) for row in rows), result["injected"]])
    names = ("tries", "trials", *WRONG)
    wrong: list[list[object]] = [
        ["kind of run", *names],
        *([row["kind"], *(row[name] for name in names)] for row in rows),
        ["all", *(sum(row[name] for row in rows) for name in names)],
    ]
    blocks = {
        "The soak": _made(result),
        "Faults injected": _in_markdown(injected),
        "What became of the runs": _in_markdown(wrong),
    }
    return "\n".join(
        f"<!-- table: {caption} -->\n{text}\n<!-- end of table -->\n"
        for caption, text in blocks.items()
    )


def _made(result: Mapping[str, Any]) -> str:
    faults, wrong = result["injected"], result["wrong"]
    return (
        f"- {result['minutes']:g} minutes on {result['date']}, commit {result['commit']}, "
        f"seed {result['seed']}: {faults:,} faults, after which {wrong:,} things were wrong."
    )


def _in_markdown(rows: Sequence[Sequence[object]]) -> str:
    cells = [[f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row] for row in rows]
    lines = [f"| {' | '.join(row)} |" for row in cells]
    lines.insert(1, "|---|" + "--:|" * (len(cells[0]) - 1))
    return "\n".join(lines)
