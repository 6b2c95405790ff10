"""Cards: one agent evaluated with every applicable measure."""
