"""`goalmeter replicate lm-navigation`: the paper's numbers next to those of baseline agents.

Names of numbers are SUITE/QUANTITY, and in mazes SUITE/SIZE/COMPLEXITY/QUANTITY. "every-cell" is
the older protocol of the published table by size and complexity: the agent is put on every open
cell once. It is computed exactly, which takes an agent without memory.
"""

from __future__ import annotations

if __name__ == "__main__":
    from goalmeter.__main__ import main

    main("replicate", "lm-navigation")

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from goalmeter.agents import agent as named
from goalmeter.gridworld import plan
from goalmeter.navigation import SUITES, Navigation, exact, load, measure, suite, suite_named
from goalmeter.pages import navigation as navigation_page
from goalmeter.report import Figure, Section, Table, percent, plus, require_report_extra
from goalmeter.runs import Study, carry_out
from goalmeter.statistics import Estimate, difference, estimate, share_interval, verdict, words
from replications import ledger
from replications.common import DEFAULTS, Interval, Outcome, StudyOptions, Texts, plain

say = Texts("lm_navigation")
AGENTS = ("optimal", "greedy", "random", "epsilon-optimal", "wall-follower", "key-seeker")
LEDGER_PREFIX = "lm-navigation/"
COMPASS, EVERY_CELL = "greedy", "every-cell"
SIZES, COMPLEXITIES = (7, 9, 11, 13, 15), (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)  # of the paper
GRIDS, KEY_WORLDS_A_GRID = 10, 10  # of a size and complexity; worlds with a key for each of them
FRAMES = {"reflect": "Reflection", "rotate": "Rotation", "transpose": "Transpose", "swap": "Swap"}
KINDS = {(size, c): f"{EVERY_CELL}/{size}/{c:g}" for size in SIZES for c in COMPLEXITIES}

LANGUAGE_MODEL = "gpt-oss-20b"
COMMANDS: list[str] = say.declared("language_model")["commands"]
NOT_RUN, MODEL_ROW = "not run", "GPT-OSS-20B, ours"
_FRAME_MARGIN = 5.0  # points
Estimates = dict[str, Estimate]
Agents = Mapping[str, Estimates]


def of_agents(
    agents: Sequence[str],
    options: StudyOptions = DEFAULTS,
    *,
    grids: int = GRIDS,
    trajectories: int | None = None,
) -> dict[str, Estimates]:
    """Return every number of every agent; `trajectories` of a world are by default the paper's."""
    parts = [(agent, name) for name in (*SUITES, EVERY_CELL) for agent in agents]
    # The longest ones first, so that no process has one left when the others are through.
    parts.sort(key=lambda part: part[1] != "isometries")
    study = Study[Estimates](
        "lm-navigation",
        f"{__name__}:in_suite",
        {f"{agent} in {name}": {"agent": agent, "name": name} for agent, name in parts},
        common={"grids": grids, "trajectories": trajectories, "seed": options.seed},
        noun="part",
        from_json=lambda key, value: {n: Estimate.from_json(each) for n, each in value.items()},
    )
    out: dict[str, Estimates] = {agent: {} for agent in agents}
    of_parts = carry_out(study, on=options.on, progress=options.progress).values()
    for (agent, _), of_part in zip(parts, of_parts, strict=True):
        out[agent] |= of_part
    return out


def _paper(name: str, grids: int, trajectories: int | None, seed: int) -> dict[str, Any]:
    worlds = grids if suite_named(name).has_complexity else grids * KEY_WORLDS_A_GRID
    return {"paper": True, "grids": worlds, "trajectories": trajectories, "seed": seed}


def of_run(folder: str | Path) -> tuple[str, Estimates]:
    """Return the agent of a navigation run, and its numbers."""
    result = load(folder, beside=[])
    # Beside a published share of walks that took a key, one that took a neutral object misleads.
    if result.plan.options.objects == ("neutral",):
        raise say.refusal("neutral", folder=folder)
    return result.agent, of_result(result)


