"""What an agent's activations encode of its world, and what of it the agent acts on."""
