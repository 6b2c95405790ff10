"""Options of a probe of a navigation run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from goalmeter._errors import InvalidParameterError, whole
from goalmeter._names import did_you_mean
from goalmeter.representation.probes.registry import probe
from goalmeter.representation.replay import checked_positions
from goalmeter.representation.use.trials import FAMILIES, OPEN, TRIED

if TYPE_CHECKING:
    from goalmeter.representation.network import Network

MAPS, USE, PLAN = "maps", "use", "plan"
PARTS = (MAPS, USE, PLAN)
# Of models with more blocks the paper's three layers: after a third, two thirds and all of them.
_FEW_BLOCKS = 8


@dataclass(frozen=True)
class ProbeOptions:
    """What to measure of the model of a run.

    Attributes:
        layers: some of 1 to L; None for all of a model of at most eight blocks, and else for a
            third, two thirds and the end of the way. The embedding is captured too, as a control.
        positions: names of tokens, see `replay.position`; positions that no decision has are left
            out, with the reason.
        probes: names in `PROBES`.
        parts: "maps", "use" and "plan"; the believed world needs the first two.
        interventions: "knock-out", "patch", "windows" (patches of several layers), "write",
            "ablate" and "open"; by default all but "windows".
        use_decisions: maximum number of decisions whose prompts are answered under interventions.
        draws: answers for each of them that measure the effect in nats; 0 for none.
        decoders: numbers of layers of the transformers that read plans (the paper has 1, 2 and 4,
            and shows 2); each takes minutes.
        seed: of everything random.
    """

    layers: Sequence[int] | None = None
    positions: Sequence[str] = ("pre/end", "post/end")
    probes: Sequence[str] = ("ridge",)
    parts: Sequence[str] = PARTS
    interventions: Sequence[str] = TRIED
    use_decisions: int = 120
    draws: int = 0
    decoders: Sequence[int] = (2,)
    seed: int = 0

    @classmethod
    def of(cls, options: dict[str, Any]) -> ProbeOptions:
        """Return options given by name; None stands for the default."""
        return cls(**{name: value for name, value in options.items() if value is not None})

    def for_network(self, network: Network) -> ProbeOptions:
        """Validate all options, and choose the layers of a network."""
        blocks = len(network.blocks)
        every = range(1, blocks + 1)
        thirds = (round(blocks / 3), round(2 * blocks / 3), blocks)
        chosen = (
            (every if blocks <= _FEW_BLOCKS else thirds) if self.layers is None else self.layers
        )
        # The embedding is captured in any case.
        layers = tuple(layer for layer in network.check_layers(chosen) if layer > 0)
        if not layers:
            raise InvalidParameterError(
                f"layers are [0], the embedding, which is read as a control; expected some of 1 to "
                f"{blocks}"
            )
        interventions = _chosen("interventions", self.interventions, FAMILIES)
        if interventions == (OPEN,):
            raise InvalidParameterError(
                f"interventions are {OPEN} alone, which changes walls and does not show whether a "
                f"cell is used; add some of {', '.join(each for each in FAMILIES if each != OPEN)}"
            )
        if not self.probes:
            raise InvalidParameterError("probes is empty, expected at least one")
        decoders = [whole(each, "decoders", least=1, most=16) for each in self.decoders]
        return ProbeOptions(
            layers=layers,
            positions=checked_positions(self.positions),
            probes=tuple(dict.fromkeys(probe(name).name for name in self.probes)),
            parts=_chosen("parts", self.parts, PARTS),
            interventions=interventions,
            use_decisions=whole(self.use_decisions, "use_decisions", least=4, most=100_000),
            draws=whole(self.draws, "draws", least=0, most=1000),
            decoders=tuple(dict.fromkeys(decoders)),
            seed=whole(self.seed, "seed", least=0, most=2**63 - 1),
        )

    @property
    def chosen_layers(self) -> tuple[int, ...]:
        """The layers of options for a network."""
        return tuple(self.layers or ())

    def to_json(self) -> dict[str, Any]:
        """Return what decides the numbers, as JSON values."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in vars(self).items()}


def _chosen(option: str, names: Sequence[str], known: Sequence[str]) -> tuple[str, ...]:
    """Return the known names in their order, after a check that all names are known."""
    if not names:
        raise InvalidParameterError(f"{option} is empty, expected at least one")
    for name in names:
        if name not in known:
            raise InvalidParameterError(
                f"{option} has {name!r}{did_you_mean(name, known, quoted=True)}; expected some of "
                f"{', '.join(known)}"
            )
    return tuple(name for name in known if name in names)