def in_suite(
    agent: str, name: str, *, grids: int = GRIDS, trajectories: int | None = None, seed: int = 0
) -> Any:
    """Return the numbers of one agent in one suite, as JSON values; a trial."""
    if name == EVERY_CELL:
        return plain(every_cell(agent, grids, seed))
    result = measure(agent, name, beside=[], **_paper(name, grids, trajectories, seed))
    return plain(of_result(result))


def of_result(result: Navigation) -> Estimates:
    """Return the numbers that were measured of an agent in a suite."""
    name, overall = result.plan.suite.name, result.overall[0]
    shown = ("success", "accuracy", "accuracy_detour")
    out = {f"{name}/{each}": getattr(overall, each) for each in (*shown, "spl", "invalid")}
    for cell in result.cells if name == "maze" else ():
        where = f"{name}/{cell.size}/{cell.complexity:g}"
        out |= {f"{where}/{quantity}": getattr(cell, quantity) for quantity in shown}
    # A run may have neutral objects beside keys; the published numbers are of keys.
    for table in [table for table in result.keys if table.thing == "key"][:1]:
        out[f"{name}/pick_up"] = table.pick_up.rate
        out[f"{name}/pick_up_chance"] = _chance_of_key(result)
        if (towards := table.towards_key) is not None:
            out[f"{name}/towards_key"] = towards.share_by_walk
            out[f"{name}/towards_key_pooled"] = towards.share
            out[f"{name}/towards_key_chance"] = towards.chance_of_kind
    for paths in [paths for paths in result.two_paths if paths.thing == "key"][:1]:
        out[f"{name}/success_without_key"] = paths.without_key.success
    for frame in result.frames.frames if result.frames is not None else ():
        where = f"{name}/{frame.transform}"
        for test in frame.comparisons:
            if test.metric == "accuracy":
                out[f"{where}/difference"] = test.difference
                out[f"{where}/p"] = Estimate(test.test.p_value, None, 0, 0)
                out[f"{where}/p_equivalence"] = Estimate(test.equivalence_corrected, None, 0, 0)
    return out


def _chance_of_key(result: Navigation) -> Estimate:
    """How often an agent that takes the shortest ways passes the key: exact in each world."""
    size = result.plan.what["sizes"][0]
    walker: Any = named("optimal").in_grids()
    with_key = [walk for walk in result.seen.trajectories if walk.world.key is not None]
    walks = {walk.seed: walk for walk in with_key if walk.size == size}.values()
    plans = [plan(walk.world) for walk in walks]
    chances = [
        exact(walker.policy(shortest), shortest, cap=walk.cap).key
        for walk, shortest in zip(walks, plans, strict=True)
    ]
    return estimate(np.round(chances, 12), bounds=(0.0, 1.0))


def every_cell(
    agent: str, grids: int = GRIDS, seed: int = 0, sizes: Sequence[int] = SIZES
) -> Estimates:
    """Estimate accuracy over every open cell of the mazes; nothing for an agent with memory."""
    out = {}
    for kind, shares in every_cell_shares(agent, grids, seed, sizes).items():
        accuracy = estimate(shares, bounds=(0.0, 1.0))
        if kind[1] == 0 and agent == COMPASS:
            # Not by luck: in a room without walls every step nearer is a step of a shortest way.
            accuracy = replace(accuracy, interval=(1.0, 1.0))
        out[KINDS[kind]] = accuracy
    return out


def every_cell_shares(
    agent: str, grids: int, seed: int, sizes: Sequence[int]
) -> dict[tuple[int, float], list[float]]:
    """Return accuracy over every open cell of each grid, by kind of grids: lists of [grids]."""
    walker: Any = named(agent).in_grids()
    if not hasattr(walker, "policy"):  # it has a memory
        return {}
    out: dict[tuple[int, float], list[float]] = {kind: [] for kind in KINDS if kind[0] in sizes}
    mazes = suite("maze", paper=True, sizes=sizes, grids=grids, trajectories=1, seed=seed)
    for task in mazes.tasks:
        assert task.complexity is not None  # it is a maze
        shortest = plan(task.world)
        accuracy = exact(walker.policy(shortest), shortest, cap=1).accuracy
        # Shares that differ in their last digits only count as equal.
        out[task.size, task.complexity or 0.0].append(float(np.round(accuracy, 12)))
    return out


