"""`goalmeter replicate tempting-button`: do rewards of the recurrent DQN approach +0.5 a turn?"""

from __future__ import annotations

if __name__ == "__main__":
    from goalmeter.__main__ import main

    main("replicate", "tempting-button")

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import goalmeter as gm
from goalmeter.agents import RecurrentDQN
from goalmeter.agents import agent as named
from goalmeter.commands.outcome import Outcome
from goalmeter.commands.replicate import StudyOptions
from goalmeter.reflection.environments import find
from goalmeter.report import Curve, CurveAxes, Figure, Section, Table, curve_chart, plus
from goalmeter.runs import HERE, Study, carry_out, own_process
from goalmeter.statistics import Verdict, bounded_ends
from replications import ledger
from replications.kinds import (
    BLUE,
    FEWEST,
    GREEN,
    INK,
    TOO_FEW,
    VERMILION,
    BoolArray,
    FloatArray,
    ProgressCallback,
)
from replications.prose import Texts

say = Texts("tempting_button")

# --- Trace ----------------------------------------------------------------------------------------
LATE = 1000  # rooms at the end of a run
EARLY = 255  # rooms before the recurrent DQN has learnt anything
NEVER, MIXED, ALWAYS = "never", "sometimes", "always"
# A share of pushes up to this far from 0 or 1 counts as never or always.
_SLIP = 0.05
_REWARDS = (-1.0, 1.0)  # least and greatest of a turn


@dataclass(frozen=True, eq=False)
class Trace:
    """One run, room by room."""

    rewards: FloatArray  # of all percepts, the first included, [steps]
    # whether the room has a button, [steps - 1]; the last percept leads to no action
    button: BoolArray
    pushes: BoolArray  # whether the agent did as if to push, [steps - 1]

    @classmethod
    def of(cls, rewards: str, observations: str, actions: str, *, coding: str) -> Trace:
        """A trace from the strings of `compute.trial`."""
        button = push = "1" if coding == "code" else "0"
        return cls(
            np.array(["-0+".index(reward) - 1.0 for reward in rewards]),
            np.array([observation == button for observation in observations[:-1]], dtype=bool),
            np.array([action == push for action in actions], dtype=bool),
        )

    @property
    def answers(self) -> BoolArray:
        """Whether it pushed the button or, where there was none, would have, [steps - 1]."""
        # In a room without a button, -1 tells that the agent would push, were there one.
        return np.where(self.button, self.pushes, self.rewards[1:] < 0)

    @property
    def per_turn(self) -> float:
        """Reward per turn over the whole run, counted as published: the first percept too."""
        return float(self.rewards.mean())

    @property
    def late(self) -> float:
        """Reward per turn in the last rooms."""
        return float(self.rewards[1:][-LATE:].mean())

    @property
    def early_pushes(self) -> int:
        """How many buttons it pushed before anything was learnt."""
        return int((self.button & self.pushes)[:EARLY].sum())

    @property
    def ends(self) -> str:
        """What it would do with buttons in the last rooms: "never", "sometimes", "always" push."""
        share = float(self.answers[-LATE:].mean())
        if share <= _SLIP:
            return NEVER
        return ALWAYS if share >= 1 - _SLIP else MIXED

    def late_pushes(self, *, button: bool) -> float:
        """Share of the last rooms with, or without, a button in which it did as if to push."""
        rooms = self.button[-LATE:] == button
        # Short runs may have no such room, and a share of nothing is no number.
        return float(self.pushes[-LATE:][rooms].mean()) if rooms.any() else float("nan")

    def recent(self, window: int) -> FloatArray:
        """Reward per turn over the `window` latest rooms, from the first full window on."""
        total = np.cumsum(np.concatenate([[0.0], self.rewards[1:]]))
        return np.asarray((total[window:] - total[:-window]) / window)


