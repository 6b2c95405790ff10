"""The numbers of every command, written down by one checkout and compared with another's."""
