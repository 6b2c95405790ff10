"""`goalmeter replicate meg-cliffworld`: the paper's tables and figures, ours beside theirs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidParameterError, require
from goalmeter.commands.outcome import Outcome, write_outcome
from goalmeter.experiments import ledger
from goalmeter.experiments.meg_cliffworld import compute, page, tables
from goalmeter.experiments.meg_cliffworld.compute import Measured
from goalmeter.pages.meg.tables import GLOSSARY
from goalmeter.report import Section, require_report_extra
from goalmeter.report.numbers import percent
from goalmeter.runs import HERE
from goalmeter.runs.forecast import Forecast

LEDGER_PREFIX = "meg-cliffworld/"
SEEDS = 5


def replicate(
    out: str | Path,
    *,
    seeds: int | None = None,
    seed: int = 0,
    on: str = HERE,
    progress: Callable[[str], None] | None = None,
) -> Outcome:
    """Measure the paper's policies and write report.html, results.json and figures/*.svg.

    `seeds` are runs of the neural measure for each policy; 0 leaves it out. `on` is not used:
    what is measured takes all cores by itself.

    Source: MEG paper (NeurIPS 2024), section 6, Figures 3 and 5, Appendix D.1 and D.2.
    """
    seeds = _checked(seeds)
    require_report_extra()
    if seeds:
        require("torch", extra="neural", feature="The neural measure (--seeds 0 leaves it out)")
    by_length = compute.measure(compute.difficulty(), progress)
    noisy = compute.measure(compute.noise(baselines=True), progress)
    by_noise = [m for m in noisy if m.setting.epsilon in compute.EPSILONS]
    if seeds:
        run = range(seed, seed + seeds)
        both = compute.with_neural([*by_length, *by_noise], run, progress)
        by_length, by_noise = both[: len(by_length)], both[len(by_length) :]
    by_kind = {kind: ledger.load(f"{LEDGER_PREFIX}{kind}/") for kind in ("known", "unknown")}
    published = [row for rows in by_kind.values() for row in rows]
    compared = (
        tables.comparison_table("Appendix D.1, first table: goal length k", by_length, published),
        tables.comparison_table("Appendix D.1, second table: ε-greedy", by_noise, published),
    )
    remarks = tuple(
        tables.remarks_table(f"Published {kind}-utility MEG against ours", rows)
        for kind, rows in by_kind.items()
    )
    sections = [
        Section(
            title="Appendix D.1: the tables",
            text=(
                "The published values stand beside ours. Known-utility values are exact. "
                "Unknown-utility values are certified optima over all utilities over states; "
                "the paper's, from an MLP, are lower bounds on the same quantity.",
            ),
            tables=compared,
        ),
        Section(title="Every difference, named", tables=remarks),
        page.world_section(),
        page.difficulty_section(by_length, published),
        page.occupancy_section(by_length),
        page.noise_section(by_noise, published, baselines=noisy),
    ]
    return write_outcome(
        out,
        "Measuring goal-directedness in CliffWorld, reproduced",
        sections,
        _json(by_length, by_noise, published),
        command=f"goalmeter replicate meg-cliffworld --seeds {seeds} --seed {seed}",
        lede="The experiments of MacDermott, Fox, Belardinelli and Everitt, Measuring "
        "Goal-Directedness (NeurIPS 2024), recomputed: both tables of Appendix D.1 and Figures "
        "3 and 5.",
        findings=_findings(published, [*by_length, *by_noise]),
        glossary=GLOSSARY,
        tables=(*compared, *remarks),
    )


def forecasts(
    out: Path, *, seeds: int | None = None, seed: int = 0, on: str = HERE
) -> list[Forecast]:
    """What `replicate` with these arguments will cost; nothing of it is kept before its end."""
    count = _checked(seeds)
    told = [compute.forecast([*compute.difficulty(), *compute.noise(baselines=True)])]
    if count:
        settings = [*compute.difficulty(), *compute.noise()]
        told.append(compute.neural_forecast(settings, range(seed, seed + count)))
    return told


def _checked(seeds: int | None) -> int:
    """How many runs of the neural measure, if it can be so many."""
    seeds = SEEDS if seeds is None else seeds
    if seeds < 0:
        raise InvalidParameterError(
            f"seeds is {seeds}, expected 0 (no neural runs) or more; the paper's tables give the "
            f"mean of several"
        )
    return seeds


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
