"""The parts of a report on behaviour in grid worlds."""
