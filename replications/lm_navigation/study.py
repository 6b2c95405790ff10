"""`goalmeter replicate lm-navigation`: the paper's numbers next to those of baseline agents."""

from __future__ import annotations

if __name__ == "__main__":
    from goalmeter.__main__ import main

    main("replicate", "lm-navigation")

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from goalmeter import InvalidParameterError
from goalmeter.commands.outcome import Outcome, write_outcome
from goalmeter.commands.replicate import StudyOptions
from goalmeter.navigation import SUITES
from goalmeter.navigation.frames import MARGIN
from goalmeter.navigation.suites import PAPER_COMPLEXITIES, PAPER_SIZES
from goalmeter.pages.navigation import GLOSSARY
from goalmeter.report import (
    Column,
    ColumnOf,
    Figure,
    Section,
    Table,
    column,
    grouped,
    number,
    p_value,
    percent,
    require_report_extra,
    table_of,
    words,
)
from goalmeter.report.charts import Panel, heat_map
from goalmeter.report.numbers import DASH, points
from goalmeter.statistics import Estimate, verdict
from goalmeter.statistics.verdicts import words as words_of
from replications import ledger
from replications.kinds import ProgressCallback
from replications.ledger import Number
from replications.lm_navigation import measurements
from replications.lm_navigation.measurements import (
    COMPASS,
    EVERY_CELL,
    FRAMES,
    LANGUAGE_MODEL,
    LEDGER_PREFIX,
    Agents,
    Estimates,
    beside,
    beside_the_compass,
    counted,
    difference_points,
    published,
)
from replications.lm_navigation.measurements import findings as findings_of
from replications.prose import prose

say = partial(prose, "lm_navigation")

# --- Tables ---------------------------------------------------------------------------------------
# What the paper states first, by kind of world: quantity -> in words.
HEADLINES = {
    "KeyDoor": {"key-door/success": "goal reached", "key-door/accuracy": "optimal actions"},
    "KeyNoDoor": {
        "key-no-door/success": "goal reached",
        "key-no-door/pick_up": "key taken",
        "key-no-door/towards_key": "wrong moves towards the key",
    },
    "2PathKey": {
        "two-path/pick_up": "key taken",
        "two-path/success": "goal reached with it",
        "two-path/success_without_key": "and without it",
    },
}
NOT_RUN = "not run"
_FRAME_MARGIN = 100 * MARGIN  # points

_WALKED = ("accuracy_detour", "accuracy", "success", "spl")
_PILOT_SIZE = 7
_NONE = Estimate(float("nan"), None, 0, 0)


def headline_tables(references: Agents, runs: Agents) -> tuple[Table, ...]:
    """The published headlines, their chance levels, and every agent."""
    return tuple(
        _headlines(worlds, references, runs) for worlds in (("KeyDoor", "KeyNoDoor"), ("2PathKey",))
    )


def _headlines(worlds: Sequence[str], references: Agents, runs: Agents) -> Table:
    theirs = published()
    quantities = {name: text for world in worlds for name, text in HEADLINES[world].items()}
    rows = [
        ("GPT-OSS-20B, published", *(f"{theirs[name].published}%" for name in quantities)),
        ("by chance", *(_chance(references, name) for name in quantities)),
        *(
            (agent, *(percent(values[name]) if name in values else DASH for name in quantities))
            for agent, values in {**references, **runs}.items()
        ),
    ]
    # The row stands there empty, so that a reader sees what was not measured.
    if not runs:
        rows.insert(1, ("GPT-OSS-20B, ours", *(NOT_RUN,) * len(quantities)))
    return Table(
        **say(
            "headline_numbers_worlds",
            worlds=" and ".join(worlds),
            share=percent(references["optimal"].get("key-door/success", _NONE).value),
        ),
        columns=(
            Column("agent", numeric=False),
            *(Column(text, group=w) for w in worlds for text in HEADLINES[w].values()),
        ),
        rows=tuple(rows),
    )


def every_cell_table(references: Agents) -> Table:
    """The published table, and the same protocol for agents without memory."""
    theirs = published()
    shown = [
        name
        for name, values in references.items()
        if f"{EVERY_CELL}/7/0" in values and name in ("greedy", "random", "epsilon-optimal")
    ]
    kinds = [(size, complexity) for size in PAPER_SIZES for complexity in PAPER_COMPLEXITIES]
    keys = {kind: f"{EVERY_CELL}/{kind[0]}/{kind[1]:g}" for kind in kinds}
    beside = dict(zip(kinds, beside_the_compass(references, keys.values()), strict=True))

    def agent(name: str) -> ColumnOf[tuple[int, float]]:
        return column(name, lambda kind: references[name][keys[kind]], percent)

    return table_of(
        kinds,
        (
            words("size, complexity", lambda kind: f"{kind[0]}, {kind[1]:g}"),
            *grouped(
                "published", column("GPT-OSS-20B", lambda kind: f"{theirs[keys[kind]].published}%")
            ),
            *grouped("ours, exactly", *map(agent, shown)),
            *grouped(
                "model less greedy",
                column("difference, points", lambda kind: beside[kind], difference_points),
                words("verdict", lambda kind: beside[kind].verdict),
            ),
        ),
        **say(
            "optimal_actions_in_every_open_cell",
            clusters=references["greedy"][keys[kinds[-1]]].clusters,
        ),
    )


