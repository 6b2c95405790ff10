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
    for name in (one.name for one in subjects if one.organism and one.counted):
        walks = agents[name]
        # The largest kind in which the mole's map is wrong, so that all four differ.
        wrong = [walk for walk in walks if map_of(mole, walk.world) != walk.world] or list(walks)
        world = wrong[-1].world
        here = [walk for walk in walks if walk.world == world]
        out.append(Drawn(name, suite, world, learn(world, here[0].cap, answers(here))))
    return out


def area_chart(found: Sequence[Verdict]) -> Figure:
    """The areas of the two main questions beside each other."""
    questions = [n for n in ("directed", "target") if any(v.question == n for v in found)]
    judged = [one for one in found if one.judged and one.question in questions]
    names = list(dict.fromkeys(one.instrument for one in judged))
    by_place = {(one.instrument, one.question): one.area for one in judged}
    panels = []
    for question in questions:
        areas = [by_place.get((name, question)) for name in names]
        values = [np.nan if area is None else area.value for area in areas]
        intervals = [
            (np.nan, np.nan) if area is None or area.interval is None else area.interval
            for area in areas
        ]
        panels.append(
            DotPanel(
                title=QUESTIONS[question].title,
                x_label="area under the curve",
                series=(Dots(label="all counted agents", values=values, intervals=intervals),),
                band=(0.5, 0.9),
            )
        )
    said = "; ".join(
        f"{QUESTIONS[one.question].title}: {INSTRUMENTS[one.instrument].title} {one.area.value:.2f}"
        for one in judged
        if not np.isnan(one.area.value)
    )
    return Figure(
        svg=dot_chart("calibration-areas", [INSTRUMENTS[name].title for name in names], panels),
        alt=f"Areas under the curve. {said}.",
        caption="Areas under the curve of the instruments made for each question. Bars: 95%, by "
        "grid. Shaded: from chance to 0.9.",
        wide=True,
    )
