"""What reports show, one package an instrument; see `part` for how a new one is added."""
