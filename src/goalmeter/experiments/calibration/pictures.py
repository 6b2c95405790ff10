"""What is drawn of a calibration: areas under the curve, and whose learnt utilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from goalmeter.experiments.calibration.judged import Verdict
from goalmeter.experiments.calibration.players import KEY_NO_DOOR, MAZE
from goalmeter.experiments.calibration.questions import INSTRUMENTS, QUESTIONS
from goalmeter.experiments.calibration.truth import MOLE, Subject, map_of
from goalmeter.navigation.directed.learnt import Drawn, answers, learn
from goalmeter.navigation.record import Trajectory
from goalmeter.organisms.kinds import organism
from goalmeter.report import Figure
from goalmeter.report.charts.dots import DotPanel, Dots, dot_chart
from goalmeter.report.numbers import number

# Suites in one world of which a utility is learnt of each organism.
_LEARNT_IN = (MAZE, KEY_NO_DOOR)


def learnt_of(
    suite: str, agents: Mapping[str, Sequence[Trajectory]], subjects: Sequence[Subject]
) -> list[Drawn]:
    """What every organism that counts seems to want in one world; nothing for other suites."""
    if suite not in _LEARNT_IN:
        return []
    mole = organism(MOLE)
    out = []
    for name in (subject.name for subject in subjects if subject.organism and subject.counted):
        walks = agents[name]
        # The largest kind in which the mole's map is wrong, so that all four differ.
        wrong = [walk for walk in walks if map_of(mole, walk.world) != walk.world] or list(walks)
        world = wrong[-1].world
        through = [walk for walk in walks if walk.world == world]
        out.append(Drawn(name, suite, world, learn(world, through[0].cap, answers(through))))
    return out


def area_chart(verdicts: Sequence[Verdict]) -> Figure:
    """The areas of the two main questions beside each other."""
    questions = [n for n in ("directed", "target") if any(v.question == n for v in verdicts)]
    judged = [verdict for verdict in verdicts if verdict.judged and verdict.question in questions]
    names = list(dict.fromkeys(verdict.instrument for verdict in judged))
    by_place = {(verdict.instrument, verdict.question): verdict.area for verdict in judged}
    panels = []
    for question in questions:
        areas = [by_place.get((name, question)) for name in names]
        panels.append(
            DotPanel(
                title=QUESTIONS[question].title,
                x_label="area under the curve",
                series=(Dots.of("all counted agents", areas),),
                band=(0.5, 0.9),
            )
        )
    areas_in_words = "; ".join(
        f"{QUESTIONS[verdict.question].title}: {INSTRUMENTS[verdict.instrument].title} "
        f"{number(verdict.area.value, 2)}"
        for verdict in judged
        if not np.isnan(verdict.area.value)
    )
    return Figure(
        svg=dot_chart("calibration-areas", [INSTRUMENTS[name].title for name in names], panels),
        alt=f"Areas under the curve. {areas_in_words}.",
        caption="Areas under the curve of the instruments made for each question. Bars: 95%, by "
        "grid. Shaded: from chance to 0.9.",
        wide=True,
    )
