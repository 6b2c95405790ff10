"""A folder per reproduced paper, the demo, and the ledger of published numbers against ours."""
