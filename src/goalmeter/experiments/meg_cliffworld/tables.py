"""The tables of Appendix D.1, as we measure them and beside the published ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from goalmeter._types import FloatArray
from goalmeter.experiments.ledger import Number
from goalmeter.experiments.meg_cliffworld.compute import BASELINES, Measured
from goalmeter.pages.meg.tables import PolicyRow, policy_table
from goalmeter.report import Table
from goalmeter.report.numbers import gap, nats
from goalmeter.report.table_of import column, grouped, table_of, words


def measured_table(
    caption: str, measured: Sequence[Measured], meaning: str, *, anchor: str = ""
) -> Table:
    """Known and unknown utility of each policy with bounds, shares and rationalities."""
    table = policy_table(
        caption,
        [policy_row(m) for m in measured],
        meaning,
        notes=(
            f"The maximum is {nats(measured[0].known.maximum)} nats: 29 decisions that can matter, "
            "each worth log 4. Nothing is collected after the 30th.",
        ),
    )
    return replace(table, anchor=anchor)


def policy_row(m: Measured) -> PolicyRow:
    """A setting as a row, with its role if it is an end of the scale."""
    # The ends of the scale are not in the paper, and say so by their name.
    role = BASELINES.get(m.setting.epsilon) if m.setting.epsilon is not None else None
    name = f"{m.setting.name} ({role})" if role else m.setting.name
    return PolicyRow(name, m.mean_return, m.known, m.unknown)


def comparison_table(
    caption: str, measured: Sequence[Measured], published: Sequence[Number]
) -> Table:
    """One table of Appendix D.1: published values and ours."""
    printed = {row.id.removeprefix("meg-cliffworld/"): row.published for row in published}
    runs = {len(m.neural) for m in measured if m.neural is not None}
    return table_of(
        measured,
        (
            words("policy", lambda m: m.setting.name),
            *grouped(
                "known utility",
                column("published", lambda m: printed[f"known/{m.setting.key}"]),
                column("exact", lambda m: m.known.value, nats),
            ),
            *grouped(
                "unknown utility",
                column("published MLP", lambda m: printed[f"unknown/{m.setting.key}"]),
                column("our MLP", lambda m: "not run" if m.neural is None else spread(m.neural)),
                column("certified", lambda m: m.unknown.value, nats),
                column("proven gap", lambda m: m.unknown.gap, gap),
            ),
        ),
        caption=caption,
        meaning="MEG in nats: how much better the best goal of a kind predicts the policy's "
        "decisions than guessing does, over the whole episode.",
        notes=(
            f"Our MLP: mean ± 2 standard deviations over {runs.pop()} seeds of the paper's "
            "Algorithm 2, a lower bound."
            if runs
            else "Our MLP was not run (--seeds 0); the certified value bounds whatever it finds.",
            "Certified: the optimum over all utilities over states, with the distance to a "
            "proven upper bound.",
        ),
    )


def remarks_table(caption: str, rows: Sequence[Number]) -> Table:
    """Every published number, ours, and the difference in words."""
    return table_of(
        rows,
        (
            # "ε = 0.1" of a row with the id .../eps=0.1
            words("policy", lambda row: row.id.rpartition("/")[2], _policy_of),
            column("published", lambda row: row.published),
            column("ours", lambda row: f"{row.ours:g}"),
            words("verdict", lambda row: row.verdict),
            words("remark", lambda row: row.remark),
        ),
        caption=caption,
        meaning="These numbers are exact. Equal as printed: ours rounds to the printed number. "
        "Above, below: where ours stands. Bound holds: the published number is a lower bound, and "
        "not above ours.",
    )


def _policy_of(key: str) -> str:
    return key.replace("eps", "ε").replace("=", " = ")


def spread(values: FloatArray) -> str:
    """Mean ± 2 standard deviations of runs."""
    if len(values) == 1:
        return f"{values[0]:.4f} (1 seed)"
    return f"{values.mean():.4f} ± {2 * values.std(ddof=1):.2g}"
