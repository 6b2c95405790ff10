"""What a decision pays: known utilities by name, and unknown ones that are fitted first."""
