"""Options of a probe of a navigation run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from goalmeter._errors import MOST_SEED, InvalidParameterError, whole
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


def _option(default: Any, text: str, values: str | None = None, **bounds: int) -> Any:
    """Declare an option with its help, examples of the values of a list, or bounds of a number."""
    return field(default=default, metadata={"text": text, "values": values, "bounds": bounds})


@dataclass(frozen=True)
class ProbeOptions:
    """What to measure of the model of a run."""

    layers: Sequence[int] | None = _option(
        None,
        "Blocks; default all of up to eight, otherwise at a third, two thirds and the end.",
        "K,...",
    )
    # See `replay.position`; positions that no decision has are left out, with the reason.
    positions: Sequence[str] = _option(
        ("pre/end", "post/end"), "Tokens by their names; default pre/end,post/end.", "NAME,..."
    )
    probes: Sequence[str] = _option(
        ("ridge",),
        "ridge, logistic, bilinear, mlp or those of the paper; default ridge.",
        "NAME,...",
    )
    # The believed world needs maps and use.
    parts: Sequence[str] = _option(PARTS, "maps, use, plan; default all.", "PART,...")
    # Windows are patches of several layers.
    interventions: Sequence[str] = _option(
        TRIED,
        "knock-out, patch, windows, write, ablate, open; default all but windows.",
        "KIND,...",
    )
    use_decisions: int = _option(
        120,
        "Maximum number of decisions whose prompts are repeated with a changed cell.",
        least=4,
        most=100_000,
    )
    draws: int = _option(
        0,
        "Answers for each of them, to measure the effect in nats; 0 for none.",
        least=0,
        most=1000,
    )
    # The paper has 1, 2 and 4, and shows 2; each takes minutes.
    decoders: Sequence[int] = _option(
        (2,), "Layers of the transformers that read plans; default 2.", "K,..."
    )
    seed: int = _option(0, "Seed of everything random.", least=0, most=MOST_SEED)

    @classmethod
    def for_network(cls, network: Network, options: Mapping[str, Any]) -> ProbeOptions:
        """Validate options by name, None for the default, and choose the layers of a network."""
        given = cls(**{name: value for name, value in options.items() if value is not None})
        blocks = len(network.blocks)
        layers: Sequence[int] = range(1, blocks + 1)
        if given.layers is not None:
            layers = given.layers
        elif blocks > _FEW_BLOCKS:
            layers = (round(blocks / 3), round(2 * blocks / 3), blocks)
        # The embedding is captured in any case, as a control.
        layers = tuple(layer for layer in network.check_layers(layers) if layer > 0)
        if not layers:
            raise InvalidParameterError(
                f"layers are [0], the embedding, which is read as a control; expected some of 1 to "
                f"{blocks}"
            )
        interventions = _chosen("interventions", given.interventions, FAMILIES)
        if interventions == (OPEN,):
            raise InvalidParameterError(
                f"interventions are {OPEN} alone, which changes walls and does not show whether a "
                f"cell is used; add some of {', '.join(each for each in FAMILIES if each != OPEN)}"
            )
        if not given.probes:
            raise InvalidParameterError("probes is empty, expected at least one")
        decoders = [whole(each, "decoders", least=1, most=16) for each in given.decoders]
        numbers = {
            each.name: whole(getattr(given, each.name), each.name, **bounds)
            for each in fields(cls)
            if (bounds := each.metadata["bounds"])
        }
        return cls(
            layers=layers,
            positions=checked_positions(given.positions),
            probes=tuple(dict.fromkeys(probe(name).name for name in given.probes)),
            parts=_chosen("parts", given.parts, PARTS),
            interventions=interventions,
            decoders=tuple(dict.fromkeys(decoders)),
            **numbers,
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
