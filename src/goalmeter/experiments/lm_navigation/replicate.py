"""`goalmeter replicate lm-navigation`: the paper's numbers, beside reference agents."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidParameterError
from goalmeter.commands.outcome import Outcome, write_outcome
from goalmeter.experiments import ledger
from goalmeter.experiments.lm_navigation import compute, page
from goalmeter.experiments.lm_navigation.beside import beside, published
from goalmeter.experiments.lm_navigation.compute import Estimates
from goalmeter.experiments.lm_navigation.findings import findings as findings_of
from goalmeter.pages.navigation.page import GLOSSARY
from goalmeter.report import require_report_extra
from goalmeter.runs import HERE
from goalmeter.runs.forecast import Forecast
from goalmeter.runs.progress import Tell

COMMAND = "goalmeter replicate lm-navigation"


def replicate(
    out: str | Path,
    *,
    seeds: int | None = None,
    seed: int = 0,
    on: str = HERE,
    progress: Tell | None = None,
    agents: str | None = None,
    run: Sequence[str | Path] = (),
) -> Outcome:
    """Walk reference agents through every suite, and write report.html, results.json, figures.

    `seeds` is the number of grids of each size and complexity, None for 10 as in the paper; there
    are ten times as many worlds with a key. `agents` are names with commas between them, optimal
    and greedy among them; `run` are folders of navigation runs to put beside the published numbers.
    """
    names = compute.checked_agents(agents)
    grids = _checked(seeds)
    require_report_extra()
    measured = _runs(run, progress)  # before the long part, since folders may be mistyped
    references = compute.of_agents(names, grids=grids, seed=seed, on=on, progress=progress)
    sections = page.sections(references, measured)
    findings = findings_of(references)
    options = "" if seeds is None else f" --seeds {seeds}"
    return write_outcome(
        out,
        "Behaviour of a language model in grid worlds, beside reference agents",
        sections,
        _json(references, measured, findings),
        command=f"{COMMAND}{options} --seed {seed}",
        lede="The behavioural half of A Behavioural and Representational Evaluation of "
        "Goal-Directedness in Language Model Agents (arXiv 2602.08964): its published numbers, "
        "and the controls that say what they mean.",
        findings=findings,
        glossary=GLOSSARY,
        text="\n".join(findings),
    )


def forecasts(
    out: Path,
    *,
    seeds: int | None = None,
    seed: int = 0,
    on: str = HERE,
    agents: str | None = None,
    run: Sequence[str | Path] = (),
) -> list[Forecast]:
    """What `replicate` with these arguments will do; folders of `run` are only read."""
    names = compute.checked_agents(agents)
    return [compute.forecast(names, grids=_checked(seeds), seed=seed, on=on)]


def _checked(seeds: int | None) -> int:
    """How many grids of each size and complexity, if it can be so many."""
    grids = compute.GRIDS if seeds is None else seeds
    if grids < 2:
        raise InvalidParameterError(f"seeds is {grids}, expected at least 2, for an interval")
    return grids


def _runs(folders: Sequence[str | Path], progress: Tell | None) -> dict[str, Estimates]:
    """The numbers of every agent that has a run."""
    out: dict[str, Estimates] = {}
    for folder in folders:
        if progress is not None:
            progress(f"reading {folder}")
        agent, values = compute.of_run(folder)
        known = out.setdefault(f"{agent} (run)", {})
        # Two runs of one suite would make one row of two sets of grids.
        if twice := known.keys() & values.keys():
            suite = sorted(twice)[0].partition("/")[0]
            raise InvalidParameterError(
                f"{folder} is another run of {agent} in {suite!r}; give one for each suite"
            )
        known |= values
    return out


def _verdicts(references: dict[str, Estimates]) -> list[dict[str, Any]]:
    """The published model beside each reference agent that the ledger names for a number."""
    out = []
    for row in ledger.load(compute.LEDGER_PREFIX):
        agent, _, quantity = row.id.removeprefix(compute.LEDGER_PREFIX).partition("/")
        ours = references.get(agent, {}).get(quantity)
        if row.relation != "reference" or ours is None:
            continue
        number = beside(row, ours)
        interval = number.difference_interval(number.theirs)
        out.append(
            {
                "quantity": quantity,
                "reference": agent,
                "difference": number.theirs - number.ours,
                "interval": None if interval is None else list(interval),
                "margin": None if row.margin is None else row.margin.within,
                "verdict": number.verdict,
            }
        )
    return out


def _json(
    references: dict[str, Estimates], runs: dict[str, Estimates], findings: Sequence[str]
) -> dict[str, Any]:
    return {
        "replication": "lm-navigation",
        "findings": list(findings),
        "published": [
            {"quantity": quantity, "printed": row.published, "agent": compute.LANGUAGE_MODEL}
            | {"source": row.source}
            for quantity, row in published().items()
        ],
        "verdicts": _verdicts(references),
        "agents": {
            name: {quantity: value.to_json() for quantity, value in values.items()}
            for name, values in {**references, **runs}.items()
        },
        "not_run": [] if runs else page.language_model_commands(),
    }
