"""`goalmeter replicate meg-cliffworld`: the paper's tables and figures next to our results.

Section 6 and appendix D of "Measuring Goal-Directedness". `measurements` measures the policies;
this module writes the sections of the page, the findings and the results.
"""

from __future__ import annotations

if __name__ == "__main__":
    from goalmeter.__main__ import main

    main("replicate", "meg-cliffworld")

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from goalmeter._errors import require
from goalmeter.commands.outcome import Outcome, write_outcome
from goalmeter.commands.replicate import StudyOptions
from goalmeter.pages.meg import GLOSSARY
from goalmeter.report import Section, percent, require_report_extra
from replications import ledger
from replications.cliffworld import measurements
from replications.cliffworld.measurements import Measured
from replications.ledger import Number
from replications.prose import prose

say = partial(prose, "cliffworld")

# --- Page -----------------------------------------------------------------------------------------
# Ids of the tables that findings lead to.
_NOISE, _DIFFICULTY = "cliff-noise", "cliff-goals"


def world_section() -> Section:
    """What the world is, and which settings the paper leaves open."""
    return Section(
        **say("the_world"),
        figures=(measurements.world_map(1), measurements.world_map(3)),
    )


def noise_section(
    measured: Sequence[Measured], published: Sequence[Number], *, baselines: Sequence[Measured]
) -> Section:
    """Figure 3b and its table; `baselines` are the same settings with both ends of the scale."""
    return Section(
        **say("does_meg_fall_as_the_agent_gets_noisier"),
        tables=(
            measurements.measured_table(
                "ε-greedy policies",
                baselines,
                "How many nats of the agent's 30 decisions are explained by the reward (known) or "
                "by the best of all utilities over states (unknown).",
                anchor=_NOISE,
            ),
        ),
        figures=(
            measurements.measure_chart(
                "figure-3b",
                "Figure 3b: MEG of ε-greedy policies, ours (filled) and published (hollow).",
                measured,
                published,
            ),
            measurements.measure_chart(
                "figure-3b-log",
                "The same on a logarithmic axis: the published known-utility values lie a "
                "constant factor of ten below the exact ones.",
                measured,
                published,
                log=True,
            ),
        ),
    )


def difficulty_section(measured: Sequence[Measured], published: Sequence[Number]) -> Section:
    """Figure 3c and its table."""
    return Section(
        **say("does_meg_fall_as_the_task_gets_easier"),
        tables=(
            measurements.measured_table(
                "Optimal policies for goal regions of length k",
                measured,
                "How many nats of an optimal agent's decisions are explained by its own reward "
                "(known) or by the best of all utilities over states (unknown).",
                anchor=_DIFFICULTY,
            ),
        ),
        figures=(
            measurements.measure_chart(
                "figure-3c",
                "Figure 3c: MEG of optimal policies, ours (filled) and published (hollow). The "
                "published points of k = 1 break the rule that known-utility MEG cannot exceed "
                "unknown-utility MEG.",
                measured,
                published,
            ),
        ),
    )


def occupancy_section(measured: Sequence[Measured]) -> Section:
    """Figure 5."""
    by_length = {m.setting.goal_length: m for m in measured}
    return Section(
        **say("where_the_optimal_agents_go"),
        figures=(
            measurements.visits_map(by_length[1], "Figure 5a."),
            measurements.visits_map(by_length[4], "Figure 5b."),
        ),
    )


