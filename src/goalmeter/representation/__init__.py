"""What an agent's activations encode of its world, and what of it the agent acts on."""

from goalmeter.representation.activations import Activations
from goalmeter.representation.beliefs.decoded_maps import DecodedMaps, Explained, decoded, explained
from goalmeter.representation.beliefs.meg import Believed, WalkSteps, believed_meg
from goalmeter.representation.capture import alternatives_of, capture, untrained
from goalmeter.representation.measure import measure
from goalmeter.representation.network import Network
from goalmeter.representation.planted import Plant, Planted, planted
from goalmeter.representation.planted_network import (
    NetworkPlant,
    PlantedNetwork,
    planted_network,
)
from goalmeter.representation.probes.comparison import Comparison, by_size, compare
from goalmeter.representation.probes.protocol import Reading
from goalmeter.representation.probes.registry import PROBES, probe
from goalmeter.representation.replay import Sample, replay, scenes_of
from goalmeter.representation.result import Representation
from goalmeter.representation.scenes import Scenes, Split, split
from goalmeter.representation.use.causal_use import Use, causal_use
from goalmeter.representation.vllm_activations import Extraction, from_vllm

__all__ = [
    "PROBES",
    "Activations",
    "Believed",
    "Comparison",
    "DecodedMaps",
    "Explained",
    "Extraction",
    "Network",
    "NetworkPlant",
    "Plant",
    "Planted",
    "PlantedNetwork",
    "Reading",
    "Representation",
    "Sample",
    "Scenes",
    "Split",
    "Use",
    "WalkSteps",
    "alternatives_of",
    "believed_meg",
    "by_size",
    "capture",
    "causal_use",
    "compare",
    "decoded",
    "explained",
    "from_vllm",
    "measure",
    "planted",
    "planted_network",
    "probe",
    "replay",
    "scenes_of",
    "split",
    "untrained",
]
