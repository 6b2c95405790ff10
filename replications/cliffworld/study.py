"""`goalmeter replicate meg-cliffworld`: the paper's tables and figures next to our results.

Section 6 and appendix D of "Measuring Goal-Directedness"; `measurements` measures the policies.
"""

from __future__ import annotations

if __name__ == "__main__":
    from goalmeter.__main__ import main

    main("replicate", "meg-cliffworld")

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from goalmeter.commands.outcome import Outcome, write_outcome
from goalmeter.commands.replicate import StudyOptions
from goalmeter.pages.meg import GLOSSARY
from goalmeter.report import Section, percent, require_report_extra
from replications import ledger
from replications.cliffworld import measurements
from replications.cliffworld.measurements import (
    BASELINES,
    DIFFICULTY,
    EPSILONS,
    NOISE,
    NOISE_AND_ENDS,
    Measured,
    comparison_table,
    measure,
    measure_chart,
    measured_table,
    remarks_table,
    say,
    visits_map,
    with_neural,
    world_map,
)
from replications.kinds import optional
from replications.ledger import Number

SEEDS = 5


def replicate(out: Path, options: StudyOptions) -> Outcome:
    """Measure the paper's policies and write report.html, results.json and figures/*.svg.

    Seeds are runs of the neural measure for each policy, 5 by default; 0 leaves it out. All of it
    runs in this process, on all cores.

    Source: MEG paper (NeurIPS 2024), section 6, Figures 3 and 5, Appendix D.1 and D.2.
    """
    seeds = options.count(SEEDS, least=0)
    require_report_extra()
    if seeds:
        optional("torch", "neural", "The neural measure (--seeds 0 leaves it out)")
    by_length = measure(DIFFICULTY, options.progress)
    noisy = measure(NOISE_AND_ENDS, options.progress)
    by_noise = [m for m in noisy if m.setting.epsilon in EPSILONS]
    if seeds:
        run = range(options.seed, options.seed + seeds)
        both = with_neural([*by_length, *by_noise], run, options.progress)
        by_length, by_noise = both[: len(by_length)], both[len(by_length) :]
    published = measurements.published_numbers()
    by_kind = {
        kind: [row for key, row in published.items() if key.startswith(f"{kind}/")]
        for kind in ("known", "unknown")
    }
    compared = (
        comparison_table("Appendix D.1, first table: goal length k", by_length, published),
        comparison_table("Appendix D.1, second table: ε-greedy", by_noise, published),
    )
    remarks = tuple(
        remarks_table(f"Published {kind}-utility MEG against ours", rows)
        for kind, rows in by_kind.items()
    )
    chart = measure_chart("figure-3c", say.line("figure_3c"), by_length, published)
    lengths = {m.setting.goal_length: m for m in by_length}
    sections = [
        Section(**say("appendix_d_1_the_tables"), tables=compared),
        Section(title="Every difference, named", tables=remarks),
        Section(**say("the_world"), figures=(world_map(1), world_map(3))),
        Section(
            **say("does_meg_fall_as_the_task_gets_easier"),
            tables=(measured_table("difficulty_table", by_length),),
            figures=(chart,),
        ),
        Section(
            **say("where_the_optimal_agents_go"),
            figures=(visits_map(lengths[1], "Figure 5a."), visits_map(lengths[4], "Figure 5b.")),
        ),
        noise_section(by_noise, published, baselines=noisy),
    ]
    return write_outcome(
        out,
        "Measuring goal-directedness in CliffWorld, reproduced",
        sections,
        {
            "replication": "meg-cliffworld",
            "goal_length": [_json(m, published) for m in by_length],
            "epsilon": [_json(m, published) for m in by_noise],
        },
        command=options.command("meg-cliffworld"),
        **say("page"),
        findings=_findings(by_kind, [*by_length, *by_noise]),
        glossary=GLOSSARY,
        tables=(*compared, *remarks),
    )


def planned(options: StudyOptions) -> dict[str, int]:
    """Return how much `replicate` with these options will do."""
    settings = len(DIFFICULTY) + len(NOISE)
    return {
        "settings": settings + len(BASELINES),
        "networks": settings * options.count(SEEDS, least=0),
    }


def noise_section(
    measured: Sequence[Measured], published: Mapping[str, Number], *, baselines: Sequence[Measured]
) -> Section:
    """Return Figure 3b and its table; `baselines` are the settings with both ends of the scale."""
    return Section(
        **say("does_meg_fall_as_the_agent_gets_noisier"),
        tables=(measured_table("noise_table", baselines),),
        figures=(
            measure_chart("figure-3b", say.line("figure_3b"), measured, published),
            measure_chart(
                "figure-3b-log", say.line("figure_3b_log"), measured, published, log=True
            ),
        ),
    )


def _findings(by_kind: Mapping[str, Sequence[Number]], measured: list[Measured]) -> list[str]:
    known = [row for row in by_kind["known"] if row.relation == "equal"]
    bounds = [row for row in by_kind["unknown"] if row.relation == "lower bound"]
    same = sum(row.verdict == ledger.AS_PRINTED for row in known)
    # The authors' values of the ε column are a tenth of the exact ones, cut off or rounded.
    tenth = sum(abs(10 * row.published_value / row.ours - 1) < 0.5 for row in known)
    # How far the worst of the network's seeds stays below the proven bound, nats.
    short = [
        m.unknown.upper_bound - float(m.neural.min()) for m in measured if m.neural is not None
    ]
    # All but the last, ε = 0.9, are within some percent of each other and said together.
    above = sorted(row.ours / row.published_value - 1 for row in bounds)
    other = len(known) - same - tenth
    return [
        say.line("known", same=same, known=len(known), tenth=tenth, other=other),
        say.line(
            "unknown",
            held=sum(row.verdict == ledger.HOLDS for row in bounds),
            bounds=len(bounds),
            least=percent(above[0], 0),
            most=percent(above[-2], 0),
            factor=f"{above[-1] + 1:.0f}",
            network=say.line("network", short=f"{max(short):.0e}") if short else "",
        ),
        say.line("conclusion"),
    ]


def _json(m: Measured, published: Mapping[str, Number]) -> dict[str, Any]:
    out: dict[str, Any] = {"setting": m.setting.key}
    for kind, result in (("known", m.known), ("unknown", m.unknown)):
        row = published[f"{kind}/{m.setting.key}"]
        stands = {name: getattr(row, name) for name in ("published", "verdict", "remark")}
        out[f"{kind}_utility"] = result.to_json() | stands
    return out | {"neural": None if m.neural is None else m.neural.tolist()}
