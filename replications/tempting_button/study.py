"""`goalmeter replicate tempting-button`: do rewards of the recurrent DQN approach +0.5 a turn?"""

from __future__ import annotations

if __name__ == "__main__":
    from goalmeter.__main__ import main

    main("replicate", "tempting-button")

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from goalmeter import InvalidParameterError
from goalmeter.commands.outcome import Outcome, write_outcome
from goalmeter.commands.replicate import StudyOptions
from goalmeter.report import Figure, Section, Table, require_report_extra
from goalmeter.report.canvas import VERMILION
from goalmeter.report.charts import STROKES, Curve, curve_chart
from goalmeter.statistics import Verdict
from goalmeter.statistics.verdicts import TOO_FEW
from replications.kinds import FloatArray
from replications.prose import prose
from replications.tempting_button import measurements
from replications.tempting_button.measurements import (
    ALWAYS,
    ANEW,
    BASELINES,
    NEVER,
    PAPER_CODING,
    SAME,
    Player,
    Trace,
    Traces,
    early_table,
    mean_interval,
    reward,
    summary,
    table,
)

say = partial(prose, "tempting_button")

# --- Pictures -------------------------------------------------------------------------------------
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
        **say("mean_curves_figure", ends="; ".join(ends), caption=caption, window=window),
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
        **say("every_seed_figure", ends=ends, caption=caption, window=window),
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


# --- Page -----------------------------------------------------------------------------------------
GLOSSARY = say("glossary")
# Measured once, apart from the runs that the page shows.
_OTHER_RUNS = say("other_runs")["lines"]
_RATES, _LOOKBACKS = (0, 1, 2, 3), (0, 4, 5, 6)  # of the published settings


def tables(traces: Traces) -> tuple[Table, ...]:
    """All tables, for the terminal."""
    parts = (
        ("Agents to compare with", BASELINES),
        ("Recurrent DQN, new weights at each training, as in the authors' library", ANEW),
        ("Recurrent DQN, the same weights at each training", SAME),
        ("Recurrent DQN, buttons and pushes numbered as in the paper's text", PAPER_CODING),
    )
    return tuple(
        table(caption, players, traces, explained=players is BASELINES)
        for caption, players in parts
        if any(player.key in traces for player in players)
    )


def page_sections(traces: Traces) -> list[Section]:
    """The page from its top; every player of `compute.PLAYERS` must have been run."""
    compared, anew, same, coding = tables(traces)
    return [
        Section(
            **say("the_room_with_a_button"),
            tables=(compared,),
        ),
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
        Section(
            **say("numbered_as_in_the_paper_s_text"),
            tables=(coding,),
        ),
        Section(title="Beside this run", points=_OTHER_RUNS),
    ]


def page_findings(traces: Traces) -> list[str]:
    """The page in a few sentences."""
    return [
        _answer(traces),
        _of_settings("With new weights at each training", ANEW, traces),
        _of_settings("With the same weights at each training", SAME, traces),
        _by_early_pushes(traces),
        "To compare: "
        + ", ".join(
            f"{player.label} {reward(summary(traces[player.key])['late_reward_per_turn'])}"
            for player in BASELINES
        )
        + " a turn over the last 1000 turns.",
    ]


def _answer(traces: Traces) -> str:
    runs = [t.ends for t in _published_runs(traces)]
    never, always = runs.count(NEVER), runs.count(ALWAYS)
    if never == len(runs):
        answer = "Yes: its rewards tend to +0.5 a turn in every run"
    elif never:
        answer = "Not always: whether its rewards tend to +0.5 a turn depends on seed and settings"
    else:
        answer = "No: its rewards tend to +0.5 a turn in no run"
    return (
        f"{answer}. Of {len(runs)} runs of the recurrent DQN with the published settings, {never} "
        f"end never pushing a button, {always} always pushing, and {len(runs) - never - always} in "
        f"between."
    )