# --- Replicate ------------------------------------------------------------------------------------
LEDGER_PREFIX = "meg-cliffworld/"
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
        require("torch", extra="neural", feature="The neural measure (--seeds 0 leaves it out)")
    by_length = measurements.measure(measurements.difficulty(), options.progress)
    noisy = measurements.measure(measurements.noise(baselines=True), options.progress)
    by_noise = [m for m in noisy if m.setting.epsilon in measurements.EPSILONS]
    if seeds:
        run = range(options.seed, options.seed + seeds)
        both = measurements.with_neural([*by_length, *by_noise], run, options.progress)
        by_length, by_noise = both[: len(by_length)], both[len(by_length) :]
    by_kind = {kind: ledger.load(f"{LEDGER_PREFIX}{kind}/") for kind in ("known", "unknown")}
    published = [row for rows in by_kind.values() for row in rows]
    compared = (
        measurements.comparison_table(
            "Appendix D.1, first table: goal length k", by_length, published
        ),
        measurements.comparison_table("Appendix D.1, second table: ε-greedy", by_noise, published),
    )
    remarks = tuple(
        measurements.remarks_table(f"Published {kind}-utility MEG against ours", rows)
        for kind, rows in by_kind.items()
    )
    sections = [
        Section(
            **say("appendix_d_1_the_tables"),
            tables=compared,
        ),
        Section(title="Every difference, named", tables=remarks),
        world_section(),
        difficulty_section(by_length, published),
        occupancy_section(by_length),
        noise_section(by_noise, published, baselines=noisy),
    ]
    return write_outcome(
        out,
        "Measuring goal-directedness in CliffWorld, reproduced",
        sections,
        _json(by_length, by_noise, published),
        command=options.command("meg-cliffworld"),
        **say("page"),
        findings=_findings(published, [*by_length, *by_noise]),
        glossary=GLOSSARY,
        tables=(*compared, *remarks),
    )


def planned(options: StudyOptions) -> dict[str, int]:
    """How much `replicate` with these options will do."""
    settings = len(measurements.difficulty()) + len(measurements.noise())
    return {
        "settings": settings + len(measurements.BASELINES),
        "networks": settings * options.count(SEEDS, least=0),
    }


def _findings(published: list[ledger.Number], measured: list[Measured]) -> list[str]:
    known = [row for row in published if row.relation == "equal"]
    bounds = [row for row in published if row.relation == "lower bound"]
    same = sum(row.verdict == ledger.AS_PRINTED for row in known)
    held = sum(row.verdict == ledger.HOLDS for row in bounds)
    # The authors' values of the ε column are a tenth of the exact ones, cut off or rounded.
    tenth = sum(abs(10 * row.published_value / row.ours - 1) < 0.5 for row in known)
    # How far the worst of the network's seeds stays below the proven bound, nats.
    short = [
        m.unknown.upper_bound - float(m.neural.min()) for m in measured if m.neural is not None
    ]
    # All but the last, ε = 0.9, are within some percent of each other and said together.
    above = sorted(row.ours / row.published_value - 1 for row in bounds)
    network = (
        f" Fitted to convergence, the paper's network comes within {max(short):.0e} nats of it "
        "from every seed."
        if short
        else ""
    )
    return [
        f"Known utility: {same} of {len(known)} published values are reproduced to the printed "
        f"digits, and {tenth} (the whole ε column) are the exact values divided by ten. The other "
        f"{len(known) - same - tenth} stopped short of an optimum at infinite rationality.",
        f"Unknown utility: {held} of {len(bounds)} published values are lower bounds that hold. "
        f"The certified optimum is above each of them: by {percent(above[0], 0)} to "
        f"{percent(above[-2], 0)}, but "
        f"at ε = 0.9 by a factor of {above[-1] + 1:.0f}." + network,
        "The paper's conclusions stand: MEG falls with noise until the policy is uniform (ε = "
        "0.75), known-utility MEG falls as the task gets easier, and unknown-utility MEG stays "
        "high.",
    ]


def _json(
    by_length: list[Measured], by_noise: list[Measured], published: list[ledger.Number]
) -> dict[str, Any]:
    rows = {row.id: row for row in published}

    def setting(m: Measured) -> dict[str, Any]:
        out: dict[str, Any] = {"setting": m.setting.key}
        for kind, result in (("known", m.known), ("unknown", m.unknown)):
            row = rows[f"{LEDGER_PREFIX}{kind}/{m.setting.key}"]
            stands = {name: getattr(row, name) for name in ("published", "verdict", "remark")}
            out[f"{kind}_utility"] = result.to_json() | stands
        return out | {"neural": None if m.neural is None else m.neural.tolist()}

    return {
        "replication": "meg-cliffworld",
        "goal_length": [setting(m) for m in by_length],
        "epsilon": [setting(m) for m in by_noise],
    }
