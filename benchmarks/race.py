"""A race of gradient ascent, at several learning rates, against a value that is known.

The two scripts `known_utility_vs_gradient_ascent` and `unknown_utility_vs_gradient_ascent`
share it. Three ways of choosing the learning rate are reported:

* safe: one over the largest curvature that any utility on [0, 1] can have at this horizon. It is
  the only rate that a user can know beforehand to work on every problem.
* shared: of the rates tried, the one that in hindsight does best on all problems together.
* best: of the rates tried, the best on each problem by itself, also in hindsight. The search
  for it is not counted.

The ascent is told our value and stops as soon as it is within the accuracy asked for; without us it
would have to find out by itself when to stop. An ascent that is not there after the cap counts
with the time of the cap, so its ratio is a lower bound, marked >=.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import harness
from baselines.gradient_ascent import Ascent
from cliff_settings import Setting

import goalmeter as gm

ACCURACIES = (1e-3, 1e-6)  # nats


@dataclass(frozen=True)
class Rate:
    """A learning rate, with the optimiser it belongs to."""

    optimiser: str
    alpha: float
    safe: bool = False

    @property
    def name(self) -> str:
        return f"{self.optimiser} {self.alpha:.3g}"


# (rate, seconds at most) -> how far it came
Climb = Callable[[Rate, float], Ascent]


def race(
    measure: Callable[[Setting], gm.meg.MegResult],
    climber: Callable[[Setting, float], Climb],
    rates: Callable[[int], Sequence[Rate]],
    chosen: Sequence[Setting],
    *,
    cap: float,
    search_seconds: float,
    rounds: int,
) -> dict[str, Any]:
    """The race of ours against the ascent, on every setting.

    Args:
        measure: ours.
        climber: the ascent on a setting, and the value that it is told.
        rates: those tried at a horizon, one of which is safe.
        chosen: the settings.
        cap: seconds that an ascent has at most.
        search_seconds: how long each rate is tried to see which is best.
        rounds: turns of ours and of the ascents.
    """
    rates_tried = rates(chosen[0].horizon)
    problems: list[dict[str, Any]] = []
    for setting in chosen:
        result = measure(setting)
        climb = climber(setting, result.value)
        climbs = {r.name: _summary(climb(r, search_seconds), result.value) for r in rates_tried}
        problems.append(
            {
                "name": setting.name,
                "value": result.value,
                "bound_gap": result.upper_bound - result.value,
                "at": f"beta = {result.rationality:.3g}",
                "search": climbs,
                "best": min(climbs, key=lambda name: _score(climbs[name])),
            }
        )
    shared = shared_rate(problems)
    for setting, problem in zip(chosen, problems, strict=True):
        ours = partial(measure, setting)
        climb = climber(setting, problem["value"])
        finals(ours, climb, rates_tried, problem, shared, cap=cap, rounds=rounds)
    return {"cap_seconds": cap, "problems": problems, "summary": summary(problems)}


def shared_rate(problems: Sequence[dict[str, Any]]) -> str:
    """The rate that reaches the accuracy most often, and of those the quickest in total."""

    def total(name: str) -> tuple[float, float]:
        scores = [_score(p["search"][name]) for p in problems]
        return (sum(s[0] for s in scores), sum(s[1] for s in scores))

    return min(problems[0]["search"], key=total)


def finals(
    ours: Callable[[], object],
    climb: Climb,
    rates: Sequence[Rate],
    problem: dict[str, Any],
    shared: str,
    *,
    cap: float,
    rounds: int,
) -> None:
    """The runs that count, up to the cap; fills `problem["ours_seconds"]` and `["runs"]`.

    Ours and the ascents take turns, and medians are taken. An ascent that needs more than a second
    has only one turn.
    """
    by_name = {rate.name: rate for rate in rates}
    safe = next(rate.name for rate in rates if rate.safe)
    times: list[float] = []
    runs: dict[str, list[dict[str, Any]]] = {n: [] for n in (safe, shared, problem["best"])}
    for _ in range(rounds):
        for name, done in runs.items():
            times.append(harness.median_seconds(ours, 3))
            if not done or done[0]["seconds"] < 1.0:
                done.append(_summary(climb(by_name[name], cap), problem["value"]))
    problem["ours_seconds"] = statistics.median(times)
    medians = {
        name: {"rate": name, **_median_run(done, problem["ours_seconds"])}
        for name, done in runs.items()
    }
    # The short search may have preferred one that does worse in the end.
    best = min(medians.values(), key=_score)
    problem["runs"] = {"safe": medians[safe], "shared": medians[shared], "best": best}


def _median_run(runs: list[dict[str, Any]], ours: float) -> dict[str, Any]:
    """The repeats of one ascent, which differ in their times alone, as one."""
    seconds = statistics.median(run["seconds"] for run in runs)
    ratio = {}
    seconds_to: dict[str, float | None] = {}
    for accuracy in map(str, ACCURACIES):
        taken = [run["seconds_to"][accuracy] for run in runs]
        reached = None not in taken
        seconds_to[accuracy] = statistics.median(taken) if reached else None
        ratio[accuracy] = {
            "at_least": not reached,
            "value": (statistics.median(taken) if reached else seconds) / ours,
        }
    return {**runs[0], "seconds": seconds, "seconds_to": seconds_to, "ratio": ratio}


def summary(problems: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Geometric mean, smallest and largest ratio of each choice of rate, per accuracy."""
    out: dict[str, Any] = {}
    for choice in ("safe", "shared", "best"):
        out[choice] = {}
        for accuracy in map(str, ACCURACIES):
            ratios = [p["runs"][choice]["ratio"][accuracy] for p in problems]
            values = [r["value"] for r in ratios]
            out[choice][accuracy] = {
                "geometric_mean": harness.geometric_mean(values),
                "smallest": min(values),
                "largest": max(values),
                "capped": sum(r["at_least"] for r in ratios),
            }
    return out