def recompute(ids: Sequence[str]) -> dict[str, float]:
    """Return the values of ledger rows lm-navigation/AGENT/QUANTITY, shares in percent."""
    # One size at a time is enough of the exact protocol.
    by_size = cache(lambda agent, size: plain(every_cell(agent, sizes=[int(size)])))
    by_suite, out = cache(in_suite), {}
    for row in ids:
        agent, _, quantity = row.removeprefix(LEDGER_PREFIX).partition("/")
        name, size, *_ = (*quantity.split("/"), "")
        part = by_size(agent, size) if name == EVERY_CELL else by_suite(agent, name)
        # Shares are in percent in the ledger, p-values are not.
        scale = 1.0 if quantity.endswith("/p") else 100.0
        out[row] = scale * float(part[quantity]["value"])
    return out


def published() -> dict[str, ledger.Number]:
    """Return the published numbers, by quantity; those with a standard error of their own first."""
    # A quantity has a row for each agent of ours that it stands beside; the first one is kept.
    out: dict[str, ledger.Number] = {}
    for row in sorted(ledger.load(LEDGER_PREFIX), key=lambda row: row.relation != "estimate"):
        _, _, quantity = row.id.removeprefix(LEDGER_PREFIX).partition("/")
        out.setdefault(quantity, row)
    out["key-no-door/towards_key"] = out["key-no-door/towards_key_chance"]
    return out


def beside(number: ledger.Number, ours: Estimate) -> ledger.Number:
    """Return a published share, with the ledger's interval, beside what ours has, in percent."""
    ends = ours.interval
    interval = None if ends is None else (100 * ends[0], 100 * ends[1])
    of: dict[str, Any] = {"ours": 100 * ours.value, "interval": interval, "seeds": ours.clusters}
    return replace(number, relation="reference", **of)


def beside_the_compass(references: Agents, quantities: Iterable[str]) -> list[ledger.Number]:
    """Return the published shares beside those of the compass."""
    theirs = published()
    return [beside(theirs[name], references[COMPASS][name]) for name in quantities]


def counted(rows: Iterable[ledger.Number]) -> str:
    """Return how many verdicts there are of each kind: "above it in 2, below it in 1, ..."."""
    return say.line("counted", n=Counter(r.counted.removesuffix(" the reference") for r in rows))


def difference_points(row: ledger.Number) -> str:
    """Return the published share less ours, points, with its interval."""
    return _with_interval(row.theirs - row.ours, row.difference_interval(row.theirs))


def _with_interval(value: float, interval: Interval | None) -> str:
    ends = f" [{', '.join(plus(end, 1) for end in interval)}]" if interval else ""
    return plus(value, 1) + ends


def _findings(references: Agents) -> list[str]:
    from scipy.stats import binomtest

    theirs, chance, towards = published(), "key-no-door/pick_up_chance", "key-no-door/towards_key"
    number = beside(theirs[chance], references["optimal"][chance])
    judged = say.declared("pick_up_verdicts").get(number.verdict, number.verdict)
    pick_up = {"number": number, "difference": difference_points(number), "verdict": judged}
    erring = ", ".join(
        say.line("erring", name=name, share=100 * references[name][f"{towards}_chance"].value)
        for name in ("epsilon-optimal", "random", "greedy")
        if name in references
    )
    taken = theirs["two-path/pick_up"]
    p = binomtest(_count(taken), taken.published_seeds).pvalue
    return [
        _compass(references),
        say.line("pick_up", **pick_up),
        say.line("towards", number=theirs[towards], chance=erring),
        say.line("two_paths", number=taken, taken=_count(taken), p=p),
        _successes(theirs["two-path/success"], theirs["two-path/success_without_key"]),
        _same_frames(references[COMPASS]),
    ]


