"""`goalmeter replicate tempting-button`: do rewards of the recurrent DQN approach +0.5 a turn?"""

from __future__ import annotations

if __name__ == "__main__":
    from goalmeter.__main__ import main

    main("replicate", "tempting-button")

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from goalmeter import InvalidParameterError
from goalmeter.agents import RecurrentDQN
from goalmeter.agents import agent as named
from goalmeter.commands.outcome import Outcome
from goalmeter.commands.replicate import StudyOptions
from goalmeter.reflection.environments import find
from goalmeter.report import Curve, Figure, Section, Table, plus, require_report_extra
from goalmeter.runs import Study, carry_out, own_process
from goalmeter.statistics import bounded_ends
from replications import common, ledger
from replications.common import FEWEST, STROKES, TOO_FEW, VERMILION, BoolArray, FloatArray, Texts

say = Texts("tempting_button")
STEPS = 4000  # as in the paper's experiment
SEEDS = 10  # the paper's has one; these take some 15 minutes on two cores

LATE = 1000  # rooms at the end of a run
EARLY = 255  # rooms before the recurrent DQN has learnt anything
NEVER, MIXED, ALWAYS = "never", "sometimes", "always"
# A share of pushes up to this far from 0 or 1 counts as never or always.
_SLIP = 0.05
_REWARDS = (-1.0, 1.0)  # least and greatest of a turn


@dataclass(frozen=True, eq=False)
class Trace:
    """One run, room by room; the last percept leads to no action."""

    rewards: FloatArray  # of all percepts, the first included, [steps]
    button: BoolArray  # whether the room has a button, [steps - 1]
    pushes: BoolArray  # whether the agent did as if to push, [steps - 1]

    @classmethod
    def of(cls, rewards: str, observations: str, actions: str, *, coding: str) -> Trace:
        """Return a trace from the strings of `trial`."""
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
    def share(self) -> float:
        """Share of the last rooms in which it would push, were there a button."""
        return float(self.answers[-LATE:].mean())

    @property
    def late(self) -> float:
        """Reward per turn in the last rooms, expected over which of them have a button."""
        # Its answer is determined before the room is drawn: (2 a - 1) / 4 + 3 (1 - 2 a) / 4.
        return 0.5 - self.share

    @property
    def early_pushes(self) -> int:
        """How many buttons it pushed before anything was learnt."""
        return int((self.button & self.pushes)[:EARLY].sum())

    @property
    def ends(self) -> str:
        """What it would do with buttons in the last rooms: "never", "sometimes", "always" push."""
        if self.share <= _SLIP:
            return NEVER
        return ALWAYS if self.share >= 1 - _SLIP else MIXED

    def late_pushes(self, *, button: bool) -> float:
        """Return the share of the last rooms with, or without, a button in which it pushed."""
        rooms = self.button[-LATE:] == button
        return float(self.pushes[-LATE:][rooms].mean()) if rooms.any() else math.nan

    def recent(self, window: int) -> FloatArray:
        """Return the reward per turn over the `window` latest rooms, from the first full one on."""
        total = np.cumsum(np.concatenate([[0.0], self.rewards[1:]]))
        return np.asarray((total[window:] - total[:-window]) / window)


