"""Section 3.2 of the self-reflection paper: a recurrent DQN and a tempting button."""
