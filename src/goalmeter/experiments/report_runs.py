"""`goalmeter report`: run folders in, one page out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from shlex import join

from goalmeter._errors import InvalidParameterError
from goalmeter.experiments import reflection_page
from goalmeter.experiments.outcome import Outcome, provenance
from goalmeter.experiments.welch import FEWEST
from goalmeter.reflection import load
from goalmeter.report import require_report_extra, write_report


def report_runs(
    runs: Sequence[str | Path],
    out: str | Path = "report.html",
    *,
    progress: Callable[[str], None] | None = None,
) -> Outcome:
    """Read finished runs, and write a page that shows them together.

    Args:
        runs: folders, as `goalmeter reflect --out` makes them.
        out: the .html file.
        progress: told what is being done.

    Raises:
        InvalidParameterError: no runs, or one of them twice.
        InvalidFileError: a folder is no finished run, or the page cannot be written.
        MissingExtraError: jinja2 or matplotlib is not installed.
    """
    if not runs:
        raise InvalidParameterError("no run is given, expected the folder of at least one")
    folders = [Path(run).resolve() for run in runs]
    if twice := [run for run, path in zip(runs, folders, strict=True) if folders.count(path) > 1]:
        raise InvalidParameterError(f"{twice[0]} is given twice; give each run once")
    require_report_extra()
    tell = progress or (lambda line: None)
    results = []
    for run in runs:
        tell(f"reading {run}")
        results.append(load(run))
    tell("report")
    sections = reflection_page.sections(results)
    path = write_report(
        out,
        "How agents do in environments that simulate them",
        sections,
        lede="The self-reflection of agents: what they earn where the reward depends on what they "
        f"would have done. Averages over {FEWEST} seeds and more come with an interval.",
        findings=reflection_page.findings(results),
        glossary=reflection_page.GLOSSARY,
        provenance=provenance(f"goalmeter report {join(map(str, runs))}"),
    ).resolve()
    return Outcome(
        tables=reflection_page.short_tables(results),
        json={
            "report": str(path),
            "runs": [
                {key: value for key, value in result.to_json().items() if key != "environments"}
                | {"run": str(folder)}
                for result, folder in zip(results, folders, strict=True)
            ],
        },
        report=path,
    )
