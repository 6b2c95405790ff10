"""`goalmeter replicate tempting-button`: do rewards of the recurrent DQN approach +0.5 a turn?"""

from __future__ import annotations

if __name__ == "__main__":
    from goalmeter.__main__ import main

    main("replicate", "tempting-button")

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from goalmeter import InvalidParameterError
from goalmeter.commands.outcome import Outcome, write_outcome
from goalmeter.commands.replicate import StudyOptions
from goalmeter.report import Curve, Figure, Section, Table, curve_chart, plus, require_report_extra
from goalmeter.statistics import TOO_FEW, Verdict
from replications.kinds import BLUE, GREEN, INK, VERMILION, FloatArray
from replications.prose import Texts
from replications.tempting_button import measurements
from replications.tempting_button.measurements import (
    ALWAYS,
    ANEW,
    BASELINES,
    NEVER,
    PAPER_CODING,
    PLAYERS,
    SAME,
    Player,
    Trace,
    Traces,
    mean_interval,
    summary,
)

say = Texts("tempting_button")


# --- Tables ---------------------------------------------------------------------------------------
def player_table(name: str, players: Sequence[Player], traces: Traces) -> Table:
    """Tabulate the players that were run."""
    rows = []
    for player in players:
        if player.key in traces:
            of = summary(traces[player.key])
            always = f"{of['ends'][ALWAYS]} of {of['seeds']}"
            between = _between(of["late_interval"]) or "one seed"
            rows.append(of | {"label": player.label, "always": always, "between": between})
    # One table of the page has the notes of all.
    notes = say("notes")["lines"] if players is BASELINES else ()
    return say.table("table", rows, notes=notes, caption=say.data("captions")[name])


def tables(traces: Traces) -> tuple[Table, ...]:
    """Return all tables of players, for the terminal."""
    parts = {"baselines": BASELINES, "anew": ANEW, "same": SAME, "coding": PAPER_CODING}
    return tuple(
        player_table(name, players, traces)
        for name, players in parts.items()
        if any(player.key in traces for player in players)
    )


def early_table(players: Sequence[Player], traces: Traces) -> Table:
    """Tabulate how runs end that did and did not push buttons before anything was learnt."""
    rows = [{"label": player.label} | _by_early_pushes(traces[player.key]) for player in players]
    return say.table("what_was_tried_and_how_it_ends", rows)


def _by_early_pushes(traces: Sequence[Trace]) -> dict[str, dict[str, int]]:
    out = {}
    for name, pushed in (("without", False), ("pushed", True)):
        ends = [t.ends for t in traces if (t.early_pushes > 0) == pushed]
        out[name] = {"runs": len(ends), "never": ends.count(NEVER), "always": ends.count(ALWAYS)}
    return out


def reward(value: float) -> str:
    """Return a reward per turn with its sign."""
    return plus(value, 3)


def _between(ends: Sequence[float] | None) -> str:
    return " to ".join(map(reward, ends)) if ends else ""


# --- Figures --------------------------------------------------------------------------------------
STROKES = ((BLUE, "-"), (VERMILION, "--"), (GREEN, "-."), (INK, ":"))
WINDOW = 200  # turns over which the curves average, in runs that are long enough
_POINTS = 200  # of a curve, at most
# Per turn, with buttons in a quarter of the rooms.
_LEVELS = ((0.5, "never push"), (-0.5, "always push"))


def mean_curves(name: str, caption: str, players: Sequence[Player], traces: Traces) -> Figure:
    """Plot the mean over seeds of each player, with a band."""
    drawn, ends = [], []
    shown = [player for player in players if player.key in traces]
    for player, (colour, stroke) in zip(shown, strict=False):
        turns, recent, window = _recent(traces[player.key])
        mean, *edges = mean_interval(recent)
        low, high = (edge.tolist() for edge in edges)
        look: dict[str, Any] = {"label": player.label, "colour": colour, "stroke": stroke}
        drawn.append(Curve(x=turns, y=mean.tolist(), low=low, high=high, **look))
        ends.append(f"{player.label}: {reward(mean[0])} at first, {reward(mean[-1])} in the end")
    texts = say("mean_curves_figure", ends="; ".join(ends), caption=caption, window=window)
    return Figure(svg=_chart(name, drawn, window), **texts)


def every_seed(name: str, caption: str, player: Player, traces: Traces) -> Figure:
    """Plot a thin curve for each seed of a player, and their mean."""
    turns, recent, window = _recent(traces[player.key])
    drawn = [Curve(label="", x=turns, y=row.tolist(), thin=True) for row in recent]
    drawn.append(
        Curve(label="mean of all seeds", x=turns, y=recent.mean(axis=0).tolist(), colour=VERMILION)
    )
    ends = ", ".join(reward(row[-1]) for row in recent)
    texts = say("every_seed_figure", ends=ends, caption=caption, window=window)
    return Figure(svg=_chart(name, drawn, window), **texts)


