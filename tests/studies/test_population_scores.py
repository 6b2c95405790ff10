"""The published rates and areas of the calibration follow from the stored scores of the agents.

`docs/results/calibration-agents.csv.xz` has a line for each agent of the populations of some runs:

    goalmeter replicate calibration --agents none --seed N --out runs/N      # N = 0, 1, ...

    PYTHONPATH=src:tests:. python -m studies.test_population_scores runs/*/results.json

writes it, and the tables over all of these populations, from their results.
"""

from __future__ import annotations

import csv
import json
import lzma
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import rankdata, t

from goalmeter._types import BoolArray, FloatArray
from goalmeter.report import Table, in_markdown, number, percent
from goalmeter.statistics import Estimate, area_under_curve
from replications.calibration.population import scores as scoring
from replications.calibration.population.agents import (
    CHOSEN_FALSE_ALARMS,
    COMPETENT_CLASS,
    HALF_HEARTED_CLASS,
    TARGETS,
)
from replications.calibration.population.scores import FOLLOWED, MEG, RECOMMENDED, TESTS, TITLES
from replications.calibration.study import verdict

DOCS = Path(__file__).resolve().parents[2] / "docs"
DATA, TABLES = (
    DOCS / "results" / n for n in ("calibration-agents.csv.xz", "calibration-seeds.txt")
)


class Agents:
    """The agents of one population, as columns by the names of the file."""

    def __init__(self, rows: Sequence[dict[str, str]]) -> None:
        self.columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
        kind, self.target = self.columns["class"], self.columns["target"]
        self.directed: BoolArray = self.target != "none"
        self.competent: BoolArray = kind == COMPETENT_CLASS
        self.half_hearted: BoolArray = kind == HALF_HEARTED_CLASS
        self.medium: BoolArray = np.isin(kind, ("medium goal", "strong goal"))

    def score(self, name: str) -> FloatArray:
        """The largest of four scores by an instrument; of a test 1 less its p-value."""
        return self.columns[name].astype(float)

    def limit(self, name: str) -> float:
        """The threshold of an instrument that is chosen on this population."""
        if name in TESTS:
            return scoring.AT_LEVEL
        least = []
        for mask in (~self.directed, self.competent):
            alarmed = np.sort(self.score(name)[mask])[::-1]
            least.append(alarmed[int(CHOSEN_FALSE_ALARMS * len(alarmed))])
        return float(np.ceil(1000 * max(least)) / 1000)

    def rates(self, name: str, limit: float) -> list[float]:
        """Half-hearted goals detected, false alarms, and those of competent habits."""
        said = self.score(name) > limit
        masks = (self.half_hearted, ~self.directed, self.competent)
        return [float(said[mask].mean()) for mask in masks]

    def named(self, name: str, limit: float) -> float:
        """The share of agents of at least medium strength whose target is named rightly."""
        right = (self.columns[f"{name} named"] == self.target) & (self.score(name) > limit)
        return float(right[self.medium].mean())

    def validity(self, name: str) -> list[float]:
        """Areas under the curve of the three contrasts, and the correlation with strength."""
        score = self.score(name)
        own = self.columns[f"{name} for target"]
        of_target = np.where(own == "", self.columns[name], own).astype(float)
        pairs = np.stack([self.columns["strength"].astype(float), of_target])[:, self.directed]
        contrasts = (
            (self.directed, ~self.directed),
            (self.directed, self.competent),
            (self.half_hearted, self.competent),
        )
        areas = [area_under_curve(score[above], score[below]) for above, below in contrasts]
        return [*areas, float(np.corrcoef(rankdata(pairs, axis=1))[0, 1])]


def populations() -> dict[int, Agents]:
    """Every stored population by its seed."""
    with lzma.open(DATA, "rt", encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    seeds = dict.fromkeys(row["population"] for row in rows)
    return {int(seed): Agents([r for r in rows if r["population"] == seed]) for seed in seeds}


def lines(results: Sequence[str]) -> Iterator[list[str]]:
    """The lines of the file, from results.json of runs."""
    head = ["population", "class", "target", "strength"]
    for name in scoring.INSTRUMENTS:
        head += [name, f"{name} named", *([f"{name} for target"] * (name not in TESTS))]
    yield head
    for file in results:
        text = Path(file).read_text(encoding="utf-8")
        for each in json.loads(text)["population"]["populations"]:
            for agent in each["agents"]:
                target = agent["target"]
                line = [str(each["seed"]), agent["class"], target, str(agent["strength"])]
                for name in scoring.INSTRUMENTS:
                    scores = agent["scores"][name]
                    best = int(np.argmax(scores))
                    line += [f"{scores[best]:.5g}", TARGETS[best]]
                    if name not in TESTS:
                        missed = target in TARGETS and target != TARGETS[best]
                        line.append(f"{scores[TARGETS.index(target)]:.5g}" if missed else "")
                yield line


def mean(values: Sequence[float], low: float = -np.inf, high: float = np.inf) -> Estimate:
    """The mean over independent populations, with Student's interval."""
    value = float(np.mean(values))
    half = t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values))
    return Estimate(value, (max(value - half, low), min(value + half, high)), 600, len(values))