def mean_interval(values: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean over runs [runs, ...] of rewards per turn, and the ends of its 95% interval.

    Runs end in camps, and one of a camp may be missing among few: the interval allows for a run
    of a kind that was not seen (`statistics.few_clusters`).
    """
    n = len(values)
    flat = values.reshape(n, -1)
    ends = [bounded_ends(column, np.ones(n), _REWARDS, 0.025) for column in flat.T]
    low, high = np.array(ends).T.reshape(2, *values.shape[1:])
    return values.mean(axis=0), low, high


# --- Play -----------------------------------------------------------------------------------------
STEPS = 4000  # as in the paper's experiment
SEEDS = 10  # the paper's has one; these take some 15 minutes on two cores
_DQN = "recurrent-dqn"


@dataclass(frozen=True)
class Player:
    """An agent, with what differs from the published settings of the recurrent DQN.

    `key` names it in results and in the run, `label` in tables; `coding` is the environment's, see
    `TemptingButton`.
    """

    key: str
    label: str
    agent: str = _DQN
    settings: tuple[tuple[str, Any], ...] = ()
    coding: str = "code"

    @property
    def arguments(self) -> dict[str, Any]:
        """For `trial`, but for the steps and the seed."""
        return {"agent": self.agent, "settings": dict(self.settings), "coding": self.coding}


# What the authors' script runs. (It runs the first twice, with another place in the random stream.)
_PUBLISHED: dict[str, dict[str, Any]] = {
    "rate 0.1, lookback 10": {},
    **{f"rate {rate}": {"learning_rate": rate} for rate in (0.05, 0.01, 0.001)},
    **{f"lookback {turns}": {"lookback": turns} for turns in (1, 3, 5)},
}


def _published(draws_from: str) -> tuple[Player, ...]:
    return tuple(
        Player(
            f"{_DQN},draws_from={draws_from}"
            + "".join(f",{name}={value:g}" for name, value in settings.items()),
            label,
            settings=(("draws_from", draws_from), *settings.items()),
        )
        for label, settings in _PUBLISHED.items()
    )


ANEW, SAME = _published("history"), _published("seed")
PAPER_CODING = tuple(
    Player(f"{who.key},coding=paper", f"{who.label}, {weights}", who.agent, who.settings, "paper")
    for who, weights in ((ANEW[0], "new weights"), (SAME[0], "the same weights"))
)
BASELINES = tuple(
    Player(agent, label, agent)
    for agent, label in (
        ("constant(0)", "never push"),
        ("constant(1)", "always push"),
        ("random", "random"),
        ("naive", "naive learner"),
        ("q-learner", "tabular Q-learner"),
    )
)
PLAYERS = (*BASELINES, *ANEW, *SAME, *PAPER_CODING)


def trial(agent: str, settings: dict[str, Any], coding: str, steps: int, seed: int) -> Any:
    """Return everything that happens in a run of TemptingButton, as three strings.

    The rooms are those of a trial of `goalmeter reflect` with the same seed. `steps` are percepts,
    the first included; `settings` are the recurrent DQN's, empty for other agents.
    """
    player = RecurrentDQN(seed, **settings) if agent == _DQN else named(agent).at_histories(seed)
    environment, _ = find(f"TemptingButton(coding={coding})")
    # The stream of random numbers that `reflection.trial` draws the rooms from.
    run = environment.start(player, Random(f"{environment.base}:{seed}"))
    mind = player.begin(environment.n_actions, environment.n_observations)
    percepts, actions = [run.begin()], []
    while len(percepts) < steps:
        mind.perceive(*percepts[-1])
        actions.append(mind.act())
        mind.take(actions[-1])
        percepts.append(run.react(actions[-1]))
    return {
        "rewards": "".join("-0+"[int(reward) + 1] for reward, _ in percepts),
        "observations": "".join(str(observation) for _, observation in percepts),
        "actions": "".join(map(str, actions)),
    }


def play(
    out: Path,
    players: Sequence[Player],
    *,
    steps: int,
    seeds: Iterable[int],
    on: str = HERE,
    progress: ProgressCallback | None = None,
) -> dict[str, list[Trace]]:
    """Return the trace of each player with each seed: key -> [seeds].

    Trials that the run directory `out` holds are not played again. Networks are trained in
    processes, also where `on` is this one: they are the same only where numerics have one thread.
    """
    wanted = {f"{who.key} seed {seed}": (who, seed) for seed in seeds for who in players}
    study = Study[Any](
        "TemptingButton",
        f"{__name__}:trial",
        {key: who.arguments | {"seed": seed} for key, (who, seed) in wanted.items()},
        common={"steps": steps},
        what={"kind": "tempting-button", "steps": steps},
    )
    place = own_process(on) if any(who.agent == _DQN for who in players) else on
    traces: dict[str, list[Trace]] = {who.key: [] for who in players}
    for key, value in carry_out(study, on=place, out=out, progress=progress).items():
        who, _ = wanted[key]
        traces[who.key].append(Trace.of(**value, coding=who.coding))
    return traces


# --- Summary --------------------------------------------------------------------------------------
Traces = Mapping[str, Sequence[Trace]]  # key of a player -> its runs, one for each seed


def summary(traces: Sequence[Trace]) -> dict[str, Any]:
    """Return the numbers of a player as JSON values."""
    late, low, high = (float(x) for x in mean_interval(np.array([t.late for t in traces])))
    ends = Counter(t.ends for t in traces)
    n, never = len(traces), ends[NEVER]
    return {
        "seeds": n,
        "reward_per_turn": float(np.mean([t.per_turn for t in traces])),
        "late_reward_per_turn": late,
        "late_interval": [low, high] if n > 1 else None,
        "late_pushes_with_button": _mean([t.late_pushes(button=True) for t in traces]),
        "late_pushes_without_button": _mean([t.late_pushes(button=False) for t in traces]),
        "ends": {habit: ends[habit] for habit in (NEVER, MIXED, ALWAYS)},
        "verdict": f"{'yes' if never == n else 'some' if never else 'no'}: {never} of {n}",
        "mean_verdict": _mean_verdict(n, late, (low, high)),
        "by_seed": [
            {"reward_per_turn": t.per_turn, "late": t.late, "tried": t.early_pushes, "ends": t.ends}
            for t in traces
        ],
    }


def _mean_verdict(n: int, late: float, interval: tuple[float, float]) -> str:
    """How the mean of the late rewards stands to the published +0.5, by its interval."""
    # The margin is the ledger's: it was stated there, with its reason.
    number = replace(ledger.load("tempting-button/")[0], ours=late, interval=interval)
    return TOO_FEW if n < FEWEST else number.verdict


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return float(np.mean(known)) if known else float("nan")


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
    return say.table("table", rows, notes=notes, caption=say.declared("captions")[name])


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
STROKES: tuple[tuple[str, str], ...] = ((BLUE, "-"), (VERMILION, "--"), (GREEN, "-."), (INK, ":"))
WINDOW = 200  # turns over which the curves average, in runs that are long enough
_POINTS = 200  # of a curve, at most
# Per turn, with buttons in a quarter of the rooms.
_LEVELS = ((0.5, "never push"), (-0.5, "always push"))


def mean_curves(name: str, caption: str, players: Sequence[Player], traces: Traces) -> Figure:
    """Plot the mean over seeds of each player, with a band."""
    drawn, ends = [], []
    shown = [player for player in players if player.key in traces]
    for player, (colour, stroke) in zip(shown, STROKES, strict=False):
        turns, recent, window = _recent(traces[player.key])
        mean, low, high = mean_interval(recent)
        look: dict[str, Any] = {"label": player.label, "colour": colour, "stroke": stroke}
        look |= {"low": low.tolist(), "high": high.tolist()}
        drawn.append(Curve(x=turns, y=mean.tolist(), **look))
        ends.append(f"{player.label}: {reward(mean[0])} at first, {reward(mean[-1])} in the end")
    texts = say("mean_curves_figure", ends="; ".join(ends), caption=caption, window=window)
    return Figure(svg=_chart(name, drawn, window), **texts)


def every_seed(name: str, caption: str, player: Player, traces: Traces) -> Figure:
    """Plot a thin curve for each seed of a player, and their mean."""
    turns, recent, window = _recent(traces[player.key])
    drawn = [Curve(label="", x=turns, y=row.tolist(), thin=True) for row in recent]
    mean = recent.mean(axis=0).tolist()
    drawn.append(Curve(label="mean of all seeds", x=turns, y=mean, colour=VERMILION))
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
    return curve_chart(name, drawn, CurveAxes(x_label="turn", y_label=label, levels=_LEVELS))


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
        say.section("the_room_with_a_button", compared),
        say.section(
            "new_weights_at_each_training",
            [anew, early_table(ANEW, traces)],
            _figures("new", ANEW, traces),
        ),
        say.section(
            "the_same_weights_at_each_training",
            [same, early_table(SAME, traces)],
            _figures("same", SAME, traces),
        ),
        say.section("numbered_as_in_the_paper_s_text", coding),
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
    gm.report.require_report_extra()
    place: dict[str, Any] = {"on": options.on, "progress": options.progress}
    traces = play(out, PLAYERS, steps=steps, seeds=seeds, **place)
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
    return say.report(
        out,
        options,
        page_sections(traces),
        result,
        findings,
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
    steps = STEPS if options.steps is None else options.steps
    if steps < 2:
        raise gm.InvalidParameterError(f"steps is {steps}, expected at least 2")
    count = options.count(SEEDS, least=1)
    return steps, range(options.seed, options.seed + count)
