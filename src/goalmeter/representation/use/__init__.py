"""What a model's behaviour depends on: changes of its activations while it answers."""
