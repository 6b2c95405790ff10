"""Tables of goal-directedness in tabular worlds and causal models."""
