"""Example 1 of the paper on MEG: the mouse and the cheese."""