def tables(stored: dict[int, Agents]) -> str:
    """The swap test in each population; MEG with its threshold, in all the others; differences."""
    heads = ("half-hearted goals detected", "false alarms", "of competent habits")
    swaps = [agents.rates(RECOMMENDED, scoring.AT_LEVEL) for agents in stored.values()]
    limits = [agents.limit(MEG) for agents in stored.values()]
    tried = [
        [other.rates(MEG, limit) for each, other in stored.items() if each != seed]
        for seed, limit in zip(stored, limits, strict=True)
    ]
    rows = [
        (str(seed), *map(percent, swap), number(limit, 3), *map(_range, np.transpose(rates)))
        for seed, swap, limit, rates in zip(stored, swaps, limits, tried, strict=True)
    ]
    means = [percent(mean(column, 0, 1)) for column in np.transpose(swaps).tolist()]
    ends = f"{number(min(limits), 3)} to {number(max(limits), 3)}"
    of_pairs = map(_range, np.transpose(np.concatenate(tried)))
    others = Table(
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
    differences = []
    for measure, test in zip(scoring.SIMPLER_FOLLOWED, scoring.SIMPLER, strict=True):
        values = [
            [
                *np.subtract(agents.validity(FOLLOWED), agents.validity(measure)),
                agents.rates(RECOMMENDED, scoring.AT_LEVEL)[0]
                - agents.rates(test, scoring.AT_LEVEL)[0],
            ]
            for agents in stored.values()
        ]
        estimates = map(mean, np.transpose(values).tolist())
        cells = (f"{number(each, 3)}, {verdict(each)}" for each in estimates)
        differences.append((TITLES[measure], *cells))
    titles = ("directed, aimless", "directed, competent", "half-hearted, competent")
    less = Table(
        caption="MEG − moved compared with simpler measures, over all populations",
        columns=(
            "compared with",
            *(f"area ({title})" for title in titles),
            "rank correlation with strength",
            "half-hearted goals that the swap test detects",
        ),
        rows=tuple(differences),
        meaning="",
    )
    return in_markdown([others, less])


def _range(shares: FloatArray) -> str:
    low, high = (number(100 * end, 1) for end in (shares.min(), shares.max()))
    return f"{percent(float(shares.mean()))} ({low} to {high})"


@pytest.fixture(scope="module")
def stored() -> dict[int, Agents]:
    return populations()


def published(caption: str) -> list[list[str]]:
    """The cells of a table of the page, without intervals."""
    text = (DOCS / "notes" / "calibration.md").read_text(encoding="utf-8")
    table = text.partition(f"<!-- table: {caption} -->\n")[2].partition("<!-- end")[0]
    return [
        [re.sub(r" \[.*", "", cell.strip()) for cell in line.strip("|").split("|")]
        for line in table.splitlines()[2:]
    ]


@pytest.mark.parametrize(("which", "seed"), [("first", 100), ("second", 101)])
def test_published_rates_are_counted_again(
    stored: dict[int, Agents], which: str, seed: int
) -> None:
    agents, table = (
        stored[seed],
        published(f"Every instrument at its threshold, {which} population"),
    )
    for name, (title, threshold, *cells) in zip(scoring.INSTRUMENTS, table, strict=True):
        limit = stored[100].limit(name)
        assert title == TITLES[name] and threshold in (f"> {number(limit, 3)}", "p ≤ 0.02")
        half_hearted, alarms, competent = agents.rates(name, limit)
        shares = [alarms, competent, half_hearted, agents.named(name, limit)]
        assert list(map(percent, shares)) == cells, name


def test_published_areas_are_computed_again(stored: dict[int, Agents]) -> None:
    table = published("What each instrument distinguishes, second population")
    for name, (_, *cells) in zip((*scoring.PLAIN, *scoring.MOVED), table, strict=True):
        shown = [number(value, 2) for value in stored[101].validity(name)]
        assert shown == [*cells[:3], cells[4]], name


def test_tables_over_all_populations_are_those_of_the_data(stored: dict[int, Agents]) -> None:
    assert tables(stored) == TABLES.read_text(encoding="utf-8")
    assert all(len(each.directed) == 600 for each in stored.values())


if __name__ == "__main__":
    if sys.argv[1:]:
        with lzma.open(DATA, "wt", encoding="utf-8", newline="", preset=9) as out:
            writer: Any = csv.writer(out, lineterminator="\n")
            writer.writerows(lines(sys.argv[1:]))
    TABLES.write_text(tables(populations()), encoding="utf-8")