def _compass(references: Agents) -> str:
    parts = []
    for sizes in ((7, 9), (11,), (13, 15)):
        keys = [key for (size, _), key in KINDS.items() if size in sizes]
        name = f"size{'s' * (len(sizes) > 1)} {' and '.join(map(str, sizes))}"
        verdicts = counted(beside_the_compass(references, keys))
        parts.append(say.line("compass_part", name=name, verdicts=verdicts, kinds=len(keys)))
    return say.line("compass", parts="; ".join(parts))


def _count(number: ledger.Number) -> int:
    """The count behind a share: not published, but shares are rounded, and one count fits."""
    return round(number.published_value / 100 * number.published_seeds)


def _successes(with_key: ledger.Number, without: ledger.Number) -> str:
    shares, intervals = [], []
    for number in (with_key, without):
        low, high = share_interval(_count(number), number.published_seeds)
        shares.append(100 * _count(number) / number.published_seeds)
        intervals.append((100 * low, 100 * high))
    between = difference(shares[0], intervals[0], shares[1], intervals[1])
    margin = with_key.margin
    within, unit = (0.0, "") if margin is None else (margin.within, margin.unit)
    apart = _with_interval(shares[0] - shares[1], between)
    judged = words(verdict(between, within), within, unit)
    both = {"with_key": with_key, "without": without}
    return say.line("successes", **both, difference=apart, verdict=judged)


def _same_frames(compass: Estimates) -> str:
    ps = [compass[f"isometries/{frame}/p"].value for frame in FRAMES]
    same = sum(compass[f"isometries/{f}/p_equivalence"].value < 0.05 for f in FRAMES)
    # NaN: nothing differs between the frames, and Wilcoxon's test cannot be made.
    known = [p for p in ps if not math.isnan(p)]
    tested = f"its smallest p-value is {min(known):.3f}" if known else "it cannot be made"
    end = ": being robust to frames does not take a plan." if same else "."
    return say.line("same_frames", tested=tested, same=same, frames=len(FRAMES), end=end)


def _headline_table(worlds: Sequence[str], references: Agents, runs: Agents) -> Table:
    theirs, headlines = published(), say.declared("headlines")
    titles = {q: f"{world} | {title}" for world in worlds for q, title in headlines[world].items()}
    rows: list[tuple[str, Mapping[str, Any]]] = [
        ("GPT-OSS-20B, published", {name: f"{theirs[name].published}%" for name in titles}),
        ("by chance", {name: _chance(references, name) for name in titles}),
        *{**references, **runs}.items(),
    ]
    # The row stands there empty, so that a reader sees what was not measured.
    if not runs:
        rows.insert(1, (MODEL_ROW, dict.fromkeys(titles, NOT_RUN)))
    more = [(title, f"1.{name}", "percent") for name, title in titles.items()]
    share = percent(references["optimal"]["key-door/success"].value)
    name = "headline_numbers_worlds"
    return say.table(name, rows, more=more, worlds=" and ".join(worlds), share=share)


def _chance(references: Agents, quantity: str) -> str | None:
    chance = f"{quantity}_chance"
    if quantity.endswith("towards_key"):
        # The compass stands in where one of the agents that err at random was not walked.
        erring = [a for a in ("epsilon-optimal", "random", "greedy") if a in references][:2]
        return ", ".join(
            say.line("rounded", share=100 * references[a][chance].value) for a in erring
        )
    known = references["optimal"].get(chance)
    return None if known is None else percent(known.value, 2)


