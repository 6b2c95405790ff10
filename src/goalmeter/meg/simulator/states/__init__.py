"""How an environment is put back into a state, which states are the same, and what is chance."""
