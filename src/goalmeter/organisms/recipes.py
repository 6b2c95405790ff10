"""What a training is, and those of the shipped organisms: `goalmeter train-organism NAME`."""

from __future__ import annotations

import math
from dataclasses import dataclass

from goalmeter._errors import InvalidParameterError
from goalmeter.organisms.kinds import organism
from goalmeter.organisms.lessons import SIZES, syllabus

NOTHING = "nothing"
_SEEDS = 2**63  # more than torch's generator takes
# Steps of warming up, and the share of a round in which the rate falls to nothing.
_WARM, _COOLING = 100, 0.4


@dataclass(frozen=True)
class Settings:
    """What a training is; the same settings on the same machine train the same weights.

    Attributes:
        name: of the organism.
        rounds: of each, its steps and Muon's learning rate after warming up, before cooling down.
        words: of a batch, about.
        seed: of the first weights and of the lessons.
        begin_with: name of a shipped organism, or folder, whose weights it begins with; "nothing"
            for fresh ones.
        sizes: of the grids of its lessons.
        keys: whether it learns in worlds with keys and doors too.
    """

    name: str
    rounds: tuple[tuple[int, float], ...] = ((3200, 0.02),)
    words: int = 2600
    seed: int = 0
    begin_with: str = NOTHING
    sizes: tuple[int, ...] = SIZES
    keys: bool = True

    def __post_init__(self) -> None:
        organism(self.name)
        syllabus(self.sizes)
        if not self.rounds:
            raise InvalidParameterError("rounds is empty, expected at least one")
        least_of = [*(("steps", steps, 1) for steps, _ in self.rounds)]
        least_of += [("words", self.words, 1), ("seed", self.seed, 0)]
        for field, value, least in least_of:
            if value < least:
                raise InvalidParameterError(f"{field} is {value!r}, expected at least {least}")
        if self.seed >= _SEEDS:
            raise InvalidParameterError(f"seed is {self.seed}, expected less than 2^63")
        for _, rate in self.rounds:
            if not (0 < rate < math.inf):
                raise InvalidParameterError(f"rate is {rate!r}, expected a positive number")

    @property
    def steps(self) -> int:
        """The number of steps of all rounds."""
        return sum(steps for steps, _ in self.rounds)

    def rate(self, step: int) -> float:
        """Muon's learning rate at a step, counted from 0 through all rounds."""
        for steps, rate in self.rounds:
            if step < steps:
                warm, cool = (step + 1) / _WARM, (1 - step / steps) / _COOLING
                return rate * min(1.0, warm) * min(1.0, cool)
            step -= steps
        raise IndexError(f"there are {self.steps} steps")


# The others begin with the mouse's weights. The magpie and the mole search as it does, for another
# target or on another map. The moth looks up the ways from its cell, which is learnt slowly by
# answers that look up nothing else: after 450 steps from nothing it knew a quarter of its moves.
RECIPES: dict[str, Settings] = {
    settings.name: settings
    for settings in (
        Settings("mouse", rounds=((8000, 0.02),)),
        Settings("magpie", rounds=((1200, 0.01),), begin_with="mouse"),
        Settings("mole", rounds=((700, 0.01),), begin_with="mouse"),
        Settings("moth", rounds=((700, 0.01),), begin_with="mouse"),
    )
}


def recipe(name: str) -> Settings:
    """How an organism was trained."""
    return RECIPES[organism(name).name]
