"""`goalmeter replicate lm-representation`: the paper's maps and plans, beside an organism's."""

from __future__ import annotations

from pathlib import Path

from goalmeter._arguments import whole
from goalmeter._files import write_text
from goalmeter.commands.outcome import Outcome, json_text
from goalmeter.experiments import ledger
from goalmeter.experiments.lm_representation import tables
from goalmeter.experiments.lm_representation.compute import LEDGER_PREFIX, NAME, compute, forecast
from goalmeter.report.markdown import in_markdown
from goalmeter.runs import HERE
from goalmeter.runs.forecast import Forecast
from goalmeter.runs.progress import Tell

GRIDS = 40


def replicate(
    out: str | Path,
    *,
    seeds: int | None = None,
    seed: int = 0,
    on: str = HERE,
    progress: Tell | None = None,
) -> Outcome:
    """Read the maps and plans of the mouse as the paper reads those of GPT-OSS-20B.

    Args:
        out: folder for walks and activations, results.json and, as Markdown, tables.md.
        seeds: mazes of each size and complexity; None for 40.
        seed: of grids, fits and draws.
        on: not used: the mouse is asked by this process.
        progress: told what is finished.
    """
    grids = _checked(seeds)
    tell = progress or (lambda line: None)
    results = compute(Path(out), grids=grids, seed=seed, tell=tell)
    published = ledger.load(LEDGER_PREFIX)
    shown = tables.all_tables(results, published)
    write_text(Path(out) / "tables.md", in_markdown(shown))
    value = {
        "replication": NAME,
        "seeds": grids,
        "numbers": {name: each.to_json() for name, each in results.numbers.items()},
        "maps": [
            {
                "probe": probe,
                "position": position,
                "size": size,
                "rows": [r.to_json() for r in rows],
            }
            for (probe, position, size), rows in results.maps.items()
        ],
        "explained": results.explained.to_json(),
        "plans": {size: table.to_json() for size, table in results.plans.items()},
    }
    file = write_text(Path(out) / "results.json", json_text(value) + "\n")
    return Outcome(tables=shown, json=value | {"results": str(file.resolve())})


def forecasts(
    out: Path, *, seeds: int | None = None, seed: int = 0, on: str = HERE
) -> list[Forecast]:
    """What `replicate` with these arguments will cost, as far as the walks go."""
    return [forecast(out, grids=_checked(seeds), seed=seed)]


def _checked(seeds: int | None) -> int:
    return whole(GRIDS if seeds is None else seeds, "seeds", least=4, most=10_000)