def _recent(traces: Sequence[Trace]) -> tuple[list[float], FloatArray, int]:
    """Turns [points], reward per turn over the latest window [seeds, points], and the window."""
    length = len(traces[0].button)
    window = min(WINDOW, max(1, length // 4))
    every = max(1, (length - window) // _POINTS)
    recent = np.array([t.recent(window)[::every] for t in traces])
    return [float(window + every * i) for i in range(recent.shape[1])], recent, window


def _chart(name: str, drawn: Sequence[Curve], window: int) -> str:
    label = f"reward per turn, last {window} turns"
    return curve_chart(name, drawn, x_label="turn", y_label=label, levels=_LEVELS)


def _figures(name: str, players: Sequence[Player], traces: Traces) -> tuple[Figure, ...]:
    first, rates, lookbacks = players[0], players[:4], (players[0], *players[4:])
    return (
        mean_curves(f"{name}-rates", "Learning rates.", rates, traces),
        mean_curves(f"{name}-lookbacks", "Lookbacks.", lookbacks, traces),
        every_seed(f"{name}-seeds", f"{first.label.capitalize()}.", first, traces),
    )


# --- Page -----------------------------------------------------------------------------------------
def page_sections(traces: Traces) -> list[Section]:
    """Return the page; every player must have been run."""
    compared, anew, same, coding = tables(traces)
    return [
        Section(**say("the_room_with_a_button"), tables=(compared,)),
        Section(
            **say("new_weights_at_each_training"),
            tables=(anew, early_table(ANEW, traces)),
            figures=_figures("new", ANEW, traces),
        ),
        Section(
            **say("the_same_weights_at_each_training"),
            tables=(same, early_table(SAME, traces)),
            figures=_figures("same", SAME, traces),
        ),
        Section(**say("numbered_as_in_the_paper_s_text"), tables=(coding,)),
        # Measured once, apart from the runs that the page shows.
        Section(title="Beside this run", points=say("other_runs")["lines"]),
    ]


def page_findings(traces: Traces) -> list[str]:
    """Return summary sentences generated from the results."""
    published = [t for player in (*ANEW, *SAME) for t in traces[player.key]]
    ends = [t.ends for t in published]
    runs, never, always = len(ends), ends.count(NEVER), ends.count(ALWAYS)
    compared = ", ".join(
        f"{player.label} {reward(summary(traces[player.key])['late_reward_per_turn'])}"
        for player in BASELINES
    )
    return [
        say.line(
            "answer",
            answer=say.line("all" if never == runs else "some" if never else "none"),
            runs=runs,
            never=never,
            always=always,
            between=runs - never - always,
        ),
        _of_settings("With new weights at each training", ANEW, traces),
        _of_settings("With the same weights at each training", SAME, traces),
        say.line("early", **_by_early_pushes(published)),
        say.line("compared", agents=compared),
    ]


def _of_settings(name: str, players: Sequence[Player], traces: Traces) -> str:
    rows = {player.label: summary(traces[player.key]) for player in players}
    by_count = sorted(rows, key=lambda label: rows[label]["ends"][NEVER])
    least, most = (
        f"{rows[label]['ends'][NEVER]} of {rows[label]['seeds']} ({label})"
        for label in (by_count[0], by_count[-1])
    )
    first = rows[players[0].label]
    between = _between(first["late_interval"])
    judged = first["mean_verdict"]
    return say.line(
        "settings",
        name=name,
        least=least,
        most=most,
        never=first["ends"][NEVER],
        seeds=first["seeds"],
        reward=reward(first["late_reward_per_turn"]),
        interval=between and f", 95% interval {between}",
        verdict={
            Verdict.ABOVE: "above the published +0.5",
            Verdict.BELOW: "below the published +0.5",
            Verdict.UNTOLD: "whether that is +0.5 cannot be told",
            TOO_FEW: "too few seeds for a verdict",
        }.get(judged, f"{judged} to the published +0.5"),
    )


# --- Replicate ------------------------------------------------------------------------------------
OPTIONS = ("steps",)


def replicate(out: Path, options: StudyOptions) -> Outcome:
    """Play TemptingButton with the published settings and write report.html and results.json.

    The trials are kept in the folder as they are finished; the same command goes on from there.
    There are 10 seeds by default, some 15 minutes on two cores; steps are percepts, the first
    included.

    Source: "Extending Environments To Measure Self-Reflection In Reinforcement Learning", section
    3.2, and the authors' TemptingButtonExperiment at e4dd0d0.
    """
    steps, seeds = _scale(options)
    require_report_extra()
    place: dict[str, Any] = {"on": options.on, "progress": options.progress}
    traces = measurements.play(out, PLAYERS, steps=steps, seeds=seeds, **place)
    findings = page_findings(traces)
    result = {
        "replication": "tempting-button",
        "steps": steps,
        "seeds": list(seeds),
        "findings": findings,
        "agents": [
            {"key": player.key, "name": player.label}
            | player.arguments
            | summary(traces[player.key])
            for player in PLAYERS
        ],
    }
    return write_outcome(
        out,
        "The tempting button, reproduced",
        page_sections(traces),
        result,
        command=options.command("tempting-button"),
        **say("page"),
        findings=findings,
        glossary=say("glossary"),
        tables=tables(traces),
        text="\n".join(findings),
    )


def planned(options: StudyOptions) -> dict[str, int]:
    """Return how much `replicate` with these options will do."""
    steps, seeds = _scale(options)
    return {"trials": len(PLAYERS) * len(seeds), "steps of each": steps}


def _scale(options: StudyOptions) -> tuple[int, range]:
    """The steps of a trial, and the seeds."""
    steps = measurements.STEPS if options.steps is None else options.steps
    if steps < 2:
        raise InvalidParameterError(f"steps is {steps}, expected at least 2")
    count = options.count(measurements.SEEDS, least=1)
    return steps, range(options.seed, options.seed + count)
