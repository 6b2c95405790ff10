"""Who is measured: agents that several instruments share."""
