"""When it is decided: how well the action of each step can be read along the reasoning.

At the end of the prompt, at shares of the reasoning and before the answer, a linear head tells the
action that the walk took at its first step, its second, and so on. An action that can be read is
not yet one that is settled: position alone tells some of it before a word is written, and a word of
the reasoning may be the action itself. So each accuracy stands beside that of position alone, and
layer 0, the embedding, can be read beside the others: it knows the token at that place, and no
more.

The share from which a step is decided is the earliest at which the accuracy exceeds that of
position alone, with an interval of the difference above 0, and from which on it does so at every
later share. Differences are of the same sequences, so what makes a grid hard for both cancels.
This asks much of one token: it may hold the next action and not where the agent is. So there is a
second head beside it, which sees the position too, and the share from which on it exceeds position
alone: from there on the activations add something.

Source: the question is that of goalmeter; the published analysis has two positions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from goalmeter._arguments import whole
from goalmeter._errors import InvalidParameterError
from goalmeter._types import BoolArray, FloatArray, IntArray
from goalmeter.representation.plan.comparison import At, matched
from goalmeter.representation.plan.known import MAJORITY, POSITION, position_features
from goalmeter.representation.plan.linear import PENALTIES, Scaled, head_of
from goalmeter.representation.plan.protocol import divided
from goalmeter.representation.plan.scores import share
from goalmeter.representation.plan.targets import END, NOTHING, Plans
from goalmeter.representation.positions import AFTER, BEFORE
from goalmeter.representation.probes.protocol import Activations
from goalmeter.representation.probes.splits import Split
from goalmeter.representation.result_rows import DecidedRow, SettledRow
from goalmeter.runs.progress import Tell
from goalmeter.statistics.clustered import Estimate

# Of the reasoning: its first token is at 0, its last at 1.
SHARES = tuple(number / 10 for number in range(11))
ENDS = (f"{BEFORE}/end", f"{AFTER}/answer")
_MOST_PARTS = 100


def along(shares: Sequence[float] = SHARES) -> tuple[str, ...]:
    """The positions that `decided` reads, in the order of time.

    >>> along([0, 0.5])
    ('pre/end', 'post/0.0', 'post/0.5', 'post/answer')
    """
    return (ENDS[0], *(_named(each) for each in shares), ENDS[1])


@dataclass(frozen=True)
class Decided:
    """When the steps of a plan can be read.

    Attributes:
        rows: by layer, position and step.
        settled: by layer and step.
        sequences: how many were scored.
        lacking: decisions that were left out since they lack one of the positions.
    """

    rows: tuple[DecidedRow, ...]
    settled: tuple[SettledRow, ...]
    sequences: int
    lacking: int

    def row(self, position: str, layer: int, step: int) -> DecidedRow:
        """One of them."""
        return {(r.position, r.layer, r.step): r for r in self.rows}[position, layer, step]

    def share(self, layer: int, step: int) -> float | None:
        """As `SettledRow.share`."""
        return {(each.layer, each.step): each.share for each in self.settled}[layer, step]

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {
            "decided": [row.to_json() for row in self.rows],
            "settled": [row.to_json() for row in self.settled],
            "sequences": self.sequences,
            "lacking": self.lacking,
        }


def decided(
    at: At,
    plans: Plans,
    *,
    layers: Sequence[int],
    shares: Sequence[float] = SHARES,
    steps: int = 3,
    parts: int = 5,
    seed: int = 0,
    progress: Tell | None = None,
) -> Decided:
    """Read the action of each step along the reasoning.

    Args:
        at: the activations of the N decisions from which plans begin, at the positions `along`.
        plans: N sequences.
        layers: each is read by itself.
        shares: of the reasoning, rising.
        steps: how many are read, from the first on; those that no sequence has are left out.
        parts: 1 to score a quarter of the grids; more to score all, each by fits to the others.
        seed: of the division.
        progress: told what was read.
    """
    whole(parts, "parts", least=1, most=_MOST_PARTS)
    whole(steps, "steps", least=1, most=plans.queries)
    if not shares or list(shares) != sorted(set(shares)) or shares[0] < 0 or shares[-1] > 1:
        raise InvalidParameterError(
            f"shares of the reasoning are {list(shares)}, expected rising numbers from 0 to 1"
        )
    positions = along(shares)
    kept = matched(at, [(layer, name) for layer in layers for name in positions], len(plans))
    told = plans.where(kept)
    table = _Steps(told, divided(told.scenes, parts, seed), steps)
    rows = [
        row
        for layer in layers
        for position in positions
        for row in table.rows(layer, position, at(layer, position)[kept], progress)
    ]
    return Decided(tuple(rows), tuple(_settled(rows, shares)), len(table), int((~kept).sum()))


def _settled(rows: Sequence[DecidedRow], shares: Sequence[float]) -> list[SettledRow]:
    by_place = {(row.layer, row.step, row.position): row for row in rows}
    out = []
    for layer, step in dict.fromkeys((row.layer, row.step) for row in rows):
        at = {each: by_place[layer, step, _named(each)] for each in shares}
        exceeds, adds = (
            _earliest({each: getattr(row, name) for each, row in at.items()})
            for name in ("exceeds", "adds")
        )
        out.append(SettledRow(layer, step, exceeds, adds))
    return out


def _earliest(holds: Mapping[float, bool]) -> float | None:
    """The first share from which on it holds at all; None if it does not at the last."""
    earliest = None
    # From the end: the first share that fails ends the stretch.
    for each in reversed(list(holds)):
        if not holds[each]:
            break
        earliest = float(each)
    return earliest


def _named(each: float) -> str:
    return f"{AFTER}/{float(each)}"


class _Steps:
    """Heads of single steps, and how often they are right."""

    def __init__(self, plans: Plans, splits: Sequence[Split], steps: int) -> None:
        self._plans, self._splits = plans, splits
        self._scored = np.zeros(len(plans), dtype=bool)
        for part in splits:
            self._scored[part.test] = True
        # Whether a sequence has an action at a step, [N, steps]; its end is none.
        self._has = np.asarray((plans.actions[:, :steps] >= 0) & (plans.actions[:, :steps] < END))
        self._steps = np.flatnonzero((self._has & self._scored[:, None]).any(axis=0)).tolist()
        self._features = position_features(plans.scenes)
        self._alone = self._told(self._features)
        self._most = self._told(None)

    def __len__(self) -> int:
        return int(self._scored.sum())

    def rows(
        self, layer: int, position: str, activations: Activations, progress: Tell | None
    ) -> list[DecidedRow]:
        """One row a step."""
        if progress is not None:
            progress(f"decided: layer {layer}, {position}")
        told = self._told(activations)
        flat = activations.reshape(len(activations), 1, -1)
        both = self._told(np.concatenate([self._features, flat], axis=2))
        out = []
        for step in self._steps:
            right, joint, alone, most = (
                np.asarray(each[:, step] == self._plans.actions[:, step], dtype=float)
                for each in (told, both, self._alone, self._most)
            )
            out.append(
                DecidedRow(
                    layer,
                    position,
                    step + 1,
                    self._share(right, step),
                    {POSITION: self._share(alone, step), MAJORITY: self._share(most, step)},
                    self._share(right - alone, step, paired=True),
                    self._share(joint, step),
                    self._share(joint - alone, step, paired=True),
                )
            )
        return out

    def _share(
        self, values: BoolArray | FloatArray, step: int, *, paired: bool = False
    ) -> Estimate:
        among = np.asarray(self._has[:, step] & self._scored)
        return share(values, among, self._plans.scenes.grids, paired=paired)

    def _told(self, activations: Activations | None) -> IntArray:
        """What the head of each step says of every sequence that is scored, [N, steps].

        None for heads that see nothing, and tell what is most frequent.
        """
        actions = self._plans.actions
        seen = np.zeros((len(actions), 1, 1)) if activations is None else activations
        out = np.full(self._has.shape, NOTHING)
        for train, validation, test in self._splits:
            scaled = Scaled.of(seen[train])
            fitted, beside, rows = (scaled(seen[part]) for part in (train, validation, test))
            for step in self._steps:
                has, held = self._has[train, step], self._has[validation, step]
                # What no training walk has taken nobody can tell.
                if not has.any():
                    continue
                head = head_of(
                    (fitted[has], actions[train, step][has]),
                    (beside[held], actions[validation, step][held]),
                    PENALTIES,
                )
                out[test, step] = head.called(rows)
        return out
