"""`goalmeter replicate published-walks`: the published trajectories of GPT-OSS-20B, remeasured."""

from __future__ import annotations

if __name__ == "__main__":
    from goalmeter.__main__ import main

    main("replicate", "published-walks")

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from goalmeter.agents import agent as named
from goalmeter.commands.outcome import Outcome
from goalmeter.commands.replicate import StudyOptions
from goalmeter.gridworld import ACTIONS, plan
from goalmeter.navigation import Navigation, from_walks
from goalmeter.pages import navigation as page
from goalmeter.report import require_report_extra
from goalmeter.statistics import Estimate, estimate_of_sums
from replications.common import FloatArray, Texts, plain
from replications.published_walks.converter import PublishedStep, complete, steps, walks

say = Texts("published_walks")
OPTIONS = ("data",)
AGENT = "gpt-oss-20b"
# What the published files have in all, by their summary.
PUBLISHED = {"trajectories": 95, "steps": 1276}
OPTIMAL, SUBOPTIMAL, FAILURE = "optimal_success", "suboptimal_success", "failed"
POLICIES = ("greedy", "optimal")
_SLIPS = np.geomspace(1e-3, 1.0, 121)  # shares of random actions that are tried


def items(result: Navigation, published: Sequence[Sequence[PublishedStep]]) -> list[dict[str, Any]]:
    """Return the numbers of each trajectory, ours and theirs."""
    seen, out = result.seen, []
    for number, (walk, theirs) in enumerate(zip(seen.trajectories, published, strict=True)):
        part = seen.steps_of(number)
        correct, detour = seen.correct[part], seen.detour[part]
        sets = [frozenset(ACTIONS[action] for action in step.optimal) for step in walk.steps]
        read = [(ours, step) for ours, step in zip(sets, theirs, strict=True) if step.optimal]
        states = walk.states()
        kind = OPTIMAL if len(walk.steps) == walk.distance else SUBOPTIMAL
        out.append(
            {
                "trajectory": theirs[0].trajectory,
                "class": kind if walk.arrived else FAILURE,
                "published_class": theirs[0].published_class,
                "steps": len(walk.steps),
                "shortest": walk.distance,
                "stored_shortest": theirs[0].stored_distance,
                "wrong": int((~correct).sum()),
                "detour": int(detour.sum()),
                "wrong_in_detour": int((~correct & detour).sum()),
                "collisions": sum(before == after for before, after in pairwise(states)),
                "sets": len(read),
                "sets_equal": sum(ours == step.optimal for ours, step in read),
                "legacy_differs": sum(ours != step.legacy for ours, step in read),
                "legacy_blames": sum(
                    step.action in ours and step.action not in (step.legacy or ())
                    for ours, step in read
                ),
                "selected": sum(step.selected for step in theirs),
            }
        )
    return out


def failure_modes(
    result: Navigation, published: Sequence[Sequence[PublishedStep]]
) -> dict[str, dict[str, int]]:
    """Count the steps that were published as failures, and those of them that are optimal."""
    steps_, optimal = Counter[str](), Counter[str]()
    for walk, theirs in zip(result.seen.trajectories, published, strict=True):
        for step, their in zip(walk.steps, theirs, strict=True):
            steps_.update(their.modes)
            optimal.update(their.modes if step.is_optimal else ())
    return {mode: {"steps": steps_[mode], "optimal": optimal[mode]} for mode in sorted(steps_)}


