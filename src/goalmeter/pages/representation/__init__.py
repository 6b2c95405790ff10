"""What was read of models' activations, and what of it they act on, as a part of a page."""
