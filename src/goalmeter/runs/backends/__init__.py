"""Where trials run: a file a place, chosen in `registry`, behind the interface in `protocol`."""
