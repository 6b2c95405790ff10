"""Goal-directedness of walks: what an agent walks towards, and how strongly, in nats."""
