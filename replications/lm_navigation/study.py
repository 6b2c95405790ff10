"""`goalmeter replicate lm-navigation`: the paper's numbers next to those of baseline agents."""

from __future__ import annotations

if __name__ == "__main__":
    from goalmeter.__main__ import main

    main("replicate", "lm-navigation")

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from goalmeter import InvalidParameterError
from goalmeter.agents import agent as named
from goalmeter.commands.outcome import Outcome
from goalmeter.commands.replicate import StudyOptions
from goalmeter.navigation import SUITES
from goalmeter.pages import navigation as navigation_page
from goalmeter.report import (
    Figure,
    Panel,
    Section,
    Table,
    heat_map,
    number,
    percent,
    require_report_extra,
)
from goalmeter.statistics import Estimate, verdict, words
from replications import ledger
from replications.ledger import Number
from replications.lm_navigation import measurements
from replications.lm_navigation.measurements import (
    COMPASS,
    COMPLEXITIES,
    FRAMES,
    KINDS,
    LEDGER_PREFIX,
    SIZES,
    Agents,
    Estimates,
    beside_the_compass,
    published,
    say,
)
from replications.prose import plain

LANGUAGE_MODEL = "gpt-oss-20b"
NOT_RUN, MODEL_ROW = "not run", "GPT-OSS-20B, ours"
_FRAME_MARGIN = 5.0  # points
_NONE = Estimate(float("nan"), None, 0, 0)


# --- Tables ---------------------------------------------------------------------------------------
def _headline_table(worlds: Sequence[str], references: Agents, runs: Agents) -> Table:
    """Tabulate the published headlines, their chance levels, and every agent."""
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
    share = percent(references["optimal"].get("key-door/success", _NONE).value)
    name = "headline_numbers_worlds"
    return say.table(name, rows, more=more, worlds=" and ".join(worlds), share=share)


def _chance(references: Agents, quantity: str) -> str | None:
    """What chance gives; None where that is no question."""
    chance = f"{quantity}_chance"
    if quantity.endswith("towards_key"):
        # The compass stands in where one of the agents that err at random was not walked.
        erring = [a for a in ("epsilon-optimal", "random", "greedy") if a in references][:2]
        return ", ".join(f"{number(100 * references[a][chance].value, 0)}%" for a in erring)
    known = references["optimal"].get(chance)
    return None if known is None else percent(known.value, 2)


def _every_cell_table(references: Agents) -> Table:
    """Tabulate the published table, and the same protocol for agents without memory."""
    first = next(iter(KINDS.values()))
    shown = ("greedy", "random", "epsilon-optimal")
    agents = {n: of for n, of in references.items() if first in of and n in shown}
    rows = [
        {
            "kind": f"{size}, {complexity:g}",
            "row": row,
            "published": f"{row.published}%",
            "difference": measurements.difference_points(row),
            "ours": {name: values[key] for name, values in agents.items()},
        }
        for ((size, complexity), key), row in zip(
            KINDS.items(), beside_the_compass(references, KINDS.values()), strict=True
        )
    ]
    more = [
        *((f"ours, exactly | {name}", f"ours.{name}", "percent") for name in agents),
        ("model less greedy | difference, points", "difference", "text"),
        ("model less greedy | verdict", "row.verdict", "words"),
    ]
    clusters = references["greedy"][KINDS[SIZES[-1], COMPLEXITIES[-1]]].clusters
    return say.table("optimal_actions_in_every_open_cell", rows, more=more, clusters=clusters)


def _walks_table(references: Agents, runs: Agents) -> Table:
    """Tabulate mazes walked through at the paper's scale."""
    shown = ("accuracy_detour", "accuracy", "success", "spl")
    rows: list[Any] = [
        (name, *(values[f"maze/{q}"] for q in shown), values["maze/invalid"].value)
        for name, values in {**references, **runs}.items()
        if "maze/accuracy" in values
    ]
    if not any("maze/accuracy" in values for values in runs.values()):
        rows.append((MODEL_ROW, *(NOT_RUN,) * 5))
    return say.table("mazes_all_sizes_and_complexities", rows)


