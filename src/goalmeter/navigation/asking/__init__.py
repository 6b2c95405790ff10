"""What a language model is asked in a grid world, and how its answer is read."""
