"""The organisms in the demo: they walk, are measured, and instruments are calibrated with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalmeter._errors import MissingExtraError
from goalmeter.experiments.calibration import page
from goalmeter.experiments.calibration.measuring import Calibration, calibrate
from goalmeter.experiments.calibration.measuring import forecasts as walks_forecasts
from goalmeter.experiments.calibration.players import KEY_NO_DOOR, MAZE, Scale, require_models
from goalmeter.experiments.calibration.truth import IDEAL, MOLE, TRAINED, subjects_of
from goalmeter.navigation.playing import Walked
from goalmeter.organisms.kinds import organism, organism_names
from goalmeter.pages.navigation import page as navigation_page
from goalmeter.pages.navigation.learnt_pictures import Explained
from goalmeter.pages.navigation.page import Group
from goalmeter.pages.navigation.wants import Want, wants
from goalmeter.runs.forecast import Forecast

# As many walks as two cores make in about a minute. Many mazes rather than many walks through
# each, since intervals rest on mazes; all of them with walls that the mole may not see. Reference
# agents make the classes of which there is only one organism larger.
SCALE = Scale(grids=5, complexities=(0.5, 1.0), key_worlds=4, walks=2, suites=(MAZE, KEY_NO_DOOR))
BESIDE = (page.SHORTEST, "key-seeker", page.AIMLESS)


@dataclass(frozen=True)
class OrganismResults:
    """The organisms, and what was measured of them.

    Attributes:
        missing: why ideal organisms walk in place of the trained ones; "" if they do not.
        prefix: before the name of an organism.
        calibration: all instruments on all agents.
        groups: how the organisms behave, in mazes and in worlds with a key.
        wants: what each organism, and each reference agent, was measured to want.
        learnt: utilities that were learnt of the organisms, with what they explain.
    """

    missing: str
    prefix: str
    calibration: Calibration
    groups: tuple[Group, ...]
    wants: tuple[Want, ...]
    learnt: tuple[Explained, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the organisms that walked."""
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
            "wants": [want.to_json() for want in self.wants],
            "learnt": [utility.to_json() for utility in self.learnt],
        }


def measure(
    out: Path, *, seed: int, on: str, progress: Callable[[str], None] | None = None
) -> OrganismResults:
    """Let the organisms walk, and measure them; walks that are there are not made again.

    Without what language models need, ideal organisms walk in their place.

    Raises:
        InvalidFileError: the folder cannot be written to, or holds other walks.
    """
    prefix, missing = _prefix()
    names = tuple(f"{prefix}{name}" for name in organism_names())
    calibration = calibrate(
        subjects_of((*names, *BESIDE)),
        out,
        scale=SCALE,
        seed=seed,
        on=on,
        progress=progress,
    )
    runs = [by_name[name] for by_name in calibration.walked.values() for name in names]
    groups = tuple(navigation_page.groups(runs, progress))
    return OrganismResults(
        missing,
        prefix,
        calibration,
        groups,
        tuple(_wants(*groups)),
        tuple(page.learnt(calibration)),
    )


def forecasts(out: Path, *, seed: int, on: str) -> list[Forecast]:
    """What the walks of `measure` will cost."""
    names = (f"{_prefix()[0]}{name}" for name in organism_names())
    return walks_forecasts(subjects_of((*names, *BESIDE)), out, scale=SCALE, seed=seed, on=on)


def _prefix() -> tuple[str, str]:
    """What is before the names of the organisms that walk, and why the trained ones do not."""
    try:
        require_models(f"{TRAINED}{name}" for name in organism_names())
    except MissingExtraError as error:
        return IDEAL, str(error)
    return TRAINED, ""


def _wants(in_mazes: Group, with_keys: Group) -> list[Want]:
    """What the agents want that walked in both kinds of worlds, on the true map or the mole's."""
    place = {result.agent: n for n, result in enumerate(with_keys.results)}
    agents = [result.agent for result in in_mazes.results]
    both = [(n, place[agent]) for n, agent in enumerate(agents) if agent in place]
    return wants(
        [in_mazes.results[n] for n, _ in both],
        [with_keys.results[n] for _, n in both],
        ([in_mazes.directed[n] for n, _ in both], [with_keys.directed[n] for _, n in both]),
        organism(MOLE),
    )
