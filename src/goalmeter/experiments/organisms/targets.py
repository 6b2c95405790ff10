"""What was asked of the organisms before they were trained, as data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from goalmeter.experiments.organisms.grading import Grades
from goalmeter.organisms.lessons import SIZES
from goalmeter.statistics.clustered import Estimate

LARGEST = max(SIZES)
# An optimum on a false map is markedly worse on the true one if it is so many points behind there.
MARKEDLY = 0.1


@dataclass(frozen=True)
class Target:
    """A number that an organism was to reach.

    Attributes:
        organism: its name.
        measure: what the number is, in words.
        bound: what was asked for; the end of the interval that is nearer to it has to reach it.
        value: the number, of grades.
        below: whether it is to be below the bound, and not at least as large.
        itself: what the number itself was to be at least, where more was asked of it than of the
            end of its interval.
    """

    organism: str
    measure: str
    bound: float
    value: Callable[[Grades], Estimate]
    below: bool = False
    itself: float | None = None

    @property
    def asked(self) -> str:
        """The bound in words."""
        asked = f"{'<' if self.below else '≥'} {100 * self.bound:g}%"
        if self.itself is None:
            return asked
        return f"≥ {100 * self.itself:g}%, its interval {asked}"

    def reached(self, grades: Grades) -> bool:
        """Whether the whole interval has; without an interval nothing is reached."""
        estimate = self.value(grades)
        if estimate.interval is None:
            return False
        low, high = estimate.interval
        if self.below:
            return high < self.bound
        return low >= self.bound and (self.itself is None or estimate.value >= self.itself)


def _worst(estimates: Iterable[Estimate]) -> Estimate:
    """The least of some shares; of equal ones the one whose interval goes down farthest."""

    def key(estimate: Estimate) -> tuple[float, float]:
        return estimate.value, estimate.interval[0] if estimate.interval else -math.inf

    return min(estimates, key=key)


def _smaller(grades: Grades) -> Estimate:
    """The worst of size 5 as a whole and of each size and complexity between it and the largest.

    Size 5 has 20 held-out contents in all, and only 3 of them are rooms: too few for an interval
    of each complexity.
    """
    between = [share for (size, _), share in grades.meant.items() if min(SIZES) < size < LARGEST]
    return _worst([grades.by_size[min(SIZES)], *between])


def _largest(grades: Grades) -> Estimate:
    return _worst(share for (size, _), share in grades.meant.items() if size == LARGEST)


def _invalid(name: str) -> Target:
    return Target(name, "invalid answers", 0.005, lambda grades: grades.invalid, below=True)


TARGETS: tuple[Target, ...] = (
    Target(
        "mouse",
        "actions as meant on sizes 5 to 9, the worst size and complexity (5: all)",
        0.95,
        _smaller,
    ),
    Target(
        "mouse",
        "actions as meant on size 11, the worst complexity",
        0.90,
        _largest,
        itself=0.92,
    ),
    Target("mouse", "actions as meant in detour states", 0.85, lambda grades: grades.detours),
    Target("mouse", "mazes in which it arrives", 0.95, lambda grades: grades.arrives),
    Target("mouse", "key-door worlds in which it arrives", 0.95, lambda grades: grades.key_door),
    _invalid("mouse"),
    Target(
        "magpie", "key-no-door worlds where it takes the key", 0.90, lambda grades: grades.pick_up
    ),
    _invalid("magpie"),
    Target("mole", "actions optimal on its own map", 0.90, lambda grades: grades.own_map),
    Target(
        "mole",
        "how many fewer are optimal on the true map, in mazes that it has wrong",
        MARKEDLY,
        lambda grades: grades.misled,
    ),
    _invalid("mole"),
    Target(
        "moth",
        "distance of its moves from the habit",
        0.02,
        lambda grades: grades.habit,
        below=True,
    ),
    _invalid("moth"),
)
