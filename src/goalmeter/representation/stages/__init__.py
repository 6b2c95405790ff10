"""The stages of a probe, each kept as soon as it is finished."""
