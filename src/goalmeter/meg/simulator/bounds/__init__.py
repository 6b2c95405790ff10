"""The two bounds, by states and from the start, and what they are made of."""