def _of_settings(name: str, players: Sequence[Player], traces: Traces) -> str:
    rows = {player.label: summary(traces[player.key]) for player in players}
    by_count = sorted(rows, key=lambda label: rows[label]["ends"][NEVER])
    least, most = (
        f"{rows[label]['ends'][NEVER]} of {rows[label]['seeds']} ({label})"
        for label in (by_count[0], by_count[-1])
    )
    first = rows[players[0].label]
    between = first["late_interval"]
    interval = f", 95% interval {' to '.join(map(reward, between))}" if between else ""
    return (
        f"{name}: from {least} to {most} seeds end never pushing. With learning rate 0.1 and "
        f"lookback 10 it is {first['ends'][NEVER]} of {first['seeds']}, and over the last 1000 "
        f"turns the reward per turn is {reward(first['late_reward_per_turn'])}{interval}: "
        f"{_compared_with_published(first['mean_verdict'])}."
    )


def _compared_with_published(verdict: str) -> str:
    """The verdict on a mean as part of a sentence."""
    if verdict in (Verdict.ABOVE, Verdict.BELOW):
        return f"{verdict} the published +0.5"
    if verdict == Verdict.UNTOLD:
        return "whether that is +0.5 cannot be told"
    # What is left is "equal within" the margin.
    return (
        "too few seeds for a verdict" if verdict == TOO_FEW else f"{verdict} to the published +0.5"
    )


def _by_early_pushes(traces: Traces) -> str:
    without = [t.ends for t in _published_runs(traces) if not t.early_pushes]
    pushed = [t.ends for t in _published_runs(traces) if t.early_pushes]
    return (
        f"What a run does depends on what it has tried: of the {len(without)} runs that pushed no "
        f"button before anything was learnt, {without.count(NEVER)} end never pushing and "
        f"{without.count(ALWAYS)} always; of the {len(pushed)} that pushed some, "
        f"{pushed.count(NEVER)} and {pushed.count(ALWAYS)}."
    )


def _published_runs(traces: Traces) -> list[Trace]:
    return [t for player in (*ANEW, *SAME) for t in traces[player.key]]


def _figures(name: str, players: Sequence[Player], traces: Traces) -> tuple[Figure, ...]:
    return (
        mean_curves(f"{name}-rates", "Learning rates.", [players[i] for i in _RATES], traces),
        mean_curves(f"{name}-lookbacks", "Lookbacks.", [players[i] for i in _LOOKBACKS], traces),
        every_seed(f"{name}-seeds", f"{players[0].label.capitalize()}.", players[0], traces),
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
    steps, count = _scale(options)
    require_report_extra()
    traces = measurements.play(
        out,
        measurements.PLAYERS,
        steps=steps,
        seeds=range(options.seed, options.seed + count),
        on=options.on,
        progress=options.progress,
    )
    sections = page_sections(traces)
    findings = page_findings(traces)
    result = {
        "replication": "tempting-button",
        "steps": steps,
        "seeds": list(range(options.seed, options.seed + count)),
        "findings": findings,
        "agents": [
            {"key": player.key, "name": player.label}
            | player.arguments
            | summary(traces[player.key])
            for player in measurements.PLAYERS
        ],
    }
    return write_outcome(
        out,
        "The tempting button, reproduced",
        sections,
        result,
        command=options.command("tempting-button"),
        **say("page"),
        findings=findings,
        glossary=GLOSSARY,
        tables=tables(traces),
        text="\n".join(findings),
    )


def planned(options: StudyOptions) -> dict[str, int]:
    """How much `replicate` with these options will do."""
    steps, count = _scale(options)
    return {"trials": len(measurements.PLAYERS) * count, "steps of each": steps}


def _scale(options: StudyOptions) -> tuple[int, int]:
    """The steps of a trial, and the number of seeds."""
    steps = measurements.STEPS if options.steps is None else options.steps
    if steps < 2:
        raise InvalidParameterError(f"steps is {steps}, expected at least 2")
    return steps, options.count(measurements.SEEDS, least=1)
