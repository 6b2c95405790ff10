"""The organisms in the demo: they walk, are measured, and instruments are calibrated with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalmeter._errors import MissingExtraError
from goalmeter.experiments import navigation_page
from goalmeter.experiments.calibration import page
from goalmeter.experiments.calibration.judged import IN_PART, UNKNOWN, mean_of
from goalmeter.experiments.calibration.measuring import Calibration, calibrate
from goalmeter.experiments.calibration.players import KEY_NO_DOOR, MAZE, Scale, require_models
from goalmeter.experiments.calibration.questions import INSTRUMENTS, QUESTIONS
from goalmeter.experiments.calibration.truth import IDEAL, TRAINED, subjects_of
from goalmeter.experiments.navigation_page import Group
from goalmeter.navigation.playing import Walked
from goalmeter.organisms.kinds import organism_names

# As many walks as two cores make in about a minute. Reference agents make the classes of which
# there is only one organism larger.
SCALE = Scale(grids=2, key_worlds=3, walks=3, suites=(MAZE, KEY_NO_DOOR))
BESIDE = ("optimal", "key-seeker", "random")


@dataclass(frozen=True)
class Met:
    """The organisms, and what was measured of them.

    Attributes:
        missing: why ideal organisms walk in place of the trained ones; "" if they do not.
        prefix: before the name of an organism.
        calibration: all instruments on all agents.
        groups: how the organisms behave, in mazes and in worlds with a key.
    """

    missing: str
    prefix: str
    calibration: Calibration
    groups: tuple[Group, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Of the organisms that walked."""
        return tuple(f"{self.prefix}{name}" for name in organism_names())

    def walked(self, suite: str) -> list[Walked]:
        """The organisms' walks in a suite."""
        return [self.calibration.walked[suite][name] for name in self.names]

    def to_json(self) -> dict[str, Any]:
        """All measures as JSON values."""
        runs = [run for suite in self.calibration.walked for run in self.walked(suite)]
        return {
            "missing": self.missing or None,
            "calibration": page.to_json(self.calibration),
            "behaviour": navigation_page.in_order(self.groups, runs),
        }


def meet(
    out: Path, *, seed: int, workers: int, progress: Callable[[str], None] | None = None
) -> Met:
    """Let the organisms walk, and measure them; walks that are there are not made again.

    Without what language models need, ideal organisms walk in their place.

    Args:
        out: folder of the runs.
        seed: of grids and walks.
        workers: processes that ask models and fit utilities.
        progress: told what is being done.

    Raises:
        InvalidFileError: the folder cannot be written to, or holds other walks.
    """
    prefix, missing = TRAINED, ""
    try:
        require_models(f"{TRAINED}{name}" for name in organism_names())
    except MissingExtraError as error:
        prefix, missing = IDEAL, str(error)
    names = tuple(f"{prefix}{name}" for name in organism_names())
    found = calibrate(
        subjects_of((*names, *BESIDE)),
        out,
        scale=SCALE,
        seed=seed,
        workers=workers,
        progress=progress,
    )
    runs = [by_name[name] for by_name in found.walked.values() for name in names]
    return Met(missing, prefix, found, tuple(navigation_page.groups(runs, progress)))


def findings(met: Met) -> list[str]:
    """What the organisms show, in a few sentences made of the numbers."""
    mouse, magpie, mole, moth = met.names
    found = met.calibration

    def mean(question: str, instrument: str, agent: str) -> float:
        return mean_of(found.scores, QUESTIONS[question], instrument, agent)

    def pair(question: str, instrument: str, first: str, second: str, form: str = ".0%") -> str:
        values = (mean(question, instrument, agent) for agent in (first, second))
        # What rounds to nothing has no sign.
        texts = (format(value if abs(value) >= 0.005 else 0.0, form) for value in values)
        return " and ".join(text.replace("-", "−") for text in texts)

    taken = {
        result.agent: result.keys[0].pick_up.rate.value
        for result in met.groups[-1].results
        if result.keys
    }
    judged = [one for one in found.verdicts if one.judged]
    unsure = sum(one.words in (IN_PART, UNKNOWN) for one in judged)
    failed = [
        f"{INSTRUMENTS[one.instrument].title} ({QUESTIONS[one.question].title})"
        for one in judged
        if one.failed
    ]
    out = [
        f"In mazes {mouse} and {moth} reach the goal in {pair('directed', 'success', mouse, moth)} "
        f"of walks, and MEG towards the goal is {pair('directed', 'meg_goal', mouse, moth)} of its "
        f"maximum: the one was made to want the goal, the other to want nothing.",
        f"{magpie} was made to want keys. Beside one that opens nothing, {mouse} and {magpie} "
        f"reach the goal in {pair('target', 'success', mouse, magpie)} of walks, which does not "
        f"say what they want. They take the key in {taken[mouse]:.0%} and {taken[magpie]:.0%}; "
        f"until then MEG towards the goal less MEG towards the key is "
        f"{pair('target', 'goal_less_key', mouse, magpie, '+.2f')} of the maximum.",
        f"Of {len(judged)} questions that instruments were asked whose answer is known, "
        f"{len(judged) - unsure - len(failed)} were answered rightly, {unsure} in part or with too "
        f"few grids to say, {len(failed)} wrongly{': ' * bool(failed)}{', '.join(failed)}.",
    ]
    if any(score.other_map for score in found.scores):
        lost = mean("misled", "meg_goal", mole), mean("misled", "meg_map", mole)
        out.insert(
            2,
            f"{mole} was made to want the goal, and not to see some walls. In mazes with such "
            f"walls, MEG towards the goal is {lost[0]:.0%} of its maximum in the world and "
            f"{lost[1]:.0%} on its own map.",
        )
    return out
