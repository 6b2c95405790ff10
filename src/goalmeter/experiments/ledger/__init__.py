"""The ledger: the published numbers of the papers beside ours, with the difference named.

`ledger.toml` holds the rows and, for each kind of number, the margin within which two count as
equal. `recompute` does the cheap ones again; a row whose recomputed value is further from `ours`
than `tolerance` is stale, and the tests fail until it is mended.
`python -m goalmeter.experiments.ledger.page` prints the ledger as docs/ledger.md.
"""

from goalmeter.experiments.ledger.file import load as load
from goalmeter.experiments.ledger.file import margins as margins
from goalmeter.experiments.ledger.number import AS_PRINTED as AS_PRINTED
from goalmeter.experiments.ledger.number import HOLDS as HOLDS
from goalmeter.experiments.ledger.number import NOT_COMPARED as NOT_COMPARED
from goalmeter.experiments.ledger.number import NOT_RUN as NOT_RUN
from goalmeter.experiments.ledger.number import NOT_YET as NOT_YET
from goalmeter.experiments.ledger.number import VIOLATED as VIOLATED
from goalmeter.experiments.ledger.number import Margin as Margin
from goalmeter.experiments.ledger.number import Number as Number
from goalmeter.experiments.ledger.recomputed import recompute as recompute
from goalmeter.experiments.ledger.recomputed import stale as stale
