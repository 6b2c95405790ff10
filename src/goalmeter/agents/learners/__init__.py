"""Agents that learn while they are measured: Stable-Baselines3 and a recurrent DQN."""