def walks_table(references: Agents, runs: Agents) -> Table:
    """Mazes walked through at the paper's scale."""
    rows = [
        (
            name,
            *(percent(values[f"maze/{quantity}"]) for quantity in _WALKED),
            percent(values["maze/invalid"].value),
        )
        for name, values in {**references, **runs}.items()
        if "maze/accuracy" in values
    ]
    if not any("maze/accuracy" in values for values in runs.values()):
        rows.append(("GPT-OSS-20B, ours", *(NOT_RUN,) * 5))
    return Table(
        **say("mazes_all_sizes_and_complexities"),
        columns=(
            Column("agent", numeric=False),
            Column("in detour states", group="optimal actions"),
            Column("everywhere", group="optimal actions"),
            "goal reached",
            "SPL",
            "invalid answers",
        ),
        rows=tuple(rows),
    )


def frames_table(references: Agents, runs: Agents) -> Table:
    """The published p-values and ours, each beside an equivalence test."""
    theirs = published()
    rows = [
        (agent, frame, values)
        for agent, values in {**references, **runs}.items()
        for frame in FRAMES
        if f"isometries/{frame}/p" in values
    ]

    def value(row: tuple[str, str, Estimates], quantity: str) -> Estimate:
        return row[2][f"isometries/{row[1]}/{quantity}"]

    return table_of(
        rows,
        (
            words("agent", lambda row: row[0]),
            words("frame", lambda row: FRAMES[row[1]]),
            *grouped(
                "Wilcoxon p",
                column("GPT-OSS-20B", lambda row: _printed(theirs, f"isometries/{row[1]}/p")),
                column("this agent", lambda row: p_value(value(row, "p").value)),
            ),
            column("difference in accuracy, points", lambda row: points(value(row, "difference"))),
            column(
                f"p of equivalence, ±{_FRAME_MARGIN:g} points",
                lambda row: p_value(value(row, "p_equivalence").value),
            ),
            words("verdict", lambda row: _frame_verdict(value(row, "difference"))),
        ),
        **say("changed_frames", frame_margin=_FRAME_MARGIN),
    )


def _frame_verdict(difference: Estimate) -> str:
    interval = difference.interval
    scaled = None if interval is None else (100 * interval[0], 100 * interval[1])
    return words_of(verdict(scaled, _FRAME_MARGIN), _FRAME_MARGIN, "points")


def _printed(theirs: dict[str, Number], name: str) -> str | None:
    return theirs[name].published if name in theirs else None


def pilot_table(references: Agents, runs: Agents) -> Table:
    """Walks through mazes of size 7 by complexity, as the pilot has them."""
    theirs = published()
    # An agent without fault has 100% of both, so those that err are shown.
    erring = {name: references[name] for name in ("greedy", "random") if name in references}
    first = f"maze/{_PILOT_SIZE}/0/success"
    agents = {name: values for name, values in {**erring, **runs}.items() if first in values}
    quantities = {"success": "goal reached", "accuracy": "optimal actions"}
    rows = []
    for complexity in PAPER_COMPLEXITIES:
        keys = [f"maze/{_PILOT_SIZE}/{complexity:g}/{quantity}" for quantity in quantities]
        rows.append(
            (
                f"{complexity:g}",
                *(f"{theirs[key].published}%" for key in keys),
                *(
                    percent(values[key]) if key in values else DASH
                    for values in agents.values()
                    for key in keys
                ),
                *(number.verdict for number in beside_the_compass(references, keys)),
            )
        )
    groups = ("GPT-OSS-20B, pilot", *agents, "the model beside greedy")
    return Table(
        **say("pilot_table", pilot_size=_PILOT_SIZE),
        columns=(
            Column("complexity", numeric=False),
            *(
                Column(title, numeric=group != groups[-1], group=group)
                for group in groups
                for title in quantities.values()
            ),
        ),
        rows=tuple(rows),
    )


def _chance(references: Agents, quantity: str) -> str:
    """What chance gives, "–" where that is no question."""
    chance = f"{quantity}_chance"
    if quantity.endswith("towards_key"):
        # The compass stands in where one of the agents that err at random was not walked.
        erring = [a for a in ("epsilon-optimal", "random", "greedy") if a in references][:2]
        return ", ".join(f"{number(100 * references[a][chance].value, 0)}%" for a in erring)
    known = references["optimal"].get(chance)
    return DASH if known is None else percent(known.value, 2)


