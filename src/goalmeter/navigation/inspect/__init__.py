"""Language models in grid worlds, queried through Inspect."""
