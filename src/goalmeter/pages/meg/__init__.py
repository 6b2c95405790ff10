"""Goal-directedness in tabular worlds, causal models and simulators, as tables and pages."""
