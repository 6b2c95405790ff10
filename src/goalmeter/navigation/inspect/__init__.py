"""Language models in grid worlds, asked through Inspect."""
