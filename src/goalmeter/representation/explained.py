"""What a decoded map explains of an agent's actions, each share beside what should explain less.

Of every state there is the action that was taken, the set T of actions that are optimal in truth
and the set D of those that are optimal on the decoded map, empty where there is no map:

    on map           the action is in D
    explained error  the action is not in T but in D, of actions that are not in T
    map corrects     some action is in D and in T, of actions that are not in T (the published code
                     calls this recovery)
    agreement        some action is in D and in T
    reversed         the action is in T but not in D

Invalid maps explain nothing and stay in the denominator; an answer that could not be read is in no
set, and is no error that a map could explain. States where the compass may err are shown apart: in
the others an empty room is as good as a map. Beside explained errors there is chance, the share
that a random wrong action would have: a map on which much is optimal explains much.

Source: "A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
Agents", section 5, and its code, where invalid maps leave the sample and there is no control.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from goalmeter._types import BoolArray, FloatArray, IntArray
from goalmeter.gridworld.world import ACTIONS
from goalmeter.representation.decoded import Maps
from goalmeter.representation.map_controls import GREEDY
from goalmeter.representation.scenes import Scenes
from goalmeter.statistics.clustered import Estimate, estimate

CHANCE = "a random wrong action"
UNIT, DIFFERENCE = (0.0, 1.0), (-1.0, 1.0)


@dataclass(frozen=True)
class Compared:
    """A share beside its controls.

    Attributes:
        value: of the decoded map.
        controls: the same share of each control, by name.
        beyond: the share less that of each control, in the same states.
    """

    value: Estimate
    controls: Mapping[str, Estimate]
    beyond: Mapping[str, Estimate]

    @property
    def exceeds_controls(self) -> bool:
        """Whether it is above every control with an interval of the difference above 0."""
        intervals = [each.interval for each in self.beyond.values()]
        return bool(intervals) and all(i is not None and i[0] > 0 for i in intervals)

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return self.value.to_json() | {
            "controls": {name: each.to_json() for name, each in self.controls.items()},
            "beyond": {name: each.to_json() for name, each in self.beyond.items()},
            "exceeds_controls": self.exceeds_controls,
        }


@dataclass(frozen=True)
class Explained:
    """What the decoded maps explain in some states.

    Attributes:
        states: "all" or "detour".
        steps: how many states there are.
        errors: how many of the actions are wrong in truth.
        unreadable: how many answers were none.
        invalid: share of states without a valid map.
        on_map: see above, like all that follow.
        explained_errors: among errors.
        map_corrects: among errors.
        recovery: map corrects as published, among errors in states with a valid map.
        agreement: among all states.
        reversed: among all states.
    """

    states: str
    steps: int
    errors: int
    unreadable: int
    invalid: Estimate
    on_map: Compared
    explained_errors: Compared
    map_corrects: Compared
    recovery: Estimate
    agreement: Compared
    reversed: Estimate

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        counts = ("states", "steps", "errors", "unreadable")
        shares = (
            *("invalid", "on_map", "explained_errors", "map_corrects"),
            *("recovery", "agreement", "reversed"),
        )
        return {name: getattr(self, name) for name in counts} | {
            name: getattr(self, name).to_json() for name in shares
        }


def explained(maps: Maps, controls: Mapping[str, Maps], scenes: Scenes) -> tuple[Explained, ...]:
    """All states, and those where the compass may err if there are any.

    Args:
        maps: what was decoded, of N states.
        controls: other maps of the same states, by name; greedy is added.
        scenes: the truth, and what the agent did.
    """
    sets = {name: control.optimal for name, control in controls.items()}
    every = _States(scenes, maps.optimal, sets | {GREEDY: scenes.compass})
    out = [every.explained("all", np.ones(len(scenes), dtype=bool))]
    # Where the compass cannot err, an empty room explains as much as any map.
    if scenes.detour.any():
        out.append(every.explained("detour", scenes.detour))
    return tuple(out)


class _States:
    """What is true of each state, [N] each, for the map and for every control."""

    def __init__(self, scenes: Scenes, optimal: BoolArray, controls: dict[str, BoolArray]) -> None:
        self.truth, self.optimal, self.controls = scenes.optimal, optimal, controls
        self.cluster = np.unique(scenes.grids, return_inverse=True)[1].astype(np.int64)
        self.unreadable = np.array([action is None for action in scenes.actions])
        chosen = [len(ACTIONS) if a is None else a for a in scenes.actions]
        # A fifth column for answers that could not be read, which are in no set.
        self.taken = np.eye(len(ACTIONS) + 1, dtype=bool)[chosen][:, : len(ACTIONS)]
        self.errors = ~self.unreadable & ~self._in(self.truth)

    def _in(self, sets: BoolArray) -> BoolArray:
        """Whether the action is in a set."""
        return np.asarray((self.taken & sets).any(axis=1))

    def _meets(self, sets: BoolArray) -> BoolArray:
        """Whether a set has a truly optimal action."""
        return np.asarray((self.truth & sets).any(axis=1))

    def explained(self, name: str, among: BoolArray) -> Explained:
        errors = among & self.errors
        wrong = ~self.truth
        # Of the wrong actions of a state, the share that is optimal on the map.
        chance = (self.optimal & wrong).sum(axis=1) / np.maximum(wrong.sum(axis=1), 1)
        on_map = {each: self._in(sets) for each, sets in self.controls.items()}
        meets = {each: self._meets(sets) for each, sets in self.controls.items()}
        ours, valid = self._in(self.optimal), self.optimal.any(axis=1)
        reversed_ = np.asarray(self._in(self.truth) & ~ours)
        return Explained(
            states=name,
            steps=int(among.sum()),
            errors=int(errors.sum()),
            unreadable=int((among & self.unreadable).sum()),
            invalid=self._mean(np.asarray(~valid), among),
            on_map=self._compared(ours, on_map, among),
            explained_errors=self._compared(ours, on_map | {CHANCE: chance}, errors),
            map_corrects=self._compared(self._meets(self.optimal), meets, errors),
            recovery=self._mean(self._meets(self.optimal), errors & valid),
            agreement=self._compared(self._meets(self.optimal), meets, among),
            reversed=self._mean(reversed_, among),
        )

    def _compared(
        self, ours: BoolArray, controls: Mapping[str, BoolArray | FloatArray], among: BoolArray
    ) -> Compared:
        return Compared(
            self._mean(ours, among),
            {name: self._mean(each, among) for name, each in controls.items()},
            {
                name: self._mean(ours.astype(float) - each, among, paired=True)
                for name, each in controls.items()
            },
        )

    def _mean(
        self, values: BoolArray | FloatArray, among: BoolArray, *, paired: bool = False
    ) -> Estimate:
        # Grids without such a state have nothing to say and are left out.
        of: IntArray = self.cluster[among]
        size = int(self.cluster.max()) + 1
        return estimate(
            np.bincount(of, np.asarray(values, dtype=float)[among], size),
            np.bincount(of, minlength=size),
            # All decisions of a grid may be such as these.
            heaviest=np.bincount(self.cluster).max(),
            n=len(of),
            bounds=DIFFERENCE if paired else UNIT,
            paired=paired,
        )
