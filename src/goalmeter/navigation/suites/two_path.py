"""The suite "two-path": two equal ways with a key on one of them, and the same without the key.

Source: "A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
Agents", section 4.3 (2PathKeyEnv).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from goalmeter.gridworld.key_worlds import SIZE_OF_TWO_PATHS, two_paths
from goalmeter.navigation.suites import key_no_door
from goalmeter.navigation.suites.key_door import key_scale, key_worlds
from goalmeter.navigation.suites.options import SuiteOptions
from goalmeter.navigation.suites.record import LabelledWorld


def _worlds(options: SuiteOptions) -> Iterator[LabelledWorld]:
    # No lesson has two paths, so every grid is held out already.
    return key_worlds(
        replace(options, held_out=False),
        with_key=lambda size, seed: two_paths(seed).world,
        without_key=lambda seed: two_paths(seed).control,
    )


SUITE = replace(
    key_no_door.SUITE,
    name="two-path",
    about="two equal ways, a key on one of them, and the same without it",
    worlds=_worlds,
    small=key_scale(SIZE_OF_TWO_PATHS, grids=20),
    paper=key_scale(SIZE_OF_TWO_PATHS, grids=100),
    known_sizes=(SIZE_OF_TWO_PATHS,),
    is_paired=True,
)
