"""Coverage of intervals of few clusters, for every reported statistic.

Each row is a statistic of a population of grids, of trajectories or of seeds, whose true value is
known: populations of walks are 300 mazes of size 7, walked through four times by a reference agent,
and the truth is the value over all of them. A sample has n of them (the column), its 95% interval
is computed as in every table, and coverage is the share of samples whose interval contains the
truth. With 400 runs a true rate of 95% is observed between 93% and 97%; rows of MEG have 150 runs,
91% to 98%. A share in brackets is that of samples without an interval, which are not counted.
`resampled` is the previous method: percentiles of resamples, for 5 and 20 clusters. `width` is that
of the interval, for 5 and 20. In rows named "one in ten" about every tenth cluster is of another
kind, which few samples contain. Rows of a ratio over steps include grids in which the agent is
stuck until the step limit.

The second table has strata of binary clusters, of the sizes given, over 600 samples, as shares and
as differences of pairs. The last eight rows of strata and the last four of ratios were added after
the method was chosen, and the method was not changed afterwards. The draws are seeded: the tables
are the same on every machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import harness
import numpy as np

import goalmeter as gm
from goalmeter._types import FloatArray
from goalmeter.agents.grid_agents import navigator
from goalmeter.meg.trajectories import from_trajectories
from goalmeter.navigation import suite, walk
from goalmeter.navigation.behaviour import row as behaviour_row
from goalmeter.navigation.rationality import Evidence, GoalFit, evidence, goal_fit
from goalmeter.navigation.steps import DIFFERENCE, UNIT, Grids, Observed, observed
from goalmeter.reflection.result import interval_of
from goalmeter.statistics.clusters import estimate
from goalmeter.tabular import sample_trajectories

SIZES = (2, 3, 5, 10, 20)
WIDTHS = (5, 20)
AGENTS = ("optimal", "greedy", "epsilon-optimal(0.3)", "boltzmann(1)", "random")
POOLED = ("accuracy_detour", "beyond_greedy")  # over steps, of which a grid has any number
MOST_BITS = 2.9  # of the corrected entropy of five kinds of answers
Ends = tuple[float, float] | None


@dataclass(frozen=True)
class Setting:
    """A statistic of a population.

    Attributes:
        name: of the statistic.
        population: of what.
        truth: its true value.
        sample: the interval of a new sample of n clusters, and that by resamples alone or None.
        runs: samples a column.
    """

    name: str
    population: str
    truth: float
    sample: Callable[[int, np.random.Generator], tuple[Ends, Ends]]
    runs: int = 400


def resampled(values: Any, weights: Any, rng: np.random.Generator) -> Ends:
    """Percentiles of resamples, one cluster fewer than there are, as far out as those of t."""
    from scipy.stats import norm, t

    n = len(values)
    tail = float(norm.cdf(t.ppf(0.025, n - 1)))
    drawn = rng.multinomial(n - 1, np.full(n, 1 / n), size=1000)
    low, high = np.quantile(drawn @ (values * weights) / (drawn @ weights), [tail, 1 - tail])
    return float(low), float(high)


def of_clusters(
    name: str,
    population: str,
    draw: Callable[[int, np.random.Generator], tuple[Any, Any]],
    truth: float,
    bounds: tuple[float, float] | None = UNIT,
    *,
    paired: bool = False,
    heaviest: float = 1.0,
) -> Setting:
    """A mean of clusters; `draw` gives their values and weights, of at most `heaviest`."""

    def sample(n: int, rng: np.random.Generator) -> tuple[Ends, Ends]:
        values, weights = draw(n, rng)
        mean = estimate(values * weights, weights, heaviest=heaviest, bounds=bounds, paired=paired)
        return mean.interval, resampled(values, weights, rng)

    return Setting(name, population, truth, sample)


@lru_cache
def walked(agent: str, grids: int) -> Observed:
    """The walks of an agent."""
    made = suite("maze", sizes=[7], complexities=[0.5], grids=grids, trajectories=4)
    return observed([walk(navigator(agent), task, index) for task, index in made.walks()])


@lru_cache
def by_grid(agent: str, grids: int) -> dict[str, tuple[Any, Any]]:
    """The value and the weight of each grid, for each measure of a row of behaviour."""
    seen = walked(agent, grids)
    names = ("success", "spl", "accuracy", "entropy", "jsd", "regret", *POOLED)
    values: dict[str, list[float]] = {name: [] for name in names}
    weights: dict[str, list[float]] = {name: [] for name in names}
    for grid in np.unique(seen.grid):
        row_of_grid = behaviour_row(seen.where(seen.grid == grid), 0.95, (7, 0.5, None, "{}"))
        for name in names:
            measured = getattr(row_of_grid, name)
            known = not np.isnan(measured.value)
            values[name].append(measured.value if known else 0.0)
            weights[name].append(float(measured.n if name in POOLED else 1) if known else 0.0)
    return {name: (np.array(values[name]), np.array(weights[name])) for name in names}


def from_pool(
    name: str,
    population: str,
    pool: tuple[Any, Any],
    bounds: tuple[float, float] | None,
    *,
    paired: bool = False,
    heaviest: float = 1.0,
) -> Setting:
    """A mean of grids that were drawn from a pool of them."""
    values, weights = (column[pool[1] > 0] for column in pool)

    def draw(n: int, rng: np.random.Generator) -> tuple[Any, Any]:
        drawn = rng.choice(len(values), n)
        return values[drawn], weights[drawn]

    truth = float(values @ weights / weights.sum())
    return of_clusters(name, population, draw, truth, bounds, paired=paired, heaviest=heaviest)


def behaviours(grids: int) -> list[Setting]:
    """Measures of walks, and differences of agents that walked through the same grids."""
    cap = max(trajectory.cap for trajectory in walked("optimal", grids).trajectories)
    bounds = {"entropy": (0.0, MOST_BITS), "regret": (0.0, 2.0 * cap), "beyond_greedy": DIFFERENCE}
    out = []
    for agent in ("greedy", "epsilon-optimal(0.3)", "random"):
        for name, pool in by_grid(agent, grids).items():
            # What is the same in every grid is covered by any interval of some width.
            if np.ptp(pool[0][pool[1] > 0]) > 0:
                paired = name == "beyond_greedy"
                heaviest = 4.0 * cap if name in POOLED else 1.0
                limits = bounds.get(name, UNIT)
                out.append(from_pool(name, agent, pool, limits, paired=paired, heaviest=heaviest))
    for first, second in (("optimal", "greedy"), ("epsilon-optimal(0.3)", "boltzmann(1)")):
        for name in ("success", "accuracy"):
            (values, known), (values_of_second, known_of_second) = (
                by_grid(agent, grids)[name] for agent in (first, second)
            )
            pool = values - values_of_second, known * known_of_second
            both = f"{first} − {second}"
            out.append(from_pool(f"{name}, difference", both, pool, DIFFERENCE, paired=True))
    return out


def drawn_clusters() -> list[Setting]:
    """Populations that are hard: at a bound, near it, equal, and equal but for one in ten."""

    def ones(n: int, values: Any) -> tuple[Any, Any]:
        return np.asarray(values, dtype=float), np.ones(n)

    def invalid(n: int, rng: np.random.Generator) -> tuple[Any, Any]:
        answers = rng.integers(20, 60, n)
        return rng.binomial(answers, rng.beta(0.2, 19.8, n)) / answers, answers.astype(float)

    def seldom(value: float, rare: float, part: float = 0.1) -> Callable[..., tuple[Any, Any]]:
        return lambda n, rng: ones(n, np.where(rng.random(n) < part, rare, value))

    def smooth(mean: float, spread: float) -> Callable[..., tuple[Any, Any]]:
        return lambda n, rng: ones(n, rng.normal(mean, spread, n))

    def shares(n: int, rng: np.random.Generator) -> tuple[Any, Any]:
        return ones(n, rng.binomial(10, 0.97, n) / 10)

    return [
        of_clusters("success", "a grid always or never, 0.9 do", seldom(1.0, 0.0), 0.9),
        of_clusters("success", "a grid always or never, 0.5 do", seldom(1.0, 0.0, 0.5), 0.5),
        of_clusters("success", "10 walks of 0.97 in each grid", shares, 0.97),
        of_clusters("SPL", "0.97 in each grid", seldom(0.97, 0.97), 0.97),
        of_clusters("SPL", "0.97, one in ten 0", seldom(0.97, 0.0), 0.873),
        of_clusters("invalid", "1% of 20 to 60 answers, by grid", invalid, 0.01, heaviest=60.0),
        of_clusters("JSD", "0.05, one in ten 1", seldom(0.05, 1.0), 0.145),
        of_clusters(
            "difference", "0, one in ten 1", seldom(0.0, 1.0), 0.1, DIFFERENCE, paired=True
        ),
        of_clusters(
            "difference", "normal, 0.05 ± 0.1", smooth(0.05, 0.1), 0.05, DIFFERENCE, paired=True
        ),
        of_clusters("no bounds", "normal", smooth(3.0, 1.0), 3.0, None),
        of_clusters("no bounds", "1, one in ten 0", seldom(1.0, 0.0), 0.9, None),
    ]


# Strata of binary clusters: how many in each, and how probable a 1 is. The second half was written
# down after the method was chosen, and nothing was changed after it was seen.
STRATA = [
    ((2, 8), (0.5, 0.98)),
    ((2, 18), (0.5, 0.98)),
    ((2, 38), (0.5, 0.98)),
    ((2, 38), (0.98, 0.5)),
    ((3, 17), (0.5, 0.98)),
    ((2, 3, 8, 14, 18), (0.5, 0.7, 0.9, 0.95, 0.98)),
    ((10, 10), (0.2, 0.98)),
    ((10, 10, 10, 10, 10), (0.5, 0.7, 0.9, 0.95, 0.98)),
    ((4, 9), (0.35, 0.93)),
    ((2, 60), (0.66, 0.07)),
    ((6, 6, 30), (0.9, 0.25, 0.97)),
    ((1, 1, 12), (0.6, 0.8, 0.99)),
    ((3, 5, 7, 40), (0.1, 0.4, 0.75, 0.99)),
    ((7, 7), (0.03, 0.55)),
    ((15, 15, 15), (0.95, 0.99, 0.6)),
    ((5, 80), (0.85, 0.995)),
]
# Grids of which a part is stuck: that part, the steps and the accuracy of those that are, and of
# those that are not. The second half again was not looked at before.
STUCK = [
    (0.1, 36, 0.2, 6, 0.97),
    (0.1, 36, 0.0, 6, 1.0),
    (0.05, 30, 0.1, 10, 0.95),
    (0.07, 50, 0.35, 8, 0.9),
    (0.15, 24, 0.5, 12, 0.85),
    (0.3, 40, 0.05, 5, 0.99),
    (0.02, 100, 0.0, 10, 1.0),
]


def of_strata(quick: bool) -> list[dict[str, Any]]:
    """How often the mean over strata of binary clusters is held, for shares and for differences."""
    out = []
    for sizes, chances in STRATA:
        stratum = np.repeat(np.arange(len(sizes)), sizes)
        truth = float(np.mean(chances))
        for name, bounds, paired in (("share", UNIT, False), ("difference", DIFFERENCE, True)):
            ends = []
            for run in range(2 if quick else 600):
                rng = np.random.default_rng([run, *sizes])
                values = (rng.random(len(stratum)) < np.array(chances)[stratum]).astype(float)
                mean = estimate(values, strata=stratum, bounds=bounds, paired=paired)
                ends += [] if mean.interval is None else [mean.interval]
            out.append(
                {
                    "statistic": name,
                    "clusters": sizes,
                    "chances": chances,
                    "truth": truth,
                    "coverage": share(ends, truth),
                    "width": float(np.mean([b - a for a, b in ends])),
                }
            )
    return out


def of_stuck() -> list[Setting]:
    """Ratios over the steps of grids, of which some have many."""

    def setting(
        part: float, steps: int, accuracy: float, other_steps: int, other_accuracy: float
    ) -> Setting:
        def draw(n: int, rng: np.random.Generator) -> tuple[Any, Any]:
            is_stuck = rng.random(n) < part
            taken = np.where(is_stuck, steps, other_steps)
            right = rng.binomial(taken, np.where(is_stuck, accuracy, other_accuracy))
            return right / taken, taken.astype(float)

        taken = part * steps, (1 - part) * other_steps
        truth = (taken[0] * accuracy + taken[1] * other_accuracy) / sum(taken)
        population = (
            f"{part:.0%} of grids {steps} steps of {accuracy:g}, others {other_steps} of "
            f"{other_accuracy:g}"
        )
        return of_clusters("ratio over steps", population, draw, truth, heaviest=float(steps))

    return [setting(*each) for each in STUCK]


def meg_of_walks(grids: int) -> list[Setting]:
    """MEG of walks towards the goal, nats and share."""
    seen = [walked(agent, grids) for agent in AGENTS]
    by_agent = evidence(seen, "goal")
    # Walks of both agents are in the same order, four a grid.
    is_aimless = np.repeat(np.arange(grids) % 10 == 0, 4)
    best, aimless = by_agent[AGENTS.index("optimal")], by_agent[AGENTS.index("random")]

    def chosen_of(name: str) -> FloatArray:
        of_best, of_aimless = getattr(best, name), getattr(aimless, name)
        return np.where(is_aimless.reshape(-1, *(1,) * (of_best.ndim - 1)), of_aimless, of_best)

    names = ("whole", "without", "most", "most_without")
    mixed = Evidence(best.rationalities, *map(chosen_of, names))
    populations = [*zip(AGENTS, seen, by_agent, strict=True)]
    populations.append(("optimal, one in ten random", seen[0], mixed))

    def settings(agent: str, walks: Observed, fits: Evidence) -> list[Setting]:
        @cache  # both rows of an agent are of the same samples
        def measured(chosen: tuple[int, ...]) -> GoalFit:
            kept = np.isin(walks.grid, chosen)
            part = Grids(walks.where(kept), 0.95)
            return goal_fit(part, fits.curves(kept), fits.most[kept])

        def sampler(name: str) -> Callable[[int, np.random.Generator], tuple[Ends, Ends]]:
            def sample(n: int, rng: np.random.Generator) -> tuple[Ends, Ends]:
                chosen = tuple(rng.choice(grids, n, replace=False).tolist())
                return getattr(measured(chosen), name).interval, None

            return sample

        whole = measured(tuple(range(grids)))
        titles = {"nats": "MEG, nats a walk", "share": "MEG, share"}
        return [
            Setting(title, agent, getattr(whole, name).value, sampler(name), 150)
            for name, title in titles.items()
        ]

    return [setting for population in populations for setting in settings(*population)]


def estimates_from_trajectories() -> list[Setting]:
    """The corrected estimate of the first paper's Example 1."""
    transition = [[[0, 1, 0], [0, 0, 1]], [[0, 1, 0], [0, 1, 0]], [[0, 0, 1], [0, 0, 1]]]
    mdp = gm.TabularMDP(transition, [0, 1, -1], horizon=2)

    def setting(chance: float) -> Setting:
        policy = [[chance, 1 - chance], [0.5, 0.5], [0.5, 0.5]]

        def sample(n: int, rng: np.random.Generator) -> tuple[Ends, Ends]:
            log = sample_trajectories(mdp, policy, n, rng=rng)
            return from_trajectories(mdp, log, resamples=300, rng=rng).interval, None

        truth = gm.meg.known_utility(mdp, policy).value
        return Setting("MEG of trajectories, nats", f"{chance:g} mouse", truth, sample, 150)

    return [setting(chance) for chance in (0.5, 0.8, 0.98)]