def _every_cell_table(references: Agents) -> Table:
    shown = ("greedy", "random", "epsilon-optimal")
    agents = [n for n in references if n in shown and KINDS[SIZES[0], 0.0] in references[n]]
    compared = beside_the_compass(references, KINDS.values())
    rows = [
        {
            "kind": f"{size}, {complexity:g}",
            "row": row,
            "published": f"{row.published}%",
            "difference": difference_points(row),
            "ours": {name: references[name][key] for name in agents},
        }
        for ((size, complexity), key), row in zip(KINDS.items(), compared, strict=True)
    ]
    clusters = references["greedy"][KINDS[SIZES[-1], COMPLEXITIES[-1]]].clusters
    return say.table("optimal_actions_in_every_open_cell", rows, clusters=clusters)


def _walks_table(references: Agents, runs: Agents) -> Table:
    rows: list[tuple[str, Mapping[str, Any]]] = [
        (name, of) for name, of in {**references, **runs}.items() if "maze/accuracy" in of
    ]
    if not any("maze/accuracy" in values for values in runs.values()):
        rows.append((MODEL_ROW, say.declared("walks_of_the_model")))
    return say.table("mazes_all_sizes_and_complexities", rows)


def _frames_table(references: Agents, runs: Agents) -> Table:
    theirs, rows = published(), []
    for agent, values in {**references, **runs}.items():
        for frame, title in FRAMES.items():
            where = f"isometries/{frame}"
            if f"{where}/p" in values:
                of = {q: values[f"{where}/{q}"] for q in ("p", "difference", "p_equivalence")}
                ends = of["difference"].interval
                judged = verdict(ends and (100 * ends[0], 100 * ends[1]), _FRAME_MARGIN)
                row = {"agent": agent, "frame": title, "theirs": theirs.get(f"{where}/p")}
                rows.append(row | of | {"verdict": words(judged, _FRAME_MARGIN, "points")})
    return say.table("changed_frames", rows, frame_margin=_FRAME_MARGIN)


def _pilot_table(references: Agents, runs: Agents) -> Table:
    theirs = published()
    # An agent without fault has 100% of both, so those that err are shown.
    erring = {name: references[name] for name in ("greedy", "random") if name in references}
    agents = {n: of for n, of in {**erring, **runs}.items() if "maze/7/0/success" in of}
    rows = []
    for complexity in COMPLEXITIES:
        keys = [f"maze/7/{complexity:g}/{quantity}" for quantity in ("success", "accuracy")]
        row = {
            "complexity": f"{complexity:g}",
            "theirs": [f"{theirs[key].published}%" for key in keys],
            "ours": {name: [of.get(key) for key in keys] for name, of in agents.items()},
            "compared": beside_the_compass(references, keys),
        }
        rows.append(row)
    return say.table("pilot_table", rows, pilot_size=7)


def _sections(references: Agents, runs: Agents) -> list[Section]:
    # Whoever has a server can add the rows that are missing.
    missing = say.line("not_run", commands="; ".join(COMMANDS))
    walks = _walks_table(references, runs), _pilot_table(references, runs)
    cells = "asked_in_every_open_cell_by_size_and_com"
    return [
        say.section(
            "the_paper_s_headline_numbers_beside_chan",
            _headline_table(("KeyDoor", "KeyNoDoor"), references, runs),
            _headline_table(("2PathKey",), references, runs),
            None if runs else missing,
        ),
        say.section(cells, _every_cell_table(references), _surfaces(references)),
        say.section("walks_through_mazes", walks),
        say.section("the_same_grids_in_other_frames", _frames_table(references, runs)),
    ]


def _surfaces(references: Agents) -> Figure | None:
    compared = beside_the_compass(references, KINDS.values())
    cells: list[tuple[str, str, str, float]] = []
    for ((size, complexity), key), row in zip(KINDS.items(), compared, strict=True):
        model, greedy = row.published_value / 100, references[COMPASS][key].value
        values = model, greedy, model - greedy
        for title, value in zip(say.declared("surface_titles")["list"], values, strict=True):
            cells.append((title, f"size {size}", f"complexity {complexity:g}", value))
    places = {
        "rows": [f"size {size}" for size in SIZES],
        "columns": [f"complexity {c:g}" for c in COMPLEXITIES],
    }
    shown = {"size": len(compared), "verdicts": counted(compared)}
    return say.heat("surfaces", "lm-navigation-surfaces", cells, (), places, **shown)


