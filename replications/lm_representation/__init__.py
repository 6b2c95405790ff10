"""The paper's reading of maps and plans, done to an organism whose map is known."""
