"""What is run: the protocol of a simulator, and a simulator for each kind of world."""
