"""Agents whose goals are known, walked and measured: what a calibration rests on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from goalmeter.experiments.calibration import players
from goalmeter.experiments.calibration.scores import Score, scores
from goalmeter.experiments.calibration.truth import MOLE, Subject, map_of
from goalmeter.experiments.calibration.verdicts import Verdict, findings, verdicts
from goalmeter.navigation.directed.learnt import Drawn, answers, learn
from goalmeter.navigation.playing import Walked
from goalmeter.navigation.record import Trajectory
from goalmeter.organisms.kinds import organism
from goalmeter.runs import HERE
from goalmeter.runs.forecast import Forecast

# Suites in one world of which a utility is learnt of each organism.
_LEARNT_IN = (players.MAZE, players.KEY_NO_DOOR)


@dataclass(frozen=True)
class Calibration:
    """What the instruments say of agents whose goals are known.

    Attributes:
        subjects: the agents, and what is known of them.
        walked: their walks, by suite and agent.
        scores: of each agent in each grid.
        verdicts: of each instrument on each question.
        drawn: utilities that were learnt of the organisms.
    """

    subjects: tuple[Subject, ...]
    walked: Mapping[str, Mapping[str, Walked]]
    scores: tuple[Score, ...]
    verdicts: tuple[Verdict, ...]
    drawn: tuple[Drawn, ...]

    @property
    def findings(self) -> list[str]:
        """All of it in sentences."""
        return findings(self.scores, self.verdicts, self.subjects)


def calibrate(
    subjects: Sequence[Subject],
    out: Path,
    *,
    scale: players.Scale,
    seed: int = 0,
    on: str = HERE,
    progress: Callable[[str], None] | None = None,
) -> Calibration:
    """Let agents walk, each in a run folder below `out`, and measure them with every instrument.

    What was walked before is not walked again.
    """
    players.require_models(subject.name for subject in subjects)
    # Fits of the simplest utility take longest, so they are left out where no question needs them:
    # of agents that have no class in the one question that they are made for.
    learners = [subject.name for subject in subjects if subject.directed and not subject.own_map]
    places = _places(subjects, scale)
    plans = [players.plan_for(name, suite, scale, seed=seed) for suite, name in places]
    walked: dict[str, dict[str, Walked]] = {suite: {} for suite in scale.suites}
    runs = players.play_every(plans, out, on=on, progress=progress)
    for (suite, name), run in zip(places, runs, strict=True):
        walked[suite][name] = run
    every_score: list[Score] = []
    drawn: list[Drawn] = []
    for suite, by_name in walked.items():
        walks = {name: run.trajectories for name, run in by_name.items()}
        every_score += scores(suite, walks, learners=learners, on=on, progress=progress)
        drawn += _learnt_of(suite, walks, subjects)
    return Calibration(
        tuple(subjects),
        walked,
        tuple(every_score),
        tuple(verdicts(every_score, subjects)),
        tuple(drawn),
    )


def forecasts(
    subjects: Sequence[Subject],
    out: Path,
    *,
    scale: players.Scale,
    seed: int = 0,
    on: str = HERE,
) -> list[Forecast]:
    """What the walks of `calibrate` will cost; what is measured of them rests on their results."""
    players.require_models(subject.name for subject in subjects)
    plans = [
        players.plan_for(name, suite, scale, seed=seed) for suite, name in _places(subjects, scale)
    ]
    return players.forecasts(plans, out, on=on)


def _places(subjects: Sequence[Subject], scale: players.Scale) -> list[tuple[str, str]]:
    return [(suite, subject.name) for suite in scale.suites for subject in subjects]


def _learnt_of(
    suite: str, agents: Mapping[str, Sequence[Trajectory]], subjects: Sequence[Subject]
) -> list[Drawn]:
    """What every organism that counts seems to want in one world; nothing for other suites."""
    if suite not in _LEARNT_IN:
        return []
    mole = organism(MOLE)
    drawn = []
    for name in (subject.name for subject in subjects if subject.organism and subject.counted):
        walks = agents[name]
        # The largest kind in which the mole's map is wrong, so that all four differ.
        wrong = [walk for walk in walks if map_of(mole, walk.world) != walk.world] or list(walks)
        world = wrong[-1].world
        through = [walk for walk in walks if walk.world == world]
        drawn.append(Drawn(name, suite, world, learn(world, through[0].cap, answers(through))))
    return drawn
