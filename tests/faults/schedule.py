"""What is tried next: drawn from a seed, so that each try can be made again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from faults.faults import FAULTS, NO_LOCKS, Fault
from faults.kinds import RAY, WITHOUT_WORKERS, Kind

_MOST = 4  # faults of a run


@dataclass(frozen=True)
class Try:
    """A run that is disturbed some times before it may end.

    Attributes:
        number: of the try, from 0.
        kind: of the run.
        places: where it is made, by name: one for each fault, and one for its end.
        faults: in this order.
        random: draws the moments.
    """

    number: int
    kind: Kind
    places: tuple[str, ...]
    faults: tuple[Fault, ...]
    random: Random

    @property
    def has_locks(self) -> bool:
        """Whether the file system has locks."""
        return all(fault.name != NO_LOCKS for fault in self.faults)


def tries(seed: int, kinds: Sequence[Kind]) -> Iterator[Try]:
    """Tries without end; the first ones have every fault in every kind of run once."""
    cells = [(kind, fault) for kind in kinds for fault in FAULTS if _is_possible(kind, fault)]
    Random(f"{seed}").shuffle(cells)
    number = 0
    while True:
        random = Random(f"{seed}:{number}")
        if number < len(cells):
            kind, fault = cells[number]
            faults = [fault]
        else:
            kind = random.choices(kinds, [each.weight for each in kinds])[0]
            possible = [fault for fault in FAULTS if _is_possible(kind, fault)]
            faults = random.choices(possible, k=random.randint(1, _MOST))
        places = [_drawn(_fit(kind, fault), random) for fault in faults]
        places.append(_drawn(list(kind.places), random))
        yield Try(number, kind, tuple(places), tuple(faults), random)
        number += 1


def _is_possible(kind: Kind, fault: Fault) -> bool:
    return bool(_fit(kind, fault))


def _fit(kind: Kind, fault: Fault) -> list[str]:
    """The places of a kind in which a fault can be injected."""
    if fault.of_nodes:
        return [place for place in kind.places if place == RAY]
    if fault.of_workers:
        return [place for place in kind.places if place not in WITHOUT_WORKERS]
    return list(kind.places)


def _drawn(places: list[str], random: Random) -> str:
    """One of some places; the first ones, which start fewer processes, more often."""
    return random.choices(places, [1 / (1 + n) for n in range(len(places))])[0]
