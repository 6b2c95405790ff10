"""Table 1 of "Extending Environments To Measure Self-Reflection In Reinforcement Learning"."""
