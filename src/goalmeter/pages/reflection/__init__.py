"""The parts of a report on self-reflection."""
