r"""Networks as BIF, the interchange format of bnlearn and pgmpy (also gzipped, .bif.gz).

    network NAME { property ...; }
    variable B { type discrete [ 2 ] { yes, no }; property ...; }
    probability ( A ) { table 0.2, 0.8; }
    probability ( B | A ) {
      (yes) 0.9, 0.1;
      default 0.5, 0.5;      // every row that is not listed
    }

Blocks and rows may come in any order; commas and white space separate alike; comments are // and
/* */. Names with white space or punctuation stand in double quotes, where \ protects a quote. A
`table` over several variables lists them in the order of the head, the last changing fastest, and
the `|` may be missing, as JavaBayes writes it. Properties are read over. States are text.

Rows that miss 1 by rounding are divided by their sum (`model_files`). Probabilities are written
with all their digits, so a network that is written and read again is the same to the last bit.

Source: Cozman, The Interchange Format for Bayesian Networks, version 0.15 (1998); bnlearn 5.0,
read.bif and write.bif.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from goalmeter.causal.bif_parser import Parser, quoted
from goalmeter.causal.model_files import Draft, NetworkParts, read_text, write_text

if TYPE_CHECKING:
    from goalmeter.causal.network import CausalBayesianNetwork


def read_bif(path: str | Path) -> NetworkParts:
    """What a BIF file, .bif or .bif.gz, says of a network."""
    return parse_bif(read_text(path), source=path)


def parse_bif(text: str, *, source: object = "text") -> NetworkParts:
    """What a text in BIF says of a network, as `read_bif`; messages name its source.

    Example:
        >>> coin = parse_bif(
        ...     "variable Coin { type discrete [2] { heads, tails }; }"
        ...     "probability ( Coin ) { table 0.3, 0.7; }"
        ... )
        >>> coin.domains["Coin"], coin.cpds["Coin"].tolist()
        (('heads', 'tails'), [0.3, 0.7])
    """
    return Parser(text, Draft(source)).parts()


def write_bif(network: CausalBayesianNetwork, path: str | Path) -> Path:
    """Write a network as a BIF file, gzipped if the name ends in .gz; returns its path.

    Numbers and booleans among the states become text.
    """
    return write_text(path, bif_text(network))


def bif_text(network: CausalBayesianNetwork) -> str:
    """A network as text in BIF, laid out as bnlearn does."""
    lines = [f"network {quoted(network.name or 'unknown')} {{", "}"]
    states = {x: [quoted(str(value)) for value in network.domain(x)] for x in network.variables}
    for x in network.variables:
        lines += [
            f"variable {quoted(x)} {{",
            f"  type discrete [ {len(states[x])} ] {{ {', '.join(states[x])} }};",
            "}",
        ]
    for x in network.variables:
        parents = network.parents(x)
        condition = f" | {', '.join(map(quoted, parents))}" if parents else ""
        lines.append(f"probability ( {quoted(x)}{condition} ) {{")
        rows = network.cpd(x).reshape(-1, network.size(x)).tolist()
        for values, row in zip(product(*(states[p] for p in parents)), rows, strict=True):
            head = f"({', '.join(values)})" if parents else "table"
            # repr keeps every digit, so that what is read again is the same to the last bit.
            lines.append(f"  {head} {', '.join(map(repr, row))};")
        lines.append("}")
    return "\n".join(lines) + "\n"
