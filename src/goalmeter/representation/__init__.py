"""What an agent's activations encode of its world, and what of it the agent acts on."""

from goalmeter.representation.activations import Activations
from goalmeter.representation.capture import capture
from goalmeter.representation.network import Network
from goalmeter.representation.replay import Sample, replay
from goalmeter.representation.use.causal_use import Use, causal_use

__all__ = ["Activations", "Network", "Sample", "Use", "capture", "causal_use", "replay"]
