"""The best utility without sufficient recall: a search over joint outcomes."""
