"""The scores of the agents of several populations: the published rates and areas, counted again.

`docs/results/calibration-agents.csv.xz` has a line for each agent of the populations of some runs:

    goalmeter replicate calibration --agents none --seed N --out runs/N      # N = 0, 1, ...

    PYTHONPATH=src:tests python -m studies.population_scores runs/*/results.json

writes it, and the tables over all of these populations, from their results.
"""

from __future__ import annotations

import csv
import json
import lzma
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import rankdata, t

from goalmeter._types import BoolArray, FloatArray
from goalmeter.report import Table
from goalmeter.report.markdown import in_markdown
from goalmeter.report.numbers import number, percent
from goalmeter.statistics.clusters import Estimate
from goalmeter.statistics.discrimination import area_under_curve
from replications.calibration.population import traits
from replications.calibration.population.page import verdict
from replications.calibration.population.scores import (
    FOLLOWED,
    INSTRUMENTS,
    LEVEL,
    MEG,
    RECOMMENDED,
    SIMPLER,
    SIMPLER_FOLLOWED,
    TESTS,
    TITLES,
)
from replications.calibration.population.traits import TARGETS

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"
DATA, TABLES = RESULTS / "calibration-agents.csv.xz", RESULTS / "calibration-seeds.txt"
HEAD = ["population", "class", "target", "strength"]
_SHOWN = 5  # significant digits


@dataclass(frozen=True, eq=False)
class Agents:
    """The A agents of one population as columns, by the names of the file."""

    columns: dict[str, list[str]]

    def of(self, *classes: str) -> BoolArray:
        """Which are of one of some classes, [A]."""
        return np.isin(self.columns["class"], classes)

    @property
    def directed(self) -> BoolArray:
        """Which have a goal, [A]."""
        return np.array(self.columns["target"]) != "none"

    def score(self, name: str) -> FloatArray:
        """The largest of four scores by an instrument; of a test 1 less its p-value, [A]."""
        return np.array(self.columns[name], dtype=float)

    def detected(self, name: str, limit: float, mask: BoolArray) -> float:
        """The share of a mask that is above a threshold."""
        return float((self.score(name)[mask] > limit).mean())

    def named(self, name: str, limit: float, mask: BoolArray) -> float:
        """The share of a mask of which the target is named, above a threshold."""
        right = np.array(self.columns[f"{name} named"]) == np.array(self.columns["target"])
        return float((right & (self.score(name) > limit))[mask].mean())

    def recovery(self, name: str) -> float:
        """Spearman's correlation of the strength and the score for the target."""
        of_target = [
            own or best
            for own, best in zip(
                self.columns[f"{name} for target"], self.columns[name], strict=True
            )
        ]
        pairs = np.array([self.columns["strength"], of_target], dtype=float)[:, self.directed]
        return float(np.corrcoef(rankdata(pairs, axis=1))[0, 1])

    def contrasts(self, name: str) -> list[float]:
        """Areas under the curve, in the order of `validity.CONTRASTS`."""
        score, competent = self.score(name), self.of(traits.COMPETENT_CLASS)
        half_hearted = self.of(traits.HALF_HEARTED_CLASS)
        pairs = ((self.directed, ~self.directed), (self.directed, competent))
        return [
            area_under_curve(score[above], score[below])
            for above, below in (*pairs, (half_hearted, competent))
        ]


def limit_of(agents: Agents, name: str) -> float:
    """The threshold of an instrument, chosen on a population as `judging.threshold` does."""
    if name in TESTS:
        return 1.0 - LEVEL - 1e-9
    least = []
    for mask in (~agents.directed, agents.of(traits.COMPETENT_CLASS)):
        alarmed = np.sort(agents.score(name)[mask])[::-1]
        least.append(alarmed[int(traits.CHOSEN_FALSE_ALARMS * len(alarmed))])
    return float(np.ceil(1000 * max(least)) / 1000)


def populations(file: Path = DATA) -> dict[int, Agents]:
    """Every stored population by its seed."""
    with lzma.open(file, "rt", encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    seeds = dict.fromkeys(int(row["population"]) for row in rows)
    return {
        seed: Agents(
            {name: [r[name] for r in rows if int(r["population"]) == seed] for name in rows[0]}
        )
        for seed in seeds
    }


# --- From the results of runs ---------------------------------------------------------------------
def lines(results: Sequence[Path]) -> Iterator[list[str]]:
    """The lines of the file, from results.json of runs."""
    yield HEAD + [
        column
        for name in INSTRUMENTS
        for column in (name, f"{name} named", *([f"{name} for target"] * (name not in TESTS)))
    ]
    for file in results:
        for each in json.loads(file.read_text(encoding="utf-8"))["population"]["populations"]:
            for agent in each["agents"]:
                line = [each["seed"], agent["class"], agent["target"], agent["strength"]]
                yield [*map(str, line), *_cells(agent)]


def _cells(agent: dict[str, object]) -> Iterator[str]:
    scores, target = agent["scores"], agent["target"]
    assert isinstance(scores, dict)
    for name in INSTRUMENTS:
        best = int(np.argmax(scores[name]))
        yield f"{scores[name][best]:.{_SHOWN}g}"
        yield TARGETS[best]
        if name not in TESTS:
            missed = target in TARGETS and target != TARGETS[best]
            yield f"{scores[name][TARGETS.index(str(target))]:.{_SHOWN}g}" if missed else ""


# --- Tables over all populations ------------------------------------------------------------------
def mean(values: Sequence[float], agents: int) -> Estimate:
    """The mean over independent populations, with Student's interval."""
    half = t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values))
    value = float(np.mean(values))
    return Estimate(value, (value - half, value + half), agents, len(values))


