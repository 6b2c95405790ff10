"""Measure what an agent's activations encode of its world, and what of it the agent uses."""

from goalmeter.representation.activations import Activations
from goalmeter.representation.beliefs.decoded_maps import DecodedMaps, Explained, decoded, explained
from goalmeter.representation.beliefs.meg import Believed, WalkSteps, believed_meg
from goalmeter.representation.capture import alternatives_of, capture, untrained
from goalmeter.representation.measure import measure
from goalmeter.representation.network import Network
from goalmeter.representation.options import ProbeOptions
from goalmeter.representation.probes.comparison import Comparison, by_size, compare
from goalmeter.representation.probes.protocol import Reading
from goalmeter.representation.probes.registry import PROBES, probe
from goalmeter.representation.replay import Sample, replay, scenes_of
from goalmeter.representation.result import Representation
from goalmeter.representation.scenes import Scenes, Split, split
from goalmeter.representation.use.causal_use import Use, causal_use

__all__ = [
    "PROBES",
    "Activations",
    "Believed",
    "Comparison",
    "DecodedMaps",
    "Explained",
    "Network",
    "ProbeOptions",
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
    "measure",
    "probe",
    "replay",
    "scenes_of",
    "split",
    "untrained",
]
