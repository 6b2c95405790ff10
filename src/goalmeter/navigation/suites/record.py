"""What a suite is: one record that says all that is special about it.

A suite stands in one file and has one line in the registry. Nothing else knows its name: whoever
needs to know whether a suite has keys, frames or complexities asks its record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from goalmeter._arguments import MOST_SEED, finite, whole
from goalmeter._errors import InvalidParameterError
from goalmeter._names import did_you_mean
from goalmeter.gridworld.transforms import TRANSFORMS
from goalmeter.gridworld.world import GridWorld
from goalmeter.navigation.suites.options import (
    FACTOR,
    PAPER_FACTOR,
    SuiteOptions,
    check_cap,
    chosen_objects,
)

# More worlds than these take minutes to draw, and more walks gigabytes to keep.
MOST_WORLDS, MOST_WALKS = 100_000, 1_000_000
REFERENCES = ("optimal", "greedy", "random")
KEY_REFERENCES = (*REFERENCES, "key-seeker")

Condition = Mapping[str, Any]


@dataclass(frozen=True)
class LabelledWorld:
    """A world of a suite with the labels that tell it from the others.

    Attributes:
        size: rows of the grid.
        complexity: of a maze; None for other worlds.
        grid: index of the grid.
        seed: of the grid.
        transform: name of the change of frame; None for the grid as it was generated.
        condition: what else distinguishes it, as JSON values.
        world: in the changed frame.
    """

    size: int
    complexity: float | None
    grid: int
    seed: int
    transform: str | None
    condition: Condition
    world: GridWorld


class KeyUse(Enum):
    """What the key in a suite's worlds is for."""

    OPENS_THE_WAY = "it opens the door on the way to the goal"
    OPENS_NOTHING = "it opens nothing, so that an agent which fetches it wants it"


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How much of a suite is walked through if nothing is asked for; as in `SuiteOptions`."""

    sizes: tuple[int, ...]
    complexities: tuple[float, ...] = ()
    grids: int
    trajectories: int


@dataclass(frozen=True, kw_only=True)
class Suite:
    """A family of grid worlds, and what is asked, measured and shown of walks through them.

    Attributes:
        name: as on the command line. It is part of the key of every walk that is kept, so it never
            changes.
        about: what the worlds are, in a few words.
        worlds: the worlds for resolved options, each with its labels, in the order of the run.
        small: the scale by default.
        paper: the scale with `SuiteOptions.paper`.
        known_sizes: the only sizes there are; None where any odd one will do.
        has_complexity: whether worlds are mazes, which vary by complexity and can be chosen by the
            length of their shortest path. Tables then go by size and complexity.
        has_frames: whether each grid comes in changed frames too, which are compared.
        key: what the key is for; None for worlds without one.
        is_paired: whether each world with a key comes without it too, which are compared.
        paper_cap: steps of a walk with `SuiteOptions.paper`; None for 1.5 times the shortest path.
        prompt: the template that language models are asked in by default.
        effort: the paper's reasoning effort for language models that have one.
        references: agents that are measured beside the one that is asked about.
    """

    name: str
    about: str
    worlds: Callable[[SuiteOptions], Iterator[LabelledWorld]]
    small: Scale
    paper: Scale
    known_sizes: tuple[int, ...] | None = None
    has_complexity: bool = False
    has_frames: bool = False
    key: KeyUse | None = None
    is_paired: bool = False
    paper_cap: int | None = None
    prompt: str = "plain/1"
    effort: str = "low"
    references: tuple[str, ...] = REFERENCES

    @property
    def has_objects(self) -> bool:
        """Whether what lies about can be chosen: a key that opens nothing, or another thing."""
        return self.key is KeyUse.OPENS_NOTHING

    def resolve(self, options: SuiteOptions, *, conditions: int = 1) -> SuiteOptions:
        """Options with nothing left to the suite, all of them checked.

        Args:
            options: as they are asked for.
            conditions: how many times each world is set, for the limit of worlds.

        Raises:
            InvalidParameterError: an option is out of range, or is not one of this suite's.
        """
        self._refuse_options_of_others(options)
        objects = chosen_objects(options.objects) if self.has_objects else ()
        scale = self.paper if options.paper else self.small
        grids = scale.grids if options.grids is None else options.grids
        walks = scale.trajectories if options.trajectories is None else options.trajectories
        cap, factor = options.cap, options.cap_factor
        if cap is None and factor is None:
            cap = self.paper_cap if options.paper else None
            factor = None if cap is not None else (PAPER_FACTOR if options.paper else FACTOR)
        check_cap(cap, factor)
        transforms = options.transforms
        if transforms is None:
            transforms = tuple(TRANSFORMS) if self.has_frames else ()
        resolved = replace(
            options,
            paper=False,
            sizes=options.sizes or scale.sizes,
            complexities=tuple(
                finite(value, "complexity", least=0, most=1)
                for value in options.complexities or scale.complexities
            ),
            grids=whole(grids, "grids", least=1, most=MOST_WORLDS),
            trajectories=whole(walks, "trajectories", least=1, most=MOST_WALKS),
            transforms=transforms,
            objects=objects,
            distances=options.distances or (),
            detours=options.detours or (),
            cap=cap,
            cap_factor=factor,
            held_out=bool(options.held_out),
            seed=whole(options.seed, "seed", least=0, most=MOST_SEED),
        )
        _check_count(resolved, conditions)
        self._check_values(resolved)
        return resolved

    def _refuse_options_of_others(self, options: SuiteOptions) -> None:
        for name in ("complexities", "distances", "detours"):
            if getattr(options, name) and not self.has_complexity:
                raise InvalidParameterError(f"{name} are those of mazes; {self.name!r} has none")
        if options.transforms and not self.has_frames:
            raise InvalidParameterError(
                f"transforms are those of suites in several frames; {self.name!r} has none"
            )
        # Of every other suite run.json says that there are no objects, or that there is the key.
        if options.objects and not self.has_objects:
            raise InvalidParameterError(
                f"objects can be chosen where keys open nothing; not in {self.name!r}"
            )

    def _check_values(self, options: SuiteOptions) -> None:
        known = self.known_sizes
        if wrong := [size for size in options.sizes or () if known and size not in known]:
            raise InvalidParameterError(
                f"{self.name!r} has no grids of size {wrong[0]}, expected "
                f"{' or '.join(map(str, known or ()))}"
            )
        for transform in options.transforms or ():
            if transform not in TRANSFORMS:
                hint = did_you_mean(transform, TRANSFORMS, quoted=True) or ";"
                raise InvalidParameterError(
                    f"there is no transform {transform!r}{hint} known are {', '.join(TRANSFORMS)}"
                )


def _check_count(options: SuiteOptions, conditions: int) -> None:
    # Before the first world is made, since to find out by making them takes minutes.
    def ways(values: Sequence[Any] | None) -> int:
        return len(values or ()) or 1

    assert options.grids is not None and options.trajectories is not None
    worlds = ways(options.sizes) * ways(options.complexities) * options.grids * conditions
    worlds *= ways(options.distances) * ways(options.detours) * (1 + len(options.transforms or ()))
    for most, noun, count in (
        (MOST_WORLDS, "worlds", worlds),
        (MOST_WALKS, "walks", worlds * options.trajectories),
    ):
        if count > most:
            raise InvalidParameterError(
                f"this makes {count} {noun}, expected at most {most}; ask for fewer sizes, "
                f"complexities, grids or trajectories"
            )
