"""Who is measured: agents that several instruments share."""

__all__: list[str] = []
