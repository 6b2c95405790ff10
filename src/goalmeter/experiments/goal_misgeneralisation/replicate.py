"""`goalmeter replicate goal-misgeneralisation`: predict which agents pursue a wrong goal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from goalmeter._arguments import MOST_SEED, whole
from goalmeter._files import write_text
from goalmeter.commands.outcome import Outcome, write_outcome
from goalmeter.experiments.goal_misgeneralisation import measuring, page, running, training
from goalmeter.experiments.goal_misgeneralisation.network import Network
from goalmeter.experiments.goal_misgeneralisation.scores import Scored
from goalmeter.experiments.goal_misgeneralisation.training import Scale, Subject, subjects
from goalmeter.report import require_report_extra
from goalmeter.runs import HERE, carry_out
from goalmeter.runs.forecast import Forecast, unmeasured
from goalmeter.runs.progress import Tell

COMMAND = "goalmeter replicate goal-misgeneralisation"
SEEDS = 3
SCALE = Scale()
TITLE = "Predict a wrong goal before it shows"
# The folders of what is kept.
AGENTS, TABLES, RUNS = "agents", "tables", "runs"


def replicate(
    out: str | Path,
    *,
    seeds: int | None = None,
    seed: int = 0,
    on: str = HERE,
    progress: Tell | None = None,
) -> Outcome:
    """Train agents whose goal may be wrong, predict which pursue it, and evaluate them shifted.

    Agents and measurements are stored as they finish; the same command resumes a run.

    Args:
        out: run directory, also of results.json, tables.md and report.html.
        seeds: agents of each kind at each share; None for 3.
        seed: seed of the first of them, and of the levels in which they are measured.
        on: where trials run, as `runs` spells it; the numbers do not depend on it.
        progress: callback for messages.
    """
    agents = _agents(seeds, seed)
    require_report_extra()
    out = Path(out)
    trained = carry_out(training.study(agents, SCALE), on=on, out=out / AGENTS, progress=progress)
    networks: dict[Subject, Network | None] = {agent: trained[agent.name] for agent in agents}
    tables = carry_out(
        measuring.study(networks, SCALE, seed), on=on, out=out / TABLES, progress=progress
    )
    runs = carry_out(running.study(networks, SCALE, seed), on=on, out=out / RUNS, progress=progress)
    return written(
        out, [Scored(agent, tables[agent.name], runs[agent.name]) for agent in agents], seeds, seed
    )


def written(out: Path, rows: list[Scored], seeds: int | None, seed: int) -> Outcome:
    """Write what came of all agents."""
    sections, findings = page.sections(rows), page.findings(rows)
    write_text(out / "tables.md", page.markdown(rows))
    result: dict[str, Any] = {
        "replication": "goal-misgeneralisation",
        "findings": findings,
        "agents": [row.to_json() for row in rows],
    }
    count = "" if seeds is None else f" --seeds {seeds}"
    return write_outcome(
        out,
        TITLE,
        sections,
        result,
        command=f"{COMMAND}{count} --seed {seed}",
        lede="Small agents are trained where a wrong goal mostly looks like the right one. MEG and "
        "baselines predict from training-like levels which agents pursue the wrong goal elsewhere.",
        findings=findings,
        glossary=page.GLOSSARY,
        text="\n".join(findings),
    )


def forecasts(
    out: Path, *, seeds: int | None = None, seed: int = 0, on: str = HERE
) -> list[Forecast]:
    """What `replicate` with these arguments will do."""
    agents = _agents(seeds, seed)
    why = (
        "how long an agent takes is not known before: training one by PPO takes some 20 s of a "
        "core and a clone 8 s, measuring one up to 20 s"
    )
    untrained: dict[Subject, Network | None] = dict.fromkeys(agents)
    return [
        unmeasured(training.study(agents, SCALE), why, on=on, out=out / AGENTS),
        unmeasured(measuring.study(untrained, SCALE, seed), why, on=on, out=out / TABLES),
        unmeasured(running.study(untrained, SCALE, seed), why, on=on, out=out / RUNS),
    ]


def _agents(seeds: int | None, seed: int) -> list[Subject]:
    count = whole(SEEDS if seeds is None else seeds, "seeds", least=1, most=1000)
    first = whole(seed, "seed", least=0, most=MOST_SEED - count)
    return subjects(range(first, first + count))
