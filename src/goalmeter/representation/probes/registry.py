"""The probes by name, each with its own way to be made larger or smaller."""

from __future__ import annotations

from goalmeter._errors import InvalidParameterError
from goalmeter._names import did_you_mean
from goalmeter.representation.probes.linear import Bilinear, Logistic
from goalmeter.representation.probes.mlp import Mlp
from goalmeter.representation.probes.position import Majority, PositionOnly
from goalmeter.representation.probes.protocol import Probe
from goalmeter.representation.probes.published import HIDDEN, Published
from goalmeter.representation.probes.ridge import Ridge

# The frozen dataclasses are their own settings: `Bilinear(rank=8)` is another probe of the kind.
PROBES: dict[str, Probe] = {
    probe.name: probe
    for probe in (
        Ridge(),
        Logistic(),
        Bilinear(),
        Mlp(),
        Published(),
        Published(hidden=HIDDEN),
        PositionOnly(),
        Majority(),
    )
}


def probe(name: str) -> Probe:
    """A probe by its name in tables."""
    if name not in PROBES:
        raise InvalidParameterError(
            f"there is no probe {name!r}{did_you_mean(name, PROBES, quoted=True)}; the probes are "
            f"{', '.join(PROBES)}"
        )
    return PROBES[name]
