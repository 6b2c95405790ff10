"""Policies that were trained elsewhere and come as files: Stable-Baselines3's, and plain tables."""
