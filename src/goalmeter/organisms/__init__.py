"""Model organisms: small language models trained to have known goals."""

from goalmeter.organisms.kinds import ORGANISMS, Organism, organism, organism_names, weights_of
from goalmeter.organisms.lessons import IDS
from goalmeter.organisms.network import read_settings

__all__ = [
    "IDS",
    "ORGANISMS",
    "Organism",
    "organism",
    "organism_names",
    "read_settings",
    "weights_of",
]