# --- Page -----------------------------------------------------------------------------------------
def page_sections(references: Agents, runs: Agents) -> list[Section]:
    """Every part of the page."""
    return [
        Section(
            **say("the_paper_s_headline_numbers_beside_chan"),
            tables=headline_tables(references, runs),
            points=commands(runs),
        ),
        Section(
            **say("asked_in_every_open_cell_by_size_and_com"),
            tables=(every_cell_table(references),),
            figures=(surfaces(references),),
        ),
        Section(
            **say("walks_through_mazes"),
            tables=(walks_table(references, runs), pilot_table(references, runs)),
        ),
        Section(
            **say("the_same_grids_in_other_frames"),
            tables=(frames_table(references, runs),),
        ),
    ]


def surfaces(references: Agents) -> Figure:
    """Accuracy of the model, of the compass, and the difference."""
    theirs, shape = published(), (len(PAPER_SIZES), len(PAPER_COMPLEXITIES))
    keys = [f"{EVERY_CELL}/{n}/{c:g}" for n in PAPER_SIZES for c in PAPER_COMPLEXITIES]
    model = np.array([theirs[key].published_value / 100 for key in keys]).reshape(shape)
    greedy = np.array([references["greedy"][key].value for key in keys]).reshape(shape)
    difference = model - greedy
    verdicts = counted(beside_the_compass(references, keys))
    return Figure(
        svg=heat_map(
            "lm-navigation-surfaces",
            [
                Panel(title="GPT-OSS-20B, published", values=model),
                Panel(title="compass (greedy), ours", values=greedy),
                Panel(title="model less compass", values=difference),
            ],
            rows=[f"size {size}" for size in PAPER_SIZES],
            columns=[f"complexity {complexity:g}" for complexity in PAPER_COMPLEXITIES],
            label="share of optimal actions, and its difference",
            limit=1.0,
        ),
        **say("surfaces", size=difference.size, verdicts=verdicts),
        wide=True,
    )


def commands(runs: Agents) -> tuple[str, ...]:
    """How to get the rows of language models."""
    if runs:
        return ()
    # Whoever has a server can add the rows that are missing.
    return (
        "The language model itself was not run. Where one can be asked, as "
        "vllm/openai/gpt-oss-20b on a server of vLLM, its rows are made by: "
        + "; ".join(language_model_commands())
        + ".",
    )


def language_model_commands() -> list[str]:
    """What to type for the rows of a language model, where one can be asked."""
    navigate = [
        f"goalmeter navigate vllm/openai/{LANGUAGE_MODEL} --suite {name} --paper --out runs/{name}"
        for name in SUITES
    ]
    beside = " ".join(f"--run runs/{name}" for name in SUITES)
    return [*navigate, f"goalmeter replicate lm-navigation {beside}"]


# --- Replicate ------------------------------------------------------------------------------------
COMMAND = "goalmeter replicate lm-navigation"


OPTIONS = ("agents", "run")


def replicate(out: Path, options: StudyOptions) -> Outcome:
    """Walk reference agents through every suite, and write report.html, results.json, figures.

    Seeds are grids of each size and complexity, 10 by default, as in the paper; there are ten times
    as many worlds with a key. `agents` are names, optimal and greedy among them; `run` are folders
    of navigation runs to put beside the published numbers.
    """
    names = measurements.checked_agents(options.agents)
    grids = options.count(measurements.GRIDS, least=2)
    require_report_extra()
    measured = _runs(
        options.run, options.progress
    )  # before the long part, since folders may be mistyped
    references = measurements.of_agents(
        names, grids=grids, seed=options.seed, on=options.on, progress=options.progress
    )
    sections = page_sections(references, measured)
    findings = findings_of(references)
    return write_outcome(
        out,
        "Behaviour of a language model in grid worlds, beside reference agents",
        sections,
        _json(references, measured, findings),
        command=options.command("lm-navigation"),
        **say("page"),
        findings=findings,
        glossary=GLOSSARY,
        text="\n".join(findings),
    )


def planned(options: StudyOptions) -> dict[str, int]:
    """How much `replicate` with these options will do."""
    names, grids = (
        measurements.checked_agents(options.agents),
        options.count(measurements.GRIDS, least=2),
    )
    return {
        "parts (an agent in a suite)": len(names) * (len(SUITES) + 1),
        "walks": measurements.walks(names, grids, options.seed),
    }


def _runs(folders: Sequence[str | Path], progress: ProgressCallback | None) -> dict[str, Estimates]:
    """The numbers of every agent that has a run."""
    out: dict[str, Estimates] = {}
    for folder in folders:
        if progress is not None:
            progress(f"reading {folder}")
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


def _verdicts(references: dict[str, Estimates]) -> list[dict[str, Any]]:
    """The published model beside each reference agent that the ledger names for a number."""
    out = []
    for row in ledger.load(measurements.LEDGER_PREFIX):
        agent, _, quantity = row.id.removeprefix(measurements.LEDGER_PREFIX).partition("/")
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
            {"quantity": quantity, "printed": row.published, "agent": measurements.LANGUAGE_MODEL}
            | {"source": row.source}
            for quantity, row in published().items()
        ],
        "verdicts": _verdicts(references),
        "agents": {
            name: {quantity: value.to_json() for quantity, value in values.items()}
            for name, values in {**references, **runs}.items()
        },
        "not_run": [] if runs else language_model_commands(),
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