def mean_interval(values: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the mean over runs [runs, ...] of rewards per turn, and the ends of its interval."""
    # Runs end in camps, and one may be missing: the interval allows for an unseen kind of run.
    n = len(values)
    flat = values.reshape(n, -1)
    ends = [bounded_ends(column, np.ones(n), _REWARDS, 0.025) for column in flat.T]
    low, high = np.array(ends).T.reshape(2, *values.shape[1:])
    return values.mean(axis=0), low, high


_DQN = "recurrent-dqn"


@dataclass(frozen=True)
class Player:
    """An agent, with what differs from the published settings of the recurrent DQN."""

    key: str  # its name in results and in the run
    label: str  # in tables
    agent: str = _DQN
    settings: dict[str, Any] = field(default_factory=dict)
    coding: str = "code"  # of the environment, see `TemptingButton`

    @property
    def arguments(self) -> dict[str, Any]:
        """Those of `trial`, but for the steps and the seed."""
        return {"agent": self.agent, "settings": self.settings, "coding": self.coding}


# What the authors' script runs. (It runs the first twice, with another place in the random stream.)
GROUPS = {
    name: tuple(Player(**each) for each in players)
    for name, players in say.declared("players").items()
}
BASELINES, ANEW, SAME, PAPER_CODING = GROUPS.values()
PLAYERS = (*BASELINES, *ANEW, *SAME, *PAPER_CODING)
Traces = Mapping[str, Sequence[Trace]]  # key of a player -> its runs, one for each seed


def trial(agent: str, settings: dict[str, Any], coding: str, steps: int, seed: int) -> Any:
    """Return everything that happens in a run of TemptingButton, as three strings."""
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


def summary(traces: Sequence[Trace]) -> dict[str, Any]:
    """Return the numbers of a player as JSON values."""
    late = float(np.mean([t.late for t in traces]))
    ends = Counter(t.ends for t in traces)
    n, never = len(traces), ends[NEVER]
    # Of runs that all end never or always pushing, this is Clopper and Pearson's interval.
    shares = np.array([t.share for t in traces])
    low, high = (0.5 - end for end in reversed(bounded_ends(shares, np.ones(n), (0, 1), 0.025)))
    pushes = {b: common.known_mean(t.late_pushes(button=b) for t in traces) for b in (True, False)}
    # The margin is the ledger's: it was stated there, with its reason.
    number = replace(ledger.load("tempting-button/")[0], ours=late, interval=(low, high))
    return {
        "seeds": n,
        "reward_per_turn": float(np.mean([t.per_turn for t in traces])),
        "late_reward_per_turn": late,
        "late_interval": [low, high] if n > 1 else None,
        "late_pushes_with_button": pushes[True],
        "late_pushes_without_button": pushes[False],
        "ends": {habit: ends[habit] for habit in (NEVER, MIXED, ALWAYS)},
        "verdict": f"{'yes' if never == n else 'some' if never else 'no'}: {never} of {n}",
        "mean_verdict": TOO_FEW if n < FEWEST else number.verdict,
        "by_seed": [
            {"reward_per_turn": t.per_turn, "late": t.late, "tried": t.early_pushes, "ends": t.ends}
            for t in traces
        ],
    }


def tables(traces: Traces) -> tuple[Table, ...]:
    """Tabulate each group of players; the first table has the notes of all."""
    out = []
    for name, players in GROUPS.items():
        rows = [
            of | {"label": who.label, "between": _between(of["late_interval"]) or "one seed"}
            for who in players
            for of in [summary(traces[who.key])]
        ]
        notes = say("notes")["lines"] if players is BASELINES else ()
        caption = say.declared("captions")[name]
        out.append(say.table("table", rows, notes=notes, caption=caption))
    return tuple(out)


def _by_early_pushes(traces: Sequence[Trace]) -> dict[str, dict[str, int]]:
    out = {}
    for name, pushed in (("without", False), ("pushed", True)):
        ends = [t.ends for t in traces if (t.early_pushes > 0) == pushed]
        out[name] = {"runs": len(ends), "never": ends.count(NEVER), "always": ends.count(ALWAYS)}
    return out


def _between(ends: Sequence[float] | None) -> str:
    return " to ".join(plus(end, 3) for end in ends) if ends else ""


WINDOW = 200  # turns over which the curves average, in runs that are long enough
_POINTS = 200  # of a curve, at most


def _mean_curves(name: str, caption: str, players: Sequence[Player], traces: Traces) -> Figure:
    drawn, ends = [], []
    for player, (colour, stroke) in zip(players, STROKES, strict=False):
        turns, recent, window = _recent(traces[player.key])
        mean, low, high = (line.tolist() for line in mean_interval(recent))
        look: dict[str, Any] = {"label": player.label, "colour": colour, "stroke": stroke}
        drawn.append(Curve(x=turns, y=mean, low=low, high=high, **look))
        ends.append(say.line("curve", player=player, first=mean[0], last=mean[-1]))
    values: dict[str, Any] = {"window": window, "ends": "; ".join(ends), "caption": caption}
    axes = {"y_label": say.line("y_label", window=window)}
    return say.curves("mean_curves_figure", name, drawn, axes, **values)


def _every_seed(name: str, player: Player, traces: Traces) -> Figure:
    turns, recent, window = _recent(traces[player.key])
    drawn = [Curve(label="", x=turns, y=row.tolist(), thin=True) for row in recent]
    mean = recent.mean(axis=0).tolist()
    drawn.append(Curve(label="mean of all seeds", x=turns, y=mean, colour=VERMILION))
    values: dict[str, Any] = {"window": window, "caption": f"{player.label.capitalize()}."}
    values["ends"] = ", ".join(plus(row[-1], 3) for row in recent)
    axes = {"y_label": say.line("y_label", window=window)}
    return say.curves("every_seed_figure", name, drawn, axes, **values)


def _recent(traces: Sequence[Trace]) -> tuple[list[float], FloatArray, int]:
    """Turns [points], reward per turn over the latest window [seeds, points], and the window."""
    length = len(traces[0].button)
    window = min(WINDOW, max(1, length // 4))
    every = max(1, (length - window) // _POINTS)
    recent = np.array([t.recent(window)[::every] for t in traces])
    return [float(window + every * i) for i in range(recent.shape[1])], recent, window


def _section(
    entry: str, name: str, table: Table, players: Sequence[Player], traces: Traces
) -> Section:
    early = [{"label": who.label} | _by_early_pushes(traces[who.key]) for who in players]
    return say.section(
        entry,
        [table, say.table("what_was_tried_and_how_it_ends", early)],
        _mean_curves(f"{name}-rates", "Learning rates.", players[:4], traces),
        _mean_curves(f"{name}-lookbacks", "Lookbacks.", (players[0], *players[4:]), traces),
        _every_seed(f"{name}-seeds", players[0], traces),
    )


def page_findings(traces: Traces) -> list[str]:
    """Return summary sentences generated from the results."""
    published = [t for player in (*ANEW, *SAME) for t in traces[player.key]]
    ends = Counter(t.ends for t in published)
    answer = "none" if not ends[NEVER] else "all" if ends[NEVER] == len(published) else "some"
    summaries = ((player, summary(traces[player.key])) for player in BASELINES)
    compared = ", ".join(say.line("agent", player=player, of=of) for player, of in summaries)
    return [
        say.line("answer", answer=say.line(answer), runs=len(published), ends=ends),
        _of_settings("With new weights at each training", ANEW, traces),
        _of_settings("With the same weights at each training", SAME, traces),
        say.line("early", **_by_early_pushes(published)),
        say.line("compared", agents=compared),
    ]


def _of_settings(name: str, players: Sequence[Player], traces: Traces) -> str:
    rows = [(player.label, summary(traces[player.key])) for player in players]
    by_count = sorted(rows, key=lambda row: row[1]["ends"][NEVER])
    ends = [f"{of['ends'][NEVER]} of {of['seeds']} ({label})" for label, of in by_count]
    first = rows[0][1]
    judged, between = first["mean_verdict"], _between(first["late_interval"])
    interval = between and f", 95% interval {between}"
    verdict = say.declared("verdicts").get(judged, f"{judged} to the published +0.5")
    values = {"interval": interval, "verdict": verdict}
    return say.line("settings", name=name, least=ends[0], most=ends[-1], first=first, **values)


OPTIONS = ("steps",)


def replicate(out: Path, options: StudyOptions) -> Outcome:
    """Play TemptingButton with the published settings; steps are percepts, the first included.

    Source: "Extending Environments To Measure Self-Reflection In Reinforcement Learning", section
    3.2, and the authors' TemptingButtonExperiment at e4dd0d0.
    """
    steps, seeds = _scale(options)
    require_report_extra()
    wanted = [(who, seed) for seed in seeds for who in PLAYERS]
    study = Study[Any](
        "TemptingButton",
        f"{__name__}:trial",
        {f"{who.key} seed {seed}": who.arguments | {"seed": seed} for who, seed in wanted},
        common={"steps": steps},
        what={"kind": "tempting-button", "steps": steps},
    )
    # Networks are the same only where numerics have one thread, so never train in this process.
    runs = carry_out(study, on=own_process(options.on), out=out, progress=options.progress)
    traces: dict[str, list[Trace]] = {who.key: [] for who in PLAYERS}
    for (who, _), value in zip(wanted, runs.values(), strict=True):
        traces[who.key].append(Trace.of(**value, coding=who.coding))
    findings = page_findings(traces)
    result = {
        "replication": "tempting-button",
        "steps": steps,
        "seeds": list(seeds),
        "findings": findings,
        "agents": [
            {"key": who.key, "name": who.label} | who.arguments | summary(traces[who.key])
            for who in PLAYERS
        ],
    }
    compared, anew, same, coding = shown = tables(traces)
    sections = [
        say.section("the_room_with_a_button", compared),
        _section("new_weights_at_each_training", "new", anew, ANEW, traces),
        _section("the_same_weights_at_each_training", "same", same, SAME, traces),
        say.section("numbered_as_in_the_paper_s_text", coding),
        # Measured once, apart from the runs that the page shows.
        Section(title="Beside this run", points=say("other_runs")["lines"]),
    ]
    return say.report(out, options, sections, result, findings, say("glossary"), shown)


def planned(options: StudyOptions) -> dict[str, int]:
    """Return how much `replicate` with these options will do."""
    steps, seeds = _scale(options)
    return {"trials": len(PLAYERS) * len(seeds), "steps of each": steps}


def _scale(options: StudyOptions) -> tuple[int, range]:
    steps = STEPS if options.steps is None else options.steps
    if steps < 2:
        raise InvalidParameterError(f"steps is {steps}, expected at least 2")
    count = options.count(SEEDS, least=1)
    return steps, range(options.seed, options.seed + count)
