"""Goal-directedness in causal models: one file a measure."""
