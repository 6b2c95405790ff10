"""What each player does with buttons, in numbers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from goalmeter.experiments import ledger
from goalmeter.experiments.tempting_button.compute import Player
from goalmeter.experiments.tempting_button.trace import ALWAYS, MIXED, NEVER, Trace, mean_interval
from goalmeter.report import Table
from goalmeter.report.numbers import percent, plus
from goalmeter.report.table_of import ColumnOf, column, grouped, table_of, words
from goalmeter.statistics.welch import FEWEST, TOO_FEW

Traces = Mapping[str, Sequence[Trace]]  # key of a player -> its runs, a seed each

LEDGER_PREFIX = "tempting-button/"
HABITS = (NEVER, MIXED, ALWAYS)
_NOTES = (
    "A seed ends never (always) pushing if it would push in at most 5% (at least 95%) of the last "
    "1000 rooms, were there a button in each.",
    "The interval is over seeds, and allows for a seed of a kind that was not seen. Where seeds "
    "end in two camps it says how large the camps may be, not where a run will end.",
    "Beside +0.5, the published limit: equal if the whole interval lies within the margin that "
    "the ledger states for it, above or below if it leaves 0.5 out, else it cannot be told.",
)


def summary(traces: Sequence[Trace]) -> dict[str, Any]:
    """The numbers of a player as JSON values."""
    late, low, high = (float(x) for x in mean_interval(np.array([t.late for t in traces])))
    ends = Counter(t.ends for t in traces)
    return {
        "seeds": len(traces),
        "reward_per_turn": float(np.mean([t.per_turn for t in traces])),
        "late_reward_per_turn": late,
        "late_interval": [low, high] if len(traces) > 1 else None,
        "late_pushes_with_button": _mean([t.late_pushes(button=True) for t in traces]),
        "late_pushes_without_button": _mean([t.late_pushes(button=False) for t in traces]),
        "ends": {habit: ends[habit] for habit in HABITS},
        "verdict": verdict(traces),
        "mean_verdict": mean_verdict(traces),
        "by_seed": [
            {"reward_per_turn": t.per_turn, "late": t.late, "tried": t.early_pushes, "ends": t.ends}
            for t in traces
        ],
    }


def verdict(traces: Sequence[Trace]) -> str:
    """Whether the rewards tend to those of never pushing."""
    n, never = len(traces), sum(t.ends == NEVER for t in traces)
    return f"{'yes' if never == n else 'some' if never else 'no'}: {never} of {n}"


def mean_verdict(traces: Sequence[Trace]) -> str:
    """How the mean of the late rewards stands to the published +0.5, by its interval."""
    if len(traces) < FEWEST:
        return TOO_FEW
    mean, low, high = (float(x) for x in mean_interval(np.array([t.late for t in traces])))
    # The margin is the ledger's: it was stated there, with its reason.
    number = ledger.load(LEDGER_PREFIX)[0]
    return replace(number, ours=mean, interval=(low, high)).verdict


def table(
    caption: str, players: Sequence[Player], traces: Traces, *, explained: bool = False
) -> Table:
    """A row for each player that was run; `explained` adds what one table of a page needs."""
    return table_of(
        [(player, summary(traces[player.key])) for player in players if player.key in traces],
        (
            words("agent", lambda row: row[0].label),
            *grouped(
                "reward per turn",
                column("whole run", lambda row: row[1]["reward_per_turn"], reward),
                column("last 1000 turns", lambda row: row[1]["late_reward_per_turn"], reward),
                column("95% interval", lambda row: _between(row[1]["late_interval"])),
                words("beside +0.5", lambda row: row[1]["mean_verdict"]),
            ),
            *grouped(
                "pushes, last 1000 turns",
                column("with button", lambda row: row[1]["late_pushes_with_button"], percent),
                column("without", lambda row: row[1]["late_pushes_without_button"], percent),
            ),
            *grouped(
                "seeds that end",
                column(
                    "always pushing", lambda row: f"{row[1]['ends'][ALWAYS]} of {row[1]['seeds']}"
                ),
                column("never: tends to +0.5?", lambda row: row[1]["verdict"]),
            ),
        ),
        caption=caption,
        meaning="Never pushing brings about +0.5 a turn, always pushing about −0.5. Without a "
        "button a push does nothing; what pays there is what the agent would do with one.",
        notes=_NOTES if explained else (),
    )


def early_table(players: Sequence[Player], traces: Traces) -> Table:
    """How runs end that did and did not push buttons before anything was learnt."""

    def outcomes(*, pushed: bool) -> tuple[ColumnOf[Player], ...]:
        def ends(player: Player) -> list[str]:
            return [t.ends for t in traces[player.key] if (t.early_pushes > 0) == pushed]

        return (
            column("runs", ends, lambda habits: str(len(habits))),
            column("end never", ends, lambda habits: str(habits.count(NEVER))),
            column("end always", ends, lambda habits: str(habits.count(ALWAYS))),
        )

    return table_of(
        players,
        (
            words("agent", lambda player: player.label),
            *grouped("pushed no button early", *outcomes(pushed=False)),
            *grouped("pushed some", *outcomes(pushed=True)),
        ),
        caption="What was tried, and how it ends",
        meaning="Runs by whether the agent pushed any button in turns 1 to 255, before anything "
        "was learnt, and by what it does with buttons in the last 1000 turns.",
    )


def reward(value: float) -> str:
    """A reward per turn, with its sign."""
    return plus(value, 3)


def _between(ends: Sequence[float] | None) -> str:
    return " to ".join(map(reward, ends)) if ends else "one seed"


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return float(np.mean(known)) if known else float("nan")
