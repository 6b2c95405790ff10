"""What a probe of a run asks for: one record, of which the store's header is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from goalmeter._arguments import whole
from goalmeter._errors import InvalidParameterError
from goalmeter._names import did_you_mean
from goalmeter.representation.network import Network
from goalmeter.representation.positions import checked_positions
from goalmeter.representation.probes.registry import probe
from goalmeter.representation.use.candidates import FAMILIES, OPEN

MAPS, USE, PLAN = "maps", "use", "plan"
PARTS = (MAPS, USE, PLAN)
POSITIONS = ("pre/end", "post/end")
PROBES = ("ridge",)
# Layers of the decoder of plans; the paper has 1, 2 and 4, and shows 2.
DECODERS = (2,)
# Of larger models the paper's three places: a third and two thirds of the way, and the end.
_FEW_BLOCKS = 8


@dataclass(frozen=True)
class Asked:
    """What is to be read of the model of a run.

    Attributes:
        layers: 1 to L, each once; the embedding is read beside them, as a control.
        positions: names of tokens.
        probes: names of probes.
        parts: "maps", "use" and "plan", those that are wanted.
        interventions: those of `FAMILIES` that are tried.
        use_decisions: decisions whose prompts are asked again under interventions, at most.
        draws: answers for each of them by which the effect in nats is measured; 0 for none.
        decoders: numbers of layers of the decoders that read plans.
        seed: of everything random.
    """

    layers: tuple[int, ...]
    positions: tuple[str, ...]
    probes: tuple[str, ...]
    parts: tuple[str, ...]
    interventions: tuple[str, ...]
    use_decisions: int
    draws: int
    decoders: tuple[int, ...]
    seed: int

    def what(self) -> dict[str, Any]:
        """What decides the numbers, as JSON values."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in vars(self).items()}


def asked(
    network: Network,
    *,
    layers: Sequence[int] | None,
    positions: Sequence[str],
    probes: Sequence[str],
    parts: Sequence[str],
    interventions: Sequence[str],
    use_decisions: int,
    draws: int,
    decoders: Sequence[int],
    seed: int,
) -> Asked:
    """The record, after every part of it was looked at."""
    most = len(network.blocks)
    chosen = network.check_layers(layers if layers is not None else default_layers(most))
    if chosen == (0,):
        raise InvalidParameterError(
            f"layers are [0], the embedding, which is read as a control; expected some of 1 to "
            f"{most}"
        )
    places = checked_positions(positions)
    for each in probes:
        probe(each)
    if not probes:
        raise InvalidParameterError("probes is empty, expected at least one")
    _check_words("parts", parts, PARTS)
    _check_words("interventions", interventions, FAMILIES)
    if set(interventions) == {OPEN}:
        raise InvalidParameterError(
            f"interventions are {OPEN} alone, which is done to walls and tells of no cell whether "
            f"it is used; expected some of {', '.join(each for each in FAMILIES if each != OPEN)} "
            f"beside it"
        )
    return Asked(
        tuple(layer for layer in chosen if layer > 0),
        places,
        tuple(dict.fromkeys(probes)),
        tuple(part for part in PARTS if part in parts),
        tuple(family for family in FAMILIES if family in interventions),
        whole(use_decisions, "use_decisions", least=4, most=100_000),
        whole(draws, "draws", least=0, most=1000),
        tuple(dict.fromkeys(whole(each, "decoders", least=1, most=16) for each in decoders)),
        whole(seed, "seed", least=0, most=2**63 - 1),
    )


def _check_words(name: str, values: Sequence[str], known: Sequence[str]) -> None:
    if not values:
        raise InvalidParameterError(f"{name} is empty, expected at least one")
    for value in values:
        if value not in known:
            raise InvalidParameterError(
                f"{name} has {value!r}{did_you_mean(value, known, quoted=True)}; expected some of "
                f"{', '.join(known)}"
            )


def default_layers(blocks: int) -> tuple[int, ...]:
    """All layers of a small model; of a larger one a third, two thirds and the end of the way."""
    if blocks <= _FEW_BLOCKS:
        return tuple(range(1, blocks + 1))
    return tuple(sorted({round(blocks / 3), round(2 * blocks / 3), blocks}))
