"""How well the organisms are what they were made to be."""
