"""A population of simulated agents drawn from a stated distribution, to try instruments on."""
