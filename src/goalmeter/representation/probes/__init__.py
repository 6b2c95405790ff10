"""Probes: what is read of a map from activations, and how it is judged."""
