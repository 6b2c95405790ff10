"""Agents whose goals are known, walked and measured: what a calibration rests on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from goalmeter.experiments.calibration import pictures
from goalmeter.experiments.calibration.findings import findings
from goalmeter.experiments.calibration.judged import Verdict, verdicts
from goalmeter.experiments.calibration.players import Scale, plan_for, play_every, require_models
from goalmeter.experiments.calibration.scores import Score, scores
from goalmeter.experiments.calibration.truth import Subject
from goalmeter.navigation.directed.learnt import Drawn
from goalmeter.navigation.playing import Walked


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
    scale: Scale,
    seed: int = 0,
    workers: int = 1,
    progress: Callable[[str], None] | None = None,
) -> Calibration:
    """Let agents walk, each in a run folder below `out`, and measure them with every instrument.

    Args:
        subjects: the agents.
        out: folder of the runs; what was walked before is not walked again.
        scale: how much they walk.
        seed: of grids and walks.
        workers: processes that ask models and fit utilities.
        progress: told what is being done.

    Raises:
        InvalidFileError: the folder cannot be written to, or holds other walks.
        MissingExtraError: a language model is among them, and a package is missing that it needs.
    """
    require_models(one.name for one in subjects)
    # Fits of the simplest utility take longest; others have no class in the question that they
    # are made for.
    learners = [one.name for one in subjects if one.directed and one.own_map is None]
    places = [(suite, one.name) for suite in scale.suites for one in subjects]
    plans = [plan_for(name, suite, scale, seed=seed) for suite, name in places]
    walked: dict[str, dict[str, Walked]] = {suite: {} for suite in scale.suites}
    made = play_every(plans, out, workers=workers, progress=progress)
    for (suite, name), walks in zip(places, made, strict=True):
        walked[suite][name] = walks
    every_score: list[Score] = []
    drawn: list[Drawn] = []
    for suite, by_name in walked.items():
        walks_of = {name: one.trajectories for name, one in by_name.items()}
        every_score += scores(
            suite, walks_of, learners=learners, workers=workers, progress=progress
        )
        drawn += pictures.learnt_of(suite, walks_of, subjects)
    return Calibration(
        tuple(subjects),
        walked,
        tuple(every_score),
        tuple(verdicts(every_score, subjects)),
        tuple(drawn),
    )