def reflections() -> list[Setting]:
    """Reflection's measure over seeds, which has no interval for fewer than five."""

    def of_seeds(
        population: str, truth: float, draw: Callable[[int, np.random.Generator], Any]
    ) -> Setting:
        def sample(n: int, rng: np.random.Generator) -> tuple[Ends, Ends]:
            by_seed = draw(n, rng)
            low, high = interval_of(by_seed, 0.95)
            return None if np.isnan(low) else (low, high), resampled(by_seed, np.ones(n), rng)

        return Setting("reflection, reward a step", population, truth, sample)

    return [
        of_seeds("normal, 0.3 ± 0.01", 0.3, lambda n, rng: rng.normal(0.3, 0.01, n)),
        of_seeds(
            "camps: 0.3, one in five −0.4",
            0.16,
            lambda n, rng: np.where(rng.random(n) < 0.2, -0.4, 0.3),
        ),
    ]


def measure(quick: bool) -> dict[str, Any]:
    """All rows."""
    grids = 20 if quick else 300
    settings = [
        *drawn_clusters(),
        *of_stuck(),
        *behaviours(grids),
        *meg_of_walks(grids),
        *estimates_from_trajectories(),
        *reflections(),
    ]
    return {
        "confidence": 0.95,
        "rows": [row(setting, quick) for setting in settings],
        "strata": of_strata(quick),
    }


