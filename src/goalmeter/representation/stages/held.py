"""What an earlier result of the same probe holds, and a narrower question leaves as it is.

A part that was finished is taken over as the result has it: nothing of it is made again, even where
its activations were deleted since. A part that was never finished is not begun either.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from goalmeter.representation.network import Network
from goalmeter.representation.result import Representation, has_result
from goalmeter.representation.stages.asked import MAPS, PARTS, PLAN, USE, Asked

# What more can be asked for of the same probe; all else would be another one.
GROWS = ("parts", "probes")
_FIELDS = {
    # Decoded maps are what is drawn, and what believed worlds are of.
    MAPS: ("maps", "places", "chosen", "explained", "states", "believed"),
    USE: ("use", "verdict", "doses", "spans", "moved", "subspaces"),
    PLAN: ("plan", "decided", "settled"),
}


@dataclass(frozen=True)
class Held:
    """The result that a probe had before it was asked again.

    Attributes:
        result: None where there is none of this probe.
    """

    result: Representation | None

    @classmethod
    def of(cls, run: str | Path, wanted: Asked, network: Network, digest: str) -> Held:
        """What is kept in the folder of a run, if it is of the same questions to the same model."""
        if not has_result(run):
            return cls(None)
        result = Representation.load(run, digest)
        about = {name: value for name, value in wanted.what().items() if name not in GROWS}
        same = result.revision == network.revision and about.items() <= dict(result.about).items()
        return cls(result if same else None)

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts that it has."""
        return tuple(part for part in self._asked if part not in self._reasons)

    def together(self, wanted: Asked) -> Asked:
        """What the result is to be of: all parts that were asked for, and the probes of the maps.

        Probes are of the maps alone, so where these are not asked for the others' are not begun.
        """
        before: tuple[str, ...] = ()
        if self.result is not None and MAPS in self.parts:
            before = tuple(self.result.about.get("probes", ()))
        asked = wanted.probes if MAPS in wanted.parts or not before else ()
        return replace(
            wanted,
            parts=tuple(part for part in PARTS if part in {*self._asked, *wanted.parts}),
            probes=tuple(dict.fromkeys([*before, *asked])),
        )

    def to_make(self, parts: Collection[str]) -> tuple[str, ...]:
        """The parts to be made for some that are asked for, in their order.

        The believed world is of maps and use together: where only the maps are there, they are
        opened again.
        """
        joined = USE in parts and MAPS in self.parts and not self._field("believed")
        return tuple(part for part in PARTS if part in parts or (part == MAPS and joined))

    def fields(self, made: Collection[str]) -> dict[str, Any]:
        """The fields of the parts that are not made."""
        kept = [part for part in self.parts if part not in made]
        return {name: self._field(name) for part in kept for name in _FIELDS[part]}

    def left_out(self, made: Collection[str]) -> dict[str, str]:
        """Why something is missing of the parts that are not made."""
        return {name: reason for name, reason in self._reasons.items() if name not in made}

    @property
    def _asked(self) -> tuple[str, ...]:
        return () if self.result is None else tuple(self.result.about.get("parts", ()))

    @property
    def _reasons(self) -> dict[str, str]:
        return {} if self.result is None else dict(self.result.left_out)

    def _field(self, name: str) -> Any:
        return getattr(self.result, name)
