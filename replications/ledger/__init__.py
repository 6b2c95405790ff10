"""The ledger: the published numbers of the papers beside ours, with the difference named.

`ledger.toml` holds the rows and, for each kind of number, the margin within which two count as
equal. `recompute` does the cheap ones again; a row whose recomputed value is further from `ours`
than `tolerance` is stale, and the tests fail until it is mended.
`python -m replications.ledger.page` prints the ledger as docs/ledger.md.
"""

from replications.ledger.rows import *  # noqa: F403
