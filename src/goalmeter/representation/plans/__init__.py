"""Read plans from activations."""
