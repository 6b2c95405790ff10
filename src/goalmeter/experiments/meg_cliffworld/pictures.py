"""Figures 3 and 5 of the paper, and maps of what the measures found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import goalmeter as gm
from goalmeter._types import FloatArray
from goalmeter.experiments.ledger import Number
from goalmeter.experiments.meg_cliffworld.compute import Measured
from goalmeter.report import Figure
from goalmeter.report.charts.colours import BLUE, GREEN, VERMILION
from goalmeter.report.charts.curves import Curve, curve_chart, step_bars
from goalmeter.report.charts.grid_map import Marks, grid_map
from goalmeter.report.numbers import LEAST_SHARE, nats, percent
from goalmeter.tabular.cliff_world import HEIGHT, WIDTH, cliff_world

SHAPE = (HEIGHT, WIDTH)
# Fewer expected visits than this, and what a map says of a square rests on next to nothing.
RARE = 0.01


def measure_chart(
    name: str,
    caption: str,
    measured: Sequence[Measured],
    published: Sequence[Number],
    *,
    log: bool = False,
) -> Figure:
    """MEG against epsilon (Figure 3b) or goal length (Figure 3c), with the published points."""
    by_noise = measured[0].setting.epsilon is not None
    x = [m.setting.epsilon or m.setting.goal_length for m in measured]
    keys = [m.setting.key for m in measured]
    rows = {row.id.removeprefix("meg-cliffworld/"): row for row in published}
    known, unknown = ([rows[f"{kind}/{key}"] for key in keys] for kind in ("known", "unknown"))
    unknown_look: dict[str, Any] = {"x": x, "colour": VERMILION, "marker": "s"}
    series = [
        Curve(
            label="unknown utility, certified",
            y=[m.unknown.value for m in measured],
            **unknown_look,
        ),
        Curve(
            label="unknown utility, published MLP",
            y=[r.published_value for r in unknown],
            error=[r.published_spread for r in unknown],
            stroke="none",
            hollow=True,
            **unknown_look,
        ),
        Curve(label="known utility, exact", x=x, y=[m.known.value for m in measured], marker="o"),
        Curve(
            label="known utility, published",
            x=x,
            y=[r.published_value for r in known],
            stroke="none",
            marker="o",
            hollow=True,
        ),
    ]
    # The series has a point for every setting, or is left out.
    neural = [m.neural for m in measured if m.neural is not None]
    if len(neural) == len(measured):
        spread = [2 * v.std(ddof=1) if len(v) > 1 else 0.0 for v in neural]
        means = [float(v.mean()) for v in neural]
        series.append(
            Curve(
                label="unknown utility, our MLP",
                x=x,
                y=means,
                error=spread,
                colour=GREEN,
                stroke="none",
                marker="^",
                hollow=True,
            )
        )
        caption += " Triangles: our network, mean ± 2 standard deviations."
    svg = curve_chart(
        name,
        series,
        x_label="ε, the probability of another action" if by_noise else "goal length k",
        y_label="MEG, nats (log scale)" if log else "MEG, nats",
        levels=[] if log else [(measured[0].known.maximum, "maximum")],
        limits=None if log else (0.0, None),
        log=log,
        ticks=x,
        size=(4.6, 3.6),
    )
    values = "; ".join(
        f"{m.setting.name}: known {nats(m.known.value)}, unknown {nats(m.unknown.value)}"
        for m in measured
    )
    return Figure(svg=svg, alt=f"Line chart of MEG in nats. {values}.", caption=caption)


def world_map(goal_length: int) -> Figure:
    """Figure 3a: the reward of each square."""
    return _map(
        f"world-{goal_length}",
        cliff_world(goal_length).reward,
        goal_length,
        palette="signed",
        label="reward at each decision",
        alt=f"Map of CliffWorld, 4 rows by 10 columns, with a goal region of length {goal_length}: "
        "start top left, goal top right, cliff along the top row between them.",
        caption=f"CliffWorld with a goal region of length {goal_length} (Figure 3a).",
    )


def visits_map(m: Measured, label: str) -> Figure:
    """Figure 5: where the policy spends its decisions."""
    inside = float(m.visits[cliff_world(m.setting.goal_length).reward > 0].sum())
    return _map(
        f"visits-{_slug(m)}",
        m.visits,
        m.setting.goal_length,
        palette="visits",
        log=True,
        label="expected decisions in the square, of 30",
        alt=f"Map of expected visits, {m.setting.name}: {inside:.1f} of 30 decisions are taken in "
        f"the goal region, most in {_squares(m, 2)}.",
        caption=f"{label} Visits, {m.setting.name}: {inside:.1f} of 30 decisions fall in the "
        "goal region.",
    )


def utility_map(m: Measured) -> Figure:
    """The simplest utility over states that explains nearly as much as any, from 0 to 1."""
    mdp = m.setting.world()
    simplest = gm.meg.simplest_utility(mdp, m.setting.policy(mdp))
    share = simplest.evidence / m.unknown.maximum
    faint = share < LEAST_SHARE
    return _map(
        f"utility-{_slug(m)}",
        simplest.utility,
        m.setting.goal_length,
        faint=frozenset(np.flatnonzero(m.visits < RARE).tolist()),
        label="learnt utility" + ", explains little" * faint,
        palette="faint" if faint else "utility",
        limit=1.0,
        alt=f"Map of the learnt utility, {m.setting.name}, from 0 (worst) to 1 (best square).",
        caption=f"Learnt utility, {m.setting.name}. It explains {nats(simplest.evidence)} nats, "
        f"{percent(share)} of the maximum"
        + f", which is too little to say where the agent wants to be (grey, below "
        f"{percent(LEAST_SHARE, 0)})"
        * faint
        + f"; the best of all utilities explains {nats(m.unknown.value)}. Squares in brackets have "
        f"fewer than {RARE:g} expected visits.",
    )


def evidence_map(m: Measured) -> Figure:
    """The share of the known-utility MEG that decisions in each square give."""
    return _map(
        f"evidence-{_slug(m)}",
        m.known.by_state,
        m.setting.goal_length,
        palette="signed",
        log=True,
        label="evidence from decisions in the square, nats",
        alt=f"Map of the evidence by square, {m.setting.name}; it adds up to "
        f"{nats(m.known.value)} nats.",
        caption=f"Where the evidence comes from, {m.setting.name}, known utility: the squares add "
        f"up to {nats(m.known.value)} nats.",
    )


def evidence_steps(m: Measured) -> Figure:
    """The share of each decision step."""
    most = float(np.log(4))
    return Figure(
        svg=step_bars(
            f"steps-{_slug(m)}",
            [
                ("known utility", m.known.by_step, BLUE),
                ("unknown utility", m.unknown.by_step, VERMILION),
            ],
            limit=most,
            limit_label="most that one decision can give, log 4",
        ),
        alt=f"Evidence by decision step, {m.setting.name}: {m.known.by_step[0]:.2f} nats at the "
        f"first, {m.known.by_step[-2]:.2f} at the last but one, {m.known.by_step[-1]:.2f} at the "
        f"last, for the known utility.",
        caption=f"The same by decision step, {m.setting.name}. The last decision influences no "
        "utility over states, so it can give no evidence.",
    )


def _map(
    name: str,
    values: FloatArray,
    goal_length: int,
    *,
    alt: str,
    caption: str,
    faint: frozenset[int] = frozenset(),
    **look: Any,
) -> Figure:
    """A value of each square, [S], with start, goals and cliff marked."""
    # Goals pay more than nothing, the cliff costs more than the -1 of every other square.
    reward = cliff_world(goal_length).reward
    goals = {int(s): "G" for s in np.flatnonzero(reward > 0)}
    cliff = frozenset(np.flatnonzero(reward < -1).tolist())
    marks = Marks({0: "S", **goals}, cliff, faint)
    return Figure(
        svg=grid_map(name, values.reshape(SHAPE), marks=marks, **look),
        alt=alt,
        caption=f"{caption} S: start. G: goal. Hatched: cliff.",
    )


def _squares(m: Measured, n: int) -> str:
    most = np.argsort(-m.visits, kind="stable")[:n]
    return " and ".join(f"row {s // WIDTH + 1}, column {s % WIDTH + 1}" for s in most)


def _slug(m: Measured) -> str:
    return m.setting.key.replace("=", "-").replace(".", "-")