def markdown(result: dict[str, Any], aim: int) -> str:
    """The table of a race."""
    rows = []
    for p in result["problems"]:
        runs = p["runs"]
        rows.append(
            [
                p["name"],
                f"{p['value']:.4f}",
                p["at"],
                harness.short(p["ours_seconds"]),
                *(_cell(runs["safe"], a) for a in ACCURACIES),
                _cell(runs["shared"], ACCURACIES[1]),
                f"{_cell(runs['best'], ACCURACIES[1])} ({runs['best']['rate']})",
                f"{max(runs['safe']['gap'], 0.0):.1e}",
            ]
        )
    shared = result["problems"][0]["runs"]["shared"]["rate"]
    header = [
        "setting",
        "MEG, nats",
        "optimum at",
        "ours",
        "ratio, safe rate, 1e-3",
        "ratio, safe rate, 1e-6",
        f"ratio, {shared}, 1e-6",
        "ratio, best rate, 1e-6",
        "safe rate: nats short at the end",
    ]
    lines = [harness.table(header, rows), ""]
    for choice, words in (
        (
            "safe",
            "the safe rate (one over the largest curvature at this horizon, the only rate known "
            "beforehand to work)",
        ),
        ("shared", f"one rate for all chosen in hindsight ({shared})"),
        ("best", "the best rate of each problem chosen in hindsight"),
    ):
        s = result["summary"][choice][str(ACCURACIES[1])]
        mark = ">= " if s["capped"] else ""
        lines.append(
            f"- Against {words}: geometric mean {mark}{s['geometric_mean']:.2g}x "
            f"(from {s['smallest']:.2g}x to {s['largest']:.2g}x; {s['capped']} of "
            f"{len(result['problems'])} runs stopped at {result['cap_seconds']:g} s; aim {aim}x)."
        )
    return "\n".join(lines)


def _cell(run: dict[str, Any], accuracy: float) -> str:
    ratio = run["ratio"][str(accuracy)]
    return f"{'>= ' if ratio['at_least'] else ''}{ratio['value']:.3g}x"


def _summary(ascent: Ascent, value: float) -> dict[str, Any]:
    return {
        "seconds": ascent.seconds,
        "iterations": ascent.iterations,
        "gap": value - ascent.value,
        "seconds_to": {str(a): ascent.seconds_to.get(a) for a in ACCURACIES},
    }


def _score(run: dict[str, Any]) -> tuple[float, float, float]:
    """Sorts runs: reached first, then the quick ones, then those that came close."""
    taken = run["seconds_to"][str(min(ACCURACIES))]
    gap = run["gap"] if math.isfinite(run["gap"]) else math.inf
    return (taken is None, taken or 0.0, gap)
