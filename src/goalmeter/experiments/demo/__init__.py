"""The demo: the main job on the embedded agents, in one page."""
