"""Small language models whose goals are known, because they were made to have them."""

from goalmeter.organisms.kinds import ORGANISMS, Organism, organism, organism_names

__all__ = ["ORGANISMS", "Organism", "organism", "organism_names"]