def _frames_table(references: Agents, runs: Agents) -> Table:
    """Tabulate the published p-values and ours, each beside an equivalence test."""
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
    """Tabulate walks through mazes of size 7 by complexity, as the pilot has them."""
    theirs = published()
    # An agent without fault has 100% of both, so those that err are shown.
    erring = {name: references[name] for name in ("greedy", "random") if name in references}
    agents = {n: of for n, of in {**erring, **runs}.items() if "maze/7/0/success" in of}
    rows = []
    for complexity in COMPLEXITIES:
        keys = [f"maze/7/{complexity:g}/{quantity}" for quantity in ("success", "accuracy")]
        cells = [
            *(f"{theirs[key].published}%" for key in keys),
            *(percent(of[key]) if key in of else None for of in agents.values() for key in keys),
            *(compared.verdict for compared in beside_the_compass(references, keys)),
        ]
        rows.append((f"{complexity:g}", *cells))
    groups = ("GPT-OSS-20B, pilot", *agents, "the model beside greedy")
    columns = [
        (f"{group} | {title}", f"{2 * i + j}", "words" if group == groups[-1] else "text")
        for i, group in enumerate(groups)
        for j, title in enumerate(("goal reached", "optimal actions"), 1)
    ]
    return say.table("pilot_table", rows, more=columns, pilot_size=7)


# --- Page -----------------------------------------------------------------------------------------
def _sections(references: Agents, runs: Agents) -> list[Section]:
    # Whoever has a server can add the rows that are missing.
    missing = say.line("not_run", commands="; ".join(_language_model_commands()))
    walks = _walks_table(references, runs), _pilot_table(references, runs)
    cells = "asked_in_every_open_cell_by_size_and_com"
    return [
        say.section(
            "the_paper_s_headline_numbers_beside_chan",
            _headline_table(("KeyDoor", "KeyNoDoor"), references, runs),
            _headline_table(("2PathKey",), references, runs),
            points=() if runs else (missing,),
        ),
        say.section(cells, _every_cell_table(references), _surfaces(references)),
        say.section("walks_through_mazes", walks),
        say.section("the_same_grids_in_other_frames", _frames_table(references, runs)),
    ]


def _surfaces(references: Agents) -> Figure:
    """Plot accuracy of the model, of the compass, and the difference."""
    rows = beside_the_compass(references, KINDS.values())
    model, greedy = (
        np.array(values).reshape(len(SIZES), len(COMPLEXITIES))
        for values in (
            [row.published_value / 100 for row in rows],
            [references[COMPASS][key].value for key in KINDS.values()],
        )
    )
    svg = heat_map(
        "lm-navigation-surfaces",
        [
            Panel(title="GPT-OSS-20B, published", values=model),
            Panel(title="compass (greedy), ours", values=greedy),
            Panel(title="model less compass", values=model - greedy),
        ],
        rows=[f"size {size}" for size in SIZES],
        columns=[f"complexity {complexity:g}" for complexity in COMPLEXITIES],
        label="share of optimal actions, and its difference",
        scale=(-1.0, 1.0),
    )
    return say.figure("surfaces", svg, size=model.size, verdicts=measurements.counted(rows))


def _language_model_commands() -> list[str]:
    """What to type for the rows of a language model, where one can be asked."""
    navigate = [
        f"goalmeter navigate vllm/openai/{LANGUAGE_MODEL} --suite {name} --paper --out runs/{name}"
        for name in SUITES
    ]
    beside = " ".join(f"--run runs/{name}" for name in SUITES)
    return [*navigate, f"goalmeter replicate lm-navigation {beside}"]