def replication_table(stored: dict[int, Agents]) -> Table:
    """The swap test in each population; and MEG with its threshold, in all the others."""
    heads = ("half-hearted goals detected", "false alarms", "of competent habits")
    swaps, thresholds, tried = [], [], []
    for seed, agents in stored.items():
        swaps.append(_rates(agents, RECOMMENDED, limit_of(agents, RECOMMENDED)))
        thresholds.append(limit_of(agents, MEG))
        others = [other for each, other in stored.items() if each != seed]
        tried.append([_rates(other, MEG, thresholds[-1]) for other in others])
    rows = [
        (str(seed), *map(percent, swap), number(limit, 3), *map(_range, np.transpose(rates)))
        for seed, swap, limit, rates in zip(stored, swaps, thresholds, tried, strict=True)
    ]
    means = [percent(within(mean(column, 600), 0, 1)) for column in np.transpose(swaps).tolist()]
    of_pairs = map(_range, np.transpose(np.concatenate(tried)))
    ends = f"{number(min(thresholds), 3)} to {number(max(thresholds), 3)}"
    return Table(
        caption="The same in other populations",
        columns=(
            "population",
            *(f"swap test of MEG: {head}" for head in heads),
            "MEG: threshold chosen here",
            *(f"MEG, in the other populations: {head}" for head in heads),
        ),
        rows=(*rows, ("all", *means, ends, *of_pairs)),
        meaning="",
    )


def _range(shares: FloatArray) -> str:
    low, high = (number(100 * end, 1) for end in (shares.min(), shares.max()))
    return f"{percent(float(shares.mean()))} ({low} to {high})"


def within(value: Estimate, low: float, high: float) -> Estimate:
    """An estimate whose interval is cut at the bounds of its quantity."""
    assert value.interval is not None
    ends = max(value.interval[0], low), min(value.interval[1], high)
    return Estimate(value.value, ends, value.n, value.clusters)


def _rates(agents: Agents, name: str, limit: float) -> list[float]:
    masks = (
        agents.of(traits.HALF_HEARTED_CLASS),
        ~agents.directed,
        agents.of(traits.COMPETENT_CLASS),
    )
    return [agents.detected(name, limit, mask) for mask in masks]


def difference_table(stored: dict[int, Agents]) -> Table:
    """By how much MEG differs from simpler measures of moved targets, over all populations."""
    asked: tuple[tuple[str, Callable[[Agents, str, str], float]], ...] = (
        *(
            (f"area ({title})", lambda a, name, _, n=n: a.contrasts(name)[n])
            for n, title in enumerate(
                ("directed, aimless", "directed, competent", "half-hearted, competent")
            )
        ),
        ("rank correlation with strength", lambda a, name, _: a.recovery(name)),
        (
            "half-hearted goals that the swap test detects",
            lambda a, _, test: _rates(a, test, limit_of(a, test))[0],
        ),
    )
    rows = []
    for measure, test in zip(SIMPLER_FOLLOWED, SIMPLER, strict=True):
        cells = [TITLES[measure]]
        for _, value in asked:
            differences = [
                value(each, FOLLOWED, RECOMMENDED) - value(each, measure, test)
                for each in stored.values()
            ]
            estimate = mean(differences, 600)
            cells.append(f"{number(estimate, 3)}, {verdict(estimate)}")
        rows.append(tuple(cells))
    return Table(
        caption="MEG − moved less simpler measures, over all populations",
        columns=("less", *(title for title, _ in asked)),
        rows=tuple(rows),
        meaning="",
    )


if __name__ == "__main__":
    if sys.argv[1:]:
        with lzma.open(DATA, "wt", encoding="utf-8", newline="", preset=9) as out:
            csv.writer(out, lineterminator="\n").writerows(lines(list(map(Path, sys.argv[1:]))))
    kept = populations()
    TABLES.write_text(
        in_markdown([replication_table(kept), difference_table(kept)]), encoding="utf-8"
    )
