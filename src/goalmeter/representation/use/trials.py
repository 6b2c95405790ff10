"""Which decisions and cells the halves of the grids are asked about."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from goalmeter.gridworld.draws import Draws
from goalmeter.gridworld.world import Cell
from goalmeter.representation.positions import Located
from goalmeter.representation.replay import Sample, scenes_of
from goalmeter.representation.scenes import uncertain_cells
from goalmeter.representation.use.cells import TargetCell, target_cells, target_walls
from goalmeter.representation.use.halves import half_of

Wanted = Callable[[Sample, Cell], bool]
Trial = tuple[Located, TargetCell]


def trials_of(
    samples: Sequence[Sample],
    halves: Sequence[str],
    wanted: Wanted | None,
    per_decision: int,
    salt: str,
    seed: int,
    *,
    walls: bool = False,
) -> dict[str, list[tuple[Sample, TargetCell]]]:
    """The decisions and cells of some halves, in their order.

    Args:
        samples: decisions of both halves, by which it is told what is uncertain.
        halves: "screen", "confirm" or both.
        wanted: which cells are of interest; None for all that are uncertain given their place.
        per_decision: cells of each kind, needed and not, drawn at random.
        salt: of the split.
        seed: of the draws.
        walls: whether walls are asked about, not open cells.
    """
    targets = target_walls if walls else target_cells
    uncertain = uncertain_cells(scenes_of(samples))
    out: dict[str, list[tuple[Sample, TargetCell]]] = {half: [] for half in halves}
    for sample in samples:
        half = half_of(sample.world, salt)
        if half not in out:
            continue
        target = [
            each
            for each in targets(sample.world, sample.state)
            if uncertain[sample.world.shape][each.cell]
            and (wanted is None or wanted(sample, each.cell))
        ]
        for needed in (True, False):
            kind = [each for each in target if each.needed == needed]
            Draws("target cells", seed, sample.walk, sample.step, int(needed)).shuffle(kind)
            out[half] += [(sample, each) for each in kind[:per_decision]]
    return out


def needed_of(trials: Sequence[Trial]) -> dict[str, list[TargetCell]]:
    """The needed cells by the digest of their decision."""
    targets: dict[str, list[TargetCell]] = {}
    for located, target in trials:
        if target.needed:
            targets.setdefault(located.sample.digest, []).append(target)
    return targets


def drawn(trials: Sequence[Trial], count: int, seed: int) -> list[Trial]:
    """At most so many trials of needed cells, and of the others, drawn at random, in their order.

    Args:
        trials: of a half.
        count: of each kind.
        seed: of the draws.
    """
    kept: set[int] = set()
    for needed in (True, False):
        places = [place for place, (_, cell) in enumerate(trials) if cell.needed == needed]
        Draws("cells that are screened", seed, int(needed)).shuffle(places)
        kept.update(places[:count])
    return [trial for place, trial in enumerate(trials) if place in kept]
