"""Do organisms act on what they read? Causes, where the truth is known: we made them."""
