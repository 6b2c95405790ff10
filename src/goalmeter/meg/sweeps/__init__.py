"""Sweeps: MEG of policies × utilities × worlds, as trials that are kept and gone on with."""
