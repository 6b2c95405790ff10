"""Sweeps as tables: means by policy and utility, and what failed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from goalmeter.meg.sweeps.columns import FAILED, OPEN
from goalmeter.meg.sweeps.result import Sweep
from goalmeter.meg.sweeps.summary import Group
from goalmeter.pages.prose import prose
from goalmeter.report import Table
from goalmeter.report.table_of import column, share_bar, table_of, words

say = partial(prose, "sweep")  # the texts of `prose.toml`
# Sentences of each kind that a table shows.
MOST_SENTENCES = 20


class Said(NamedTuple):
    """A sentence and the rows that say it."""

    status: str
    rows: int
    sentence: str


def summary_table(sweep: Sweep, anchor: str = "") -> Table:
    """A row for each policy and utility."""
    texts = say("summary")
    return table_of(
        sweep.summary,
        [
            words("policy", lambda group: group.policy),
            words("utility", lambda group: group.utility),
            column("MEG, nats", Group.value_in_words, answer=True),
            column("share of maximum", lambda group: group.fraction, share_bar),
            column("worlds", lambda group: group.measured),
            column("not certified", lambda group: group.open),
            column("failed", lambda group: group.failed),
        ],
        caption=sweep.heading,
        meaning=texts["meaning"],
        notes=texts["notes"],
        anchor=anchor,
    )


def failures_table(sweep: Sweep, anchor: str = "") -> Table | None:
    """What rows say that failed or are not certified; None if there are none."""
    rows: list[Said] = []
    left = 0
    for status, name in ((FAILED, "failed"), (OPEN, "not certified")):
        said = [Said(name, times, text) for text, times in sweep.sentences(status).items()]
        rows += said[:MOST_SENTENCES]
        left += len(said[MOST_SENTENCES:])
    if not rows:
        return None
    notes = [f"{left} sentences that fewer rows say are left out."] if left else []
    return table_of(
        rows,
        [
            words("rows that", lambda row: row.status),
            column("rows", lambda row: row.rows),
            words("say", lambda row: row.sentence),
        ],
        **say("failures"),
        notes=notes,
        anchor=anchor,
    )


def failures_in_words(sweeps: Sequence[Sweep]) -> list[str]:
    """How many rows failed or are not certified, a sentence for each sweep that has some."""
    out = []
    for sweep in sweeps:
        counts = sweep.counts
        if counts[FAILED] or counts[OPEN]:
            out.append(
                f"Of {len(sweep)} rows, {counts[FAILED]} failed and {counts[OPEN]} are not "
                f"certified."
            )
    return out