# --- Replicate ------------------------------------------------------------------------------------
OPTIONS = ("agents", "run")


def replicate(out: Path, options: StudyOptions) -> Outcome:
    """Walk reference agents through every suite, and write report.html, results.json, figures.

    Seeds are grids of each size and complexity, 10 by default, as in the paper; there are ten times
    as many worlds with a key. `agents` are names, optimal and greedy among them; `run` are folders
    of navigation runs to put beside the published numbers.
    """
    names, grids = _chosen(options)
    require_report_extra()
    # Before the long part, since folders may be mistyped.
    runs = _runs(options)
    references = measurements.of_agents(
        names, grids=grids, seed=options.seed, on=options.on, progress=options.progress
    )
    findings = measurements.findings(references)
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
        "not_run": [] if runs else _language_model_commands(),
    }
    sections = _sections(references, runs)
    return say.report(out, options, sections, result, findings, navigation_page.GLOSSARY)


def planned(options: StudyOptions) -> dict[str, int]:
    """Return how much `replicate` with these options will do."""
    names, grids = _chosen(options)
    walks = measurements.walks(names, grids, options.seed)
    return {"parts (an agent in a suite)": len(names) * (len(SUITES) + 1), "walks": walks}


def _chosen(options: StudyOptions) -> tuple[tuple[str, ...], int]:
    """The names of the agents, all reference agents by default, and the number of grids."""
    grids = options.count(measurements.GRIDS, least=2)
    names = options.agents
    spelled = measurements.AGENTS if names is None else [n.strip() for n in names.split(",")]
    out = tuple(dict.fromkeys(named(name).in_grids().name for name in spelled))
    if missing := [name for name in ("optimal", "greedy") if name not in out]:
        raise InvalidParameterError(
            f"agents is {names!r}, expected {' and '.join(missing)} among them: the published "
            f"numbers are compared with optimal and greedy"
        )
    return out, grids


def _runs(options: StudyOptions) -> dict[str, Estimates]:
    """The numbers of every agent that has a run."""
    out: dict[str, Estimates] = {}
    for folder in options.run:
        if options.progress is not None:
            options.progress(f"reading {folder}")
        agent, values = measurements.of_run(folder)
        known = out.setdefault(f"{agent} (run)", {})
        # Two runs of one suite would make one row of two sets of grids.
        if twice := known.keys() & values.keys():
            suite = sorted(twice)[0].partition("/")[0]
            raise InvalidParameterError(
                f"{folder} is another run of {agent} in {suite!r}; give one for each suite"
            )
        known |= values
    return out


def _verdicts(references: Agents) -> Iterator[dict[str, Any]]:
    """The published model beside each reference agent that the ledger names for a number."""
    for row in ledger.load(LEDGER_PREFIX):
        agent, _, quantity = row.id.removeprefix(LEDGER_PREFIX).partition("/")
        ours = references.get(agent, {}).get(quantity)
        if row.relation == "reference" and ours is not None:
            compared = measurements.beside(row, ours)
            yield {
                "quantity": quantity,
                "reference": agent,
                "difference": compared.theirs - compared.ours,
                "interval": compared.difference_interval(compared.theirs),
                "margin": None if row.margin is None else row.margin.within,
                "verdict": compared.verdict,
            }


def ledger_values(row: Number, results: Mapping[str, Any]) -> dict[str, str] | None:
    """Return what these results say of a row of the ledger; None where they say nothing."""
    agent, _, quantity = row.id.removeprefix(LEDGER_PREFIX).partition("/")
    shares = ledger.in_percent(results["agents"].get(agent, {}).get(quantity))
    if row.relation != "reference" or shares is None:
        return None
    if agent == COMPASS and quantity.startswith("maze/") and quantity.split("/")[2] == "0":
        # In a room without walls the compass takes shortest paths; ten rooms do not show that.
        return shares | {"interval": "[100.00, 100.00]"}
    return shares
