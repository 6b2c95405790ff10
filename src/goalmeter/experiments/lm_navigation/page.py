"""The paper's numbers as a report shows them: of a language model, beside reference agents."""

from __future__ import annotations

from collections.abc import Sequence

from goalmeter.experiments.ledger import Number
from goalmeter.experiments.lm_navigation import pictures
from goalmeter.experiments.lm_navigation.beside import (
    Agents,
    beside_the_compass,
    difference_points,
    published,
)
from goalmeter.experiments.lm_navigation.compute import EVERY_CELL, LANGUAGE_MODEL, Values
from goalmeter.experiments.lm_navigation.findings import FRAMES
from goalmeter.experiments.lm_navigation.pilot import pilot_table
from goalmeter.navigation.measures.frames import MARGIN
from goalmeter.navigation.suites.maze import PAPER_COMPLEXITIES, PAPER_SIZES
from goalmeter.navigation.suites.registry import SUITES
from goalmeter.report import Column, Section, Table
from goalmeter.report.numbers import DASH, number, p_value, percent, points
from goalmeter.report.table_of import ColumnOf, column, grouped, table_of, words
from goalmeter.statistics.clustered import Estimate
from goalmeter.statistics.verdicts import verdict
from goalmeter.statistics.verdicts import words as words_of

# What the paper states first, by kind of world: quantity -> in words.
HEADLINES = {
    "KeyDoor": {
        "key-door/success": "goal reached",
        "key-door/accuracy": "optimal actions",
    },
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

_NONE = Estimate(float("nan"), None, 0, 0)


def sections(references: Agents, runs: Agents) -> list[Section]:
    """Every part of the page."""
    return [
        Section(
            title="The paper's headline numbers, beside chance",
            text=(
                "A share says how goal-directed a model is only beside what an agent without any "
                "plan or any wish for keys would have. The published numbers are of GPT-OSS-20B; "
                "ours are of reference agents in worlds of the same kinds, and of any run that is "
                "given.",
            ),
            tables=headline_tables(references, runs),
            points=commands(runs),
        ),
        Section(
            title="Asked in every open cell, by size and complexity",
            text=(
                "The published table is of an older protocol, which puts the model on every open "
                "cell. The same was computed exactly for agents without memory. The compass "
                "(greedy) looks at neighbouring cells only.",
            ),
            tables=(every_cell_table(references),),
            figures=(pictures.surfaces(published(), references),),
        ),
        Section(
            title="Walks through mazes",
            text=(
                "In detour states, where the compass may err, accuracy tells a plan from a "
                "heuristic. The paper has no such number.",
            ),
            tables=(walks_table(references, runs), pilot_table(references, runs)),
        ),
        Section(
            title="The same grids in other frames",
            text=(
                "The paper reads a test that is not significant as robustness. The same test is "
                "not significant for agents that know nothing of frames, either; an equivalence "
                "test can show sameness.",
            ),
            tables=(frames_table(references, runs),),
        ),
    ]


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
    if not runs:
        rows.insert(1, ("GPT-OSS-20B, ours", *(NOT_RUN,) * len(quantities)))
    return Table(
        caption=f"Headline numbers, {' and '.join(worlds)}",
        columns=(
            Column("agent", numeric=False),
            *(Column(text, group=w) for w in worlds for text in HEADLINES[w].values()),
        ),
        rows=tuple(rows),
        meaning="Shares of walks, of actions, or of wrong moves. By chance: the key taken by an "
        "agent that takes the shortest ways and ignores keys, exactly; wrong moves "
        "of epsilon-optimal and random that would lead towards the key anyway.",
        notes=(
            "Published walks with one unreadable answer are left out, so n is 95 for KeyDoor, and "
            "94 and 98 pairs for the others as far as rounding tells. Ours: walks of 30 steps, as "
            "theirs, in which an agent without fault comes to the goal in "
            f"{percent(references['optimal'].get('key-door/success', _NONE).value)} of KeyDoor "
            "worlds.",
        ),
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
            *grouped(
                "ours, exactly",
                *map(agent, shown),
            ),
            *grouped(
                "model less greedy",
                column("difference, points", lambda kind: beside[kind], difference_points),
                words("verdict", lambda kind: beside[kind].verdict),
            ),
        ),
        caption="Optimal actions in every open cell",
        meaning=f"Mean over {references['greedy'][keys[kinds[-1]]].clusters} grids of each kind, "
        "theirs over about 10 others of that kind; in brackets 95% intervals over grids.",
        notes=(
            "Theirs came without a spread: how the compass varies between grids of the kind stands "
            "for it. Equal: the whole interval lies within ±5 points, the margin of the tests of "
            "frames below. Above or below the reference: it lies on one side of 0. Signs alone "
            "tell nothing: many of them flip on other grids.",
        ),
    )


