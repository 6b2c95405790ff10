"""Where goal and agent are read from: exchanged streams, and the few dimensions that carry them."""

from __future__ import annotations

from goalmeter.pages.representation.by_layer import ByLayer, has_numbers
from goalmeter.pages.representation.shown import Shown, place_in_words, say
from goalmeter.report import Figure, Table
from goalmeter.report.numbers import number, percent
from goalmeter.report.table_of import column, grouped, table_of, words
from goalmeter.representation.result_rows import MovedRow, SubspaceRow
from goalmeter.representation.use.halves import CONFIRM, SCREEN

MOVED = {"goal": "the goal moved", "agent": "the agent moved", "isometry": "the grid turned"}


def in_words(row: MovedRow | SubspaceRow) -> str:
    """What is another in the other question."""
    return MOVED.get(row.moved, row.moved)


def moved_map(shown: Shown) -> Figure | None:
    """What followed at every place of the half that screens; None without a screen."""
    rows = [row for row in shown.result.moved if row.half == SCREEN]
    tried = ByLayer(rows, _named, list(dict.fromkeys(map(_named, rows))))
    panels = [
        tried.panel("follow", lambda row: row.flips, hatched=True),
        tried.panel("null", lambda row: row.null_flips),
        tried.panel("lost", lambda row: row.same_flips),
    ]
    panels = list(filter(has_numbers, panels))
    if not panels:
        return None
    svg = tried.drawn(f"{shown.prefix}-moved-map", panels, "share of moves")
    return Figure(svg=svg, **say("moved_map", model=shown.name))


def moved_table(shown: Shown) -> Table | None:
    """The chosen place of each kind on the half that confirms, and the other question asked."""
    rows = [row for row in shown.result.moved if row.half == CONFIRM]
    if not rows:
        return None
    return table_of(
        rows,
        (
            words("exchanged", _exchanged),
            *grouped(
                "other moves are right there",
                column("follow", lambda row: percent(row.flips), answer=True),
                column("null", lambda row: percent(row.null_flips)),
                column("unreadable answers", lambda row: percent(row.unreadable)),
                column("pairs", lambda row: row.pairs),
            ),
            *grouped("the same are right", column("lost", lambda row: percent(row.same_flips))),
        ),
        anchor=f"{shown.prefix}-moved",
        **say("moved", model=shown.name),
    )


def subspace_table(shown: Shown) -> Table | None:
    """What a few dimensions carry, and how near a probe's directions lie to them."""
    rows = shown.result.subspaces
    if not rows:
        return None
    return table_of(
        rows,
        (
            words(
                "exchanged",
                lambda row: f"{in_words(row)}: {place_in_words(row.layer, row.position)}",
            ),
            words("verdict", lambda row: row.verdict, answer=True),
            *grouped(
                "moves that follow",
                column("learnt dimensions", lambda row: percent(row.flips)),
                column("random ones", lambda row: percent(row.random_flips)),
                column("whole stream", lambda row: percent(row.whole_flips)),
            ),
            column("dimensions", lambda row: row.rank),
            column("pairs", lambda row: row.pairs),
            *grouped(
                "angle with a probe",
                column("degrees", lambda row: row.degrees, lambda angle: number(angle, 0)),
                column("by chance", lambda row: chance(row) or None),
            ),
        ),
        anchor=f"{shown.prefix}-subspaces",
        **say("subspaces", model=shown.name),
    )


def ceiling_of(shown: Shown, row: MovedRow) -> MovedRow | None:
    """What becomes of moves when the other question itself is asked; None if it was not."""
    return next((r for r in shown.result.moved if r.is_ceiling and r.moved == row.moved), None)


def chance(row: SubspaceRow) -> str:
    """Where the angle of random directions lies in 95 of 100 draws; empty where there is none."""
    if len(row.chance) != 3:
        return ""
    return f"{number(row.chance[0], 0)} to {number(row.chance[2], 0)}"


def _exchanged(row: MovedRow) -> str:
    if row.is_ceiling:
        return f"{in_words(row)}: the other question (ceiling)"
    return f"{in_words(row)}: {place_in_words(row.layer, row.position)}"


def _named(row: MovedRow) -> str:
    return f"{in_words(row)}, {row.position}"
