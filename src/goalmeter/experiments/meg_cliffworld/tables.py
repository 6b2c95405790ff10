"""The tables of Appendix D.1, as we measure them and beside the published ones."""

from __future__ import annotations

from collections.abc import Sequence

from goalmeter._types import FloatArray
from goalmeter.experiments.ledger import Number
from goalmeter.experiments.meg_cliffworld.compute import BASELINES, Measured
from goalmeter.pages.meg.policy_table import PolicyRow, policy_table
from goalmeter.pages.meg.tables import gap
from goalmeter.report import Cell, Column, Table
from goalmeter.report.numbers import nats


def measured_table(caption: str, measured: Sequence[Measured], meaning: str) -> Table:
    """Known and unknown utility of each policy with bounds, shares and rationalities."""
    return policy_table(
        caption,
        [policy_row(m) for m in measured],
        meaning,
        notes=(
            f"The maximum is {nats(measured[0].known.maximum)} nats: 29 decisions that can matter, "
            "each worth log 4. Nothing is collected after the 30th.",
        ),
    )


def policy_row(m: Measured) -> PolicyRow:
    """A setting as a row, with its role if it is an end of the scale."""
    role = BASELINES.get(m.setting.epsilon) if m.setting.epsilon is not None else None
    name = f"{m.setting.name} ({role})" if role else m.setting.name
    return PolicyRow(name, m.mean_return, m.known, m.unknown)


def comparison_table(
    caption: str, measured: Sequence[Measured], published: Sequence[Number]
) -> Table:
    """One table of Appendix D.1: published values and ours."""
    rows = {row.id.removeprefix("meg-cliffworld/"): row for row in published}
    lines: list[tuple[Cell | str, ...]] = []
    for m in measured:
        key = m.setting.key
        lines.append(
            (
                m.setting.name,
                rows[f"known/{key}"].published,
                nats(m.known.value),
                rows[f"unknown/{key}"].published,
                spread(m.neural) if m.neural is not None else "not run",
                nats(m.unknown.value),
                gap(m.unknown),
            )
        )
    runs = {len(m.neural) for m in measured if m.neural is not None}
    return Table(
        caption=caption,
        columns=(
            Column("policy", numeric=False),
            Column("published", group="known utility"),
            Column("exact", group="known utility"),
            Column("published MLP", group="unknown utility"),
            Column("our MLP", group="unknown utility"),
            Column("certified", group="unknown utility"),
            Column("proven gap", group="unknown utility"),
        ),
        rows=tuple(lines),
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
    return Table(
        caption=caption,
        columns=(
            Column("policy", numeric=False),
            "published",
            "ours",
            Column("verdict", numeric=False),
            Column("remark", numeric=False),
        ),
        rows=tuple(
            (
                row.id.rpartition("/")[2].replace("eps", "ε").replace("=", " = "),
                row.published,
                f"{row.ours:g}",
                row.verdict,
                row.remark,
            )
            for row in rows
        ),
        meaning="These numbers are exact. Equal as printed: ours rounds to the printed number. "
        "Above, below: where ours stands. Bound holds: the published number is a lower bound, and "
        "not above ours.",
    )


def spread(values: FloatArray) -> str:
    """Mean ± 2 standard deviations of runs."""
    if len(values) == 1:
        return f"{values[0]:.4f} (1 seed)"
    return f"{values.mean():.4f} ± {2 * values.std(ddof=1):.2g}"
