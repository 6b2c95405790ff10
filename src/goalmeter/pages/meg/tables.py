"""One goal-directedness as a table: everything that defends the number."""

from __future__ import annotations

from goalmeter.meg.causal.result import CausalMeg
from goalmeter.meg.result import MegResult
from goalmeter.report import Table
from goalmeter.report.numbers import nats
from goalmeter.report.table_of import share_bar, summary_table


def result_table(result: MegResult, baselines: dict[str, float] | None = None) -> Table:
    """Everything that defends one MEG, as a table of names and numbers.

    Args:
        result: the measure.
        baselines: name of a policy -> its MEG in nats.
    """
    # In a causal model there is no episode, only decisions.
    explained = (
        "decisions the goal explains"
        if isinstance(result, CausalMeg)
        else "behaviour's decisions the goal explains, over an episode"
    )
    return summary_table(
        [
            *(
                (name, share_bar(result.fraction) if name == "share of maximum" else text)
                for name, text in result.summary()
            ),
            *((f"baseline: {b} policy", f"{nats(v)} nats") for b, v in (baselines or {}).items()),
        ],
        caption=result.heading,
        meaning=f"MEG is how many nats of the {explained}; the {result.reference} scores 0, a "
        "fully predictable agent the maximum.",
        notes=result.notes,
    )
