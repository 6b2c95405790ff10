"""Literal oracles: each definition of the paper in its slowest form, with nothing from the library.

Nothing in this package imports ``goalmeter``; the tests of the library compare against it.

Conventions: transition ``P [S, A, S]``; reward ``R [S]``, ``[S, A]`` or ``[H, S, A]``; initial
distribution ``mu [S]``; decisions ``t = 0 .. H-1``, each paying the reward of its own state (and
action), nothing after the last action; policy ``[S, A]`` or ``[H, S, A]``; reference policy uniform
unless given.  The logarithms are natural.
"""
