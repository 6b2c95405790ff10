"""The tables of the replication: a language model's numbers beside those of reference agents."""

from __future__ import annotations

from collections.abc import Sequence

from goalmeter.experiments.ledger import Number
from goalmeter.experiments.lm_navigation.beside import (
    Agents,
    beside_the_compass,
    difference_points,
    published,
)
from goalmeter.experiments.lm_navigation.compute import EVERY_CELL, Estimates
from goalmeter.experiments.lm_navigation.findings import FRAMES
from goalmeter.navigation.measures.frames import MARGIN
from goalmeter.navigation.suites.maze import PAPER_COMPLEXITIES, PAPER_SIZES
from goalmeter.report import Column, Table
from goalmeter.report.numbers import DASH, number, p_value, percent, points
from goalmeter.report.table_of import ColumnOf, column, grouped, table_of, words
from goalmeter.statistics.clustered import Estimate
from goalmeter.statistics.verdicts import verdict
from goalmeter.statistics.verdicts import words as words_of

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
            *grouped("ours, exactly", *map(agent, shown)),
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
            *(percent(values[f"maze/{quantity}"]) for quantity in _WALKED),
            percent(values["maze/invalid"].value),
        )
        for name, values in {**references, **runs}.items()
        if "maze/accuracy" in values
    ]
    if not any("maze/accuracy" in values for values in runs.values()):
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
        caption=f"Mazes of size {_PILOT_SIZE}, by complexity",
        columns=(
            Column("complexity", numeric=False),
            *(
                Column(title, numeric=group != groups[-1], group=group)
                for group in groups
                for title in quantities.values()
            ),
        ),
        rows=tuple(rows),
        meaning="In the pilot about 40 walks for each complexity, at low reasoning effort and "
        "temperature 0.7; ours are the walks of the table above. In brackets: 95% intervals over "
        "grids.",
        notes=(
            "The pilot's cap is not known to us, and its grids are others. Its walks are taken to "
            "be of 10 grids, as 480 walks in 12 settings suggest; how the compass varies between "
            "grids stands for the spread of the model, and shares of walks are trusted no more "
            "than 40 walks allow.",
        ),
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