def walks_table(references: Agents, runs: Agents) -> Table:
    """Mazes walked through at the paper's scale."""
    rows = [
        (
            name,
            percent(found["maze/accuracy_detour"]),
            percent(found["maze/accuracy"]),
            percent(found["maze/success"]),
            percent(found["maze/spl"]),
            percent(found["maze/invalid"].value),
        )
        for name, found in {**references, **runs}.items()
        if "maze/accuracy" in found
    ]
    if not any("maze/accuracy" in found for found in runs.values()):
        rows.append(("GPT-OSS-20B, ours", *(NOT_RUN,) * 5))
    return Table(
        caption="Mazes, all sizes and complexities",
        columns=(
            Column("agent", numeric=False),
            Column("in detour states", group="optimal actions"),
            Column("everywhere", group="optimal actions"),
            "goal reached",
            "SPL",
            "invalid answers",
        ),
        rows=tuple(rows),
        meaning="Walks of at most 1.5 times the shortest path, as in the paper. In brackets: 95% "
        "intervals over grids.",
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

    def value(row: tuple[str, str, Values], what: str) -> Estimate:
        return row[2][f"isometries/{row[1]}/{what}"]

    return table_of(
        rows,
        (
            words("agent", lambda row: row[0]),
            words("frame", lambda row: FRAMES[row[1]]),
            *grouped(
                "Wilcoxon p",
                column("GPT-OSS-20B", lambda row: theirs.get(f"isometries/{row[1]}/p"), _printed),
                column("this agent", lambda row: p_value(value(row, "p").value)),
            ),
            column("difference in accuracy, points", lambda row: points(value(row, "difference"))),
            column(
                f"p of equivalence, ±{_FRAME_MARGIN:g} points",
                lambda row: p_value(value(row, "p_equivalence").value),
            ),
            words("verdict", lambda row: _frame_verdict(value(row, "difference"))),
        ),
        caption="Changed frames",
        meaning="A small p of equivalence (corrected for four frames) shows that accuracy is the "
        f"same within {_FRAME_MARGIN:g} points. The verdict is read from the 95% interval of the "
        "difference: the frame less the original.",
        notes=(
            "–: Wilcoxon's test cannot be made where nothing differs. The published p-values of "
            "rotation and swap are not known to us. P-values are not compared: nothing else was "
            "published of the model, so of its frames it cannot be told.",
        ),
    )


def _frame_verdict(difference: Estimate) -> str:
    interval = difference.interval
    scaled = None if interval is None else (100 * interval[0], 100 * interval[1])
    return words_of(verdict(scaled, _FRAME_MARGIN), _FRAME_MARGIN, "points")


def _printed(row: Number) -> str:
    return row.published


def commands(runs: Agents) -> tuple[str, ...]:
    """How to get the rows of language models."""
    if runs:
        return ()
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


def _chance(references: Agents, quantity: str) -> str:
    """What chance gives, "–" where that is no question."""
    chance = f"{quantity}_chance"
    if quantity.endswith("towards_key"):
        shares = [
            f"{number(100 * references[name][chance].value, 0)}%"
            for name in ("epsilon-optimal", "random", "greedy")
            if name in references
        ]
        return ", ".join(shares[:2])
    known = references["optimal"].get(chance)
    return DASH if known is None else percent(known.value, 2)
