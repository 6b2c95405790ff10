"""Studies that replicate published tables or calibrate the instruments, with public names only."""