def row(setting: Setting, quick: bool) -> dict[str, Any]:
    """How often the truth is inside, by the number of clusters."""
    out: dict[str, Any] = {
        "statistic": setting.name,
        "population": setting.population,
        "truth": setting.truth,
        "runs": 2 if quick else setting.runs,
        "columns": [],
    }
    for n in SIZES:
        ends, before = [], []
        for run in range(out["runs"]):
            ends_of_run, resampled_ends = setting.sample(n, np.random.default_rng([n, run]))
            ends += [] if ends_of_run is None else [ends_of_run]
            before += [] if resampled_ends is None else [resampled_ends]
        out["columns"].append(
            {
                "n": n,
                "coverage": share(ends, setting.truth),
                "refused": 1 - len(ends) / out["runs"],
                "width": float(np.mean([b - a for a, b in ends])) if ends else None,
                "resampled": share(before, setting.truth),
            }
        )
    return out


def share(ends: list[tuple[float, float]], truth: float) -> float | None:
    """How many of the intervals the truth is in; rounding leaves nothing out."""
    if not ends:
        return None
    return float(np.mean([low - 1e-9 <= truth <= high + 1e-9 for low, high in ends]))


def markdown(result: dict[str, Any]) -> str:
    """The table."""
    header = ["statistic", "population", "truth", *(f"n = {n}" for n in SIZES)]
    header += [f"width, {n}" for n in WIDTHS] + [f"resampled, {n}" for n in WIDTHS]
    rows = []
    for setting in result["rows"]:
        columns = {column["n"]: column for column in setting["columns"]}
        cells = [setting["statistic"], setting["population"], f"{setting['truth']:.3f}"]
        for column in columns.values():
            text = "–" if column["coverage"] is None else f"{column['coverage']:.0%}"
            part = f" ({column['refused']:.0%})" if 0 < column["refused"] < 1 else ""
            cells.append(text + part)
        for key, form in (("width", ".2f"), ("resampled", ".0%")):
            shown = (columns[n][key] for n in WIDTHS)
            cells += ["–" if value is None else format(value, form) for value in shown]
        rows.append(cells)
    strata = [
        [
            each["statistic"],
            " + ".join(map(str, each["clusters"])),
            ", ".join(f"{chance:g}" for chance in each["chances"]),
            f"{each['truth']:.3f}",
            f"{each['coverage']:.0%}",
            f"{each['width']:.2f}",
        ]
        for each in result["strata"]
    ]
    names = ["statistic", "clusters", "probability of 1", "truth", "coverage", "width"]
    return harness.table(header, rows) + "\n\n" + harness.table(names, strata)


if __name__ == "__main__":
    harness.run(__file__, __doc__, measure, markdown)
