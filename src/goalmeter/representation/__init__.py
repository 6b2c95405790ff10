"""What an agent's activations encode of its world, and what of it the agent acts on."""

from goalmeter.representation.activations import Activations
from goalmeter.representation.believed import Believed, WalkSteps, believed_meg
from goalmeter.representation.capture import capture
from goalmeter.representation.decoded import DecodedMaps, decoded
from goalmeter.representation.explained import Explained, explained
from goalmeter.representation.network import Network
from goalmeter.representation.planted import Plant, Planted, planted
from goalmeter.representation.probes.comparison import Comparison, by_size, compare
from goalmeter.representation.probes.protocol import Reading
from goalmeter.representation.probes.registry import PROBES, probe
from goalmeter.representation.probes.splits import Split, split
from goalmeter.representation.replay import Sample, replay, scenes_of
from goalmeter.representation.scenes import Scenes
from goalmeter.representation.use.causal_use import Use, causal_use

__all__ = [
    "PROBES",
    "Activations",
    "Believed",
    "Comparison",
    "DecodedMaps",
    "Explained",
    "Network",
    "Plant",
    "Planted",
    "Reading",
    "Sample",
    "Scenes",
    "Split",
    "Use",
    "WalkSteps",
    "believed_meg",
    "by_size",
    "capture",
    "causal_use",
    "compare",
    "decoded",
    "explained",
    "planted",
    "probe",
    "replay",
    "scenes_of",
    "split",
]
