"""Beliefs about the world: decoded maps and used cells."""