OPTIONS = ("agents", "run")


def replicate(out: Path, options: StudyOptions) -> Outcome:
    """Walk reference agents, optimal and greedy among them, through every suite.

    Seeds are grids of each size and complexity, 10 by default, as in the paper; there are ten times
    as many worlds with a key. `run` are navigation runs to put beside the published numbers.
    """
    names, grids = _chosen(options)
    require_report_extra()
    # Before the long part, since folders may be mistyped.
    runs = _runs(options)
    references = of_agents(names, options, grids=grids)
    findings = _findings(references)
    result = {
        "replication": "lm-navigation",
        "findings": findings,
        "published": [
            {"quantity": quantity, "printed": row.published, "agent": LANGUAGE_MODEL}
            | {"source": row.source}
            for quantity, row in published().items()
        ],
        "verdicts": list(_verdicts(references)),
        "agents": plain({**references, **runs}),
        "not_run": [] if runs else COMMANDS,
    }
    sections = _sections(references, runs)
    return say.report(out, options, sections, result, findings, navigation_page.GLOSSARY)


def planned(options: StudyOptions) -> dict[str, int]:
    """Return how much `replicate` with these options will do."""
    names, grids = _chosen(options)
    walks = len(names) * sum(len(suite(n, **_paper(n, grids, None, options.seed))) for n in SUITES)
    return {"parts (an agent in a suite)": len(names) * (len(SUITES) + 1), "walks": walks}


def _chosen(options: StudyOptions) -> tuple[tuple[str, ...], int]:
    grids = options.count(GRIDS, least=2)
    names = options.agents
    spelled = AGENTS if names is None else [n.strip() for n in names.split(",")]
    out = tuple(dict.fromkeys(named(name).in_grids().name for name in spelled))
    if missing := [name for name in ("optimal", "greedy") if name not in out]:
        raise say.refusal("agents", names=names, missing=" and ".join(missing))
    return out, grids


def _runs(options: StudyOptions) -> dict[str, Estimates]:
    out: dict[str, Estimates] = {}
    for folder in options.run:
        if options.progress is not None:
            options.progress(f"reading {folder}")
        agent, values = of_run(folder)
        known = out.setdefault(f"{agent} (run)", {})
        # Two runs of one suite would make one row of two sets of grids.
        if twice := known.keys() & values.keys():
            suite = sorted(twice)[0].partition("/")[0]
            raise say.refusal("twice", folder=folder, agent=agent, suite=suite)
        known |= values
    return out


def _verdicts(references: Agents) -> Iterator[dict[str, Any]]:
    """The published model beside each reference agent that the ledger names for a number."""
    for row in ledger.load(LEDGER_PREFIX):
        agent, _, quantity = row.id.removeprefix(LEDGER_PREFIX).partition("/")
        ours = references.get(agent, {}).get(quantity)
        if row.relation in ("reference", "same mazes") and ours is not None:
            compared = beside(row, ours)
            yield {
                "quantity": quantity,
                "reference": agent,
                "difference": compared.theirs - compared.ours,
                "interval": compared.difference_interval(compared.theirs),
                "margin": None if row.margin is None else row.margin.within,
                "verdict": compared.verdict,
            }


def ledger_values(row: ledger.Number, results: Mapping[str, Any]) -> dict[str, str] | None:
    """Return what these results say of a row of the ledger; None where they say nothing."""
    agent, _, quantity = row.id.removeprefix(LEDGER_PREFIX).partition("/")
    shares = ledger.in_percent(results["agents"].get(agent, {}).get(quantity))
    if row.relation != "reference" or shares is None:
        return None
    return shares
