"""The behavioural half of "A Behavioural and Representational Evaluation of Goal-Directedness"."""
