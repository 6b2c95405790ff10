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
from goalmeter.report import Column, Table
from goalmeter.report.numbers import percent, signed
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
    """The numbers of a row as JSON values."""
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
            {"reward_per_turn": t.per_turn, "late": t.late, "tried": t.tried, "ends": t.ends}
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
    number = ledger.load(LEDGER_PREFIX)[0]
    return replace(number, ours=mean, interval=(low, high)).verdict


def table(
    caption: str, players: Sequence[Player], traces: Traces, *, explained: bool = False
) -> Table:
    """A row for each player that was run; `explained` adds what one table of a page needs."""
    return Table(
        caption=caption,
        columns=(
            Column("agent", numeric=False),
            Column("whole run", group="reward per turn"),
            Column("last 1000 turns", group="reward per turn"),
            Column("95% interval", group="reward per turn"),
            Column("beside +0.5", numeric=False, group="reward per turn"),
            Column("with button", group="pushes, last 1000 turns"),
            Column("without", group="pushes, last 1000 turns"),
            Column("always pushing", group="seeds that end"),
            Column("never: tends to +0.5?", group="seeds that end"),
        ),
        rows=tuple(_row(one, traces[one.key]) for one in players if one.key in traces),
        meaning="Never pushing brings about +0.5 a turn, always pushing about −0.5. Without a "
        "button a push does nothing; what pays there is what the agent would do with one.",
        notes=_NOTES if explained else (),
    )


def tried_table(players: Sequence[Player], traces: Traces) -> Table:
    """How runs end that did and did not push buttons before anything was learnt."""
    return Table(
        caption="What was tried, and how it ends",
        columns=(
            Column("agent", numeric=False),
            *(
                Column(title, group=group)
                for group in ("pushed no button early", "pushed some")
                for title in ("runs", "end never", "end always")
            ),
        ),
        rows=tuple(
            (one.label, *_outcomes(traces[one.key], tried=False), *_outcomes(traces[one.key]))
            for one in players
        ),
        meaning="Runs by whether the agent pushed any button in turns 1 to 255, before anything "
        "was learnt, and by what it does with buttons in the last 1000 turns.",
    )


def _outcomes(traces: Sequence[Trace], *, tried: bool = True) -> tuple[str, str, str]:
    ends = [t.ends for t in traces if (t.tried > 0) == tried]
    return str(len(ends)), str(ends.count(NEVER)), str(ends.count(ALWAYS))


def reward(value: float) -> str:
    """A reward per turn, with its sign."""
    shown = round(value, 3)
    return signed(shown, 3) if shown < 0 else f"+{abs(shown):.3f}"


def _row(player: Player, traces: Sequence[Trace]) -> tuple[str, ...]:
    row = summary(traces)
    between = row["late_interval"]
    return (
        player.label,
        reward(row["reward_per_turn"]),
        reward(row["late_reward_per_turn"]),
        " to ".join(map(reward, between)) if between else "one seed",
        row["mean_verdict"],
        _share(row["late_pushes_with_button"]),
        _share(row["late_pushes_without_button"]),
        f"{row['ends'][ALWAYS]} of {row['seeds']}",
        row["verdict"],
    )


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return float(np.mean(known)) if known else float("nan")


def _share(value: float) -> str:
    return "–" if math.isnan(value) else percent(value)
