"""Rewards per turn against turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.experiments.tempting_button.compute import Player
from goalmeter.experiments.tempting_button.tables import Traces, reward
from goalmeter.experiments.tempting_button.trace import Trace, mean_interval
from goalmeter.report import Figure
from goalmeter.report.charts.colours import VERMILION
from goalmeter.report.charts.curves import STROKES, Curve, curve_chart

WINDOW = 200  # turns over which the curves average, in runs that are long enough
_POINTS = 200  # of a curve, at most
# Per turn, with buttons in a quarter of the rooms.
_LEVELS = ((0.5, "never push"), (-0.5, "always push"))


def mean_curves(name: str, caption: str, players: Sequence[Player], traces: Traces) -> Figure:
    """The mean over seeds of each player, with a band."""
    drawn, ends = [], []
    shown = [player for player in players if player.key in traces]
    for player, (colour, stroke) in zip(shown, STROKES, strict=False):
        turns, recent, _ = _recent(traces[player.key])
        mean, low, high = mean_interval(recent)
        look: dict[str, Any] = {"label": player.label, "colour": colour, "stroke": stroke}
        band: dict[str, Any] = {"low": low.tolist(), "high": high.tolist()}
        drawn.append(Curve(x=turns, y=mean.tolist(), **band, **look))
        ends.append(f"{player.label}: {reward(mean[0])} at first, {reward(mean[-1])} in the end")
    window = _recent(traces[shown[0].key])[2]
    return Figure(
        svg=_chart(name, drawn, window),
        alt=f"Curves of the mean reward per turn. {'; '.join(ends)}.",
        caption=f"{caption} Mean over seeds of the reward per turn over the last {window} turns, "
        "with a 95% interval.",
    )


def every_seed(name: str, caption: str, player: Player, traces: Traces) -> Figure:
    """A thin curve for each seed of a player, and their mean."""
    turns, recent, window = _recent(traces[player.key])
    drawn = [Curve(label="", x=turns, y=row.tolist(), thin=True) for row in recent]
    drawn.append(
        Curve(label="mean of all seeds", x=turns, y=recent.mean(axis=0).tolist(), colour=VERMILION)
    )
    ends = ", ".join(reward(row[-1]) for row in recent)
    return Figure(
        svg=_chart(name, drawn, window),
        alt=f"Curves of the reward per turn, one for each seed; they end at {ends}.",
        caption=f"{caption} A line for each seed: the reward per turn over the last {window} "
        "turns. New networks are trained at turns 256, 512, 1024 and 2048.",
    )


def _recent(traces: Sequence[Trace]) -> tuple[list[float], FloatArray, int]:
    """Turns [points], reward per turn over the latest window [seeds, points], and the window."""
    length = len(traces[0].button)
    # Runs of tests are shorter than the window.
    window = min(WINDOW, max(1, length // 4))
    every = max(1, (length - window) // _POINTS)
    recent = np.array([t.recent(window)[::every] for t in traces])
    return [float(window + every * i) for i in range(recent.shape[1])], recent, window


def _chart(name: str, drawn: Sequence[Curve], window: int) -> str:
    label = f"reward per turn, last {window} turns"
    return curve_chart(name, drawn, x_label="turn", y_label=label, levels=_LEVELS)