def explained(result: Navigation) -> dict[str, Estimate]:
    """Estimate the shares of the decisions that policies with a rate of random actions explain.

    A share is the log-likelihood beyond that of random actions, as a share of log 4 per decision,
    at the rate that fits best, which makes it half a nat too large in all. Intervals are over
    grids, with a fit without each of them.
    """
    seen, valid = result.seen, result.seen.action < len(ACTIONS)
    worlds = [plan(walk.world) for walk in seen.trajectories]
    rows: list[FloatArray] = []
    for name in POLICIES:
        walker: Any = named(name).in_grids()
        policies = [walker.policy(world) for world in worlds]
        steps_ = zip(seen.trajectory[valid], seen.state[valid], seen.action[valid], strict=True)
        taken = np.array([policies[walk][state, action] for walk, state, action in steps_])
        likelihood = (1 - _SLIPS) * taken[:, None] * len(ACTIONS) + _SLIPS
        nats = np.zeros((len(worlds), len(_SLIPS)))
        np.add.at(nats, seen.trajectory[valid], np.log(likelihood))
        rows.append(nats)
    most = np.log(len(ACTIONS)) * np.bincount(seen.trajectory[valid], minlength=len(worlds))
    sums = np.column_stack([*rows, most])
    cut = len(_SLIPS)

    def share(which: int, totals: FloatArray) -> FloatArray:
        best = totals[..., which * cut : (which + 1) * cut].max(axis=-1)
        return np.asarray(best / totals[..., -1])

    def of(statistic: Any, bounds: tuple[float, float], **options: Any) -> Estimate:
        return estimate_of_sums(sums, statistic, n=int(valid.sum()), bounds=bounds, **options)

    out = {
        name: of(lambda totals, i=i: share(i, totals), (0.0, 1.0))
        for i, name in enumerate(POLICIES)
    }
    out["difference"] = of(
        lambda totals: share(1, totals) - share(0, totals), (-1.0, 1.0), paired=True
    )
    return out


def planned(options: StudyOptions) -> dict[str, int]:
    """Return what the published files have."""
    return PUBLISHED


def replicate(out: Path, options: StudyOptions) -> Outcome:
    """Measure the published trajectories of GPT-OSS-20B in rooms with a key and a door.

    --data names the folder with trajectory_failure_modes.json or .csv.
    """
    if options.data is None:
        raise say.refusal("no_data")
    require_report_extra()
    published = [*complete(steps(options.data))]
    if not published:
        raise say.refusal("incomplete", data=options.data)
    result = from_walks(walks(options.data), AGENT, out=out / "walks", progress=options.progress)
    by_item, by_mode = items(result, published), failure_modes(result, published)
    shares = explained(result)
    total = {
        name: sum(each[name] for each in by_item)
        for name, value in by_item[0].items()
        if isinstance(value, int)
    }
    total["stored_wrong"] = sum(each["stored_shortest"] != each["shortest"] for each in by_item)
    total["same_class"] = sum(each["class"] == each["published_class"] for each in by_item)
    classes = Counter(each["class"] for each in by_item)
    (row,), (fit,) = result.overall, result.directed
    values: dict[str, Any] = {
        **{"n": len(by_item), "all": PUBLISHED, "total": total, "row": row, "fit": fit},
        "shares": shares,
        "classes": {name: classes[name] for name in (OPTIMAL, SUBOPTIMAL, FAILURE)},
    }
    names = [name for name in say.declared("sentences") if name != "modes"]
    findings = [say.line(name, **values) for name in names]
    if by_mode:
        flagged = {name: sum(m[name] for m in by_mode.values()) for name in ("steps", "optimal")}
        findings.append(say.line("modes", flagged=flagged))
    tables = [
        say.table("explained", [(name, share) for name, share in shares.items()]),
        say.table("items", by_item),
        say.table("failure_modes", [{"mode": name} | each for name, each in by_mode.items()]),
    ]
    agents = [result, *result.references]
    sections = [
        say.section("what_it_did", *page.suite_tables(agents)),
        say.section("what_explains_it", *page.directed_tables(result.directed_beside), tables[0]),
        say.section("trajectories", *tables[1:]),
    ]
    json = {
        "replication": "published-walks",
        "agent": AGENT,
        "published": PUBLISHED,
        "findings": findings,
        "classes": values["classes"],
        "total": total,
        "behaviour": plain(row),
        "meg": [fit.to_json() for fit in result.directed_beside],
        "explained": plain(shares),
        "failure_modes": by_mode,
        "items": by_item,
    }
    return say.report(out, options, sections, json, findings, {})
