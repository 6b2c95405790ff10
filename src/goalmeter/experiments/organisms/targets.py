"""What was asked of the organisms before they were trained, as data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
        bound: what was asked for.
        value: the number, of grades.
        below: whether it is to be below the bound, and not at least as large.
    """

    organism: str
    measure: str
    bound: float
    value: Callable[[Grades], Estimate]
    below: bool = False

    @property
    def asked(self) -> str:
        """The bound in words."""
        return f"{'<' if self.below else '≥'} {100 * self.bound:g}%"

    def reached(self, grades: Grades) -> bool:
        """Whether it was; what is not known was not."""
        value = self.value(grades).value
        return value < self.bound if self.below else value >= self.bound


def _worst(grades: Grades, sizes: Sequence[int]) -> Estimate:
    """The least share of actions as meant, of all complexities of some sizes."""
    return min(
        (found for (size, _), found in grades.meant.items() if size in sizes),
        key=lambda found: found.value,
    )


def _habit(grades: Grades) -> Estimate:
    """The distance from a habit, which has no interval; of no states without one."""
    gap = float("nan") if grades.habit is None else grades.habit
    return Estimate(gap, None, grades.invalid.n, grades.invalid.clusters)


def _invalid(name: str) -> Target:
    return Target(name, "invalid answers", 0.005, lambda grades: grades.invalid, below=True)


TARGETS: tuple[Target, ...] = (
    Target(
        "mouse",
        "actions as meant on sizes 5 to 9, the worst size and complexity",
        0.95,
        lambda grades: _worst(grades, [size for size in SIZES if size < LARGEST]),
    ),
    Target(
        "mouse",
        "actions as meant on size 11, the worst complexity",
        0.90,
        lambda grades: _worst(grades, [LARGEST]),
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
    Target("moth", "distance of its moves from the habit", 0.02, _habit, below=True),
    _invalid("moth"),
)
