"""What an agent will do: the actions of a walk, read from the activations of one decision."""
