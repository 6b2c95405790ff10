"""The experiments of the MEG paper: CliffWorld, section 6 and appendix D."""
